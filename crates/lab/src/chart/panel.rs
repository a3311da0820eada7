//! What a panel shows: axes, shaded ranges, and lines with what is behind them.

use super::Axis;
use super::draw::CROWDED;

/// A panel of lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Its heading, or nothing.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Its height in pixels, with its axis.
    pub height: f64,
    /// Ranges of x that are shaded.
    pub ranges: Vec<Range>,
    /// Lines across at a value of y.
    pub levels: Vec<Level>,
    /// The lines.
    pub series: Vec<Series>,
}

/// A shaded range of x.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// From here.
    pub from: f64,
    /// To here.
    pub to: f64,
    /// What it is.
    pub label: String,
}

/// A line across at a value of y.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The value.
    pub y: f64,
    /// What it is.
    pub label: String,
}

/// A line with its label, its points and what is behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// What it is, beside its end.
    pub label: String,
    /// What must be said of it under its label, or nothing.
    pub note: String,
    /// What all series of the same thing have in common, in `data-series`: a page can find them by it.
    pub key: String,
    /// Which colour and marker: from 0 to [`LOOKS`](super::LOOKS).
    pub look: usize,
    /// Whether it is grey.
    pub is_faded: bool,
    /// How its points are shown.
    pub mark: Mark,
    /// Its points, in the order of x.
    pub points: Vec<Point>,
    /// Thin lines behind it, such as single seeds.
    pub behind: Vec<Vec<(f64, f64)>>,
    /// A band around it: x, lower and upper end.
    pub band: Vec<(f64, f64, f64)>,
}

/// How the points of a line are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// With markers; with some where there are many.
    #[default]
    Marker,
    /// With markers that say nothing when they are pointed at.
    Plain,
    /// As a line only.
    None,
}

/// A point of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// What is said when it is pointed at; if nothing, its label and its numbers.
    pub tip: String,
}

impl Panel {
    /// The same with fewer points and thin lines of fewer points, as a page with many of them needs it; without thin lines where
    /// they would hide the others.
    pub(super) fn lighter(&self, points: usize) -> Panel {
        let is_crowded = self.series.len() > CROWDED;
        let behind = |series: &Series| if is_crowded { 0 } else { series.behind.len() };
        let lines = self.series.iter().map(|series| 1 + behind(series)).sum::<usize>().max(1);
        let each = (points / lines).clamp(8, points.max(8));
        let series = self.series.iter().map(|series| Series {
            points: thinned(&series.points, 2 * each),
            behind: series.behind.iter().take(behind(series)).map(|line| thinned(line, each)).collect(),
            band: thinned(&series.band, 2 * each),
            ..series.clone()
        });
        Panel { series: series.collect(), ..self.clone() }
    }

    /// The same without thin lines, and with markers that say nothing.
    pub(super) fn plain(&self) -> Panel {
        let series = self.series.iter().map(|series| {
            let mark = if series.mark == Mark::None { Mark::None } else { Mark::Plain };
            Series { behind: Vec::new(), mark, ..series.clone() }
        });
        Panel { series: series.collect(), ..self.clone() }
    }
}

/// At most so many of a list, evenly, with the first and the last.
fn thinned<P: Clone>(list: &[P], most: usize) -> Vec<P> {
    if list.len() <= most || most < 2 {
        return list.to_vec();
    }
    (0..most).map(|index| list[index * (list.len() - 1) / (most - 1)].clone()).collect()
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Point { x, y, tip: String::new() }
    }
}
