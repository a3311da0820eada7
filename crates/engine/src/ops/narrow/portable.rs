//! The loops in plain Rust, for every machine.

use super::{Bf16, Level, Narrow, Run};
use crate::ops::gemm::Start;
use std::ops::{AddAssign, Mul};

/// Columns of a panel.
pub(super) const WIDTH: usize = 16;

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold and its width is `WIDTH`.
pub(super) unsafe fn run_bf16(run: &Run<Bf16>) {
    for row in 0..run.rows {
        // SAFETY: a row of the run.
        unsafe { finish(run, row, sums(run, row, Bf16::wide)) };
    }
}

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold and its width is `WIDTH`.
pub(super) unsafe fn run_int8(run: &Run<i8>) {
    for row in 0..run.rows {
        // SAFETY: a row of the run, which has a scale for it and for each of its columns.
        unsafe {
            let sums: [i32; WIDTH] = sums(run, row, i32::from);
            let scale = (*run.scales.0.add(row)).scale;
            let mut values = [0.0; WIDTH];
            for (column, value) in values.iter_mut().enumerate().take(run.columns) {
                *value = sums[column] as f32 * (scale * *run.scales.1.add(column));
            }
            finish(run, row, values);
        }
    }
}

/// The sums of one row.
///
/// # Safety
///
/// As of a run; `row` is one of its rows.
unsafe fn sums<N: Narrow, S: Copy + Default + AddAssign + Mul<Output = S>>(
    run: &Run<N>,
    row: usize,
    wide: impl Fn(N) -> S,
) -> [S; WIDTH] {
    debug_assert_eq!(run.width, WIDTH);
    let side_by_side = N::group(Level::Portable);
    let mut sums = [S::default(); WIDTH];
    for input in 0..run.depth {
        let (group, place) = (input / side_by_side, input % side_by_side);
        // SAFETY: `depth` numbers of the row, and as many of each of the panel's columns.
        unsafe {
            let x = wide(*run.x.add(row * run.depth + input));
            let weights = run.panel.add(group * WIDTH * side_by_side + place);
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum += x * wide(*weights.add(column * side_by_side));
            }
        }
    }
    sums
}

/// Writes one row: what it starts from, and the values.
///
/// # Safety
///
/// As of a run; `row` is one of its rows.
unsafe fn finish<N>(run: &Run<N>, row: usize, values: [f32; WIDTH]) {
    for (column, value) in values.into_iter().enumerate().take(run.columns) {
        // SAFETY: a column of the row.
        unsafe {
            let out = run.out.add(row * run.out_step + column);
            *out = value
                + match run.start {
                    Start::Zero => 0.0,
                    Start::Bias(bias) => *bias.add(column),
                    Start::Target => *out,
                };
        }
    }
}
