//! Heat maps: rows of cells whose shade is a number.

use super::labels;
use super::number::number;
use super::svg::{self, escape, px, text};
use std::fmt::Write;

/// Shades, from `h0` to `h9`.
const SHADES: usize = 10;
/// The height of a row.
const ROW: f64 = 18.0;

/// Rows of shaded cells. Shades are even steps of the square root, so that small numbers are told apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// What it shows, for those who do not see it.
    pub title: String,
    /// What the columns are.
    pub columns_label: String,
    /// A label for each column.
    pub columns: Vec<String>,
    /// What the shade is.
    pub value_label: String,
    /// The rows, from the top.
    pub rows: Vec<HeatRow>,
}

/// A row of a heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatRow {
    /// What it is.
    pub label: String,
    /// The series that it belongs to, in `data-series`. Where it is another than that of the row above, there is a gap.
    pub key: String,
    /// Its numbers, one for each column. One that is not finite is an empty place.
    pub values: Vec<f64>,
}

impl HeatMap {
    /// The same with at most so many columns, each the mean of some, for a page with many of them.
    pub fn lighter(&self, columns: usize) -> HeatMap {
        let joined = self.columns.len().div_ceil(columns.max(1)).max(1);
        if joined == 1 {
            return self.clone();
        }
        let label = |labels: &[String]| match labels {
            [first, .., last] => {
                let (first, last) = (first.split('–').next(), last.split('–').next_back());
                format!("{}–{}", first.unwrap_or_default(), last.unwrap_or_default())
            }
            _ => labels.concat(),
        };
        let mean = |values: &[f64]| {
            let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            known.iter().sum::<f64>() / known.len() as f64
        };
        let row =
            |row: &HeatRow| HeatRow { values: row.values.chunks(joined).map(mean).collect(), ..row.clone() };
        HeatMap {
            columns: self.columns.chunks(joined).map(label).collect(),
            rows: self.rows.iter().map(row).collect(),
            ..self.clone()
        }
    }

    /// An SVG for a page that has [`STYLE`](super::STYLE).
    pub fn inline(&self, width: f64) -> String {
        self.draw(width, 0.0, false)
    }

    /// An SVG that stands alone.
    pub fn file(&self, width: f64) -> String {
        self.draw(width, 16.0, true)
    }

    fn draw(&self, width: f64, margin: f64, is_alone: bool) -> String {
        let count = self.rows.iter().map(|row| row.values.len()).max().unwrap_or(0).min(self.columns.len());
        let values = self.rows.iter().flat_map(|row| row.values.iter().copied().take(count));
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let widest = self.rows.iter().map(|row| labels::width(&row.label)).fold(0.0, f64::max);
        let left = margin + (widest + 10.0).min(width * 0.4);
        let each = (width - margin - left) / count.max(1) as f64;
        let (mut body, mut y) = (String::new(), margin + 4.0);
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 && row.key != self.rows[index - 1].key {
                y += 8.0;
            }
            let _ = writeln!(body, "<g class=\"series\" data-series=\"{}\">", escape(&row.key));
            text(&mut body, "name", (left - 10.0, y + ROW * 0.72), "end", &row.label);
            for (column, &value) in
                row.values.iter().take(count).enumerate().filter(|(_, value)| value.is_finite())
            {
                let (x, top, width, height) =
                    (px(left + each * column as f64), px(y), px((each - 1.0).max(0.5)), px(ROW - 1.0));
                let value_text = number(value);
                let tip =
                    format!("{}, {} {}: {value_text}", row.label, self.columns_label, self.columns[column]);
                let (tip, shade, at) = (escape(&tip), shade(value, largest), escape(&self.columns[column]));
                let _ = writeln!(
                    body,
                    "<rect class=\"cell h{shade}\" x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" data-x=\"{at}\" data-y=\"{value_text}\"><title>{tip}</title></rect>"
                );
            }
            body.push_str("</g>\n");
            y += ROW;
        }
        // Every column has a label if there is room, else every second, fifth, tenth and so on.
        let room = self.columns.iter().map(|label| labels::width(label)).fold(0.0, f64::max) + 8.0;
        let strides = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
        let stride = strides.into_iter().find(|&stride| each * stride as f64 >= room).unwrap_or(10_000);
        for column in (0..count).step_by(stride) {
            text(
                &mut body,
                "",
                (left + each * (column as f64 + 0.5), y + 14.0),
                "middle",
                &self.columns[column],
            );
        }
        text(&mut body, "", (left, y + 34.0), "start", &self.columns_label);
        self.draw_scale(&mut body, (width - margin, y + 24.0), largest);
        svg::document(&self.title, (width, y + 42.0 + margin), &body, is_alone)
    }

    /// Which shade is which number, ending at a place.
    fn draw_scale(&self, body: &mut String, (right, top): (f64, f64), largest: f64) {
        if largest <= 0.0 {
            return;
        }
        let (each, end) = (12.0, number(largest));
        let left = right - labels::width(&end) - 8.0 - each * SHADES as f64;
        for index in 0..SHADES {
            let (x, y) = (px(left + each * index as f64), px(top));
            let _ = writeln!(
                body,
                "<rect class=\"cell h{index}\" x=\"{x}\" y=\"{y}\" width=\"{each}\" height=\"11\"/>"
            );
        }
        text(body, "", (right, top + 10.0), "end", &end);
        text(body, "", (left - 8.0, top + 10.0), "end", &format!("{} 0", self.value_label));
    }
}

/// The shade of a number between zero and the largest.
fn shade(value: f64, largest: f64) -> usize {
    match largest > 0.0 && value > 0.0 {
        true => (((value / largest).sqrt() * SHADES as f64) as usize).min(SHADES - 1),
        false => 0,
    }
}
