//! Sums in an order that does not depend on the number of threads, and matrices shared out by their columns.

use super::dispatch::vectorised;
use super::real::Real;
use rayon::prelude::*;
use std::marker::PhantomData;
use std::ops::Range;

/// Numbers below which one thread does the work.
pub(crate) const PARALLEL: usize = 1 << 15;
/// Numbers of a piece of work without rows.
pub(crate) const BLOCK: usize = 4096;
/// Columns that one thread takes at a time: whole cache lines, and sums that stay in registers.
pub(crate) const COLUMNS: usize = 64;
/// Rows that are summed before their sum joins the total: rounds less than one long chain.
pub(crate) const ROWS: usize = 64;
/// Blocks whose sums wait for each other on the stack.
const GROUP: usize = 256;

/// The sum of `of` over 0..len in blocks of [`BLOCK`]: the threads sum blocks, one adds their sums in order.
pub(crate) fn sum(len: usize, of: impl Fn(Range<usize>) -> f64 + Sync) -> f64 {
    let (mut total, mut sums) = (0.0, [0.0; GROUP]);
    for start in (0..len).step_by(BLOCK * GROUP) {
        let end = len.min(start + BLOCK * GROUP);
        let block = |(index, sum): (usize, &mut f64)| {
            let first = start + index * BLOCK;
            *sum = of(first..end.min(first + BLOCK));
        };
        let sums = &mut sums[..(end - start).div_ceil(BLOCK)];
        if end - start < PARALLEL {
            sums.iter_mut().enumerate().for_each(block);
        } else {
            sums.par_iter_mut().enumerate().for_each(block);
        }
        sums.iter().for_each(|sum| total += sum);
    }
    total
}

/// out `[width]` += the sum of the rows of x `[rows, width]`.
pub(crate) fn add_rows<T: Real>(x: &[T], out: &mut [T]) {
    let width = out.len();
    if width == 0 {
        return;
    }
    assert!(x.len().is_multiple_of(width), "the rows of a sum");
    let columns = |(index, out): (usize, &mut [T])| columns(x, width, index * COLUMNS, out);
    if x.len() < PARALLEL {
        out.chunks_mut(COLUMNS).enumerate().for_each(columns);
    } else {
        out.par_chunks_mut(COLUMNS).enumerate().for_each(columns);
    }
}

vectorised! { fn columns<T>(x: &[T], width: usize, first: usize, out: &mut [T]) = sum_columns }

#[inline(always)]
fn sum_columns<T: Real>(x: &[T], width: usize, first: usize, out: &mut [T]) {
    for rows in x.chunks(ROWS * width) {
        let mut sums = [T::ZERO; COLUMNS];
        for row in rows.chunks_exact(width) {
            let row = &row[first..][..out.len()];
            // A length known beforehand keeps the sums in registers.
            match row.first_chunk::<COLUMNS>() {
                Some(row) => sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x),
                None => sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x),
            }
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out += *sum);
    }
}

/// Neighbouring columns of a matrix, which nobody else reads or writes.
pub(crate) struct Columns<'a, T> {
    matrix: *mut T,
    rows: usize,
    width: usize,
    range: Range<usize>,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T> Columns<'_, T> {
    /// Which columns.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Their part of a row.
    pub fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: within the matrix, as `by_columns` made it; its columns belong to this value alone, which is borrowed
        // for as long as the slice.
        unsafe {
            let start = self.matrix.add(row * self.width + self.range.start);
            std::slice::from_raw_parts_mut(start, self.range.len())
        }
    }
}

/// Shares out the columns of a matrix `[rows, width]` among the threads, or gives all to the caller's if not `parallel`:
/// for sums into rows that several inputs share, each of which then is done by one thread in the order of the inputs.
pub(crate) fn by_columns<T: Real>(
    matrix: &mut [T],
    width: usize,
    parallel: bool,
    work: impl Fn(Columns<T>) + Sync,
) {
    struct Shared<T>(*mut T);
    // SAFETY: the threads make from the pointer slices of columns that no two of them share.
    unsafe impl<T: Send> Sync for Shared<T> {}
    impl<T> Shared<T> {
        fn columns<'a>(&self, rows: usize, width: usize, range: Range<usize>) -> Columns<'a, T> {
            Columns { matrix: self.0, rows, width, range, borrow: PhantomData }
        }
    }
    if width == 0 {
        return;
    }
    let (rows, shared) = (matrix.len() / width, Shared(matrix.as_mut_ptr()));
    if parallel {
        (0..width.div_ceil(COLUMNS)).into_par_iter().for_each(|block| {
            let first = block * COLUMNS;
            work(shared.columns(rows, width, first..width.min(first + COLUMNS)));
        });
    } else {
        work(shared.columns(rows, width, 0..width));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{list, on_any_threads};
    use super::*;

    #[test]
    fn sums_are_sums_on_any_threads() {
        for len in [0, 1, 4095, 4096, 4097, 40_000, 2 * BLOCK * GROUP + 3] {
            let x = list::<f64>(1, len);
            let total = on_any_threads(|| vec![sum(len, |range| x[range].iter().sum())])[0];
            assert!((total - x.iter().sum::<f64>()).abs() <= 1e-14 * len as f64, "{len}");
        }
    }

    #[test]
    fn rows_are_added_on_any_threads() {
        for (rows, width) in [(0, 3), (1, 1), (5, 64), (63, 65), (129, 7), (300, 200), (1, 70), (2000, 33)] {
            let (x, start) = (list::<f64>(2, rows * width), list::<f64>(3, width));
            let out = on_any_threads(|| {
                let mut out = start.clone();
                add_rows(&x, &mut out);
                out
            });
            for (column, out) in out.iter().enumerate() {
                let wanted: f64 = start[column] + (0..rows).map(|row| x[row * width + column]).sum::<f64>();
                assert!((out - wanted).abs() < 1e-14 * (rows + 1) as f64, "{rows} × {width}");
            }
        }
    }
}
