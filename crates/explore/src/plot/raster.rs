//! Drawings as pixels.

use crate::error::{Error, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, roxmltree};

/// The most pixels of a picture.
const MAX_PIXELS: f64 = (1u64 << 26) as f64;

/// How wide and high a drawing says it is.
pub fn size(svg: &str) -> Result<(f64, f64)> {
    let document = roxmltree::Document::parse(svg).map_err(broken)?;
    let number = |name: &str| document.root_element().attribute(name).and_then(|value| value.parse().ok());
    number("width").zip(number("height")).ok_or_else(|| broken("it has no size"))
}

/// A drawing as a PNG of this many pixels across.
pub fn png(svg: &str, width: f64) -> Result<Vec<u8>> {
    pixels(svg, width)?.encode_png().map_err(broken)
}

/// A drawing as pixels, this many across.
pub fn pixels(svg: &str, width: f64) -> Result<Pixmap> {
    let tree = Tree::from_str(svg, &Options::default()).map_err(broken)?;
    let size = tree.size();
    let scale = width / f64::from(size.width());
    let height = (f64::from(size.height()) * scale).round().max(1.0);
    if width * height > MAX_PIXELS {
        return Err(Error::new(format!(
            "a picture of {width} by {height} pixels is too large; expected at most {MAX_PIXELS} pixels: give a smaller width"
        )));
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(|| broken("it has no pixels"))?;
    let scale = Transform::from_scale(scale as f32, scale as f32);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    Ok(pixels)
}

/// Our own drawing cannot be read.
pub fn broken(reason: impl std::fmt::Display) -> Error {
    Error::new(format!("the drawing cannot be shown: {reason}; this is a bug: report it"))
}
