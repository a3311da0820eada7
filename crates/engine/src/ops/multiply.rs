//! Products of matrices that change from call to call, as training has them.
//!
//! The right side is packed into the panels that the loops of `gemm/` read (a weight of a model is packed once, there), a block
//! at a time by whoever multiplies with it next; the left side is read where it stands, along its rows or down its columns.
//! Sums run over blocks of the inner axis in order, so that their bits do not depend on the number of threads.

use super::Real;
use super::dispatch::vectorised;
use super::gemm::{Columns, DEPTH, Level, Run, Start, Target};
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

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Onto<'a, T> {
    /// What is in the output.
    Output,
    /// These, if they are there; what was in the output goes.
    These {
        /// A number for each column, `[n]`.
        bias: Option<&'a [T]>,
        /// Rows `[m, n]` without gaps; they are added last.
        rows: Option<&'a [T]>,
    },
}

/// A multiple of the rows of every tile.
const TILE_ROWS: usize = 24;
/// Rows below which a product is not divided by rows; more where each part packs the right side for itself.
const LEAST_ROWS: usize = 48;
const LEAST_PACKED: usize = 96;
/// Multiplications below which one thread does the work: about 10 µs.
pub(super) const PARALLEL: usize = 1 << 19;

/// out = scale·a·b, or out += scale·a·b where `accumulate`: out `[m, n]` row by row with `row` numbers from one to the next,
/// a `[m, k]`, b `[k, n]`.
pub fn multiply<T: Real>(
    out: (&mut [T], usize),
    a: Strided<T>,
    b: Strided<T>,
    sizes: [usize; 3],
    scale: f64,
    accumulate: bool,
    threads: Threads,
) {
    let onto = if accumulate { Onto::Output } else { Onto::These { bias: None, rows: None } };
    multiply_onto(out, onto, a, b, sizes, scale, threads);
}

/// out = onto + scale·a·b: out `[m, n]` row by row with `row` numbers from one to the next, a `[m, k]`, b `[k, n]`.
pub fn multiply_onto<T: Real>(
    (out, row): (&mut [T], usize),
    onto: Onto<T>,
    a: Strided<T>,
    b: Strided<T>,
    [m, n, k]: [usize; 3],
    scale: f64,
    threads: Threads,
) {
    let reach = |rows: usize, columns: usize, row: usize, column: usize| {
        if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row + (columns - 1) * column + 1 }
    };
    assert!(n <= row || m <= 1, "rows of a product overlap");
    assert!(out.len() >= reach(m, n, row, 1), "the output of a product");
    assert!(a.data.len() >= reach(m, k, a.row, a.column), "the left side of a product");
    assert!(b.data.len() >= reach(k, n, b.row, b.column), "the right side of a product");
    if let Onto::These { bias, rows } = onto {
        assert!(rows.is_none_or(|rows| rows.len() == m * n), "the rows that a product is added to");
        assert!(bias.is_none_or(|bias| bias.len() == n), "the bias of a product");
    }
    if m == 0 || n == 0 {
        return;
    }
    let level = Level::best();
    let width = T::width(level, n);
    let panels = n.div_ceil(width);
    // A right side as wide as a panel, without gaps, is one.
    let is_packed = n == width && b.row == n && b.column == 1 && scale == 1.0;
    let is_parallel = threads == Threads::All && m * n * k >= PARALLEL && rayon::current_num_threads() > 1;

    let wanted = if is_parallel { rayon::current_num_threads() * 4 } else { 1 };
    let least = if is_packed { LEAST_ROWS } else { LEAST_PACKED };
    let row_blocks = wanted.div_ceil(panels).min(m.div_ceil(least));
    let block = m.div_ceil(row_blocks).next_multiple_of(TILE_ROWS);
    let row_blocks = m.div_ceil(block);
    let piece = panels.div_ceil(wanted.div_ceil(row_blocks).min(panels));
    let target = Target(out.as_mut_ptr());
    let task = |task: usize, memory: &mut [T]| {
        let first_row = task % row_blocks * block;
        let first_panel = task / row_blocks * piece;
        for panel in first_panel..panels.min(first_panel + piece) {
            let first_column = panel * width;
            let columns = width.min(n - first_column);
            // SAFETY: a row and a column of `out`, whose size was checked.
            let out = unsafe { target.pointer().add(first_row * row + first_column) };
            // Without an inner axis there is one block, of nothing.
            for first in (0..k.max(1)).step_by(DEPTH) {
                let inputs = DEPTH.min(k - first);
                let packed = if is_packed {
                    &b.data[first * width..][..inputs * width]
                } else {
                    let packed = &mut memory[..inputs * width];
                    pack(b, (first, inputs), (first_column, columns), scale, packed);
                    packed
                };
                let start = match onto {
                    Onto::These { bias: Some(bias), .. } if first == 0 => {
                        Start::Bias(bias[first_column..].as_ptr())
                    }
                    Onto::These { bias: None, .. } if first == 0 => Start::Zero,
                    _ => Start::Target,
                };
                let plus = match onto {
                    Onto::These { rows: Some(rows), .. } if first + inputs == k => {
                        Some((rows[first_row * n + first_column..].as_ptr(), n))
                    }
                    _ => None,
                };
                let run = Run {
                    x: a.data[(first_row * a.row + first * a.column).min(a.data.len())..].as_ptr(),
                    x_step: a.row,
                    x_column: a.column,
                    rows: block.min(m - first_row),
                    inputs,
                    panel: packed.as_ptr(),
                    width,
                    out,
                    out_step: row,
                    columns,
                    start,
                    plus,
                    next: None,
                };
                // SAFETY: the assertions cover what is read of a and of what the product is added to, and what is written
                // of out; the panel was sliced; each task has rows and columns for itself; the width is this level's, and
                // the level is available.
                unsafe { T::run(level, &run) };
            }
        }
    };
    let tasks = panels.div_ceil(piece) * row_blocks;
    if is_parallel {
        let tasks = (0..tasks).into_par_iter().with_max_len(1);
        tasks.for_each(|index| T::with_panel(|memory| task(index, memory)));
    } else {
        T::with_panel(|memory| (0..tasks).for_each(|index| task(index, memory)));
    }
}

/// A panel `[inputs, width]` of scale·b: rows from `first` on of `columns` of its columns from `first_column` on, then zeros.
fn pack<T: Real>(
    b: Strided<T>,
    (first, inputs): (usize, usize),
    (first_column, columns): (usize, usize),
    scale: f64,
    panel: &mut [T],
) {
    if panel.is_empty() {
        return;
    }
    let (width, scale) = (panel.len() / inputs, T::of(scale));
    let from = &b.data[first * b.row + first_column * b.column..];
    if b.column == 1 {
        copy(from, b.row, columns, scale, width, panel);
    } else if b.row == 1 {
        T::pack_columns(
            Level::best(),
            from,
            Columns { inputs, step: b.column, columns, width },
            scale,
            panel,
        );
    } else {
        for (index, row) in panel.chunks_exact_mut(width).enumerate() {
            let from = from[index * b.row..].iter().step_by(b.column);
            row[..columns].iter_mut().zip(from).for_each(|(to, &from)| *to = scale * from);
            row[columns..].fill(T::ZERO);
        }
    }
}

vectorised! {
    fn copy<T>(from: &[T], step: usize, columns: usize, scale: T, width: usize, panel: &mut [T]) = copy_rows
}

/// Rows that lie `step` apart, scaled.
#[inline(always)]
fn copy_rows<T: Real>(from: &[T], step: usize, columns: usize, scale: T, width: usize, panel: &mut [T]) {
    for (index, row) in panel.chunks_exact_mut(width).enumerate() {
        let from = &from[index * step..][..columns];
        // A length known beforehand is a few registers.
        let (blocks, rest) = from.as_chunks::<16>();
        for (to, from) in row.as_chunks_mut::<16>().0.iter_mut().zip(blocks) {
            *to = from.map(|from| scale * from);
        }
        if columns < width {
            let row = &mut row[16 * blocks.len()..];
            row.fill(T::ZERO);
            row.iter_mut().zip(rest).for_each(|(to, &from)| *to = scale * from);
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
        let transposed = run(2, Strided::rows(&at, m).transposed(), Strided::rows(&bt, k).transposed());
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
                    (transposed[index].to_f64() - wanted).abs() < epsilon * k as f64,
                    "{sizes:?} transposed, at {row}, {column}"
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

    #[test]
    fn products_are_added_to_biases_and_rows() {
        for sizes @ [m, n, k] in [[3, 5, 7], [65, 70, 1030], [130, 64, 64], [4, 3, 0]] {
            let list = |len: usize, seed: u64| super::super::check::list::<f64>(seed, len);
            let (a, b, bias, rows) = (list(m * k, 1), list(k * n, 2), list(n, 3), list(m * n, 4));
            for (bias, rows) in [(Some(&bias[..]), Some(&rows[..])), (Some(&bias), None), (None, Some(&rows))]
            {
                let mut out = vec![9.0; m * n];
                let (a, b) = (Strided::rows(&a, k), Strided::rows(&b, n));
                multiply_onto((&mut out, n), Onto::These { bias, rows }, a, b, sizes, 1.0, Threads::All);
                for (index, &out) in out.iter().enumerate() {
                    let (row, column) = (index / n, index % n);
                    let sum: f64 = (0..k).map(|i| a.data[row * k + i] * b.data[i * n + column]).sum();
                    let wanted = sum + bias.map_or(0.0, |x| x[column]) + rows.map_or(0.0, |x| x[index]);
                    assert!((out - wanted).abs() < 1e-11, "{sizes:?} at {row}, {column}");
                }
            }
        }
    }
}
