//! Norms that are taken before products: of the sum so far, which is kept, and of single heads.

use super::backend::HeadRows;
use super::norm::{layer_norm, rms_norm};
use super::real::Real;
use rayon::prelude::*;

/// Numbers below which one thread does the work.
const PARALLEL_NUMBERS: usize = 1 << 15;

/// x ← x + delta and out = norm(x), row by row of `[rows, width]`, where width is the weight's length; without a delta if it
/// is empty. The norm is [`layer_norm`] where there is a bias, else [`rms_norm`].
pub fn add_norm<T: Real>(
    x: &mut [T],
    delta: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    epsilon: f64,
    out: &mut [T],
) {
    let width = weight.len();
    assert!(x.len() == out.len() && (delta.is_empty() || delta.len() == x.len()), "shapes of a norm");
    if width == 0 {
        return;
    }
    let row = |(index, (x, out)): (usize, (&mut [T], &mut [T]))| {
        if !delta.is_empty() {
            x.iter_mut().zip(&delta[index * width..]).for_each(|(x, delta)| *x += *delta);
        }
        // A row is in the nearest cache by now.
        out.copy_from_slice(x);
        match bias {
            Some(bias) => layer_norm(out, &[], weight, bias, epsilon),
            None => rms_norm(out, &[], weight, epsilon),
        }
    };
    if x.len() < PARALLEL_NUMBERS {
        x.chunks_exact_mut(width).zip(out.chunks_exact_mut(width)).enumerate().for_each(row);
    } else {
        let rows = x.par_chunks_exact_mut(width).zip(out.par_chunks_exact_mut(width));
        rows.with_min_len(8).enumerate().for_each(row);
    }
}

/// Norms heads of the weight's length as [`rms_norm`] does rows.
pub fn rms_norm_heads<T: Real>(x: &mut [T], heads: HeadRows, weight: &[T], epsilon: f64) {
    let HeadRows { step, offset, heads } = heads;
    let len = heads * weight.len();
    assert!(offset + len <= step, "heads within their row");
    if len == 0 {
        return;
    }
    let row = |row: &mut [T]| rms_norm(&mut row[offset..][..len], &[], weight, epsilon);
    if x.len() < PARALLEL_NUMBERS {
        x.chunks_exact_mut(step).for_each(row);
    } else {
        x.par_chunks_exact_mut(step).with_min_len(8).for_each(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: usize) -> Vec<f64> {
        (0..len).map(|i| ((i * 37 + seed * 11) % 23) as f64 / 8.0 - 1.2).collect()
    }

    #[test]
    fn sums_are_kept_and_normed() {
        for (rows, width) in [(1, 1), (3, 7), (2, 64), (70, 700)] {
            let (start, delta, weight) =
                (numbers(rows * width, 1), numbers(rows * width, 2), numbers(width, 3));
            for delta in [&[][..], &delta] {
                let bias = numbers(width, 5);
                for bias in [None, Some(&bias[..])] {
                    let (mut x, mut out) = (start.clone(), vec![9.0; rows * width]);
                    add_norm(&mut x, delta, &weight, bias, 1e-6, &mut out);
                    let mut normed: Vec<f64> =
                        start.iter().enumerate().map(|(i, x)| x + delta.get(i).unwrap_or(&0.0)).collect();
                    assert_eq!(x, normed);
                    match bias {
                        Some(bias) => layer_norm(&mut normed, &[], &weight, bias, 1e-6),
                        None => rms_norm(&mut normed, &[], &weight, 1e-6),
                    }
                    assert_eq!(out, normed);
                }
            }
        }
    }

    #[test]
    fn heads_are_normed_where_they_stand() {
        for (rows, step, offset, heads, dim) in [(1, 4, 0, 1, 4), (5, 30, 8, 2, 6), (300, 200, 64, 2, 32)] {
            let (start, weight) = (numbers(rows * step, 1), numbers(dim, 4));
            let mut x = start.clone();
            rms_norm_heads(&mut x, HeadRows { step, offset, heads }, &weight, 1e-6);
            for (index, (row, was)) in x.chunks(step).zip(start.chunks(step)).enumerate() {
                let mut wanted = was.to_vec();
                for head in 0..heads {
                    rms_norm(&mut wanted[offset + head * dim..][..dim], &[], &weight, 1e-6);
                }
                assert_eq!(row, wanted, "row {index}");
            }
        }
    }
}
