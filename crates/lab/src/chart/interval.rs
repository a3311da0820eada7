//! A difference with its interval, as small as a line of a table.

use super::svg::px;

/// A difference and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The difference.
    pub mean: f64,
    /// The upper end.
    pub high: f64,
    /// What is too small to matter, either way of zero.
    pub margin: f64,
    /// The picture reaches so far, either way of zero.
    pub reach: f64,
}

/// An SVG for a cell of a table: zero, the margin shaded, the interval, the mean. Empty if there is nothing to show. What
/// reaches out of the picture ends at its edge.
pub fn interval(what: Interval) -> String {
    let (width, height) = (110.0, 16.0);
    let Interval { low, mean, high, margin, reach } = what;
    if ![low, mean, high, reach].iter().all(|value| value.is_finite()) || reach <= 0.0 {
        return String::new();
    }
    let at = |value: f64| ((value / reach).clamp(-1.0, 1.0) + 1.0) / 2.0 * (width - 8.0) + 4.0;
    let margin = if margin.is_finite() { margin.abs() } else { 0.0 };
    let (from, to) = (at(-margin), at(margin));
    let shaded = format!(
        "<rect class=\"margin\" x=\"{}\" width=\"{}\" height=\"{height}\"/>",
        px(from),
        px(to - from)
    );
    let zero = format!("<path class=\"zero\" d=\"M{} 0V{height}\"/>", px(at(0.0)));
    let whisker = format!("<path class=\"whisker\" d=\"M{} 8H{}\"/>", px(at(low)), px(at(high)));
    let mean = format!("<circle class=\"mean\" cx=\"{}\" cy=\"8\" r=\"3.2\"/>", px(at(mean)));
    format!(
        "<svg class=\"interval\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" aria-hidden=\"true\">{shaded}{zero}{whisker}{mean}</svg>"
    )
}
