//! Heads that turn by given numbers: (c, s) for each pair of features of each key head, x ↦ (c·x₀ − s·x₁, s·x₀ + c·x₁). Queries
//! that meet a key head turn by its numbers.

use super::{Builder, Gradients, Operation, TurnTerm, Value, Values};
use crate::ops::Real;
use rayon::prelude::*;

/// Heads in rows, and how many of them share the numbers of a key head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnedHeads {
    /// Numbers from one row to the next.
    pub step: usize,
    /// The first number of the first head.
    pub offset: usize,
    /// Heads that turn, side by side.
    pub heads: usize,
    /// Key heads, each with numbers for `heads / key_heads` heads.
    pub key_heads: usize,
    /// Features of a head, an even number: neighbours are pairs.
    pub head_dim: usize,
}

impl TurnedHeads {
    /// The numbers of a row of (c, s).
    pub(crate) fn turns(&self) -> usize {
        self.key_heads * self.head_dim
    }

    /// Each head of a row with its numbers.
    fn pairs<'a, T>(&self, row: &'a mut [T], turns: &'a [T]) -> impl Iterator<Item = (&'a mut [T], &'a [T])> {
        let (dim, group) = (self.head_dim, self.heads / self.key_heads);
        let row = &mut row[self.offset..][..self.heads * dim];
        let heads = row.chunks_exact_mut(dim).enumerate();
        heads.map(move |(head, x)| (x, &turns[head / group * dim..][..dim]))
    }

    /// Turns rows x `[rows, step]` by turns `[rows, key_heads · head_dim]`; fewer rows of turns come again and again.
    pub(crate) fn forward<T: Real>(&self, turns: &[T], x: &mut [T]) {
        self.each(turns, x, |x, c, s| [c * x[0] - s * x[1], s * x[0] + c * x[1]]);
    }

    /// The gradient of what was turned, from that of what came of it.
    fn backward<T: Real>(&self, turns: &[T], dx: &mut [T]) {
        self.each(turns, dx, |dx, c, s| [c * dx[0] + s * dx[1], c * dx[1] - s * dx[0]]);
    }

    fn each<T: Real>(&self, turns: &[T], x: &mut [T], turned: impl Fn([T; 2], T, T) -> [T; 2] + Sync) {
        let (count, rows) = (self.turns(), turns.len() / self.turns());
        x.par_chunks_exact_mut(self.step).enumerate().for_each(|(index, row)| {
            for (x, turns) in self.pairs(row, &turns[index % rows * count..][..count]) {
                for (x, turn) in x.chunks_exact_mut(2).zip(turns.chunks_exact(2)) {
                    [x[0], x[1]] = turned([x[0], x[1]], turn[0], turn[1]);
                }
            }
        });
    }
}

impl<T: Real> Builder<T> {
    /// Turns heads of `x` in place by (c, s) of each token, with c² + s² = 1 where those are no constants. Nothing else may read `x` as it
    /// was before.
    pub fn turn(&mut self, x: Value, turns: TurnTerm, heads: TurnedHeads) {
        self.add(Turn { x, turns, heads });
    }
}

pub(super) struct Turn {
    x: Value,
    turns: TurnTerm,
    heads: TurnedHeads,
}

impl<T: Real> Operation<T> for Turn {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.x, |values, x| self.heads.forward(values.get(self.turns.numbers), x));
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let Turn { x, turns: TurnTerm { numbers: turns, is_fixed }, heads } = *self;
        if is_fixed {
            gradients.add(x, |_, dx| heads.backward(values.get(turns), dx));
            return;
        }
        let (width, count) = (heads.step, heads.turns());
        let (group, dim) = (heads.heads / heads.key_heads, heads.head_dim);
        gradients.add_each([x, turns], |_, [dx, dturns]| {
            let known = values.get(x).par_chunks_exact(width).zip(values.get(turns).par_chunks_exact(count));
            let given = dx.par_chunks_exact_mut(width).zip(dturns.par_chunks_exact_mut(count));
            given.zip(known).for_each(|((dx, dturns), (y, turns))| {
                let y = y[heads.offset..].chunks_exact(dim);
                for (head, ((dx, turns), y)) in heads.pairs(dx, turns).zip(y).enumerate() {
                    let dturns = &mut dturns[head / group * dim..][..dim];
                    let numbers = turns.chunks_exact(2).zip(dturns.chunks_exact_mut(2));
                    let vectors = dx.chunks_exact_mut(2).zip(y.chunks_exact(2));
                    for ((turn, dturn), (dx, y)) in numbers.zip(vectors) {
                        let (c, s) = (turn[0], turn[1]);
                        // What was turned: the way back of a rotation is its inverse.
                        let (x0, x1) = (c * y[0] + s * y[1], c * y[1] - s * y[0]);
                        dturn[0] += x0 * dx[0] + x1 * dx[1];
                        dturn[1] += x0 * dx[1] - x1 * dx[0];
                        (dx[0], dx[1]) = (c * dx[0] + s * dx[1], c * dx[1] - s * dx[0]);
                    }
                }
            });
        });
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        let encodings =
            if self.turns.is_fixed { "encodings fope and axial have" } else { "encoding selective has" };
        Err(crate::error::Error::Device(format!("the {encodings} no form for a GPU; use the CPU")))
    }
}
