//! Linear attention by its definition, every query against every key.

use super::rows::{Head, add, dot, inverse};
use super::{Inputs, Options, Shape};
use crate::ops::Real;
use rayon::prelude::*;

/// out_i = Σ_j w_ij (qn_i·kn_j) v_j / (Σ_j w_ij (qd_i·kd_j) + eps) with w_ij = exp(B_ij): what
/// [`attend`](super::attend) must give where there is no bias, and what attention with a bias on its scores would be.
///
/// `bias` is `[heads, length, length]`; 0 if there is none. `out` is `[batch, length, heads, value_dim]`. Takes O(length²).
///
/// A bias on scores, as T5 has it, is a factor exp(B_ij) on the weights. It differs for every query, so Σ_j exp(B_ij) kn_j
/// v_jᵀ is another matrix for every i, and there is no one state that all queries could share. An absolute position (added to
/// the embedding) or a rotation is part of the features and costs nothing more. Of biases only special forms have a state:
/// b·(i − j) of a causal attention is a decay of S. A general b_(i−j) is a convolution, for which O(L log L) is
/// known, but with m·e transforms of the whole sequence.
pub fn quadratic<T: Real>(
    shape: &Shape,
    inputs: &Inputs<T>,
    options: &Options,
    bias: Option<&[T]>,
    out: &mut [T],
) {
    shape.check(inputs, options, out);
    let Shape { length, heads, value_dim, features, .. } = *shape;
    assert!(bias.is_none_or(|bias| bias.len() == heads * length * length), "a bias for every pair");
    out.par_chunks_exact_mut(heads * value_dim).enumerate().for_each(|(token, out)| {
        let (sequence, query) = (token / length, token % length);
        for (index, out) in out.chunks_exact_mut(value_dim).enumerate() {
            let task = sequence * heads + index;
            let head = Head::new(shape, inputs, options, task);
            let keys = Head::part(shape, inputs.kn, features, task);
            let values = Head::part(shape, inputs.v, value_dim, task);
            let visible = if options.causal { query + 1 } else { length };
            let mut total = T::of(options.eps);
            out.fill(T::ZERO);
            for key in (0..visible).filter(|&key| head.is_there(key)) {
                let weight = bias.map_or(T::ONE, |bias| {
                    T::of(bias[(index * length + query) * length + key].to_f64().exp())
                });
                let score = dot(head.qn(query), &keys[key * heads * features..][..features]);
                add(out, weight * score, &values[key * heads * value_dim..][..value_dim]);
                total += weight * dot(head.qd(query), head.kd(key));
            }
            let scale = inverse(total);
            out.iter_mut().for_each(|x| *x *= scale);
        }
    });
}
