//! Memory of a linear attention, split between its tasks.

use super::Shape;
use crate::ops::{Memory, Real};

/// Tokens of a causal attention that are compared pair by pair; all before them are in the state. Pairs cost
/// `CHUNK · (m + e)` a token, the state 2·m·e: about the same for heads of 64.
pub(super) const CHUNK: usize = 64;
/// Tokens after which tasks hand over what they have. A whole number of chunks.
pub(super) const STRIPE: usize = 4 * CHUNK;

/// Memory for linear attentions: for each head of each sequence its state, a chunk and a stripe, and for a backward two
/// numbers a query; nothing of the size of the inputs. Grows with the largest shape it has seen, and then no more. (The
/// products have small memory of their own.)
pub struct Workspace<T> {
    pub(super) memory: Memory<T>,
}

impl<T: Real> Workspace<T> {
    /// Empty; `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        Memory::zeros(0).map(|memory| Workspace { memory })
    }

    /// The bytes that an [`attend`](super::attend) of this shape takes.
    pub fn bytes_for(shape: &Shape) -> usize {
        shape.tasks() * Part::<T>::sizes(shape, false).iter().sum::<usize>() * size_of::<T>()
    }

    /// Makes sure of memory for every task, and returns the size of a task's part; `None` if there is not enough.
    pub(super) fn fit(&mut self, shape: &Shape, backward: bool) -> Option<usize> {
        let part = Part::<T>::sizes(shape, backward).iter().sum();
        self.memory.fit(shape.tasks().checked_mul(part)?).then_some(part)
    }
}

/// Memory of one task.
pub(super) struct Part<'a, T> {
    /// A stripe of results: of the forward `[STRIPE, e]`; of the backward two `[STRIPE, m]` and one `[STRIPE, e]`, of which the
    /// first pass uses two.
    pub(super) rows: &'a mut [T],
    /// S = Σ kn_j v_jᵀ `[m, e]`
    pub(super) s: &'a mut [T],
    /// z = Σ kd_j `[m]`
    pub(super) z: &'a mut [T],
    /// Keys of a chunk `[CHUNK, m]`.
    pub(super) keys: &'a mut [T],
    /// Values of a chunk `[CHUNK, e]`.
    pub(super) values: &'a mut [T],
    /// Pairs of a chunk `[CHUNK, CHUNK]`.
    pub(super) scores: &'a mut [T],
    /// The gradient of S `[m, e]`. This and what follows: backward only.
    pub(super) ds: &'a mut [T],
    /// The gradient of z `[m]`.
    pub(super) dz: &'a mut [T],
    /// The gradients of a chunk's numerators `[CHUNK, e]`.
    pub(super) dn: &'a mut [T],
    /// 1 / denominator of every query `[length]`.
    pub(super) inverses: &'a mut [T],
    /// The gradient of every query's denominator `[length]`.
    pub(super) dd: &'a mut [T],
}

impl<'a, T: Real> Part<'a, T> {
    fn sizes(shape: &Shape, backward: bool) -> [usize; 11] {
        let Shape { length, features: m, value_dim: e, .. } = *shape;
        let stripe = STRIPE.min(length);
        let rows = stripe * if backward { 2 * m + e } else { e };
        let chunk = CHUNK.min(length);
        let only = usize::from(backward);
        [
            rows,
            m * e,
            m,
            chunk * m,
            chunk * e,
            chunk * chunk,
            only * m * e,
            only * m,
            only * chunk * e,
            only * length,
            only * length,
        ]
    }

    /// The part of a task by its uses.
    pub(super) fn split(shape: &Shape, backward: bool, mut rest: &'a mut [T]) -> Self {
        let [rows, s, z, keys, values, scores, ds, dz, dn, inverses, dd] =
            Self::sizes(shape, backward).map(|len| {
                let (taken, left) = std::mem::take(&mut rest).split_at_mut(len);
                rest = left;
                taken
            });
        Part { rows, s, z, keys, values, scores, ds, dz, dn, inverses, dd }
    }

    /// Numbers from one row of the pairs to the next.
    pub(super) fn score_step(shape: &Shape) -> usize {
        CHUNK.min(shape.length)
    }
}
