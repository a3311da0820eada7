//! Two softmaxes of the same queries over different keys, made one.

use crate::ops::Real;
use rayon::prelude::*;

/// Joins the results of an attention over other keys: `out` and `other` are `[batch, queries, heads · head_dim]`, `lse` and
/// `other_lse` the logarithms of their sums of exponentials, `[batch, queries, heads]`. A query that sees none of the other keys
/// keeps its bits.
pub(crate) fn merge<T: Real>(
    (out, lse): (&mut [T], &mut [T]),
    (other, other_lse): (&[T], &[T]),
    head_dim: usize,
) {
    let rows =
        out.par_chunks_exact_mut(head_dim).zip(lse).zip(other.par_chunks_exact(head_dim).zip(other_lse));
    rows.for_each(|((out, lse), (other, &other_lse))| {
        if other_lse == T::NEG_INFINITY {
            return;
        }
        let largest = lse.to_f64().max(other_lse.to_f64());
        let [own, added] = [*lse, other_lse].map(|lse| (lse.to_f64() - largest).exp());
        let (own_part, added_part) = (T::of(own / (own + added)), T::of(added / (own + added)));
        out.iter_mut().zip(other).for_each(|(out, &other)| *out = *out * own_part + other * added_part);
        *lse = T::of(largest + (own + added).ln());
    });
}
