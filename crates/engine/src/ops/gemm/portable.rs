//! The loop in plain Rust, for every machine and for `f64`.

use super::{Columns, Run, Start};
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
                *out.add(column) = match run.plus {
                    Some((rows, step)) => *sum + *rows.add(row * step + column),
                    None => *sum,
                };
            }
        }
    }
}

/// See `Kernel::pack_columns`.
pub(super) fn pack_columns<T: Real>(from: &[T], shape: Columns, scale: T, panel: &mut [T]) {
    let Columns { inputs, step, columns, width } = shape;
    let panel = &mut panel[..inputs * width];
    for column in 0..columns {
        let to = panel[column..].iter_mut().step_by(width);
        to.zip(&from[column * step..][..inputs]).for_each(|(to, &from)| *to = scale * from);
    }
    panel.chunks_exact_mut(width).for_each(|row| row[columns..].fill(T::ZERO));
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
