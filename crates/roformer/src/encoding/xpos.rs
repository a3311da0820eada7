//! xPos (Sun et al. 2023): rotary embedding whose pairs also decay with the distance, fast ones most. For keys ahead of the
//! query they would grow, so it is for causal models.

use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Rotation};
use crate::ops::Real;
use rope::{Pairing, Rope, XPos};

/// Rotary embedding that decays with the distance.
#[derive(Clone, Debug, PartialEq)]
pub struct Xpos {
    /// The base of the frequencies.
    pub base: f64,
    /// Which features form pairs.
    pub pairing: Pairing,
}

impl Default for Xpos {
    fn default() -> Self {
        Xpos { base: 10_000.0, pairing: Pairing::Interleaved }
    }
}

impl Xpos {
    fn rope(&self, head_dim: usize) -> Result<Rope> {
        let builder = Rope::builder(head_dim).base(self.base).pairing(self.pairing);
        Ok(builder.xpos(XPos::default()).build()?)
    }
}

impl<T: Real> Encode<T> for Xpos {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            return Err(Error::input(
                "xpos",
                "asked for without a causal mask",
                "a causal model: ahead it grows",
            ));
        }
        self.rope(sizes.head_dim).map(drop)
    }

    fn terms(&self, _builder: &mut Builder<T>, _layer: usize, sizes: &Sizes) -> Terms {
        let Ok(rope) = self.rope(sizes.head_dim) else { return Terms::default() };
        Terms { rotation: Some(Rotation::fixed(rope)), ..Terms::default() }
    }
}
