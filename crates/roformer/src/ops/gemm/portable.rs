//! The loop in plain Rust, for every machine and for `f64`.

use super::{Run, Start};
use crate::ops::real::Real;

/// Columns of a panel.
pub(super) const WIDTH: usize = 16;

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold and its width is `WIDTH`.
pub(super) unsafe fn run<T: Real>(run: &Run<T>) {
    debug_assert_eq!(run.width, WIDTH);
    for row in 0..run.rows {
        // SAFETY: all indices are within what the run's invariants promise.
        unsafe {
            let x = run.x.add(row * run.x_step);
            let out = run.out.add(row * run.out_step);
            let mut sums = [T::ZERO; WIDTH];
            for (column, sum) in sums.iter_mut().enumerate().take(run.columns) {
                *sum = match run.start {
                    Start::Zero => T::ZERO,
                    Start::Bias(bias) => *bias.add(column),
                    Start::Target => *out.add(column),
                };
            }
            for input in 0..run.inputs {
                let x = *x.add(input * run.x_column);
                let weights = run.panel.add(input * WIDTH);
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum += x * *weights.add(column);
                }
            }
            for (column, sum) in sums.iter().enumerate().take(run.columns) {
                *out.add(column) = *sum;
            }
        }
    }
}

/// See `peak_loop`.
pub(super) fn peak(rounds: usize) -> f32 {
    let mut sums = [0.0f32; 20 * 16];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum += 1.000_000_1 * 1e-9;
        }
        sums = std::hint::black_box(sums);
    }
    sums.iter().sum()
}
