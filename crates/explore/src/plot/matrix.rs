//! Matrices of shaded cells, with their axes and what the shades mean.

use super::shades;
use lab::chart::{fixed, px, text};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Pixels left of the cells, for the labels of rows.
pub const LEFT: f64 = 34.0;
/// Pixels above them, for the heading and what is under it.
pub const ABOVE: f64 = 58.0;
/// Pixels below them, for the labels of columns.
pub const BELOW: f64 = 40.0;
/// Pixels right of them, for the scale.
pub const RIGHT: f64 = 62.0;

/// A matrix of numbers.
pub struct Matrix {
    /// Its heading.
    pub title: String,
    /// What it is, in some words.
    pub note: String,
    /// What the rows are.
    pub down: String,
    /// What the columns are.
    pub across: String,
    /// How many columns.
    pub columns: usize,
    /// The numbers, row by row. One that is not finite is an empty place.
    pub values: Vec<f64>,
    /// The lowest and the highest number of the scale; zero has the colour between.
    pub scale: (f64, f64),
}

impl Matrix {
    /// Draws it with the left upper cell at a place, its cells this wide and high.
    pub fn draw(&self, out: &mut String, (left, top): (f64, f64), (wide, high): (f64, f64)) {
        let rows = self.values.len().div_ceil(self.columns.max(1));
        let (width, height) = (wide * self.columns as f64, high * rows as f64);
        text(out, "heading", (left, top - 40.0), "start", &self.title);
        text(out, "note", (left, top - 24.0), "start", &self.note);
        text(out, "", (left - LEFT, top - 8.0), "start", &self.down);
        self.draw_cells(out, (left, top), (wide, high));
        for row in ticks(rows, high, 40.0) {
            let y = top + high * (row as f64 + 0.5);
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{} {}h-4\"/>", px(left - 1.0), px(y));
            text(out, "", (left - 8.0, y + 4.0), "end", &row.to_string());
        }
        for column in ticks(self.columns, wide, 40.0) {
            let x = left + wide * (column as f64 + 0.5);
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{} {}v4\"/>", px(x), px(top + height + 1.0));
            text(out, "", (x, top + height + 17.0), "middle", &column.to_string());
        }
        text(out, "", (left + width / 2.0, top + height + 34.0), "middle", &self.across);
        self.draw_scale(out, (left + width + 14.0, top), height.min(200.0));
    }

    /// Cells of one shade are one path: lines from cell to cell, as thick as a cell is high.
    fn draw_cells(&self, out: &mut String, (left, top): (f64, f64), (wide, high): (f64, f64)) {
        let most = self.scale.0.abs().max(self.scale.1.abs());
        let mut paths: BTreeMap<i32, String> = BTreeMap::new();
        for (row, values) in self.values.chunks(self.columns.max(1)).enumerate() {
            let shades: Vec<Option<i32>> =
                values.iter().map(|&value| value.is_finite().then(|| shades::shade(value / most))).collect();
            let mut column = 0;
            for run in shades.chunk_by(|a, b| a == b) {
                if let Some(shade) = run[0] {
                    let _ = write!(paths.entry(shade).or_default(), "M{column} {row}h{}", run.len());
                }
                column += run.len();
            }
        }
        // The middle of the first row is at zero.
        let place = format!("translate({} {}) scale({wide} {high})", px(left), top + high / 2.0);
        let _ = writeln!(out, "<g class=\"cells\" transform=\"{place}\">");
        for (shade, path) in paths {
            let _ = writeln!(out, "<path class=\"{}\" d=\"{path}\"/>", shades::class(shade));
        }
        out.push_str("</g>\n");
    }

    fn draw_scale(&self, out: &mut String, (left, top): (f64, f64), height: f64) {
        let (low, high) = self.scale;
        let most = low.abs().max(high.abs());
        let (lowest, highest) = (shades::shade(low / most), shades::shade(high / most));
        let each = height / f64::from(highest - lowest + 1);
        let _ = writeln!(
            out,
            "<g class=\"cells\" transform=\"translate({} {}) scale(12 {each})\">",
            px(left),
            top + each / 2.0
        );
        for shade in lowest..=highest {
            let _ =
                writeln!(out, "<path class=\"{}\" d=\"M0 {}h1\"/>", shades::class(shade), highest - shade);
        }
        out.push_str("</g>\n");
        text(out, "", (left + 18.0, top + 10.0), "start", &fixed(high, 2, true));
        text(out, "", (left + 18.0, top + height), "start", &fixed(low, 2, true));
        if low < 0.0 && high > 0.0 {
            let zero = top + height * high / (high - low);
            text(out, "", (left + 18.0, zero + 4.0), "start", "0");
        }
    }
}

/// How large cells are, for `count` of them to take about so many pixels: halves of pixels, so that pictures of twice the
/// size have whole ones.
pub fn cell(count: usize, pixels: f64) -> f64 {
    ((pixels / count.max(1) as f64 * 2.0).floor() / 2.0).max(0.5)
}

/// Rows or columns that have labels: powers of two apart, so that labels are at least so many pixels from each other.
fn ticks(count: usize, each: f64, apart: f64) -> impl Iterator<Item = usize> {
    let step = (0..16).map(|power| 1usize << power).find(|&step| each * step as f64 >= apart);
    (0..count).step_by(step.unwrap_or(1 << 16))
}
