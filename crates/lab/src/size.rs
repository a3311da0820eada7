//! How large models are: one size for all tasks, or for each task the smallest of a few that a pilot finds large enough.

use super::run::HEAD_DIM;
use roformer::Device;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most layers, and the widest.
const MOST: [usize; 2] = [24, 1024];

/// The widest heads.
const WIDEST: usize = 256;

/// What a pilot chooses from, the smallest first. Each is several times the work of the one before it.
const LADDER: [Size; 4] = [Size::SMALLEST, Size::of(3, 128), Size::of(4, 128), Size::of(6, 256)];

/// Layers and width, such as `3x128`, with heads of 32 features; or layers, width and heads, such as `12x768x12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    layers: usize,
    width: usize,
    heads: usize,
}

impl Size {
    /// The one of the quick preset, and the first that a pilot tries.
    pub const SMALLEST: Size = Size::of(2, 2 * HEAD_DIM);

    /// With heads of 32 features.
    const fn of(layers: usize, width: usize) -> Self {
        Size { layers, width, heads: width / HEAD_DIM }
    }

    /// With so many heads.
    pub(super) const fn with_heads(layers: usize, width: usize, heads: usize) -> Self {
        Size { layers, width, heads }
    }

    /// Layers.
    pub fn layers(self) -> usize {
        self.layers
    }

    /// Width.
    pub fn width(self) -> usize {
        self.width
    }

    /// Attention heads.
    pub fn heads(self) -> usize {
        self.heads
    }

    /// Whether heads have the usual 32 features.
    pub(super) fn has_usual_heads(self) -> bool {
        self.heads * HEAD_DIM == self.width
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('x').map(|part| part.parse().ok());
        let mut next = || parts.next().flatten();
        let parsed = next().zip(next()).map(|(layers, width)| Size::of(layers, width));
        // Nothing after the width, or the heads and then nothing.
        let parsed = match text.split('x').count() {
            2 => parsed,
            3 => parsed.zip(next()).map(|(size, heads)| Size { heads, ..size }),
            _ => None,
        };
        let [layers, width] = MOST;
        let is_right = |size: &Size| {
            (1..=layers).contains(&size.layers)
                && (HEAD_DIM..=width).contains(&size.width)
                && size.width.is_multiple_of(HEAD_DIM)
                && size.heads > 0
                // Heads of an even number of features: rotary embedding turns pairs.
                && size.width.is_multiple_of(2 * size.heads)
                && size.width / size.heads <= WIDEST
        };
        let expected = || {
            format!(
                "expected LAYERSxWIDTH such as 3x128, of 1 to {layers} layers and a width that is a multiple of {HEAD_DIM} up to {width}, or LAYERSxWIDTHxHEADS such as 12x768x12"
            )
        };
        parsed.filter(is_right).ok_or_else(expected)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}x{}", self.layers, self.width)?;
        match self.has_usual_heads() {
            true => Ok(()),
            false => write!(out, "x{}", self.heads),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        size.to_string()
    }
}

/// Which size the models of a task have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// This one, on every task.
    One(Size),
    /// For each task the smallest that a pilot finds large enough.
    Pilot,
}

impl Sizes {
    /// Those that there may be, the smallest first. The largest of a pilot takes a GPU.
    pub fn all(self, device: &Device) -> Vec<Size> {
        match (self, device) {
            (Sizes::One(size), _) => vec![size],
            (Sizes::Pilot, Device::Cpu(_)) => LADDER[..3].into(),
            #[cfg(feature = "cuda")]
            (Sizes::Pilot, Device::Cuda(_)) => LADDER.into(),
        }
    }

    /// The first of them.
    pub fn first(self) -> Size {
        match self {
            Sizes::One(size) => size,
            Sizes::Pilot => LADDER[0],
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Sizes::Pilot),
            _ => text.parse().map(Sizes::One).map_err(|error: String| format!("{error}; or auto")),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Sizes::One(size) => size.fmt(out),
            Sizes::Pilot => "auto".fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let with_heads = [Size::with_heads(12, 768, 12), Size::with_heads(16, 1024, 8)];
        for size in LADDER.into_iter().chain(with_heads) {
            assert_eq!(size.to_string().parse(), Ok(size));
            assert_eq!(size.to_string().parse(), Ok(Sizes::One(size)));
            let text = serde_json::to_string(&size).unwrap();
            assert_eq!(serde_json::from_str::<Size>(&text).unwrap(), size);
        }
        assert_eq!("auto".parse(), Ok(Sizes::Pilot));
        assert_eq!(("6x256".parse::<Size>().unwrap().heads(), Size::SMALLEST.heads()), (8, 2));
        // Heads that are the usual ones are not written.
        assert_eq!(
            ("2x64x2".parse(), "12x768x12".parse::<Size>().unwrap().heads()),
            (Ok(Size::SMALLEST), 12)
        );
        for text in [
            "", "x", "3", "3x", "x64", "0x64", "25x64", "2x0", "2x33", "2x1056", "2x64x0", "2x64x3",
            "2x64x64", "2x512x1", "2x64x2x2", "2x64x", "-2x64", "2X64",
        ] {
            assert!(text.parse::<Sizes>().unwrap_err().contains("such as 3x128"), "{text}");
            assert!(serde_json::from_str::<Size>(&format!("\"{text}\"")).is_err(), "{text}");
        }
        assert!(
            LADDER.windows(2).all(|pair| pair[0].layers < pair[1].layers && pair[0].width <= pair[1].width)
        );
    }
}
