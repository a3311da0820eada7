//! The figures as files: `svg`, `png`, and `gif` for the one that moves.
//!
//! A figure is drawn as `lab::chart` draws, with classes and a style sheet; `outline` then makes plain attributes and
//! paths of it, so that it looks the same in every program; `raster` makes pixels of those, and `animation` moves them. The
//! same bytes for the same [`Plot`], [`Format`] and [`Look`].

mod animation;
mod decay;
mod font;
mod matrix;
mod outline;
mod raster;
mod receptive;
mod rotation;
mod scores;
mod shades;
mod sheet;
mod similarity;
mod subject;
mod table;
mod vector;
mod wavelengths;

pub use decay::Decay;
pub use receptive::Receptive;
pub use rotation::Rotation;
pub use scores::Scores;
pub use similarity::Similarity;
pub use subject::Subject;
pub use table::Table;
pub use vector::{Angle, Vector};
pub use wavelengths::Wavelengths;

use crate::error::{Error, Result};
use crate::figures::check::within;
use std::path::Path;

/// How wide charts are, in pixels of the drawing. Each figure is laid out once, and scaled to the width that is wanted.
const WIDTH: f64 = 800.0;
/// The widest picture, in pixels.
const WIDEST: u32 = 8192;
/// The most positions of a matrix, either way.
const MAX_LENGTH: usize = 512;

/// A figure and what it shows.
#[derive(Clone, Debug)]
pub enum Plot {
    /// The paper's bound on scores, and the score of like with like, by distance.
    Decay(Decay),
    /// How many positions a turn of each pair takes, under each rule.
    Wavelengths(Wavelengths),
    /// A vector before and after a turn.
    Vector(Vector),
    /// Pairs turned by a position, or turning.
    Rotation(Rotation),
    /// Scores of all positions with all: rotary's beside ALiBi's and T5's biases.
    Scores(Scores),
    /// Inner products of sinusoidal position codes.
    Similarity(Similarity),
    /// The table of cosines and sines.
    Table(Table),
    /// The two parts of a score under a receptive field.
    Receptive(Receptive),
}

/// What a plot is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A drawing of paths.
    Svg,
    /// Pixels, twice as many each way as the drawing has.
    Png,
    /// Pixels that move.
    Gif,
}

impl Format {
    /// By the end of a name.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase()).as_deref() {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            Some("gif") => Ok(Format::Gif),
            _ => {
                Err(Error::new(format!("{} has another ending; expected .svg, .png or .gif", path.display())))
            }
        }
    }
}

/// How a plot looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How wide it is, in pixels; as fits the format if not given.
    pub width: Option<u32>,
    /// Whether it is light on dark.
    pub is_dark: bool,
}

impl Plot {
    /// The bytes of its file.
    pub fn render(&self, format: Format, look: Look) -> Result<Vec<u8>> {
        let width = look.width.map(|width| within("width", width, 64..=WIDEST)).transpose()?;
        let css = [lab::chart::STYLE, include_str!("style.css"), &shades::rules(look.is_dark)].concat();
        let sheet = sheet::Sheet::new(&css, look.is_dark);
        if format == Format::Gif {
            let Plot::Rotation(rotation) = self else {
                return Err(Error::new("only rotation moves; expected a name that ends in .svg or .png"));
            };
            return animation::gif(rotation, &sheet, width);
        }
        let svg = match self {
            Plot::Decay(plot) => plot.draw()?,
            Plot::Wavelengths(plot) => plot.draw()?,
            Plot::Vector(plot) => plot.draw()?,
            Plot::Rotation(plot) => plot.draw()?,
            Plot::Scores(plot) => plot.draw()?,
            Plot::Similarity(plot) => plot.draw()?,
            Plot::Table(plot) => plot.draw()?,
            Plot::Receptive(plot) => plot.draw()?,
        };
        let natural = raster::size(&svg)?.0;
        match format {
            Format::Svg => Ok(outline::outline(&svg, &sheet, width.map_or(natural, f64::from))?.into_bytes()),
            _ => {
                let svg = outline::outline(&svg, &sheet, natural)?;
                raster::png(&svg, width.map_or(2.0 * natural, f64::from))
            }
        }
    }
}
