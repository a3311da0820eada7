//! Contextual position encoding (CoPE, Golovneva et al. 2024, arXiv 2405.18719): where a key stands is what the query counts from it
//! on. Each token counts by a gate of query and token, σ(q_i·k_t/√d), so that a position can be a number of words or of sentences; the
//! sum p stands between two of the learned vectors e[0], e[1], …, and q_i·e[p] is added to the score. What is counted beyond the last
//! counts as the last.
//!
//! As in the paper's listing the gates read scores, which are divided by √d, the product with e[p] is not divided, the vectors are
//! those of all heads of a layer, and they begin as zeros.

use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Init};
use crate::ops::Real;

/// More vectors than anybody counts to: every query meets all of them.
const MOST: usize = 4096;

/// Vectors by what a query counts from a key on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contextual {
    /// How far is counted: there are vectors for 0 up to this.
    pub positions: usize,
}

impl Default for Contextual {
    fn default() -> Self {
        Contextual { positions: 64 }
    }
}

impl<T: Real> Encode<T> for Contextual {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            let expected = "a causal model: a query counts what lies between it and a key before it";
            return Err(Error::input("contextual", "asked for without a causal mask", expected));
        }
        match (1..=MOST).contains(&self.positions) {
            true => Ok(()),
            false => {
                Err(Error::input("the positions of contextual", self.positions, format!("from 1 to {MOST}")))
            }
        }
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let shape = [self.positions + 1, sizes.head_dim];
        let name = format!("position.contextual.{layer}.weight");
        let table = builder.parameters().add(name, &shape, Init::Constant(0.0));
        Terms { counted: Some(builder.lift(table, shape[0], shape[1])), ..Terms::default() }
    }
}
