//! Vectors into panels of 16 bits, for attention: keys as columns, values as rows.

use super::Narrow;
use super::bf16::{Bf16, round_loop};
use crate::ops::dispatch::vectorised;

/// Vectors in memory: how many, and how far apart they begin.
type Vectors<'a> = (&'a [f32], (usize, usize));

vectorised!(
    /// Vectors of `dim` numbers into panels `[vectors / width, depth / 2, width, 2]`: each is a column. What is behind the last vector
    /// and behind a vector's end is 0.
    pub(crate) fn pack_columns(from: Vectors<'_>, size: (usize, usize), width: usize, panels: &mut [Bf16]) = columns
);

/// Vectors that are turned into columns at a time: so many pairs of each fill a register, and every width is a multiple of it.
const BLOCK: usize = 16;

#[inline(always)]
fn columns(
    (data, (count, step)): Vectors<'_>,
    (dim, depth): (usize, usize),
    width: usize,
    panels: &mut [Bf16],
) {
    for (first, panel) in (0..count).step_by(width).zip(panels.chunks_exact_mut(depth * width)) {
        for column in (0..width).step_by(BLOCK) {
            for pair in (0..depth / Bf16::GROUP).step_by(BLOCK) {
                // Rounded row by row, which vectorises; then written column by column.
                let mut rows = [[Bf16::default(); BLOCK * Bf16::GROUP]; BLOCK];
                let there = count.saturating_sub(first + column);
                for (row, index) in rows.iter_mut().take(there).zip(first + column..) {
                    let vector = &data[index * step..][..dim];
                    round_loop(&vector[dim.min(pair * Bf16::GROUP)..], row);
                }
                for (index, to) in
                    panel.chunks_exact_mut(width * Bf16::GROUP).skip(pair).take(BLOCK).enumerate()
                {
                    let to = to[column * Bf16::GROUP..].chunks_exact_mut(Bf16::GROUP);
                    to.zip(&rows)
                        .for_each(|(to, row)| to.copy_from_slice(&row[index * Bf16::GROUP..][..Bf16::GROUP]));
                }
            }
        }
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
        for (pair, to) in panel.chunks_exact_mut(width * Bf16::GROUP).enumerate() {
            to[columns * Bf16::GROUP..].fill(Bf16::default());
            let to = to[..columns * Bf16::GROUP].chunks_exact_mut(Bf16::GROUP);
            let vector = |index: usize| (index < count).then(|| &data[index * step + first..][..columns]);
            match (vector(2 * pair), vector(2 * pair + 1)) {
                (Some(a), Some(b)) => to.zip(a.iter().zip(b)).for_each(|(to, (&a, &b))| {
                    to[0] = Bf16::of(a);
                    to[1] = Bf16::of(b);
                }),
                (Some(a), None) => to.zip(a).for_each(|(to, &a)| {
                    to[0] = Bf16::of(a);
                    to[1] = Bf16::default();
                }),
                _ => to.for_each(|to| to.fill(Bf16::default())),
            }
        }
    }
}
