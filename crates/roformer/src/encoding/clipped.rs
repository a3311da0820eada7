//! Rotary embedding whose slow pairs are clipped softly (as CoPE does, arXiv 2602.05258): pairs that take longer than a period to
//! turn are slowed down along half a cosine in the logarithm of their wavelength, and those that are `width` times as slow stand still.
//! What has not turned once in training has angles that a longer text makes new; what stands still has none.

use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Rotation};
use crate::ops::Real;
use rope::{Pairing, Rope, Schedule};
use std::f64::consts::{PI, TAU};

/// Rotary embedding with softly clipped low frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clipped {
    /// The base of the frequencies.
    pub base: f64,
    /// The tokens within which a pair must turn once to be kept as it is: those of training.
    pub period: f64,
    /// How many times slower the pairs are that stand still; at 1 the clip is hard.
    pub width: f64,
}

impl Default for Clipped {
    fn default() -> Self {
        Clipped { base: 10_000.0, period: 64.0, width: 4.0 }
    }
}

impl Clipped {
    /// The rotary embedding of heads of so many features.
    pub fn rope(&self, head_dim: usize) -> Result<Rope> {
        if !(self.period > 0.0 && self.period <= 1e9) {
            return Err(Error::input("the period", self.period, "a number of tokens above 0, at most 1e9"));
        }
        if !(1.0..=1e9).contains(&self.width) {
            return Err(Error::input("the width of the clip", self.width, "from 1 to 1e9"));
        }
        let builder = || Rope::builder(head_dim).base(self.base).pairing(Pairing::Interleaved);
        let theta = builder().build()?.frequencies(None).inv_freq().to_vec();
        let clip = |theta: f64| {
            let slower = TAU / theta / self.period;
            match () {
                () if slower <= 1.0 => theta,
                () if slower >= self.width => 0.0,
                () => theta * 0.5 * (1.0 + (PI * slower.ln() / self.width.ln()).cos()),
            }
        };
        Ok(builder().schedule(Schedule::Given(theta.into_iter().map(clip).collect())).build()?)
    }
}

impl<T: Real> Encode<T> for Clipped {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        self.rope(sizes.head_dim).map(drop)
    }

    fn terms(&self, _builder: &mut Builder<T>, _layer: usize, sizes: &Sizes) -> Terms {
        let Ok(rope) = self.rope(sizes.head_dim) else { return Terms::default() };
        Terms { rotation: Some(Rotation::fixed(rope)), ..Terms::default() }
    }
}
