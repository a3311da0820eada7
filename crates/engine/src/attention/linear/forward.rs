//! Linear attention of whole sequences.

use super::rows::{Head, add, dot, inverse, product, scatter};
use super::workspace::{CHUNK, Part, STRIPE};
use super::{Inputs, Options, Shape, Workspace};
use crate::ops::Real;
use crate::ops::multiply::Strided;
use rayon::prelude::*;

/// out_i = Σ_j (qn_i·kn_j) v_j / (Σ_j qd_i·kd_j + eps), over all keys that are there or, `causal`, those with j ≤ i.
///
/// `out` is `[batch, length, heads, value_dim]`. Takes O(length·m·e) for each head, causal or not. `false` if there was not
/// enough memory.
#[must_use]
pub fn attend<T: Real>(
    shape: &Shape,
    inputs: &Inputs<T>,
    options: &Options,
    out: &mut [T],
    workspace: &mut Workspace<T>,
) -> bool {
    shape.check(inputs, options, out);
    if out.is_empty() {
        return true;
    }
    let Some(part) = workspace.fit(shape, false) else { return false };
    workspace.memory.par_chunks_exact_mut(part).for_each(|memory| {
        let part = Part::split(shape, false, memory);
        part.s.fill(T::ZERO);
        part.z.fill(T::ZERO);
    });
    run(shape, inputs, options, out, (&mut workspace.memory, part));
    true
}

/// Attends from the states that lie in the memory on, and leaves the new ones there.
pub(super) fn run<T: Real>(
    shape: &Shape,
    inputs: &Inputs<T>,
    options: &Options,
    out: &mut [T],
    (memory, part): (&mut [T], usize),
) {
    if !options.causal {
        memory.par_chunks_exact_mut(part).enumerate().for_each(|(task, memory)| {
            let head = Head::new(shape, inputs, options, task);
            sum_keys(shape, &head, &mut Part::split(shape, false, memory));
        });
    }
    for first in (0..shape.length).step_by(STRIPE) {
        let count = STRIPE.min(shape.length - first);
        memory.par_chunks_exact_mut(part).enumerate().for_each(|(task, memory)| {
            let head = Head::new(shape, inputs, options, task);
            let mut part = Part::split(shape, false, memory);
            for start in (first..first + count).step_by(CHUNK) {
                chunk(shape, &head, options, (start, CHUNK.min(first + count - start)), first, &mut part);
            }
        });
        scatter(shape, (memory, part, 0), shape.value_dim, (first, count), out);
    }
}

/// Adds all keys that are there to S and z.
pub(super) fn sum_keys<T: Real>(shape: &Shape, head: &Head<T>, part: &mut Part<T>) {
    for start in (0..shape.length).step_by(CHUNK) {
        let count = CHUNK.min(shape.length - start);
        head.gather(start, count, part.keys, part.values);
        add_state(shape, count, part);
        for token in (start..start + count).filter(|&token| head.is_there(token)) {
            add(part.z, T::ONE, head.kd(token));
        }
    }
}

/// S += Σ kn_j v_jᵀ over the chunk that was gathered.
pub(super) fn add_state<T: Real>(shape: &Shape, count: usize, part: &mut Part<T>) {
    let (m, e) = (shape.features, shape.value_dim);
    let keys = Strided::rows(part.keys, m).transposed();
    product(part.s, e, keys, Strided::rows(part.values, e), [m, e, count], true);
}

/// Leaves the pairs with j ≤ i of `[count, count]`, rows i `step` apart.
pub(super) fn keep_past<T: Real>(scores: &mut [T], step: usize, count: usize) {
    for (row, scores) in scores.chunks_exact_mut(step).take(count).enumerate() {
        scores[row + 1..].fill(T::ZERO);
    }
}

/// `count` queries from `start` on, whose results go to the stripe that begins at `first`.
fn chunk<T: Real>(
    shape: &Shape,
    head: &Head<T>,
    options: &Options,
    (start, count): (usize, usize),
    first: usize,
    part: &mut Part<T>,
) {
    let (m, e) = (shape.features, shape.value_dim);
    let step = Part::<T>::score_step(shape);
    let queries = head.queries(start);
    let out = &mut part.rows[(start - first) * e..][..count * e];
    product(out, e, queries, Strided::rows(part.s, e), [count, e, m], false);
    if options.causal {
        head.gather(start, count, part.keys, part.values);
        let keys = Strided::rows(part.keys, m).transposed();
        product(part.scores, step, queries, keys, [count, count, m], false);
        keep_past(part.scores, step, count);
        let scores = Strided::rows(part.scores, step);
        let values = Strided::rows(part.values, e);
        product(out, e, scores, values, [count, e, count], true);
        add_state(shape, count, part);
    }
    let out = &mut part.rows[(start - first) * e..][..count * e];
    for (token, out) in (start..).zip(out.chunks_exact_mut(e)) {
        if options.causal && head.is_there(token) {
            add(part.z, T::ONE, head.kd(token));
        }
        let scale = inverse(dot(head.qd(token), part.z) + T::of(options.eps));
        out.iter_mut().for_each(|x| *x *= scale);
    }
}
