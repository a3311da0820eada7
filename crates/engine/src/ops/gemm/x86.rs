//! The loops for AVX2 and AVX-512: tiles of rows × registers, all in registers.
//!
//! With `VECTORS` registers a row, `ROWS` · `VECTORS` sums and `VECTORS` weights fill the register file: on AVX-512 8 × 48
//! columns (measured here: 0.93 of the peak), 6 × 64 where that fits the number of columns, on AVX2 6 × 16.

use super::lanes::Lanes;
use super::{Columns, Run, SIDE, Start};
use crate::ops::fetch::VECTORS_AHEAD;
use std::arch::x86_64::*;

/// The width of a panel on AVX-512: 48 columns, or 64 where fewer are then left empty, or one panel of 16 or 32 where that is
/// all there are.
pub(super) fn width_avx512(outputs: usize) -> usize {
    match outputs {
        0..=16 => 16,
        17..=32 => 32,
        _ if outputs.next_multiple_of(64) < outputs.next_multiple_of(48) => 64,
        _ => 48,
    }
}

pub(super) fn width_avx2() -> usize {
    16
}

/// Rows of a tile on AVX-512, for panels of this width.
pub(super) fn rows_avx512(width: usize) -> usize {
    match width {
        16 | 48 => 8,
        32 => 12,
        _ => 6,
    }
}

/// Rows of a tile on AVX2.
pub(super) const ROWS_AVX2: usize = 6;

/// How far ahead of the sums the panel is fetched, in rows of it.
const AHEAD: usize = 32;
/// After so many inputs, a part of what comes next is fetched into the second-level cache: evenly, as memory gives it, so that all of it
/// is there when the last tile is done. Where there are few rows, that is what the product waits for.
const STEPS: usize = 16;
/// Numbers of a cache line.
const LINE: usize = 16;

/// Adds to the sums what one input gives: number `at` of each line times one row of the panel, while the row at `ahead` is fetched.
/// A function, because what a closure does is not compiled for the instruction set of the function around it.
///
/// # Safety
///
/// See `Lanes`; number `at` of each line and a row at `panel` are valid to read.
#[inline(always)]
unsafe fn step<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    lines: &[*const f32; ROWS],
    at: usize,
    panel: *const f32,
    ahead: *const f32,
    sums: &mut [[L; VECTORS]; ROWS],
) {
    // SAFETY: the caller's promise. Prefetching touches nothing.
    unsafe {
        let mut weights = [L::zero(); VECTORS];
        for (vector, weight) in weights.iter_mut().enumerate() {
            *weight = L::load(panel.add(vector * L::COUNT));
            if (vector * L::COUNT).is_multiple_of(LINE) {
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(vector * L::COUNT).cast());
            }
        }
        for row in 0..ROWS {
            let x = L::splat(lines[row].add(at));
            for vector in 0..VECTORS {
                sums[row][vector] = sums[row][vector].multiply_add(x, weights[vector]);
            }
        }
    }
}

/// One tile: `ROWS` rows from `row` on times the panel. `IS_DENSE` where the numbers of a row stand side by side.
#[inline(always)]
unsafe fn tile<L: Lanes, const ROWS: usize, const VECTORS: usize, const IS_DENSE: bool>(
    run: &Run<f32>,
    row: usize,
) {
    // SAFETY: the run's invariants; rows `row..row + ROWS` are among its rows. Prefetching touches nothing.
    unsafe {
        let x = run.x.add(row * run.x_step);
        let out = run.out.add(row * run.out_step);
        let whole = run.columns == VECTORS * L::COUNT;
        let mask = |vector: usize| -> u16 {
            let columns = run.columns.saturating_sub(vector * L::COUNT).min(L::COUNT);
            ((1u32 << columns) - 1) as u16
        };
        let mut sums = [[L::zero(); VECTORS]; ROWS];
        let load = |from: *const f32, vector: usize| {
            let from = from.wrapping_add(vector * L::COUNT);
            if whole { L::load(from) } else { L::load_some(from, mask(vector)) }
        };
        match run.start {
            Start::Zero => {}
            Start::Bias(bias) => {
                for vector in 0..VECTORS {
                    let bias = load(bias, vector);
                    sums.iter_mut().for_each(|sums| sums[vector] = bias);
                }
            }
            Start::Target => {
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        *sum = load(out.add(row * run.out_step), vector);
                    }
                }
            }
        }
        // A pointer for each row, and one number that moves them all: instructions that count, between the products, would take
        // their places. On AVX2 that is a third of the speed.
        let lines: [*const f32; ROWS] = std::array::from_fn(|row| x.wrapping_add(row * run.x_step));
        let column = if IS_DENSE { 1 } else { run.x_column };
        let (next, count) = run.next.unwrap_or((std::ptr::null(), 0));
        let tiles = run.rows.div_ceil(ROWS);
        // One tile alone waits for its own panel: more of the next would only come in its way.
        let all = STEPS * VECTORS * L::COUNT / LINE;
        let share = LINE * if tiles > 1 { all.div_ceil(tiles) } else { 4 };
        let mut fetch = row / ROWS * (run.inputs / STEPS) * share;
        let (mut panel, mut input) = (run.panel, 0);
        while input + STEPS <= run.inputs {
            if fetch < count {
                for line in (0..share).step_by(LINE) {
                    _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(fetch + line).cast());
                }
                fetch += share;
            }
            if IS_DENSE {
                // The rows of the next tile: those of a block that comes from further away than the second-level cache.
                for line in &lines {
                    _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(ROWS * run.x_step + input).cast());
                }
            }
            // Behind the panel's end comes its beginning, which the next tile reads first.
            let coming = if input + AHEAD < run.inputs { input + AHEAD } else { input + AHEAD - run.inputs };
            let coming = run.panel.wrapping_add(coming * VECTORS * L::COUNT);
            for index in 0..STEPS {
                let row = index * VECTORS * L::COUNT;
                step(&lines, (input + index) * column, panel.add(row), coming.wrapping_add(row), &mut sums);
            }
            panel = panel.add(STEPS * VECTORS * L::COUNT);
            input += STEPS;
        }
        while input < run.inputs {
            step(&lines, input * column, panel, panel, &mut sums);
            panel = panel.add(VECTORS * L::COUNT);
            input += 1;
        }
        if let Some((rows, step)) = run.plus {
            for (index, sums) in sums.iter_mut().enumerate() {
                for (vector, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(load(rows.add((row + index) * step), vector));
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                let to = out.add(row * run.out_step + vector * L::COUNT);
                if whole { sum.store(to) } else { sum.store_some(to, mask(vector)) }
            }
        }
    }
}

/// All rows, in tiles of `ROWS`, then of fewer.
#[inline(always)]
unsafe fn rows<L: Lanes, const ROWS: usize, const VECTORS: usize>(run: &Run<f32>) {
    // SAFETY: the run's invariants.
    unsafe {
        match run.x_column {
            1 => tiles::<L, ROWS, VECTORS, true>(run),
            _ => tiles::<L, ROWS, VECTORS, false>(run),
        }
    }
}

/// See [`rows`].
#[inline(always)]
unsafe fn tiles<L: Lanes, const ROWS: usize, const VECTORS: usize, const IS_DENSE: bool>(run: &Run<f32>) {
    let mut row = 0;
    // SAFETY: the run's invariants; each tile's rows are below `rows`.
    unsafe {
        while row + ROWS <= run.rows {
            tile::<L, ROWS, VECTORS, IS_DENSE>(run, row);
            row += ROWS;
        }
        if ROWS > 8 && row + 8 <= run.rows {
            tile::<L, 8, VECTORS, IS_DENSE>(run, row);
            row += 8;
        }
        if ROWS > 4 && row + 4 <= run.rows {
            tile::<L, 4, VECTORS, IS_DENSE>(run, row);
            row += 4;
        }
        if row + 2 <= run.rows {
            tile::<L, 2, VECTORS, IS_DENSE>(run, row);
            row += 2;
        }
        if row < run.rows {
            tile::<L, 1, VECTORS, IS_DENSE>(run, row);
        }
    }
}

/// Computes a run with AVX-512.
///
/// # Safety
///
/// The run's invariants hold, its width is 16, 32, 48 or 64, and the CPU has AVX-512 F.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
pub(super) unsafe fn run_avx512(run: &Run<f32>) {
    // SAFETY: the caller's promise.
    unsafe {
        match run.width {
            16 => rows::<__m512, 8, 1>(run),
            32 => rows::<__m512, 12, 2>(run),
            48 => rows::<__m512, 8, 3>(run),
            _ => rows::<__m512, 6, 4>(run),
        }
    }
}

/// Computes a run with AVX2.
///
/// # Safety
///
/// The run's invariants hold, its width is 16, and the CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_avx2(run: &Run<f32>) {
    // SAFETY: the caller's promise.
    unsafe { rows::<__m256, 6, 2>(run) }
}

/// See `Kernel::pack_columns`: block by block, each transposed in registers.
#[inline(always)]
unsafe fn pack_columns<L: Lanes>(from: &[f32], shape: Columns, scale: f32, panel: &mut [f32]) {
    let Columns { inputs, step, columns, width } = shape;
    assert!(columns <= width && width.is_multiple_of(L::COUNT), "the columns of a panel");
    assert!(panel.len() >= inputs * width, "the memory of a panel");
    assert!(columns == 0 || from.len() >= (columns - 1) * step + inputs, "the columns of a panel");
    for first in (0..width).step_by(L::COUNT) {
        let there = columns.saturating_sub(first).min(L::COUNT);
        for input in (0..inputs).step_by(L::COUNT) {
            let count = L::COUNT.min(inputs - input);
            let mask = ((1u32 << count) - 1) as u16;
            // SAFETY: of column `first + column` < `columns` numbers `input..input + count` are read, which are within
            // `from`; written are whole registers of rows `input..input + count` of the panel. Both were asserted. Prefetching touches
            // nothing.
            unsafe {
                let mut rows = [L::zero(); 16];
                for (column, row) in rows.iter_mut().enumerate().take(there) {
                    let from = from.as_ptr().add((first + column) * step + input);
                    _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(VECTORS_AHEAD * step).cast());
                    *row =
                        if count == L::COUNT { L::load(from) } else { L::load_some(from, mask) }.scale(scale);
                }
                L::transpose(&mut rows);
                for (row, numbers) in rows.iter().enumerate().take(count) {
                    numbers.store(panel.as_mut_ptr().add((input + row) * width + first));
                }
            }
        }
    }
}

/// Packs a panel with AVX-512.
///
/// # Safety
///
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
pub(super) unsafe fn pack_columns_avx512(from: &[f32], shape: Columns, scale: f32, panel: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { pack_columns::<__m512>(from, shape, scale, panel) }
}

/// Packs a panel with AVX2.
///
/// # Safety
///
/// The CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn pack_columns_avx2(from: &[f32], shape: Columns, scale: f32, panel: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe { pack_columns::<__m256>(from, shape, scale, panel) }
}

/// See [`turn`](super::turn).
#[inline(always)]
unsafe fn turn<L: Lanes>(rows: *const f32, to: *mut f32, step: usize) {
    // SAFETY: registers within the square, and within the rows that are written. Numbers are moved and not computed with, so that
    // any bits stay as they are.
    unsafe {
        for row in (0..SIDE).step_by(L::COUNT) {
            for column in (0..SIDE).step_by(L::COUNT) {
                let mut block = [L::zero(); 16];
                for (index, numbers) in block.iter_mut().enumerate().take(L::COUNT) {
                    *numbers = L::load(rows.add((row + index) * SIDE + column));
                }
                L::transpose(&mut block);
                for (index, numbers) in block.iter().enumerate().take(L::COUNT) {
                    numbers.store(to.add((column + index) * step + row));
                }
            }
        }
    }
}

/// See [`turn`](super::turn).
///
/// # Safety
///
/// Sixteen rows of sixteen numbers are valid to read, one after the other, and as many to write, `step` apart; the CPU has AVX-512 F.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
pub(super) unsafe fn turn_avx512(rows: *const f32, to: *mut f32, step: usize) {
    // SAFETY: the caller's promise.
    unsafe { turn::<__m512>(rows, to, step) }
}

/// See [`turn`](super::turn).
///
/// # Safety
///
/// As of `turn_avx512`; the CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn turn_avx2(rows: *const f32, to: *mut f32, step: usize) {
    // SAFETY: the caller's promise.
    unsafe { turn::<__m256>(rows, to, step) }
}

/// See `peak_loop`.
///
/// # Safety
///
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
#[expect(clippy::needless_range_loop, reason = "an iterator would keep the sums in memory")]
pub(super) unsafe fn peak_avx512(rounds: usize) -> f32 {
    let (a, b) = (_mm512_set1_ps(1.000_000_1), _mm512_set1_ps(1e-9));
    let mut sums = [_mm512_setzero_ps(); 20];
    for _ in 0..rounds {
        for index in 0..20 {
            sums[index] = _mm512_fmadd_ps(a, b, sums[index]);
        }
    }
    let mut total = _mm512_setzero_ps();
    for index in 0..20 {
        total = _mm512_add_ps(total, sums[index]);
    }
    _mm512_reduce_add_ps(total)
}

/// See `peak_loop`. Twenty sums of sixteen are forty registers of eight, so each is used for two.
///
/// # Safety
///
/// The CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
#[expect(clippy::needless_range_loop, reason = "an iterator would keep the sums in memory")]
pub(super) unsafe fn peak_avx2(rounds: usize) -> f32 {
    let (a, b) = (_mm256_set1_ps(1.000_000_1), _mm256_set1_ps(1e-9));
    let mut sums = [_mm256_setzero_ps(); 10];
    for _ in 0..4 * rounds {
        for index in 0..10 {
            sums[index] = _mm256_fmadd_ps(a, b, sums[index]);
        }
    }
    let mut total = _mm256_setzero_ps();
    for index in 0..10 {
        total = _mm256_add_ps(total, sums[index]);
    }
    _mm256_cvtss_f32(total)
}
