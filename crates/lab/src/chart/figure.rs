//! A figure: panels under and beside each other, drawn for a page or as a file.

use super::panel::Panel;
use super::svg;

/// Pixels between panels.
const GAP: f64 = 20.0;
/// The narrowest panel.
const NARROWEST: f64 = 100.0;

/// Panels of one picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// What it shows, for those who do not see it.
    pub title: String,
    /// How many panels stand beside each other.
    pub columns: usize,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// A figure of one panel.
    pub fn of(title: impl Into<String>, panel: Panel) -> Self {
        Figure { title: title.into(), columns: 1, panels: vec![panel] }
    }

    /// An SVG for a page that has [`STYLE`](super::STYLE). A panel narrower than 480 pixels has neither labels nor a
    /// legend: on it they would take the place of the lines, and the page has its own.
    pub fn inline(&self, width: f64) -> String {
        self.draw(width, 0.0, false)
    }

    /// The same with about so many points in each panel, for a page with many pictures.
    pub fn lighter(&self, points: usize) -> Figure {
        Figure { panels: self.panels.iter().map(|panel| panel.lighter(points)).collect(), ..self.clone() }
    }

    /// The same without thin lines, and with markers that say nothing when they are pointed at.
    pub fn plain(&self) -> Figure {
        Figure { panels: self.panels.iter().map(Panel::plain).collect(), ..self.clone() }
    }

    /// An SVG that stands alone.
    pub fn file(&self, width: f64) -> String {
        self.draw(width, 16.0, true)
    }

    fn draw(&self, width: f64, margin: f64, is_alone: bool) -> String {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let around = 2.0 * margin + GAP * (columns - 1) as f64;
        // A picture that is too small for its panels grows.
        let width = width.max(around + NARROWEST * columns as f64);
        let each = (width - around) / columns as f64;
        let mut body = String::new();
        let mut top = margin;
        for row in self.panels.chunks(columns) {
            for (column, panel) in row.iter().enumerate() {
                panel.draw(&mut body, (margin + (each + GAP) * column as f64, top), each, is_alone);
            }
            top += row.iter().map(|panel| panel.full_height(each, is_alone)).fold(0.0, f64::max) + GAP;
        }
        let height = if self.panels.is_empty() { 2.0 * margin } else { top - GAP + margin };
        svg::document(&self.title, (width, height), &body, is_alone)
    }
}
