//! Randomised positions (Ruoss et al. 2023): the tokens of a text stand at rising positions drawn from a range far longer than
//! the text, anew at every step, so that a model meets large positions in short texts.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms, check_rows};
use crate::error::{Error, Result};
use crate::graph::Builder;
use crate::ops::Real;

/// Rotary embedding at positions drawn by chance.
#[derive(Clone, Debug, PartialEq)]
pub struct Randomised {
    /// Positions are drawn from 0 up to this.
    pub range: usize,
    /// The encoding at those positions.
    pub rotary: Rotary,
}

impl Default for Randomised {
    fn default() -> Self {
        Randomised { range: 2048, rotary: Rotary::default() }
    }
}

impl Randomised {
    /// The step from token to token outside of training: positions are then spread evenly, in the same way for every text,
    /// so that those up to the longest text reach over the whole range.
    pub fn step(&self, longest: usize) -> usize {
        (self.range / longest.max(1)).max(1)
    }
}

impl<T: Real> Encode<T> for Randomised {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if self.range < sizes.longest {
            let expected = format!("at least the longest text, {}", sizes.longest);
            return Err(Error::input("the range of positions", self.range, expected));
        }
        check_rows("the range of positions", self.range)?;
        Encode::<T>::check(&self.rotary, sizes)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        self.rotary.terms(builder, layer, sizes)
    }

    /// `length` different numbers below the range, rising: each number in turn is taken with the chance that leaves every
    /// choice equally likely.
    fn positions(&self, length: usize, seed: u64, step: u64) -> Option<Vec<u32>> {
        let mut state = crate::graph::mix(crate::graph::mix(seed ^ 0x706f_7369_7469_6f6e) ^ step);
        let mut chosen = Vec::with_capacity(length);
        for position in 0..self.range {
            state = crate::graph::mix(state);
            let (left, needed) = ((self.range - position) as u64, (length - chosen.len()) as u64);
            // Without division bias worth speaking of: 64 random bits against a range of thousands.
            if (u128::from(state) * u128::from(left)) >> 64 < u128::from(needed) {
                chosen.push(position as u32);
            }
        }
        Some(chosen)
    }
}
