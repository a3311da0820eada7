//! Rotary embedding whose slow pairs are clipped softly (as CoPE does, arXiv 2602.05258): pairs that take longer than a period to
//! turn are slowed down along half a cosine in the logarithm of their wavelength, down to the slowest pair, which stands still; or to those
//! that are `width` times as slow as the period. What has not turned once in training has angles that a longer text makes new; what stands
//! still has none.

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
    /// How many times slower than the period pairs are that stand still; at 1 the clip is hard. The slowest pair alone where it is not given.
    pub width: Option<f64>,
}

impl Default for Clipped {
    fn default() -> Self {
        Clipped { base: 10_000.0, period: 64.0, width: None }
    }
}

impl Clipped {
    /// The rotary embedding of heads of so many features.
    pub fn rope(&self, head_dim: usize) -> Result<Rope> {
        if !(self.period > 0.0 && self.period <= 1e9) {
            return Err(Error::input("the period", self.period, "a number of tokens above 0, at most 1e9"));
        }
        if let Some(width) = self.width.filter(|width| !(1.0..=1e9).contains(width)) {
            return Err(Error::input("the width of the clip", width, "from 1 to 1e9"));
        }
        let builder = || Rope::builder(head_dim).base(self.base).pairing(Pairing::Interleaved);
        let theta = builder().build()?.frequencies(None).inv_freq().to_vec();
        let slower = |theta: f64| TAU / theta / self.period;
        let width = self.width.unwrap_or_else(|| theta.last().map_or(1.0, |&last| slower(last)));
        let clip = |theta: f64| match slower(theta) {
            slower if slower <= 1.0 => theta,
            slower if slower >= width => 0.0,
            slower => theta * 0.5 * (1.0 + (PI * slower.ln() / width.ln()).cos()),
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
