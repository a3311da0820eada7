//! PaTH (Yang et al. 2025, arXiv 2505.16381): each token has a map H = I − β·w·wᵀ by what the layer reads, close to a reflection, and a
//! query meets a key through the maps of the tokens after the key, up to the query: k_jᵀ·H_(j+1)·…·H_i·q_i/√d. Where a key stands
//! is what was read since.
//!
//! w is x through two matrices, by way of `rank` numbers, made as long as 1 in each key head; β = 2·σ(u·x + b), from 0, which changes
//! nothing, over 1, which forgets a direction, to 2, which reflects it. The convolution over neighbouring tokens that the paper has
//! between the matrices and the norm is left out, so that a token's map is of that token alone.

use super::{Encode, PathWeights, Sizes};
use crate::error::{Error, Result};
use crate::graph::{Builder, Init};
use crate::ops::Real;

/// More than any model is wide.
const MOST: usize = 65_536;

/// Maps by what is read between a key and a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The numbers that w is made of.
    pub rank: usize,
}

impl Default for Path {
    fn default() -> Self {
        Path { rank: 32 }
    }
}

impl<T: Real> Encode<T> for Path {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            let expected = "a causal model: a query is led through what lies between it and a key before it";
            return Err(Error::input("path", "asked for without a causal mask", expected));
        }
        match (1..=MOST).contains(&self.rank) {
            true => Ok(()),
            false => Err(Error::input("the rank of path", self.rank, format!("from 1 to {MOST}"))),
        }
    }

    fn path(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Option<PathWeights> {
        let &Sizes { width, key_heads, head_dim, .. } = sizes;
        let name = |part: &str| format!("position.path.{layer}.{part}");
        // Of the size at which what comes out is as large as what goes in.
        let spread = |inputs: usize| Init::Normal(1.0 / (inputs as f64).sqrt());
        let parameters = builder.parameters();
        Some(PathWeights {
            down: parameters.add(name("down.weight"), &[self.rank, width], spread(width)),
            up: parameters.add(name("up.weight"), &[key_heads * head_dim, self.rank], spread(self.rank)),
            weight: parameters.add(name("beta.weight"), &[key_heads, width], Init::Normal(0.02)),
            bias: parameters.add(name("beta.bias"), &[key_heads], Init::Constant(0.0)),
        })
    }
}
