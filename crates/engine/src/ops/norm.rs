//! Norms of rows, alone or of a sum with the residual; for training in [`training`].

pub mod training;

use super::dispatch::vectorised;
use super::real::Real;
use super::reduce::PARALLEL;
use rayon::prelude::*;

/// x ← (x + residual − mean) / √(variance + ε) · weight + bias, row by row of `[rows, width]`, where width is the
/// weight's length; without a residual if it is empty.
pub fn layer_norm<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: &[T], epsilon: f64) {
    assert_eq!(bias.len(), weight.len(), "shapes of a norm");
    norm(x, residual, weight, Some(bias), epsilon);
}

/// x ← (x + residual) / √(mean of squares + ε) · weight, row by row of `[rows, width]`, where width is the weight's
/// length; without a residual if it is empty.
pub fn rms_norm<T: Real>(x: &mut [T], residual: &[T], weight: &[T], epsilon: f64) {
    norm(x, residual, weight, None, epsilon);
}

/// A layer norm where there is a bias, else the norm by the root of the mean square.
fn norm<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: Option<&[T]>, epsilon: f64) {
    let width = weight.len();
    assert!(residual.is_empty() || residual.len() == x.len(), "shapes of a norm");
    if width == 0 {
        return;
    }
    let row = |(index, x): (usize, &mut [T])| {
        let residual = if residual.is_empty() { residual } else { &residual[index * width..][..width] };
        normalise(x, residual, weight, bias, epsilon);
    };
    if x.len() < PARALLEL {
        x.chunks_exact_mut(width).enumerate().for_each(row);
    } else {
        x.par_chunks_exact_mut(width).with_min_len(8).enumerate().for_each(row);
    }
}

vectorised! {
    fn normalise<T>(x: &mut [T], residual: &[T], weight: &[T], bias: Option<&[T]>, epsilon: f64) = normalise_row
}

#[inline(always)]
fn normalise_row<T: Real>(x: &mut [T], residual: &[T], weight: &[T], bias: Option<&[T]>, epsilon: f64) {
    for (x, residual) in x.iter_mut().zip(residual) {
        *x += *residual;
    }
    let count = T::of(x.len() as f64);
    let mean = if bias.is_some() { sum(x, |x| x) / count } else { T::ZERO };
    let variance = sum(x, |x| (x - mean) * (x - mean)) / count;
    let scale = T::ONE / (variance + T::of(epsilon)).sqrt();
    match bias {
        Some(bias) => {
            for ((x, weight), bias) in x.iter_mut().zip(weight).zip(bias) {
                *x = (*x - mean) * scale * *weight + *bias;
            }
        }
        None => x.iter_mut().zip(weight).for_each(|(x, weight)| *x = *x * scale * *weight),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_are_their_formulas() {
        for width in [1, 2, 7, 16, 33, 100] {
            let number = |i: usize, by: usize| f64::from((i * by % 97) as u32) / 31.0 - 1.4;
            let list = |by: usize, len: usize| (0..len).map(|i| number(i, by)).collect::<Vec<f64>>();
            let (x, residual, weight, bias) =
                (list(7, 3 * width), list(11, 3 * width), list(13, width), list(17, width));
            for with in [&residual[..], &[]] {
                let (mut layer, mut rms) = (x.clone(), x.clone());
                layer_norm(&mut layer, with, &weight, &bias, 1e-5);
                rms_norm(&mut rms, with, &weight, 1e-5);
                let mut single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
                let cast = |list: &[f64]| list.iter().map(|&x| x as f32).collect::<Vec<f32>>();
                layer_norm(&mut single, &cast(with), &cast(&weight), &cast(&bias), 1e-5);
                for row in 0..3 {
                    let at = |i: usize| x[row * width + i] + with.get(row * width + i).unwrap_or(&0.0);
                    let mean = (0..width).map(at).sum::<f64>() / width as f64;
                    let variance = (0..width).map(|i| (at(i) - mean).powi(2)).sum::<f64>() / width as f64;
                    let square = (0..width).map(|i| at(i).powi(2)).sum::<f64>() / width as f64;
                    for i in 0..width {
                        let exact = (at(i) - mean) / (variance + 1e-5).sqrt() * weight[i] + bias[i];
                        assert!((layer[row * width + i] - exact).abs() < 1e-11, "{width}");
                        // A row of one number has no variance, so that 1/√ε magnifies its rounding.
                        let bound = if width == 1 { 1e-3 } else { 2e-5 };
                        assert!((f64::from(single[row * width + i]) - exact).abs() < bound, "{width}");
                        let exact = at(i) / (square + 1e-5).sqrt() * weight[i];
                        assert!((rms[row * width + i] - exact).abs() < 1e-11, "{width}");
                    }
                }
            }
        }
    }
}
