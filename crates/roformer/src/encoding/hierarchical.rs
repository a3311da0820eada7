//! Learned vectors p for n positions that reach to n² (Su 2020): position k = i·n + j gets q(k) = α·u_i + (1−α)·u_j with
//! u = (p − α·p_0)/(1−α).
//!
//! Written out, q(k) = p_j + α/(1−α)·(p_i − p_0): for k < n, where i = 0, that is p_k, so a model trained with n positions
//! keeps them.

use super::absolute::Merge;
use super::{Encode, Sizes, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, Value};
use crate::ops::Real;

/// Learned vectors for n positions that reach to n².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hierarchical {
    /// n.
    pub positions: usize,
    /// α: between 0 and 1, and not ½, where i and j could be exchanged.
    pub alpha: f64,
    /// How they meet the embeddings.
    pub merge: Merge,
}

impl Default for Hierarchical {
    fn default() -> Self {
        Hierarchical { positions: 64, alpha: 0.4, merge: Merge::Add }
    }
}

impl<T: Real> Encode<T> for Hierarchical {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        let n = self.positions;
        check_rows("the positions of the hierarchical encoding", n)?;
        if n == 0 || n.saturating_mul(n) < sizes.longest {
            let expected = format!("a number whose square is at least the longest text, {}", sizes.longest);
            return Err(Error::input("the positions of the hierarchical encoding", n, expected));
        }
        if !(self.alpha > 0.0 && self.alpha < 1.0) || self.alpha == 0.5 {
            return Err(Error::input("alpha", self.alpha, "between 0 and 1, and not 0.5"));
        }
        Ok(())
    }

    fn embed(&self, builder: &mut Builder<T>, x: Value, sizes: &Sizes) -> Value {
        let (n, share) = (self.positions as u32, self.alpha / (1.0 - self.alpha));
        let table = super::learned::table(builder, self.positions, sizes.width);
        let rows = builder.position_rows(table, sizes.length, move |position| {
            [(position % n, 1.0), (position / n, share), (0, -share)]
        });
        self.merge.apply(builder, x, rows, sizes)
    }
}
