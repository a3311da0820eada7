//! Positions with skips (PoSE, Zhu et al. 2023, arXiv 2309.10400): in training a text is cut into a few pieces, and each but the
//! first stands further on by a number drawn by chance, so that short texts show the distances of long ones while neighbours stay
//! neighbours. Where a model is run, positions are 0, 1, 2 and so on.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, mix};
use crate::ops::Real;

/// Rotary embedding at positions with skips.
#[derive(Clone, Debug, PartialEq)]
pub struct Pose {
    /// Positions of training reach up to this: the length that the model is for.
    pub range: usize,
    /// Pieces that a text is cut into.
    pub pieces: usize,
    /// The encoding at those positions.
    pub rotary: Rotary,
}

impl Default for Pose {
    fn default() -> Self {
        Pose { range: 2048, pieces: 2, rotary: Rotary::default() }
    }
}

impl<T: Real> Encode<T> for Pose {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if self.range < sizes.longest {
            let expected = format!("at least the longest text, {}", sizes.longest);
            return Err(Error::input("the range of positions", self.range, expected));
        }
        check_rows("the range of positions", self.range)?;
        if !(2..=1024).contains(&self.pieces) {
            return Err(Error::input("the number of pieces", self.pieces, "from 2 to 1024"));
        }
        Encode::<T>::check(&self.rotary, sizes)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        self.rotary.terms(builder, layer, sizes)
    }

    /// Cuts at different places, and skips that rise from piece to piece, all equally likely.
    fn positions(&self, length: usize, seed: u64, step: u64) -> Option<Vec<u32>> {
        let mut state = mix(mix(seed ^ 0x736b_6970_7370_6f73) ^ step);
        let mut below = |limit: usize| {
            state = mix(state);
            ((u128::from(state) * limit as u128) >> 64) as usize
        };
        let pieces = self.pieces.min(length.max(1));
        let mut cuts: Vec<usize> = Vec::with_capacity(pieces);
        // Floyd's way to draw different numbers of 1 … length − 1.
        for last in length + 1 - pieces..length {
            let cut = 1 + below(last);
            cuts.push(if cuts.contains(&cut) { last } else { cut });
        }
        let mut skips: Vec<usize> =
            cuts.iter().map(|_| below(self.range.saturating_sub(length) + 1)).collect();
        cuts.sort_unstable();
        skips.sort_unstable();
        let skip = |token: usize| match cuts.partition_point(|&cut| cut <= token) {
            0 => 0,
            piece => skips[piece - 1],
        };
        Some((0..length).map(|token| (token + skip(token)) as u32).collect())
    }
}
