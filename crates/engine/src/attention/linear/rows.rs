//! One head of one sequence, and loops over rows.

use super::{Inputs, Options, Shape};
use crate::ops::Real;
use crate::ops::dispatch::vectorised;
use crate::ops::multiply::{Strided, Threads, multiply};
use rayon::prelude::*;

/// What one task reads: one head of one sequence.
pub(super) struct Head<'a, T> {
    shape: Shape,
    inputs: Inputs<'a, T>,
    keys: Option<&'a [bool]>,
}

impl<'a, T: Real> Head<'a, T> {
    /// The head of this task: `sequence · heads + head`.
    pub(super) fn new(shape: &Shape, inputs: &Inputs<'a, T>, options: &Options<'a>, task: usize) -> Self {
        let part = |x: &'a [T], width: usize| Self::part(shape, x, width, task);
        let inputs = Inputs {
            qn: part(inputs.qn, shape.features),
            kn: part(inputs.kn, shape.features),
            qd: part(inputs.qd, shape.features),
            kd: part(inputs.kd, shape.features),
            v: part(inputs.v, shape.value_dim),
        };
        let keys = options.keys.map(|keys| &keys[task / shape.heads * shape.length..][..shape.length]);
        Head { shape: *shape, inputs, keys }
    }

    /// `[batch, length, heads, width]` from the first number of this task's head on.
    pub(super) fn part(shape: &Shape, x: &'a [T], width: usize, task: usize) -> &'a [T] {
        let (sequence, head) = (task / shape.heads, task % shape.heads);
        &x[(sequence * shape.length * shape.heads + head) * width..]
    }

    /// Whether the key of a token is there.
    pub(super) fn is_there(&self, token: usize) -> bool {
        self.keys.is_none_or(|keys| keys[token])
    }

    /// The queries in the numerator from a token on, as a matrix `[.., features]`.
    pub(super) fn queries(&self, token: usize) -> Strided<'a, T> {
        let step = self.shape.heads * self.shape.features;
        Strided::rows(&self.inputs.qn[token * step..], step)
    }

    fn row(&self, x: &'a [T], token: usize) -> &'a [T] {
        &x[token * self.shape.heads * self.shape.features..][..self.shape.features]
    }

    /// A query in the numerator.
    pub(super) fn qn(&self, token: usize) -> &'a [T] {
        self.row(self.inputs.qn, token)
    }

    /// A query in the denominator.
    pub(super) fn qd(&self, token: usize) -> &'a [T] {
        self.row(self.inputs.qd, token)
    }

    /// A key in the denominator.
    pub(super) fn kd(&self, token: usize) -> &'a [T] {
        self.row(self.inputs.kd, token)
    }

    /// Copies keys of the numerator to `[count, features]` and values to `[count, value_dim]`, zeros for padding: what is
    /// in its memory, even if no number, then never reaches a sum.
    pub(super) fn gather(&self, first: usize, count: usize, keys: &mut [T], values: &mut [T]) {
        let Shape { heads, features, value_dim, .. } = self.shape;
        for (to, from, width) in [(keys, self.inputs.kn, features), (values, self.inputs.v, value_dim)] {
            for (row, to) in to.chunks_exact_mut(width).take(count).enumerate() {
                match self.is_there(first + row) {
                    true => to.copy_from_slice(&from[(first + row) * heads * width..][..width]),
                    false => to.fill(T::ZERO),
                }
            }
        }
    }
}

/// out = a·b, or out += a·b: a product within a task, with `row` numbers from one row of `out` to the next.
pub(super) fn product<T: Real>(
    out: &mut [T],
    row: usize,
    a: Strided<T>,
    b: Strided<T>,
    sizes: [usize; 3],
    accumulate: bool,
) {
    multiply((out, row), a, b, sizes, 1.0, accumulate, Threads::One);
}

/// Σ a·b in sixteen lanes: vectorises, and rounds less than one long chain.
#[inline(always)]
pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::ZERO; 16];
    let (a, b) = (a.chunks_exact(16), b.chunks_exact(16));
    let (a_rest, b_rest) = (a.remainder(), b.remainder());
    for (a, b) in a.zip(b) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    for ((lane, &a), &b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += a * b;
    }
    lanes.into_iter().sum()
}

/// to += scale·from
#[inline(always)]
pub(super) fn add<T: Real>(to: &mut [T], scale: T, from: &[T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += scale * from;
    }
}

/// to = scale·from
#[inline(always)]
pub(super) fn scaled<T: Real>(to: &mut [T], scale: T, from: &[T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = scale * from;
    }
}

/// 1/total, or 0 where the total is 0: a query that sees nothing gives nothing.
#[inline(always)]
pub(super) fn inverse<T: Real>(total: T) -> T {
    if total == T::ZERO { T::ZERO } else { T::ONE / total }
}

/// e^x, infinite above [`Real::LARGEST_EXPONENT`]. For loops that [`vectorised`] compiles: elsewhere each fused multiply-add
/// of an `f32`'s is a call of the library.
#[inline(always)]
pub(super) fn exponential<T: Real>(x: T) -> T {
    let y = x.exp();
    if x > T::LARGEST_EXPONENT { -T::NEG_INFINITY } else { y }
}

vectorised! { fn shifted<T>(x: &mut [T], shift: T, scale: T, eps: T) = shift_all }

/// x ← scale·(e^(x − shift) + eps)
pub(super) fn exponentials<T: Real>(x: &mut [T], shift: T, scale: T, eps: T) {
    shifted(x, shift, scale, eps);
}

#[inline(always)]
fn shift_all<T: Real>(x: &mut [T], shift: T, scale: T, eps: T) {
    for x in x {
        *x = scale * (exponential(*x - shift) + eps);
    }
}

/// Copies rows `[count, width]` of every task, `offset` into its part of the memory, to the tokens from `first` on of `out`
/// `[batch, length, heads, width]`.
///
/// Heads lie side by side in `out`, so no task could be lent its own rows of it; tasks write to their own memory a stripe
/// at a time, and this hands the stripe over token by token.
pub(super) fn scatter<T: Real>(
    shape: &Shape,
    (memory, part, offset): (&[T], usize, usize),
    width: usize,
    (first, count): (usize, usize),
    out: &mut [T],
) {
    let heads = shape.heads;
    let token = heads * width;
    out.par_chunks_exact_mut(shape.length * token).enumerate().for_each(|(sequence, out)| {
        let out = &mut out[first * token..][..count * token];
        out.par_chunks_exact_mut(token).with_min_len(16).enumerate().for_each(|(row, out)| {
            for (head, out) in out.chunks_exact_mut(width).enumerate() {
                let at = (sequence * heads + head) * part + offset + row * width;
                out.copy_from_slice(&memory[at..][..width]);
            }
        });
    });
}
