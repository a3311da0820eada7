//! Vectors into panels of 16 bits, for attention: keys as columns, values as rows; all of a head, or one.

use super::bf16::{Bf16, GROUP, round_loop};
use crate::ops::dispatch::vectorised;
use crate::ops::fetch::{VECTORS_AHEAD, fetch};
use crate::ops::gemm::{self, SIDE, turn};

/// Vectors in memory: how many, and how far apart they begin.
type Vectors<'a> = (&'a [f32], (usize, usize));

vectorised!(
    /// Vectors of `dim` numbers into panels `[vectors / width, depth / 2, width, 2]`: each is a column. What is behind the last vector
    /// and behind a vector's end is 0.
    pub(crate) fn pack_columns(from: Vectors<'_>, size: (usize, usize), width: usize, panels: &mut [Bf16]) = columns
);

#[inline(always)]
fn columns(
    (data, (count, step)): Vectors<'_>,
    (dim, depth): (usize, usize),
    width: usize,
    panels: &mut [Bf16],
) {
    for (first, panel) in (0..count).step_by(width).zip(panels.chunks_exact_mut(depth * width)) {
        let panel = panel.as_chunks_mut::<GROUP>().0;
        // Every width, and every depth in pairs, is a multiple of a square's side.
        for column in (0..width).step_by(SIDE) {
            for pair in (0..depth / GROUP).step_by(SIDE) {
                // Rounded row by row, which vectorises; then written column by column.
                let mut rows = [[[Bf16::default(); GROUP]; SIDE]; SIDE];
                let there = count.saturating_sub(first + column);
                for (row, index) in rows.iter_mut().take(there).zip(first + column..) {
                    let vector = &data[index * step..][..dim];
                    if pair == 0 {
                        coming(data, (index, count), step, dim);
                    }
                    round_loop(&vector[dim.min(pair * GROUP)..], row.as_flattened_mut());
                }
                turn(gemm::Level::best(), &rows, &mut panel[pair * width + column..], width);
            }
        }
    }
}

/// Fetches `dim` numbers of the vector that is read some time after this one.
#[inline(always)]
fn coming(data: &[f32], (index, count): (usize, usize), step: usize, dim: usize) {
    let index = index + VECTORS_AHEAD;
    if index < count {
        fetch(&data[index * step..][..dim]);
    }
}

vectorised!(
    /// Vectors of `dim` numbers into panels `[dim / width, depth / 2, width, 2]`: each is a row. What is behind the last vector and behind
    /// a vector's end is 0.
    pub(crate) fn pack_rows(from: Vectors<'_>, size: (usize, usize), width: usize, panels: &mut [Bf16]) = rows
);

#[inline(always)]
fn rows((data, (count, step)): Vectors<'_>, (dim, depth): (usize, usize), width: usize, panels: &mut [Bf16]) {
    for (first, panel) in (0..dim).step_by(width).zip(panels.chunks_exact_mut(depth * width)) {
        let columns = width.min(dim - first);
        let panel = panel.as_chunks_mut::<GROUP>().0;
        for (pair, to) in panel.chunks_exact_mut(width).enumerate() {
            let (to, behind) = to.split_at_mut(columns);
            behind.fill([Bf16::default(); GROUP]);
            let vector = |index: usize| (index < count).then(|| &data[index * step + first..][..columns]);
            coming(&data[first..], (2 * pair, count), step, columns);
            coming(&data[first..], (2 * pair + 1, count), step, columns);
            match (vector(2 * pair), vector(2 * pair + 1)) {
                (Some(a), Some(b)) => {
                    to.iter_mut()
                        .zip(a.iter().zip(b))
                        .for_each(|(to, (&a, &b))| *to = [Bf16::of(a), Bf16::of(b)]);
                }
                (Some(a), None) => {
                    to.iter_mut().zip(a).for_each(|(to, &a)| *to = [Bf16::of(a), Bf16::default()]);
                }
                _ => to.fill([Bf16::default(); GROUP]),
            }
        }
    }
}

/// Writes a vector as a column of a panel `[depth / 2, width, 2]`; what is behind its end stays.
pub(crate) fn set_column(vector: &[f32], column: usize, width: usize, panel: &mut [Bf16]) {
    let pairs = panel.as_chunks_mut::<GROUP>().0.iter_mut().skip(column).step_by(width);
    for (pair, two) in pairs.zip(vector.chunks(GROUP)) {
        pair.iter_mut().zip(two).for_each(|(to, &x)| *to = Bf16::of(x));
    }
}

/// Writes a vector as a row of panels `[vector / width, depth / 2, width, 2]`.
pub(crate) fn set_row(vector: &[f32], row: usize, (depth, width): (usize, usize), panels: &mut [Bf16]) {
    for (part, panel) in vector.chunks(width).zip(panels.chunks_exact_mut(depth * width)) {
        let pairs = &mut panel.as_chunks_mut::<GROUP>().0[row / GROUP * width..][..width];
        pairs.iter_mut().zip(part).for_each(|(pair, &x)| pair[row % GROUP] = Bf16::of(x));
    }
}
