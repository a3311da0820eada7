//! Gradients of linear attention.
//!
//! With N_i the numerator, D_i the denominator and g_i the gradient of out_i = N_i / D_i:
//!
//! ```text
//! dN_i  = g_i / D_i              dD_i  = −(g_i·out_i) / D_i = −(qn_i·dqn_i) / D_i
//! dqn_i = S_i dN_i               dqd_i = dD_i z_i             with S_i, z_i the sums over the keys that i sees
//! dkn_j = dS_j v_j               dkd_j = dz_j                 with dS_j = Σ_i qn_i dN_iᵀ, dz_j = Σ_i dD_i qd_i
//! dv_j  = dS_jᵀ kn_j                                          over the queries that see j
//! ```
//!
//! The second form of dD needs no outputs: S_i g_i, wanted anyway, has g_i·N_i in it. Queries come first, with S and z as
//! the forward makes them; keys second, from the last chunk to the first, with dS and dz growing as later queries are
//! passed. Of every token only 1/D and dD are kept between the two.

use super::forward::{add_state, keep_past, sum_keys};
use super::rows::{Head, add, dot, inverse, product, scaled, scatter};
use super::workspace::{CHUNK, Part, STRIPE};
use super::{Gradients, Inputs, Options, Shape, Workspace};
use crate::ops::Real;
use crate::ops::multiply::Strided;
use rayon::prelude::*;

/// The gradients of all inputs of [`attend`](super::attend), from the gradient `dout` of its output
/// `[batch, length, heads, value_dim]`, in the same time O(length·m·e) for each head. `false` if there was not enough memory.
#[must_use]
pub fn attend_backward<T: Real>(
    shape: &Shape,
    inputs: &Inputs<T>,
    options: &Options,
    dout: &[T],
    gradients: Gradients<T>,
    workspace: &mut Workspace<T>,
) -> bool {
    shape.check(inputs, options, dout);
    let Gradients { qn, kn, qd, kd, v } = gradients;
    for gradient in [&qn, &kn, &qd, &kd] {
        assert_eq!(gradient.len(), inputs.qn.len(), "the gradients of features");
    }
    assert_eq!(v.len(), inputs.v.len(), "the gradient of values");
    if dout.is_empty() {
        return true;
    }
    let Some(part) = workspace.fit(shape, true) else { return false };
    let memory = &mut workspace.memory[..];
    let (m, e) = (shape.features, shape.value_dim);
    memory.par_chunks_exact_mut(part).enumerate().for_each(|(task, memory)| {
        let mut part = Part::split(shape, true, memory);
        for sums in [&mut *part.s, &mut *part.z, &mut *part.ds, &mut *part.dz] {
            sums.fill(T::ZERO);
        }
        if !options.causal {
            sum_keys(shape, &Head::new(shape, inputs, options, task), &mut part);
        }
    });
    let stripe = STRIPE.min(shape.length);
    let stripes = (0..shape.length).step_by(STRIPE);
    for first in stripes.clone() {
        let count = STRIPE.min(shape.length - first);
        memory.par_chunks_exact_mut(part).enumerate().for_each(|(task, memory)| {
            let pass = Pass::new(shape, inputs, options, dout, task);
            let mut part = Part::split(shape, true, memory);
            for start in (first..first + count).step_by(CHUNK) {
                pass.queries((start, CHUNK.min(first + count - start)), first, &mut part);
            }
        });
        scatter(shape, (memory, part, 0), m, (first, count), qn);
        scatter(shape, (memory, part, stripe * m), m, (first, count), qd);
    }
    for first in stripes.rev() {
        let count = STRIPE.min(shape.length - first);
        memory.par_chunks_exact_mut(part).enumerate().for_each(|(task, memory)| {
            let pass = Pass::new(shape, inputs, options, dout, task);
            let mut part = Part::split(shape, true, memory);
            for start in (first..first + count).step_by(CHUNK).rev() {
                pass.keys((start, CHUNK.min(first + count - start)), first, &mut part);
            }
        });
        scatter(shape, (memory, part, 0), m, (first, count), kn);
        scatter(shape, (memory, part, stripe * m), m, (first, count), kd);
        scatter(shape, (memory, part, 2 * stripe * m), e, (first, count), v);
    }
    true
}

/// What a task reads.
struct Pass<'a, T> {
    shape: &'a Shape,
    head: Head<'a, T>,
    causal: bool,
    eps: T,
    /// From the gradient of the head's first output on.
    dout: &'a [T],
}

impl<'a, T: Real> Pass<'a, T> {
    fn new(
        shape: &'a Shape,
        inputs: &Inputs<'a, T>,
        options: &Options<'a>,
        dout: &'a [T],
        task: usize,
    ) -> Self {
        Pass {
            shape,
            head: Head::new(shape, inputs, options, task),
            causal: options.causal,
            eps: T::of(options.eps),
            dout: Head::part(shape, dout, shape.value_dim, task),
        }
    }

    /// Numbers from one output to the next.
    fn step(&self) -> usize {
        self.shape.heads * self.shape.value_dim
    }

    /// Gradients of `count` queries from `start` on. Without a causal mask it also adds them to dS and dz.
    fn queries(&self, (start, count): (usize, usize), first: usize, part: &mut Part<T>) {
        let (m, e) = (self.shape.features, self.shape.value_dim);
        let score_step = Part::<T>::score_step(self.shape);
        let dout = Strided::rows(&self.dout[start * self.step()..], self.step());
        let (dqn, rest) = part.rows.split_at_mut(STRIPE.min(self.shape.length) * m);
        let dqn = &mut dqn[(start - first) * m..][..count * m];
        let dqd = &mut rest[(start - first) * m..][..count * m];
        let state = Strided::rows(part.s, e).transposed();
        product(dqn, m, dout, state, [count, m, e], false);
        if self.causal {
            self.head.gather(start, count, part.keys, part.values);
            let values = Strided::rows(part.values, e).transposed();
            product(part.scores, score_step, dout, values, [count, count, e], false);
            keep_past(part.scores, score_step, count);
            let (scores, keys) = (Strided::rows(part.scores, score_step), Strided::rows(part.keys, m));
            product(dqn, m, scores, keys, [count, m, count], true);
        }
        for row in 0..count {
            let token = start + row;
            if self.causal && self.head.is_there(token) {
                add(part.z, T::ONE, self.head.kd(token));
            }
            let inverse = inverse(dot(self.head.qd(token), part.z) + self.eps);
            let dqn = &mut dqn[row * m..][..m];
            dqn.iter_mut().for_each(|x| *x *= inverse);
            let dd = -(dot(self.head.qn(token), dqn) * inverse);
            scaled(&mut dqd[row * m..][..m], dd, part.z);
            (part.inverses[token], part.dd[token]) = (inverse, dd);
            if !self.causal {
                add(part.dz, dd, self.head.qd(token));
            }
        }
        if self.causal {
            add_state(self.shape, count, part);
        } else {
            self.divide(start, count, part);
            self.add_state_gradient(start, count, part);
        }
    }

    /// Gradients of `count` keys and values from `start` on.
    fn keys(&self, (start, count): (usize, usize), first: usize, part: &mut Part<T>) {
        let (m, e) = (self.shape.features, self.shape.value_dim);
        let (stripe, score_step) = (STRIPE.min(self.shape.length), Part::<T>::score_step(self.shape));
        self.head.gather(start, count, part.keys, part.values);
        if self.causal {
            self.divide(start, count, part);
        }
        let (dkn, rest) = part.rows.split_at_mut(stripe * m);
        let (dkd, dv) = rest.split_at_mut(stripe * m);
        let dkn = &mut dkn[(start - first) * m..][..count * m];
        let dkd = &mut dkd[(start - first) * m..][..count * m];
        let dv = &mut dv[(start - first) * e..][..count * e];
        let (keys, values) = (Strided::rows(part.keys, m), Strided::rows(part.values, e));
        let (dn, state) = (Strided::rows(part.dn, e), Strided::rows(part.ds, e));
        product(dkn, m, values, state.transposed(), [count, m, e], false);
        product(dv, e, keys, state, [count, e, m], false);
        if self.causal {
            let queries = self.head.queries(start);
            // Pairs as rows of queries, as everywhere; the products read them transposed.
            product(part.scores, score_step, dn, values.transposed(), [count, count, e], false);
            keep_past(part.scores, score_step, count);
            let transposed = Strided::rows(part.scores, score_step).transposed();
            product(dkn, m, transposed, queries, [count, m, count], true);
            product(part.scores, score_step, queries, keys.transposed(), [count, count, m], false);
            keep_past(part.scores, score_step, count);
            let transposed = Strided::rows(part.scores, score_step).transposed();
            product(dv, e, transposed, dn, [count, e, count], true);
        }
        for row in (0..count).rev() {
            let token = start + row;
            if self.causal {
                add(part.dz, part.dd[token], self.head.qd(token));
            }
            let dkd = &mut dkd[row * m..][..m];
            match self.head.is_there(token) {
                true => dkd.copy_from_slice(part.dz),
                false => dkd.fill(T::ZERO),
            }
        }
        if self.causal {
            self.add_state_gradient(start, count, part);
        }
    }

    /// dN = g / D of a chunk.
    fn divide(&self, start: usize, count: usize, part: &mut Part<T>) {
        let e = self.shape.value_dim;
        for (row, dn) in part.dn.chunks_exact_mut(e).take(count).enumerate() {
            let token = start + row;
            scaled(dn, part.inverses[token], &self.dout[token * self.step()..][..e]);
        }
    }

    /// dS += Σ qn_i dN_iᵀ over a chunk.
    fn add_state_gradient(&self, start: usize, count: usize, part: &mut Part<T>) {
        let (m, e) = (self.shape.features, self.shape.value_dim);
        let queries = self.head.queries(start).transposed();
        let dn = Strided::rows(part.dn, e);
        product(part.ds, e, queries, dn, [m, e, count], true);
    }
}
