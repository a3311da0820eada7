//! How a panel is drawn.

use super::LOOKS;
use super::axis::Placed;
use super::labels;
use super::number::number;
use super::panel::{Mark, Panel, Series};
use super::svg::{escape, marker, path, px, text};
use std::fmt::Write;

/// Beyond so many points a line shows some of its markers only.
const SPARSE: usize = 24;
/// So many points of a line can be pointed at.
const POINTED: usize = 60;
/// Beyond so many lines only what has a marker can be pointed at.
pub(super) const CROWDED: usize = 10;
/// The height of a label beside a line's end, and of a line of a legend.
const LABEL: f64 = 16.0;
/// The size of a note, as a part of its label's.
const NOTE: f64 = 0.84;
/// Pixels between the ends of the axis and the first and last point.
const INSET: f64 = 8.0;
/// The narrowest panel that has labels beside its lines.
const WIDE: f64 = 480.0;

/// Where lines are drawn: left, right, top, bottom.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Placed,
    y: Placed,
}

/// How a reader learns which line is which.
enum Names<'a> {
    /// Labels beside the ends of lines, which take so many pixels.
    Beside(f64),
    /// Rows of a legend above the lines, each with places.
    Legend(Vec<Vec<(f64, &'a Series)>>),
}

impl Panel {
    /// Its height at a width, with its legend.
    pub(super) fn full_height(&self, width: f64, is_alone: bool) -> f64 {
        self.height
            + match self.names(width, is_alone) {
                Names::Legend(rows) => LABEL * rows.len() as f64,
                Names::Beside(_) => 0.0,
            }
    }

    /// Labels beside the lines where they fit, else a legend; none on a narrow panel of a page, which has its own.
    fn names(&self, width: f64, is_alone: bool) -> Names<'_> {
        let widest = |series: &Series| labels::width(&series.label).max(labels::width(&series.note) * NOTE);
        let (widest, height) = self.named().fold((0.0f64, 0.0), |(wide, height), series| {
            (wide.max(widest(series)), height + label_height(series))
        });
        // The axes and headings take less than this of the height.
        if width >= WIDE && widest + 30.0 <= width * 0.36 && height <= self.height - 90.0 {
            return Names::Beside(if widest > 0.0 { widest + 30.0 } else { 10.0 });
        }
        let mut rows: Vec<Vec<(f64, &Series)>> = Vec::new();
        let mut x = f64::INFINITY;
        if width >= WIDE || is_alone {
            for series in self.named() {
                let wide = labels::width(&named_fully(series)) + 30.0;
                if x + wide > width {
                    rows.push(Vec::new());
                    x = 0.0;
                }
                rows.last_mut().expect("a row was begun").push((x, series));
                x += wide;
            }
        }
        Names::Legend(rows)
    }

    /// The series that have a label, and a point that can be drawn.
    fn named(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| !series.label.is_empty() && self.end(series).is_some())
    }

    /// Draws it with its left upper corner at a place.
    pub(super) fn draw(&self, out: &mut String, (left, top): (f64, f64), width: f64, is_alone: bool) {
        let names = self.names(width, is_alone);
        let mut y = top;
        if !self.title.is_empty() {
            text(out, "heading", (left, y + 16.0), "start", &self.title);
            y += 22.0;
        }
        if let Names::Legend(rows) = &names {
            for row in rows {
                for (x, series) in row {
                    open(out, series);
                    let d = marker(series.look, left + x + 6.0, y + 9.0, 3.6);
                    let _ = writeln!(out, "<path class=\"marker\" d=\"{d}\"/>");
                    text(out, "name", (left + x + 16.0, y + 13.0), "start", &named_fully(series));
                    out.push_str("</g>\n");
                }
                y += LABEL;
            }
        }
        if !self.y.label.is_empty() {
            text(out, "", (left, y + 14.0), "start", &self.y.label);
            y += 18.0;
        }
        let frame = self.frame((left, y + 8.0), top + self.full_height(width, is_alone), width, &names);
        self.draw_ground(out, &frame);
        // What is grey lies below.
        let (faded, bright): (Vec<&Series>, Vec<&Series>) =
            self.series.iter().partition(|series| series.is_faded);
        for series in faded.into_iter().chain(bright) {
            open(out, series);
            self.draw_series(out, &frame, series, width >= WIDE);
            out.push_str("</g>\n");
        }
        if let Names::Beside(_) = names {
            let ends: Vec<(&Series, f64)> =
                self.named().filter_map(|series| Some((series, frame.y.at(self.end(series)?.1)))).collect();
            let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
            let heights: Vec<f64> = ends.iter().map(|(series, _)| label_height(series)).collect();
            let places = labels::spread(&wanted, &heights, frame.top, frame.bottom + LABEL);
            for (place, (series, _)) in places.into_iter().flatten().zip(ends) {
                open(out, series);
                self.draw_name(out, &frame, series, place);
                out.push_str("</g>\n");
            }
        }
    }

    fn frame(&self, (left, top): (f64, f64), bottom: f64, width: f64, names: &Names) -> Frame {
        let margin = if let Names::Beside(margin) = names { *margin } else { 10.0 };
        let bottom = (bottom - if self.x.label.is_empty() { 24.0 } else { 42.0 }).max(top + 1.0);
        let ticks = |length: f64, each: f64| (length / each).clamp(2.0, 10.0) as usize;
        let y = self.y.place(self.values().map(|(_, y)| y), (bottom, top), ticks(bottom - top, 44.0), true);
        let widest = y.ticks.iter().map(|(_, label)| labels::width(label)).fold(32.0, f64::max);
        let (right, left) = (left + width - margin, left + (widest + 14.0).min(width * 0.4));
        let right = right.max(left + 2.0 * INSET + 1.0);
        let across = ticks(right - left, 70.0);
        let x = self.x.place(self.values().map(|(x, _)| x), (left + INSET, right - INSET), across, false);
        Frame { left, right, top, bottom, x, y }
    }

    /// All that must be in the picture.
    fn values(&self) -> impl Iterator<Item = (f64, f64)> {
        let lines = self.series.iter().flat_map(|series| {
            let points = series.points.iter().map(|point| (point.x, point.y));
            let band = series.band.iter().flat_map(|&(x, low, high)| [(x, low), (x, high)]);
            points.chain(series.behind.iter().flatten().copied()).chain(band)
        });
        let levels = self.levels.iter().map(|level| (f64::NAN, level.y));
        lines.filter(|&(x, y)| self.takes(x, y)).chain(levels)
    }

    fn takes(&self, x: f64, y: f64) -> bool {
        self.x.takes(x) && self.y.takes(y)
    }

    /// The last point of a line that can be drawn.
    fn end(&self, series: &Series) -> Option<(f64, f64)> {
        series.points.iter().rev().map(|point| (point.x, point.y)).find(|&(x, y)| self.takes(x, y))
    }

    /// Ranges, grid, levels and axes.
    fn draw_ground(&self, out: &mut String, frame: &Frame) {
        let (left, right, top, bottom) = (px(frame.left), px(frame.right), px(frame.top), px(frame.bottom));
        for range in self.ranges.iter().filter(|range| self.x.takes(range.to)) {
            // To the edge where it begins or ends beyond the data; an axis of logarithms has no zero to begin at.
            let from = if self.x.takes(range.from) { frame.x.at(range.from) } else { frame.left };
            let from = if from <= frame.left + INSET { frame.left } else { from };
            let to = frame.x.at(range.to);
            let to = if to >= frame.right - INSET { frame.right } else { to };
            let (width, height) = (px((to - from).max(0.0)), px(frame.bottom - frame.top));
            let from_px = px(from);
            let _ = writeln!(
                out,
                "<rect class=\"range\" x=\"{from_px}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>"
            );
            text(out, "", (from + 6.0, frame.bottom - 7.0), "start", &range.label);
        }
        for (value, label) in &frame.y.ticks {
            let y = frame.y.at(*value);
            let at = px(y);
            let _ = writeln!(out, "<path class=\"grid\" d=\"M{left} {at}H{right}\"/>");
            text(out, "", (frame.left - 8.0, y + 4.0), "end", label);
        }
        for level in self.levels.iter().filter(|level| self.y.takes(level.y)) {
            let y = frame.y.at(level.y);
            let at = px(y);
            let _ = writeln!(out, "<path class=\"level\" d=\"M{left} {at}H{right}\"/>");
            text(out, "", (frame.left + 6.0, y + 13.0), "start", &level.label);
        }
        let _ = writeln!(out, "<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>");
        for (value, label) in &frame.x.ticks {
            let x = frame.x.at(*value);
            let at = px(x);
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{at} {bottom}v4\"/>");
            text(out, "", (x, frame.bottom + 18.0), "middle", label);
        }
        if !self.x.label.is_empty() {
            text(out, "", ((frame.left + frame.right) / 2.0, frame.bottom + 36.0), "middle", &self.x.label);
        }
    }

    fn draw_series(&self, out: &mut String, frame: &Frame, series: &Series, is_wide: bool) {
        let place = |x: f64, y: f64| self.takes(x, y).then(|| (frame.x.at(x), frame.y.at(y)));
        let line = |out: &mut String, class: &str, d: String| {
            if !d.is_empty() {
                let _ = writeln!(out, "<path class=\"{class}\" d=\"{d}\"/>");
            }
        };
        // Up along the upper ends, back along the lower ones.
        let band = series.band.iter().filter(|&&(x, low, high)| self.takes(x, low) && self.takes(x, high));
        let upper = band.clone().map(|&(x, _, high)| place(x, high));
        let around = path(upper.chain(band.rev().map(|&(x, low, _)| place(x, low))));
        if !around.is_empty() {
            line(out, "band", around + "Z");
        }
        for seed in &series.behind {
            line(out, "thin", path(seed.iter().map(|&(x, y)| place(x, y))));
        }
        line(out, "line", path(series.points.iter().map(|point| place(point.x, point.y))));
        if series.mark == Mark::None {
            return;
        }
        let count = series.points.len();
        // Of many points, eight have markers, each series at other places, and some more can be pointed at; among many lines, five.
        let is_crowded = self.series.len() > CROWDED;
        let stride = match is_crowded {
            true => count.div_ceil(5),
            false if count > SPARSE => count.div_ceil(8),
            false => 1,
        };
        let pointed = count.div_ceil(POINTED).max(1);
        let (is_plain, mut plain) = (series.mark == Mark::Plain, String::new());
        for (index, point) in series.points.iter().enumerate() {
            let Some((x, y)) = place(point.x, point.y) else { continue };
            let is_shown = index % stride == (series.look % LOOKS) * stride / LOOKS;
            if !is_shown && (!is_wide || is_plain || is_crowded || index % pointed != 0) {
                continue;
            }
            if is_plain {
                plain += &marker(series.look, x, y, 3.6);
                continue;
            }
            let shape = match is_shown {
                true => format!("path class=\"dot\" d=\"{}\"", marker(series.look, x, y, 3.6)),
                false => format!("circle class=\"dot quiet\" cx=\"{}\" cy=\"{}\" r=\"3\"", px(x), px(y)),
            };
            let (name, at, value) =
                (&shape[..shape.find(' ').unwrap_or(0)], number(point.x), number(point.y));
            let tip = match point.tip.is_empty() {
                true => format!("{}: {value} at {at}", series.label),
                false => point.tip.clone(),
            };
            let tip = escape(&tip);
            let _ =
                writeln!(out, "<{shape} data-x=\"{at}\" data-y=\"{value}\"><title>{tip}</title></{name}>");
        }
        if !plain.is_empty() {
            let _ = writeln!(out, "<path class=\"dot\" d=\"{plain}\"/>");
        }
    }

    /// The label beside the end of a line, and what leads to it.
    fn draw_name(&self, out: &mut String, frame: &Frame, series: &Series, place: f64) {
        let Some((x, y)) = self.end(series) else { return };
        let (x, y, edge) = (frame.x.at(x), frame.y.at(y), frame.right + 20.0);
        // A line that ends far from the edge has its marker alone.
        if frame.right - x < 2.0 * INSET {
            let (from, y, to, end) = (px(x + 5.0), px(y), px(edge - 13.0), px(place));
            let _ = writeln!(out, "<path class=\"leader\" d=\"M{from} {y}L{to} {end}\"/>");
        }
        let d = marker(series.look, edge - 7.0, place, 3.6);
        let _ = writeln!(out, "<path class=\"marker\" d=\"{d}\"/>");
        text(out, "name", (edge + 2.0, place + 4.0), "start", &series.label);
        text(out, "note", (edge + 2.0, place + 18.0), "start", &series.note);
    }
}

/// Begins the group of a series.
fn open(out: &mut String, series: &Series) {
    let (look, key) = (series.look % LOOKS, escape(&series.key));
    let faded = if series.is_faded { " faded" } else { "" };
    let _ = writeln!(out, "<g class=\"series s{look}{faded}\" data-series=\"{key}\">");
}

fn label_height(series: &Series) -> f64 {
    if series.note.is_empty() { LABEL } else { LABEL + 14.0 }
}

/// The label with its note, in one line.
fn named_fully(series: &Series) -> String {
    let apart = if series.note.is_empty() { "" } else { ": " };
    format!("{}{apart}{}", series.label, series.note)
}
