//! Charts as SVG: data in, text out, the same bytes for the same data.
//!
//! A [`Figure`] is one or several [`Panel`]s of lines, a [`HeatMap`] is rows of shaded cells, [`interval()`] a line of a table.
//! Each is drawn in two ways: `file` gives an SVG that stands alone, with its colours inside; `inline` gives one for a page that
//! has [`STYLE`], so that a page holds the colours once. Colours follow the reader's light or dark setting. Every series has a
//! colour and a marker of its own, so that no reader depends on colour alone; text is text, and every mark has its value in a
//! `<title>` and in `data-` attributes. A number that is not finite is not drawn.

mod axis;
mod curves;
mod draw;
mod figure;
mod heat;
mod interval;
mod labels;
mod number;
mod panel;
mod svg;
#[cfg(test)]
mod tests;

pub use axis::{Axis, Scale};
pub use curves::{curves, curves_of};
pub use figure::Figure;
pub use heat::{HeatMap, HeatRow};
pub use interval::{Interval, interval};
pub use number::{compact, fixed, number, signed};
pub use panel::{Level, Mark, Panel, Point, Range, Series};
pub use svg::{document, escape, marker, px, text};

/// The style sheet that charts in a page need: colours, light and dark, and how marks look.
pub const STYLE: &str = include_str!("style.css");

/// Colours, and markers: a ninth series looks like the first again, but for its label.
pub const LOOKS: usize = 8;
