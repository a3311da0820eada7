//! Fills the rows of a table with cosines and sines.
//!
//! A range of positions is filled in blocks: the angle-sum formulas turn an exact row at the block's first position
//! and exact rows for the offsets 0 … `BLOCK` − 1 into all rows of the block, at two products and a sum per entry. In
//! `f64` that costs 2^-52, far below the rounding to `f32`. Everything here is safe code, compiled once more for each
//! instruction set by the callers in this folder.

use crate::element::Precision;
use crate::schedule::AnglePrecision;
use crate::trig::Angle;

/// Rows in a block. 32 rows of 64 pairs are 32 KiB of offsets, which stay in the first-level cache.
pub(crate) const BLOCK: usize = 32;
/// Pairs worked on at a time, so that the row at the block's start fits on the stack.
const TILE: usize = 64;

/// Exact rows for the offsets 0 … `BLOCK` − 1: `cos` and `sin` are `[BLOCK, pairs]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    pub cos: Vec<f64>,
    pub sin: Vec<f64>,
}

/// Fills `offsets` for the frequencies `high + low`.
#[inline(always)]
pub(super) fn offsets(high: &[f64], low: &[f64], offsets: &mut Offsets) {
    let pairs = high.len();
    for offset in 0..BLOCK {
        for pair in 0..pairs {
            let (sin, cos) = Angle::product(offset as f64, high[pair], low[pair]).sin_cos();
            offsets.sin[offset * pairs + pair] = sin;
            offsets.cos[offset * pairs + pair] = cos;
        }
    }
}

/// Fills at most `BLOCK` rows `[rows, pairs]` for the positions `first`, `first` + 1, …, scaled by `scale`.
#[inline(always)]
pub(super) fn block<P: Precision>(
    high: &[f64],
    low: &[f64],
    offsets: &Offsets,
    first: f64,
    scale: f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    let pairs = high.len();
    for from in (0..pairs).step_by(TILE) {
        let width = TILE.min(pairs - from);
        let (mut start_cos, mut start_sin) = ([0.0; TILE], [0.0; TILE]);
        for pair in 0..width {
            let angle = Angle::product(first, high[from + pair], low[from + pair]);
            let (sin, cos) = angle.sin_cos();
            start_sin[pair] = sin * scale;
            start_cos[pair] = cos * scale;
        }
        for (row, (cos, sin)) in cos.chunks_exact_mut(pairs).zip(sin.chunks_exact_mut(pairs)).enumerate() {
            let at = row * pairs + from;
            let (step_cos, step_sin) = (&offsets.cos[at..at + width], &offsets.sin[at..at + width]);
            let (cos, sin) = (&mut cos[from..from + width], &mut sin[from..from + width]);
            let (start_cos, start_sin) = (&start_cos[..width], &start_sin[..width]);
            for pair in 0..width {
                let (c, s) = (start_cos[pair], start_sin[pair]);
                cos[pair] = P::from_f64(c * step_cos[pair] - s * step_sin[pair]);
                sin[pair] = P::from_f64(s * step_cos[pair] + c * step_sin[pair]);
            }
        }
    }
}

/// Fills one row `[pairs]` with the cosines and sines of `angle(pair)`, scaled by `scale(pair)`.
#[inline(always)]
pub(super) fn row<P: Precision>(
    precision: AnglePrecision,
    angle: impl Fn(usize) -> Angle,
    scale: impl Fn(usize) -> f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    for (pair, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
        let (s, c) = angle(pair).sin_cos();
        let scale = scale(pair);
        (*cos, *sin) = match precision {
            AnglePrecision::Exact => (P::from_f64(c * scale), P::from_f64(s * scale)),
            // Single precision rounds the cosine first and multiplies by the factor after.
            AnglePrecision::F32 => (
                P::from_f64(f64::from(c as f32 * scale as f32)),
                P::from_f64(f64::from(s as f32 * scale as f32)),
            ),
        };
    }
}
