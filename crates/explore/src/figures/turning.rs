//! One pair of features that turns as its position grows.

use super::check;
use crate::error::Result;
use rope::{Positions, Rope, Schedule, Turn, ViewMut};
use serde::{Deserialize, Serialize};

/// The last position of the waves.
pub const REACH: i64 = 128;
/// Points of the waves between one position and the next: the fastest pair turns by a radian a position, and a line through
/// whole positions alone would look broken.
pub const FINENESS: i64 = 4;

/// Which pair, where it stands, and what its two features are before they are turned.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// The index of the pair; the first is 0.
    pub pair: usize,
    /// Where the token stands.
    pub position: i64,
    /// The pair's first feature.
    pub x0: f64,
    /// The pair's second feature.
    pub x1: f64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { dim: 128, base: 10_000.0, pair: 8, position: 5, x0: 1.0, x1: 0.5 }
    }
}

/// The pair at its position and at all others.
#[derive(Clone, Debug, Serialize)]
pub struct Turning {
    /// Its frequency θ_j, in radians per position.
    pub theta: f64,
    /// Positions that a full turn takes, 2π/θ_j.
    pub wavelength: f64,
    /// By how much it is turned, m·θ_j.
    pub angle: f64,
    /// The cosine of that.
    pub cos: f64,
    /// The sine.
    pub sin: f64,
    /// The two features after they were turned.
    pub turned: [f64; 2],
    /// Both features at the positions 0, 1/4, 2/4, … 128.
    pub waves: [Vec<f64>; 2],
}

/// The pair, turned.
pub fn turning(ask: &Ask) -> Result<Turning> {
    let frequencies = check::rope(ask.dim, ask.base)?.frequencies(None);
    check::within("pair", ask.pair, 0..=ask.dim / 2 - 1)?;
    let position = check::within("position", ask.position, 0..=REACH)?;
    let x = [check::within("x0", ask.x0, -1e6..=1e6)?, check::within("x1", ask.x1, -1e6..=1e6)?];
    let theta = frequencies.inv_freq()[ask.pair];
    // The pair alone, as a head of two features.
    let rope = Rope::builder(2).schedule(Schedule::Given(vec![theta])).build()?;
    let positions: Vec<f64> = (0..=REACH * FINENESS).map(|step| step as f64 / FINENESS as f64).collect();
    let table = rope.table_of::<f64>(&positions, None)?;
    let mut turned = x.repeat(positions.len());
    let mut view = ViewMut::blhd(&mut turned, [1, positions.len(), 1, 2])?;
    table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?;
    let row = (position * FINENESS) as usize;
    Ok(Turning {
        theta,
        wavelength: rope::analysis::pairs(&[theta], 1)[0].wavelength,
        angle: position as f64 * theta,
        cos: table.cos()[row],
        sin: table.sin()[row],
        turned: [turned[2 * row], turned[2 * row + 1]],
        waves: [0, 1].map(|feature| turned.iter().skip(feature).step_by(2).copied().collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::{Pairing, reference};

    #[test]
    fn every_point_is_the_reference_and_the_first_pair_has_frequency_one() {
        let ask = Ask { pair: 0, position: 2, x0: 1.0, x1: 0.0, ..Ask::default() };
        let answer = turning(&ask).unwrap();
        // Index 0: θ = 1. At position 2 the vector (1, 0) is (cos 2, sin 2).
        assert_eq!((answer.theta, answer.angle), (1.0, 2.0));
        assert!((answer.turned[0] + 0.4161).abs() < 5e-5 && (answer.turned[1] - 0.9093).abs() < 5e-5);
        let answer = turning(&Ask::default()).unwrap();
        assert!((answer.theta - 10_000f64.powf(-16.0 / 128.0)).abs() < 1e-15);
        assert!((answer.wavelength - std::f64::consts::TAU / answer.theta).abs() < 1e-12);
        for (step, (first, second)) in answer.waves[0].iter().zip(&answer.waves[1]).enumerate() {
            let position = step as f64 / 4.0;
            let expected = reference::rotate(&[1.0, 0.5], position, &[answer.theta], 1.0, Pairing::Half);
            assert!((first - expected[0]).abs() < 1e-14 && (second - expected[1]).abs() < 1e-14);
        }
        assert_eq!(answer.turned, [answer.waves[0][20], answer.waves[1][20]]);
    }

    #[test]
    fn what_cannot_be_shown_is_refused_by_name() {
        let refused = |ask: Ask, name: &str| {
            let message = turning(&ask).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        refused(Ask { pair: 64, ..Ask::default() }, "pair is 64");
        refused(Ask { dim: 0, ..Ask::default() }, "dim is 0");
        refused(Ask { dim: 7, ..Ask::default() }, "7");
        refused(Ask { position: -1, ..Ask::default() }, "position is -1");
        refused(Ask { position: i64::MAX, ..Ask::default() }, "position");
        refused(Ask { x0: f64::NAN, ..Ask::default() }, "x0 is NaN");
        refused(Ask { base: f64::INFINITY, ..Ask::default() }, "base is inf");
    }
}
