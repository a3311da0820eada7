//! Layer normalisation, alone or of a sum with the residual.

use super::gemm::Level;
use super::real::Real;
use rayon::prelude::*;

/// Rows below which one thread does the work.
const PARALLEL_NUMBERS: usize = 1 << 15;

/// x ← (x + residual − mean) / √(variance + ε) · weight + bias, row by row of `[rows, width]`, where width is the
/// weight's length; without a residual if it is empty.
pub fn layer_norm<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: &[T], epsilon: f64) {
    let width = weight.len();
    assert!(bias.len() == width && (residual.is_empty() || residual.len() == x.len()), "shapes of a norm");
    if width == 0 {
        return;
    }
    let row = |(index, x): (usize, &mut [T])| {
        let residual = if residual.is_empty() { residual } else { &residual[index * width..][..width] };
        match Level::best() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that the features are there.
            Level::Avx512 => unsafe { avx512(x, residual, weight, bias, epsilon) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { avx2(x, residual, weight, bias, epsilon) },
            Level::Portable => normalise(x, residual, weight, bias, epsilon),
        }
    };
    if x.len() < PARALLEL_NUMBERS {
        x.chunks_exact_mut(width).enumerate().for_each(row);
    } else {
        x.par_chunks_exact_mut(width).with_min_len(8).enumerate().for_each(row);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn avx512<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: &[T], epsilon: f64) {
    normalise(x, residual, weight, bias, epsilon)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: &[T], epsilon: f64) {
    normalise(x, residual, weight, bias, epsilon)
}

#[inline(always)]
fn normalise<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: &[T], epsilon: f64) {
    for (x, residual) in x.iter_mut().zip(residual) {
        *x += *residual;
    }
    let count = T::of(x.len() as f64);
    let mean = sum(x, |x| x) / count;
    let variance = sum(x, |x| (x - mean) * (x - mean)) / count;
    let scale = T::ONE / (variance + T::of(epsilon)).sqrt();
    for ((x, weight), bias) in x.iter_mut().zip(weight).zip(bias) {
        *x = (*x - mean) * scale * *weight + *bias;
    }
}

/// A sum in sixteen lanes: vectorises, and rounds less than one long chain.
#[inline(always)]
fn sum<T: Real>(x: &[T], of: impl Fn(T) -> T) -> T {
    let mut lanes = [T::ZERO; 16];
    let chunks = x.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += of(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += of(x);
    }
    lanes.into_iter().sum()
}
