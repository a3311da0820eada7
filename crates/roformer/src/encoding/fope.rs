//! FoPE (Hua et al. 2024, arXiv 2412.17739): each pair of features turns at a sum of frequencies, its own and a little of all others, so that
//! what layers and activations mix into a frequency is no longer new to it; and pairs that do not turn once within the texts of training stand
//! still, because their angles beyond those would be new.
//!
//! As in the released code the sums of cosines and of sines have coefficients of their own for each key head of each layer, drawn once and
//! not trained: the identity, and normal numbers of the deviation gain/√n for n pairs.

use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, TurnTerm, mix, normal};
use crate::ops::Real;
use rope::{Pairing, Rope};
use std::f64::consts::TAU;

/// Rotary embedding whose pairs turn at sums of frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fope {
    /// The base of the frequencies.
    pub base: f64,
    /// The tokens within which a pair must turn once, or it stands still: those of training.
    pub period: f64,
    /// How much of other frequencies a pair has.
    pub gain: f64,
    /// Where the coefficients come from.
    pub seed: usize,
}

impl Default for Fope {
    fn default() -> Self {
        Fope { base: 10_000.0, period: 64.0, gain: 0.3, seed: 0 }
    }
}

impl Fope {
    /// θ of the pairs that turn: those of a head of so many features whose wavelength is within the period.
    pub fn frequencies(&self, head_dim: usize) -> Result<Vec<f64>> {
        if !(self.period > 0.0 && self.period <= 1e9) {
            return Err(Error::input("the period", self.period, "a number of tokens above 0, at most 1e9"));
        }
        if !(0.0..=10.0).contains(&self.gain) {
            return Err(Error::input("the gain", self.gain, "from 0 to 10"));
        }
        let rope = Rope::builder(head_dim).base(self.base).pairing(Pairing::Interleaved).build()?;
        let all = rope.frequencies(None).inv_freq().to_vec();
        Ok(all.into_iter().filter(|theta| TAU / theta <= self.period).collect())
    }

    /// How much of frequency f a pair has in its cosines and in its sines, of a key head of a layer with so many pairs that turn.
    pub fn coefficients(&self, [layer, key_head, pairs]: [usize; 3], [f, pair]: [usize; 2]) -> [f64; 2] {
        let own = if f == pair { 1.0 } else { 0.0 };
        let place = [layer, key_head].iter().fold(mix(self.seed as u64), |state, &at| mix(state ^ at as u64));
        let deviation = self.gain / (pairs as f64).sqrt();
        [0, 1].map(|which| own + deviation * normal(mix(place ^ which), (f * pairs + pair) as u64))
    }
}

impl<T: Real> Encode<T> for Fope {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        self.frequencies(sizes.head_dim).map(drop)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let Ok(theta) = self.frequencies(sizes.head_dim) else { return Terms::default() };
        let (pairs, all, width) = (theta.len(), sizes.head_dim / 2, sizes.key_heads * sizes.head_dim);
        // (1, 0), which turns nothing, for pairs that stand still.
        let mut numbers: Vec<f64> = [1.0, 0.0].repeat(sizes.length * width / 2);
        for key_head in 0..sizes.key_heads {
            for pair in 0..pairs {
                let own = |f: usize| self.coefficients([layer, key_head, pairs], [f, pair]);
                let shares: Vec<[f64; 2]> = (0..pairs).map(own).collect();
                for (position, row) in numbers.chunks_exact_mut(width).enumerate() {
                    let sums = theta.iter().zip(&shares).map(|(theta, share)| {
                        let (sin, cos) = (position as f64 * theta).sin_cos();
                        (share[0] * cos, share[1] * sin)
                    });
                    let (cos, sin) = sums.fold((0.0, 0.0), |sum, x| (sum.0 + x.0, sum.1 + x.1));
                    row[2 * (key_head * all + pair)..][..2].copy_from_slice(&[cos, sin]);
                }
            }
        }
        let numbers = builder.constant(sizes.length, width, &numbers);
        Terms { turns: Some(TurnTerm { numbers, is_fixed: true }), ..Terms::default() }
    }
}
