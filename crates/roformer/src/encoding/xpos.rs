//! xPos (Sun et al. 2023): rotary embedding whose pairs also decay with the distance, fast ones most. For keys ahead of the
//! query they would grow, so it is for causal models.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Turned};
use crate::ops::Real;
use rope::{Rope, XPos};

/// Rotary embedding that decays with the distance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Xpos {
    /// The rotary embedding.
    pub rotary: Rotary,
}

impl Xpos {
    fn rope(&self, head_dim: usize) -> Result<Rope> {
        let Rotary { base, pairing, schedule, .. } = &self.rotary;
        let builder = Rope::builder(head_dim).base(*base).pairing(*pairing).schedule(schedule.clone());
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
        Terms { rotation: Some(Turned { rope, frequencies: None, values: false }), ..Terms::default() }
    }
}
