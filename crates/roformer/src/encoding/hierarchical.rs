//! Learned vectors p for n positions that reach to n² (Su 2020): position k = i·n + j gets q(k) = α·u_i + (1−α)·u_j with
//! u = (p − α·p_0)/(1−α).
//!
//! Written out, q(k) = p_j + α/(1−α)·(p_i − p_0): for k < n, where i = 0, that is p_k, so a model trained with n positions
//! keeps them. As few vectors as reach the longest text are what tells it from learned ones: with n as long as the texts of
//! training the two are the same there.

use super::absolute::Merge;
use super::{Encode, Sizes, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, Value};
use crate::ops::Real;

/// Learned vectors for n positions that reach to n².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hierarchical {
    /// n; as few as reach the longest text if not given.
    pub positions: Option<usize>,
    /// α: between 0 and 1, and not ½, where i and j could be exchanged.
    pub alpha: f64,
    /// How they meet the embeddings.
    pub merge: Merge,
}

impl Default for Hierarchical {
    fn default() -> Self {
        Hierarchical { positions: None, alpha: 0.4, merge: Merge::Add }
    }
}

impl Hierarchical {
    /// n, for texts of up to so many tokens.
    pub fn rows(&self, longest: usize) -> usize {
        let root = longest.max(1).isqrt();
        self.positions.unwrap_or(if root * root < longest { root + 1 } else { root })
    }
}

impl<T: Real> Encode<T> for Hierarchical {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        let n = self.rows(sizes.longest);
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

    fn codes(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Value, Merge)> {
        let (n, share) = (self.rows(sizes.longest), self.alpha / (1.0 - self.alpha));
        let table = super::learned::table(builder, n, sizes.codes);
        let n = n as u32;
        let rows = builder.position_rows(table, sizes.length, move |position| match position / n {
            // Not p + share·p_0 − share·p_0, which would round: the first n keep their bits.
            0 => [(position, 1.0), (0, 0.0), (0, 0.0)],
            i => [(position % n, 1.0), (i, share), (0, -share)],
        });
        Some((rows, self.merge))
    }
}
