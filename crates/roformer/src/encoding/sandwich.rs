//! Sandwich (Chi et al. 2022, arXiv 2212.10356): the inner product of two sinusoidal codes, Σ cos(r/10000^(2i/d)), added to the
//! score as a bias, each head with a compression of its own. Nothing is learned. It falls about as the logarithm of the distance
//! does, and swings. Without a causal mask it cannot tell a sentence from its reversal.

use super::{Encode, Sizes, Terms, by_distance};
use crate::error::{Error, Result};
use crate::graph::{Builder, TableTerm};
use crate::ops::Real;

/// A bias by the inner product of sinusoidal codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandwich {
    /// The width d of the codes, which the paper tunes and sets to 128.
    pub dim: usize,
}

impl Default for Sandwich {
    fn default() -> Self {
        Sandwich { dim: 128 }
    }
}

/// The widest codes.
const WIDEST: usize = 1 << 14;

impl<T: Real> Encode<T> for Sandwich {
    fn check(&self, _sizes: &Sizes) -> Result<()> {
        match self.dim >= 2 && self.dim.is_multiple_of(2) && self.dim <= WIDEST {
            true => Ok(()),
            false => Err(Error::input(
                "the width of the codes",
                self.dim,
                format!("an even number from 2 to {WIDEST}"),
            )),
        }
    }

    fn terms(&self, builder: &mut Builder<T>, _layer: usize, sizes: &Sizes) -> Terms {
        let (heads, length) = (sizes.heads, sizes.length);
        // Less the sum at distance 0: softmax does not see what is added to all scores, and numbers stay small.
        let sum = |distance: usize| -> f64 {
            let angle = |i: usize| distance as f64 / 10_000f64.powf(2.0 * i as f64 / self.dim as f64);
            (0..self.dim / 2).map(|i| angle(i).cos() - 1.0).sum()
        };
        let sums: Vec<f64> = (0..length).map(sum).collect();
        let row = |head: usize| {
            let compression = 8.0 * (head + 1) as f64 / heads as f64;
            sums.iter().map(move |sum| sum / compression)
        };
        let biases: Vec<f64> = (0..heads).flat_map(row).collect();
        let table = builder.constant(heads, length, &biases);
        let index = by_distance(length, |distance| distance.unsigned_abs() as u32);
        Terms { bias: Some(TableTerm { table, index }), ..Terms::default() }
    }
}
