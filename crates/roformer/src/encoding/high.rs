//! Rotary embedding at high frequencies alone, on a part of the features (RoPE-ID, Wertheimer et al. 2026, arXiv 2603.18017): every
//! pair that turns does so several times within the texts of training, so that no angle of a longer text is new, and the features
//! that do not turn carry what has no place.

use super::{Encode, Sizes, Terms, part_of};
use crate::error::{Error, Result};
use crate::graph::{Builder, Rotation};
use crate::ops::Real;
use rope::{Pairing, Rope, Schedule};
use std::f64::consts::TAU;

/// Rotary embedding at high frequencies on a part of the features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct High {
    /// The part of a head's features that turns.
    pub part: f64,
    /// The tokens that the slowest pair takes to turn once.
    pub period: f64,
}

impl Default for High {
    fn default() -> Self {
        High { part: 0.5, period: 32.0 }
    }
}

impl High {
    /// The rotary embedding of heads of so many features: frequencies from 1 to 2π/period in equal ratios.
    pub fn rope(&self, head_dim: usize) -> Result<Rope> {
        if !(self.period > TAU && self.period <= 1e9) {
            let expected = "more than 2π, which the fastest pair takes, and at most 1e9 tokens";
            return Err(Error::input("the period", self.period, expected));
        }
        let dim = part_of(head_dim, self.part)?;
        let last = (dim / 2 - 1).max(1) as f64;
        let theta = (0..dim / 2).map(|j| (TAU / self.period).powf(j as f64 / last)).collect();
        let builder = Rope::builder(head_dim).rotary_dim(dim).pairing(Pairing::Interleaved);
        Ok(builder.schedule(Schedule::Given(theta)).build()?)
    }
}

impl<T: Real> Encode<T> for High {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        self.rope(sizes.head_dim).map(drop)
    }

    fn terms(&self, _builder: &mut Builder<T>, _layer: usize, sizes: &Sizes) -> Terms {
        let Ok(rope) = self.rope(sizes.head_dim) else { return Terms::default() };
        Terms { rotation: Some(Rotation::fixed(rope)), ..Terms::default() }
    }
}
