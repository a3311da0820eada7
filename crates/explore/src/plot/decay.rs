//! Long-term decay: what it is said to be, and what it is.

use super::{Subject, WIDTH, within};
use crate::error::Result;
use lab::chart::{Axis, Figure, Level, Mark, Panel, Series, number};
use rope::analysis::{cosine_sum, decay_bound, first_negative};

/// The furthest distance.
const MAX_REACH: u64 = 1 << 20;
/// The most points of a line.
const COLUMNS: u64 = 400;

/// Above, the RoFormer paper's bound on the score at a distance. Below, two scores that it bounds: of a query and a key that
/// are alike, with the first distance at which it is negative; and of a random query and a random key.
#[derive(Clone, Debug)]
pub struct Decay {
    /// Whose frequencies.
    pub subject: Subject,
    /// The furthest distance; without it 4096, or as far as the model reads.
    pub reach: Option<u64>,
}

impl Decay {
    pub(super) fn draw(&self) -> Result<String> {
        let reach = match self.reach {
            Some(reach) => within("reach", reach, 16..=MAX_REACH)?,
            None => self.subject.longest.unwrap_or(4096).clamp(16, MAX_REACH),
        };
        let theta = self.subject.theta(reach);
        let width = (reach + 1).div_ceil(COLUMNS);
        let bound = line(0, "", reach, width, |distance| decay_bound(&theta, distance as f64));
        let alike = line(
            3,
            "q = k, every pair of length 1: the sum over j of cos(Δθⱼ)",
            reach,
            width,
            |distance| cosine_sum(&theta, distance as f64),
        );
        // Features of variance ½ make pairs of length 1 on average; each pair's product then has the variance ½.
        let spread = (theta.len() as f64 / 2.0).sqrt();
        let ends = [0.0, reach as f64];
        let random = Series {
            label: format!("q and k random: 0 on average, ± {spread:.1} at every distance"),
            look: 5,
            mark: Mark::None,
            points: ends.map(|x| (x, 0.0).into()).to_vec(),
            band: ends.map(|x| (x, -spread, spread)).to_vec(),
            ..Series::default()
        };
        let mut series = vec![random, alike];
        if let Some(distance) = first_negative(&theta, reach) {
            series.push(Series {
                label: format!("first negative at Δ = {}", number(distance as f64)),
                look: 1,
                points: vec![(distance as f64, cosine_sum(&theta, distance as f64)).into()],
                ..Series::default()
            });
        }
        let across = match width {
            1 => "distance Δ = m − n".to_string(),
            _ => format!(
                "distance Δ = m − n; lines are means of {width} neighbours, bands their lowest and highest"
            ),
        };
        let axis = |label: &str| Axis::new(label).whole().including(ends);
        let panels = vec![
            Panel {
                title: format!(
                    "The paper’s bound on a score, up to a factor of q and k; {}",
                    self.subject.name
                ),
                x: axis(""),
                y: Axis::new("mean over j of |Sⱼ|, where Sⱼ is the sum of e^(iΔθ) over the first j pairs")
                    .including([0.0]),
                height: 270.0,
                series: vec![bound],
                ..Panel::default()
            },
            Panel {
                title: "The score itself, for two kinds of q and k".into(),
                x: axis(&across),
                y: Axis::new("score"),
                height: 310.0,
                levels: vec![Level { y: 0.0, label: String::new() }],
                series,
                ..Panel::default()
            },
        ];
        let title = format!("Long-term decay of rotary embedding, {}", self.subject.name);
        Ok(Figure { title, columns: 1, panels }.file(WIDTH))
    }
}

/// A line over all distances up to `reach`. Where there are many, it goes through the means of `width` neighbours, with a
/// band from the lowest of them to the highest.
fn line(look: usize, label: &str, reach: u64, width: u64, value: impl Fn(u64) -> f64) -> Series {
    let mut series = Series { label: label.into(), look, mark: Mark::None, ..Series::default() };
    if width > 1 {
        // No mean: the value at 0 is what the others are measured by.
        series.points.push((0.0, value(0)).into());
    }
    for start in (0..=reach).step_by(width as usize) {
        let end = (start + width).min(reach + 1);
        let values: Vec<f64> = (start..end).map(&value).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let x = (start + end - 1) as f64 / 2.0;
        series.points.push((x, mean).into());
        if width > 1 {
            series.band.push((x, lowest, highest));
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_holds_every_value() {
        // A peak that is no column's middle.
        let value = |distance: u64| if distance == 5001 { 9.0 } else { (distance as f64).sin() };
        let series = line(0, "", 20_000, 41, value);
        assert!(series.points.windows(2).all(|pair| pair[0].x < pair[1].x));
        let column = &series.band[5001 / 41];
        assert!(column.2 == 9.0 && column.1 < -0.99, "{column:?}");
        assert_eq!(series.points.last().map(|point| point.x), Some((20_000.0 + 19_967.0) / 2.0));
        let every = line(0, "", 100, 1, value);
        assert!(every.band.is_empty() && every.points.len() == 101 && every.points[3].y == 3f64.sin());
    }
}
