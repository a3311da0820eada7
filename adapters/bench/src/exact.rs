//! Llama-3-8B's queries and keys, and every rotated number of them beside the reference in f64.

use crate::Result;
use rayon::prelude::*;
use rope::{Pairing, Rope, reference};

/// Of queries and keys.
pub const HEADS: [usize; 2] = [32, 8];
pub const HEAD_DIM: usize = 128;
const PAIRS: usize = HEAD_DIM / 2;

/// Numbers between −1 and 1 that differ.
pub fn wave(count: usize, seed: u32) -> Vec<f32> {
    let value = |index: u32| {
        let mixed = (index + seed).wrapping_mul(0x9E37_79B9) ^ (index >> 7);
        f64::from(mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count as u32).map(value).collect()
}

/// Every number beside the reference in f64: within `bound(position, θ)` of the length of its pair. `length` is given where tokens stand
/// side by side; else heads do.
pub fn check(
    before: &[f32],
    after: &[f32],
    pairing: Pairing,
    length: Option<usize>,
    heads: usize,
    bound: impl Fn(f64, f64) -> f64 + Sync,
) -> Result<()> {
    let frequencies = Rope::builder(HEAD_DIM).pairing(pairing).build()?.frequencies(None);
    let theta = frequencies.inv_freq();
    if before.len() != after.len() {
        return Err("another number of numbers".into());
    }
    let vectors = before.par_chunks(HEAD_DIM).zip(after.par_chunks(HEAD_DIM)).enumerate();
    vectors.try_for_each(|(vector, (before, after))| {
        let token = length.map_or(vector / heads, |length| vector % length);
        let x: Vec<f64> = before.iter().map(|&x| x.into()).collect();
        let exact = reference::rotate(&x, token as f64, theta, 1.0, pairing);
        for (pair, &theta) in theta.iter().enumerate() {
            let (a, b) = pairing.features(pair, PAIRS);
            let bound = bound(token as f64, theta) * x[a].hypot(x[b]);
            for feature in [a, b] {
                let got = f64::from(after[feature]);
                let off = (got - exact[feature]).abs();
                if off.is_nan() || off > bound {
                    let exact = exact[feature];
                    return Err(
                        format!("token {token}, feature {feature}: {got} where {exact} is right").into()
                    );
                }
            }
        }
        Ok(())
    })
}
