//! Numbers passed on as they are: sums of two values, columns of wider rows, and what goes back through them.

use super::dispatch::vectorised;
use super::real::Real;
use super::reduce::{BLOCK, PARALLEL, add_rows};
use rayon::prelude::*;

/// out = a + b, number by number; b is repeated where it is shorter, such as codes `[length, width]` for every text of
/// `[batch, length, width]`.
pub fn add<T: Real>(a: &[T], b: &[T], out: &mut [T]) {
    assert_eq!(a.len(), out.len(), "shapes of a sum");
    assert!(a.len().is_multiple_of(b.len()), "shapes of a sum");
    for (a, out) in a.chunks(b.len().max(1)).zip(out.chunks_mut(b.len().max(1))) {
        if out.len() < PARALLEL {
            sum(a, b, out);
        } else {
            let inputs = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK));
            out.par_chunks_mut(BLOCK).zip(inputs).for_each(|(out, (a, b))| sum(a, b, out));
        }
    }
}

/// What goes back through a sum to one of its parts: out = dy, or out += dy where `accumulate`. If `out` is shorter, it was
/// repeated, and gets the sum of its repetitions' gradients.
pub fn add_backward<T: Real>(dy: &[T], out: &mut [T], accumulate: bool) {
    assert!(dy.len().is_multiple_of(out.len()), "shapes of a sum");
    if dy.len() > out.len() {
        if !accumulate {
            out.fill(T::ZERO);
        }
        add_rows(dy, out);
    } else if out.len() < PARALLEL {
        give(dy, out, accumulate);
    } else {
        let blocks = out.par_chunks_mut(BLOCK).zip(dy.par_chunks(BLOCK));
        blocks.for_each(|(out, dy)| give(dy, out, accumulate));
    }
}

/// Sets all numbers to 0.
pub fn clear<T: Real>(x: &mut [T]) {
    if x.len() < PARALLEL {
        x.fill(T::ZERO);
    } else {
        x.par_chunks_mut(BLOCK).for_each(|block| block.fill(T::ZERO));
    }
}

/// out `[rows, count]` = columns `first .. first + count` of x `[rows, width]`.
pub fn columns<T: Real>(x: &[T], width: usize, first: usize, out: &mut [T], count: usize) {
    assert_eq!(x.len() / width * count, out.len(), "shapes of columns");
    let row = |(out, x): (&mut [T], &[T])| out.copy_from_slice(&x[first..][..count]);
    if out.len() < PARALLEL {
        out.chunks_exact_mut(count).zip(x.chunks_exact(width)).for_each(row);
    } else {
        let rows = out.par_chunks_exact_mut(count).zip(x.par_chunks_exact(width));
        rows.with_min_len(BLOCK.div_ceil(count)).for_each(row);
    }
}

/// What goes back through [`columns`]: dx `[rows, width]` += dy `[rows, count]` in those columns.
pub fn columns_backward<T: Real>(dy: &[T], count: usize, first: usize, dx: &mut [T], width: usize) {
    assert_eq!(dx.len() / width * count, dy.len(), "shapes of columns");
    let row = |(dx, dy): (&mut [T], &[T])| give(dy, &mut dx[first..][..count], true);
    if dy.len() < PARALLEL {
        dx.chunks_exact_mut(width).zip(dy.chunks_exact(count)).for_each(row);
    } else {
        let rows = dx.par_chunks_exact_mut(width).zip(dy.par_chunks_exact(count));
        rows.with_min_len(BLOCK.div_ceil(count)).for_each(row);
    }
}

vectorised! { fn sum<T>(a: &[T], b: &[T], out: &mut [T]) = sum_all }

#[inline(always)]
fn sum_all<T: Real>(a: &[T], b: &[T], out: &mut [T]) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (&a, &b))| *out = a + b);
}

vectorised! { pub(crate) fn give<T>(x: &[T], out: &mut [T], accumulate: bool) = give_all }

/// out = x, or out += x where `accumulate`.
#[inline(always)]
fn give_all<T: Real>(x: &[T], out: &mut [T], accumulate: bool) {
    match accumulate {
        true => out.iter_mut().zip(x).for_each(|(out, &x)| *out += x),
        false => out.copy_from_slice(x),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{list, on_any_threads};
    use super::*;

    #[test]
    fn sums_and_what_goes_back() {
        for (len, short) in [(1, 1), (77, 77), (77, 7), (40_000, 40_000), (40_000, 500), (90_000, 45_000)] {
            let (a, b) = (list::<f64>(1, len), list::<f64>(2, short));
            let out = on_any_threads(|| {
                let (mut out, mut set, mut added) = (vec![7.0; len], vec![7.0; short], vec![7.0; short]);
                add(&a, &b, &mut out);
                add_backward(&a, &mut set, false);
                add_backward(&a, &mut added, true);
                [out, set, added].concat()
            });
            assert!((0..len).all(|i| out[i] == a[i] + b[i % short]), "{len} {short}");
            for i in 0..short {
                let sum: f64 = a.iter().skip(i).step_by(short).sum();
                assert!((out[len + i] - sum).abs() < 1e-12, "{len} {short}");
                assert!((out[len + short + i] - 7.0 - sum).abs() < 1e-12, "{len} {short}");
            }
        }
    }

    #[test]
    fn columns_and_what_goes_back() {
        for (rows, width, first, count) in [(1, 1, 0, 1), (3, 7, 2, 4), (200, 300, 20, 250)] {
            let (x, dy) = (list::<f64>(1, rows * width), list::<f64>(2, rows * count));
            let out = on_any_threads(|| {
                let (mut out, mut dx) = (vec![7.0; rows * count], vec![1.0; rows * width]);
                columns(&x, width, first, &mut out, count);
                columns_backward(&dy, count, first, &mut dx, width);
                [out, dx].concat()
            });
            let (out, dx) = out.split_at(rows * count);
            for (row, column) in (0..rows).flat_map(|row| (0..width).map(move |column| (row, column))) {
                let index = row * width + column;
                match column.checked_sub(first).filter(|&column| column < count) {
                    Some(column) => {
                        assert_eq!(out[row * count + column], x[index]);
                        assert_eq!(dx[index], 1.0 + dy[row * count + column]);
                    }
                    None => assert_eq!(dx[index], 1.0),
                }
            }
        }
    }
}
