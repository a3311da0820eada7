//! Whether a peer's numbers are right: every one of them beside the f64 reference, with a bound that follows from the
//! peer's arithmetic. What is within the bound of the reference agrees.

use crate::numbers::{HEAD_DIM, LENGTH, Llama, Number, PAIRS, rope};
use crate::peers::Peer;
use candle_core::{Error, Result};
use rayon::prelude::*;
use rope::{Pairing, reference};

/// The largest error of a peer's first rotation, in roundings u of its type, relative to the length |x| of the pair.
///
/// Each result is x₀·cos − x₁·sin or its sister. A peer that computes in the type of its data rounds the cosine and
/// sine, both products and their sum: u·(|x₀·cos| + |x₁·sin|) ≤ u·|x| for each of the first two and u·|x| for the last,
/// so 3u·|x|, and a little for the products of these errors. Ours rounds bf16 once, in the end, so it is well within.
/// An angle that is off by δ moves the result by δ·|x| at most.
pub fn largest_error<T: Number>(peer: &Peer<T>, before: &Llama<T>) -> Result<f64> {
    let [q, k] = peer.job.result()?;
    let (name, pairing) = (peer.name, peer.pairing);
    let theta = rope(pairing).map_err(Error::wrap)?.frequencies(None);
    let theta = theta.inv_freq();
    let bounds: Vec<f64> = (0..LENGTH * PAIRS)
        .map(|at| {
            let (position, theta) = ((at / PAIRS) as f64, theta[at % PAIRS]);
            3.0 * (1.0 + 4.0 * T::ROUNDING) * T::ROUNDING + peer.job.angle_error(position, theta)
        })
        .collect();
    let worst_of = |(index, (before, after)): (usize, (&[T], &[T]))| {
        let token = index % LENGTH;
        let x: Vec<f64> = before.iter().map(|x| x.to_f64()).collect();
        let exact = reference::rotate(&x, token as f64, theta, 1.0, pairing);
        let mut worst = 0f64;
        for (feature, (exact, got)) in exact.iter().zip(after).enumerate() {
            let (pair, other) = match pairing {
                Pairing::Interleaved => (feature / 2, feature ^ 1),
                _ => (feature % PAIRS, feature ^ PAIRS),
            };
            let length = x[feature].hypot(x[other]);
            let error = (got.to_f64() - exact).abs();
            // False for NaN, too.
            let right = error <= bounds[token * PAIRS + pair] * length;
            if !right {
                return Err(Error::msg(format!(
                    "{}, {}, token {token}, feature {feature}: {} where {exact} is right",
                    name,
                    T::DTYPE.as_str(),
                    got.to_f64()
                )));
            }
            worst = worst.max(error / length.max(f64::MIN_POSITIVE));
        }
        Ok(worst / T::ROUNDING)
    };
    let vectors = |before: &[T], after: &[T]| {
        assert_eq!(before.len(), after.len());
        let pairs = before.par_chunks(HEAD_DIM).zip(after.par_chunks(HEAD_DIM)).enumerate();
        pairs.map(worst_of).try_reduce(|| 0.0, |a, b| Ok(a.max(b)))
    };
    Ok(vectors(&before.q, &q)?.max(vectors(&before.k, &k)?))
}
