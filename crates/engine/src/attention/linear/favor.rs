//! Random features of the softmax kernel: FAVOR+ (Choromanski et al., "Rethinking Attention with Performers").
//!
//! For w drawn from a normal distribution, E[e^(w·x − ‖x‖²/2) · e^(w·y − ‖y‖²/2)] = e^(x·y). With x = q·d^(−1/4), y = k·d^(−1/4)
//! that is the weight of softmax attention, e^(q·k/√d), and m draws make m features whose inner product is its estimate:
//! positive, unbiased, and better the more there are. Draws that are orthogonal to each other estimate it better than
//! independent ones.

use super::rows::dot;
use crate::graph::mix;
use crate::ops::Real;
use crate::ops::multiply::{Strided, Threads, multiply};
use crate::{Error, Result};
use rayon::prelude::*;
use std::f64::consts::TAU;

/// Projections of FAVOR+: φ_f(x) = (e^(w_f·x̂ − ‖x̂‖²/2 − shift) + eps) / √m with x̂ = x·d^(−1/4).
#[derive(Clone, Debug, PartialEq)]
pub struct Favor<T> {
    head_dim: usize,
    features: usize,
    eps: f64,
    /// w `[features, head_dim]`
    projections: Vec<T>,
}

/// Rows worked on at a time.
const BLOCK: usize = 128;

impl<T: Real> Favor<T> {
    /// `features` projections of vectors of `head_dim` numbers, drawn from `seed` and nothing else: in blocks of `head_dim`
    /// orthogonal rows, each as long as a row of independent normal numbers would be.
    ///
    /// `features` is even, so that the features can be rotated in pairs; d·ln d is usual. `eps` keeps features away from 0
    /// (performer-pytorch has 1e-4); with 0 the estimate is unbiased, and shifts cancel exactly.
    pub fn new(head_dim: usize, features: usize, eps: f64, seed: u64) -> Result<Self> {
        if head_dim == 0 {
            return Err(Error::input("head_dim", head_dim, "at least 1"));
        }
        if features == 0 || !features.is_multiple_of(2) {
            return Err(Error::input(
                "the number of random features",
                features,
                "an even number, at least 2",
            ));
        }
        if !(eps >= 0.0 && eps.is_finite()) {
            return Err(Error::input("the eps of random features", eps, "0 or more"));
        }
        let projections = draw(head_dim, features, seed)?.into_iter().map(T::of).collect();
        Ok(Favor { head_dim, features, eps, projections })
    }

    /// How many features there are.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The projections w, `[features, head_dim]`.
    pub fn projections(&self) -> &[T] {
        &self.projections
    }

    /// 1/√m
    pub(super) fn scale(&self) -> T {
        T::of(1.0 / (self.features as f64).sqrt())
    }

    pub(super) fn eps(&self) -> T {
        T::of(self.eps)
    }

    /// d^(−1/4)
    fn shrink(&self) -> f64 {
        (self.head_dim as f64).powf(-0.25)
    }

    /// out = w_f·x̂ − ‖x̂‖²/2: x `[rows, head_dim]`, out `[rows, features]`.
    pub(super) fn exponents(&self, x: &[T], out: &mut [T]) {
        let (d, m) = (self.head_dim, self.features);
        assert_eq!(x.len() / d * m, out.len(), "random features are drawn for one size of heads");
        let shrink = self.shrink();
        let half = T::of(shrink * shrink / 2.0);
        let blocks = out.par_chunks_mut(BLOCK * m).zip(x.par_chunks(BLOCK * d));
        blocks.for_each(|(out, x)| {
            let w = Strided::rows(&self.projections, d).transposed();
            multiply((out, m), Strided::rows(x, d), w, [x.len() / d, m, d], shrink, false, Threads::One);
            for (out, x) in out.chunks_exact_mut(m).zip(x.chunks_exact(d)) {
                let square = half * dot(x, x);
                out.iter_mut().for_each(|x| *x = *x - square);
            }
        });
    }

    /// dx = d^(−1/4)·(Σ_f t_f w_f − x̂·Σ_f t_f) with t_f = dy_f·e^(…)/√m, the shift a constant. Leaves t in `dy`.
    pub(super) fn backward(&self, x: &[T], y: &[T], dy: &mut [T], dx: &mut [T]) {
        let (d, m) = (self.head_dim, self.features);
        let shrink = self.shrink();
        let square = T::of(shrink * shrink);
        let floor = self.scale() * self.eps();
        let blocks = dx.par_chunks_mut(BLOCK * d).zip(x.par_chunks(BLOCK * d));
        let blocks = blocks.zip(dy.par_chunks_mut(BLOCK * m).zip(y.par_chunks(BLOCK * m)));
        blocks.for_each(|((dx, x), (dy, y))| {
            for (dy, &y) in dy.iter_mut().zip(y) {
                *dy *= y - floor;
            }
            let w = Strided::rows(&self.projections, d);
            multiply((dx, d), Strided::rows(dy, m), w, [x.len() / d, d, m], shrink, false, Threads::One);
            for ((dx, x), dy) in dx.chunks_exact_mut(d).zip(x.chunks_exact(d)).zip(dy.chunks_exact(m)) {
                let total = square * dy.iter().copied().sum();
                for (dx, &x) in dx.iter_mut().zip(x) {
                    *dx = *dx - total * x;
                }
            }
        });
    }
}

/// Rows `[features, head_dim]`: blocks of orthogonal directions, each row with the length of a normal vector of its own.
fn draw(head_dim: usize, features: usize, seed: u64) -> Result<Vec<f64>> {
    let len = features.checked_mul(head_dim).and_then(|len| crate::ops::memory::filled(len, 0.0));
    let mut rows: Vec<f64> = len.ok_or(Error::Memory { what: "random features" })?;
    for index in 0..features {
        let at = index * head_dim;
        // Rows of the same block that are there already.
        let (before, rest) = rows.split_at_mut(at);
        let block = &before[index / head_dim * head_dim * head_dim..];
        let row = &mut rest[..head_dim];
        for (column, x) in row.iter_mut().enumerate() {
            *x = normal(seed, 0, (at + column) as u64);
        }
        // Gram–Schmidt, twice: the second time removes what rounding left of the first.
        for _ in 0..2 {
            for other in block.chunks_exact(head_dim) {
                let along = dot(row, other) / dot(other, other);
                row.iter_mut().zip(other).for_each(|(x, other)| *x -= along * other);
            }
        }
        let length: f64 = (0..head_dim).map(|column| normal(seed, 1, (at + column) as u64).powi(2)).sum();
        let scale = (length / dot(row, row)).sqrt();
        row.iter_mut().for_each(|x| *x *= scale);
    }
    Ok(rows)
}

/// A normal number for (seed, stream, index), whatever was drawn before: Box–Muller over two numbers of SplitMix64.
fn normal(seed: u64, stream: u64, index: u64) -> f64 {
    let unit = |half: u64| {
        let bits = [stream, index, half].iter().fold(mix(seed), |state, &value| mix(state ^ value));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    };
    // 1 − u is in (0, 1], where the logarithm is finite.
    (-2.0 * (1.0 - unit(0)).ln()).sqrt() * (TAU * unit(1)).cos()
}
