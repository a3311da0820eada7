//! Products of matrices that change from call to call, as training has them.
//!
//! The right side is packed into the panels that the loops of `gemm/` read (a weight of a model is packed once, there); the
//! left side is read where it stands, along its rows or down its columns. Sums run over blocks of the inner axis in order, so
//! that their bits do not depend on the number of threads.

use super::Real;
use super::gemm::{Level, Run, Start, Target};
use rayon::prelude::*;

/// A matrix in memory: element (r, c) is `data[r · row + c · column]`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, T> {
    /// The numbers, from element (0, 0) on.
    pub data: &'a [T],
    /// From row to row.
    pub row: usize,
    /// From column to column.
    pub column: usize,
}

impl<'a, T> Strided<'a, T> {
    /// Row by row, `row` numbers from one to the next.
    pub fn rows(data: &'a [T], row: usize) -> Self {
        Strided { data, row, column: 1 }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        Strided { data: self.data, row: self.column, column: self.row }
    }
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The thread that calls.
    One,
    /// All threads of the current pool; the result has the same bits.
    All,
}

/// Numbers of the inner axis that are summed at a time: a panel of them stays in the second-level cache, and as many lines of
/// a transposed left side in the first.
const BLOCK: usize = 512;
/// Rows below which a product is not divided by rows, and a multiple of the rows of every tile.
const LEAST_ROWS: usize = 48;
const TILE_ROWS: usize = 24;
/// Multiplications below which one thread does the work.
const PARALLEL: usize = 1 << 17;

/// out = scale·a·b, or out += scale·a·b where `accumulate`: out `[m, n]` row by row with `row` numbers from one to the next,
/// a `[m, k]`, b `[k, n]`.
pub fn multiply<T: Real>(
    (out, row): (&mut [T], usize),
    a: Strided<T>,
    b: Strided<T>,
    [m, n, k]: [usize; 3],
    scale: f64,
    accumulate: bool,
    threads: Threads,
) {
    let reach = |rows: usize, columns: usize, row: usize, column: usize| {
        if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row + (columns - 1) * column + 1 }
    };
    assert!(n <= row || m <= 1, "rows of a product overlap");
    assert!(out.len() >= reach(m, n, row, 1), "the output of a product");
    assert!(a.data.len() >= reach(m, k, a.row, a.column), "the left side of a product");
    assert!(b.data.len() >= reach(k, n, b.row, b.column), "the right side of a product");
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        if !accumulate {
            out.chunks_mut(row).take(m).for_each(|out| out[..n].fill(T::ZERO));
        }
        return;
    }
    let level = Level::best();
    let width = T::width(level, n);
    let panels = n.div_ceil(width);
    let is_parallel = threads == Threads::All && m * n * k >= PARALLEL && rayon::current_num_threads() > 1;
    // A right side as wide as a panel, without gaps, is one.
    let is_packed = n == width && b.row == n && b.column == 1 && scale == 1.0;
    // Taken, not borrowed: while this thread waits for others it may be given another product to do.
    let mut packed = T::scratch().take();
    if !is_packed {
        if packed.len() < panels * width * k {
            packed.resize(panels * width * k, T::ZERO);
        }
        let pack = |(index, panel): (usize, &mut [T])| {
            pack(b, index * width, width.min(n - index * width), width, scale, panel);
        };
        let used = &mut packed[..panels * width * k];
        if is_parallel {
            used.par_chunks_exact_mut(width * k).enumerate().for_each(pack);
        } else {
            used.chunks_exact_mut(width * k).enumerate().for_each(pack);
        }
    }
    let used = if is_packed { &b.data[..n * k] } else { &packed[..panels * width * k] };

    let wanted = if is_parallel { rayon::current_num_threads() * 4 } else { 1 };
    let row_blocks = wanted.div_ceil(panels).min(m.div_ceil(LEAST_ROWS));
    let block = m.div_ceil(row_blocks).next_multiple_of(TILE_ROWS);
    let row_blocks = m.div_ceil(block);
    let piece = panels.div_ceil(wanted.div_ceil(row_blocks).min(panels));
    let target = Target(out.as_mut_ptr());
    let task = |task: usize| {
        let first_row = task % row_blocks * block;
        let rows = block.min(m - first_row);
        let first_panel = task / row_blocks * piece;
        for panel in first_panel..panels.min(first_panel + piece) {
            for first in (0..k).step_by(BLOCK) {
                let inputs = BLOCK.min(k - first);
                let run = Run {
                    x: a.data[first_row * a.row + first * a.column..].as_ptr(),
                    x_step: a.row,
                    x_column: a.column,
                    rows,
                    inputs,
                    panel: used[(panel * k + first) * width..][..inputs * width].as_ptr(),
                    width,
                    // SAFETY: a row and a column of `out`, whose size was checked.
                    out: unsafe { target.pointer().add(first_row * row + panel * width) },
                    out_step: row,
                    columns: width.min(n - panel * width),
                    start: if first == 0 && !accumulate { Start::Zero } else { Start::Target },
                };
                // SAFETY: the assertions cover what is read of a and written of out; the panel was sliced; each task has rows
                // and columns for itself; the width is this level's, and the level is available.
                unsafe { T::run(level, &run) };
            }
        }
    };
    let tasks = panels.div_ceil(piece) * row_blocks;
    if is_parallel {
        (0..tasks).into_par_iter().with_max_len(1).for_each(task);
    } else {
        (0..tasks).for_each(task);
    }
    T::scratch().set(packed);
}

/// A panel `[k, width]` of scale·b: `columns` of its columns from `first` on, then zeros.
fn pack<T: Real>(b: Strided<T>, first: usize, columns: usize, width: usize, scale: f64, panel: &mut [T]) {
    let scale = T::of(scale);
    let data = &b.data[first * b.column..];
    if b.column == 1 {
        for (index, row) in panel.chunks_exact_mut(width).enumerate() {
            let from = &data[index * b.row..][..columns];
            row[..columns].iter_mut().zip(from).for_each(|(to, &from)| *to = scale * from);
            row[columns..].fill(T::ZERO);
        }
        return;
    }
    // Some rows at a time, so that what is written stays in the first-level cache while the columns are read.
    for (index, rows) in panel.chunks_mut(16 * width).enumerate() {
        for column in 0..width {
            let to = rows[column..].iter_mut().step_by(width);
            if column >= columns {
                to.for_each(|to| *to = T::ZERO);
                continue;
            }
            let from = data[index * 16 * b.row + column * b.column..].iter().step_by(b.row);
            to.zip(from).for_each(|(to, &from)| *to = scale * from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Real>(sizes: [usize; 3], accumulate: bool, epsilon: f64) {
        let [m, n, k] = sizes;
        let list = |len: usize, seed: usize| -> Vec<T> {
            (0..len).map(|i| T::of(((i * 37 + seed * 11) % 23) as f64 / 8.0 - 1.2)).collect()
        };
        let (a, b, start) = (list(m * k, 1), list(k * n, 2), list(m * (n + 3), 3));
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let run = |threads: usize, a: Strided<T>, b: Strided<T>| {
            let mut out = start.clone();
            let product = || multiply((&mut out, n + 3), a, b, sizes, 0.5, accumulate, Threads::All);
            pool(threads).install(product);
            out
        };
        let (at, bt): (Vec<T>, Vec<T>) = (
            (0..m * k).map(|i| a[i % m * k + i / m]).collect(),
            (0..k * n).map(|i| b[i % k * n + i / k]).collect(),
        );
        let plain = run(1, Strided::rows(&a, k), Strided::rows(&b, n));
        assert!(plain == run(2, Strided::rows(&a, k), Strided::rows(&b, n)), "threads change bits");
        let turned = run(2, Strided::rows(&at, m).transposed(), Strided::rows(&bt, k).transposed());
        for row in 0..m {
            for column in 0..n + 3 {
                let index = row * (n + 3) + column;
                let term = |i: usize| a[row * k + i].to_f64() * b[(i * n + column).min(b.len() - 1)].to_f64();
                let sum: f64 = (0..k).map(term).sum();
                let wanted = match column < n {
                    true => 0.5 * sum + if accumulate { start[index].to_f64() } else { 0.0 },
                    false => start[index].to_f64(),
                };
                assert!(
                    (plain[index].to_f64() - wanted).abs() < epsilon * k as f64,
                    "{sizes:?} at {row}, {column}"
                );
                assert!(
                    (turned[index].to_f64() - wanted).abs() < epsilon * k as f64,
                    "{sizes:?} turned, at {row}, {column}"
                );
            }
        }
    }

    #[test]
    fn products_are_sums_of_products_with_the_same_bits_on_any_threads() {
        for sizes in
            [[1, 1, 1], [3, 5, 7], [64, 64, 64], [65, 33, 130], [200, 300, 257], [1, 70, 9], [9, 100, 1030]]
        {
            for accumulate in [false, true] {
                check::<f64>(sizes, accumulate, 1e-14);
                check::<f32>(sizes, accumulate, 4e-6);
            }
        }
    }
}
