//! The loops for AVX2, which has no instruction for pairs of 16 bits, nor one for groups of 8 whose sums always fit. Rows of x come
//! widened (see [`Narrow::room`](super::Narrow::room)), to 32 bits and to 16, and weights are widened as they are read: once for all
//! rows of a tile. Tiles of 6 rows × 16 columns: twelve registers of sums.

use super::{Bf16, Run};
use crate::ops::gemm::Start;
use std::arch::x86_64::*;

/// Columns of a panel: two registers of eight.
pub(super) const WIDTH: usize = 16;
/// Registers of a row.
const VECTORS: usize = WIDTH / 8;

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is `WIDTH`, and the CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_bf16(run: &Run<Bf16>) {
    // SAFETY: the caller's promise.
    unsafe { rows(run, tile_bf16::<6>, tile_bf16::<4>, tile_bf16::<1>) }
}

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is `WIDTH`, and the CPU has AVX2.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_int8(run: &Run<i8>) {
    // SAFETY: the caller's promise.
    unsafe { rows(run, tile_int8::<6>, tile_int8::<4>, tile_int8::<1>) }
}

/// A tile: some rows of a run, from one on.
type Tile<N> = unsafe fn(&Run<N>, usize);

/// All rows, six at a time, then four, then one.
///
/// # Safety
///
/// As of the tiles, for all rows of the run.
#[inline(always)]
unsafe fn rows<N>(run: &Run<N>, six: Tile<N>, four: Tile<N>, one: Tile<N>) {
    let mut row = 0;
    // SAFETY: each tile's rows are among those of the run.
    unsafe {
        while row + 6 <= run.rows {
            six(run, row);
            row += 6;
        }
        if row + 4 <= run.rows {
            four(run, row);
            row += 4;
        }
        while row < run.rows {
            one(run, row);
            row += 1;
        }
    }
}

/// `ROWS` rows from `row` on.
///
/// # Safety
///
/// As of `run_bf16`; the rows are among those of the run.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_bf16<const ROWS: usize>(run: &Run<Bf16>, row: usize) {
    // SAFETY: pairs of the rows and of the panel, `depth` / 2 of both; rows of x are numbers of 32 bits.
    unsafe {
        let upper = _mm256_set1_epi32(0xffff_0000u32 as i32);
        let mut sums = [[_mm256_setzero_ps(); VECTORS]; ROWS];
        let x = run.x.cast::<f32>().add(row * run.depth);
        let lines: [*const f32; ROWS] = std::array::from_fn(|row| x.wrapping_add(row * run.depth));
        for pair in 0..run.depth / 2 {
            let panel = run.panel.add(pair * WIDTH * 2).cast::<__m256i>();
            for second in 0..2 {
                let mut weights = [_mm256_setzero_ps(); VECTORS];
                for (index, weight) in weights.iter_mut().enumerate() {
                    // Of a pair, the first number is the lower half.
                    let pairs = _mm256_loadu_si256(panel.add(index));
                    *weight = _mm256_castsi256_ps(match second {
                        0 => _mm256_slli_epi32::<16>(pairs),
                        _ => _mm256_and_si256(pairs, upper),
                    });
                }
                for (line, sums) in lines.iter().zip(&mut sums) {
                    let x = _mm256_broadcast_ss(&*line.add(pair * 2 + second));
                    for (sum, &weight) in sums.iter_mut().zip(&weights) {
                        *sum = _mm256_fmadd_ps(x, weight, *sum);
                    }
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            finish(run, row + index, sums);
        }
    }
}

/// `ROWS` rows from `row` on.
///
/// # Safety
///
/// As of `run_int8`; the rows are among those of the run.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_int8<const ROWS: usize>(run: &Run<i8>, row: usize) {
    // SAFETY: pairs of the rows and of the panel, `depth` / 2 of both, those of the rows in 32 bits; a scale for each row and column.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); VECTORS]; ROWS];
        let x = run.x.cast::<i32>().add(row * (run.depth / 2));
        let lines: [*const i32; ROWS] = std::array::from_fn(|row| x.wrapping_add(row * (run.depth / 2)));
        for pair in 0..run.depth / 2 {
            let panel = run.panel.add(pair * WIDTH * 2).cast::<__m128i>();
            let weights: [__m256i; VECTORS] =
                std::array::from_fn(|index| _mm256_cvtepi8_epi16(_mm_loadu_si128(panel.add(index))));
            for (line, sums) in lines.iter().zip(&mut sums) {
                let x = _mm256_set1_epi32(line.add(pair).read_unaligned());
                for (sum, &weight) in sums.iter_mut().zip(&weights) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, weight));
                }
            }
        }
        let mut scales = [0.0; WIDTH];
        std::ptr::copy_nonoverlapping(run.scales.1, scales.as_mut_ptr(), run.columns);
        for (index, sums) in sums.iter().enumerate() {
            let scale = _mm256_set1_ps((*run.scales.0.add(row + index)).scale);
            let values: [__m256; VECTORS] = std::array::from_fn(|i| {
                let scale = _mm256_mul_ps(scale, _mm256_loadu_ps(scales.as_ptr().add(i * 8)));
                _mm256_mul_ps(_mm256_cvtepi32_ps(sums[i]), scale)
            });
            finish(run, row + index, &values);
        }
    }
}

/// Writes one row: what it starts from, and the values.
///
/// # Safety
///
/// As of a run; `row` is one of its rows; the CPU has AVX2.
#[target_feature(enable = "avx2,fma")]
unsafe fn finish<N>(run: &Run<N>, row: usize, values: &[__m256; VECTORS]) {
    // SAFETY: `columns` ≤ `WIDTH` numbers of the row, and of a bias.
    unsafe {
        let out = run.out.add(row * run.out_step);
        let before = match run.start {
            Start::Zero => None,
            Start::Bias(bias) => Some(bias),
            Start::Target => Some(out.cast_const()),
        };
        if run.columns == WIDTH {
            for (index, &value) in values.iter().enumerate() {
                let value = match before {
                    Some(before) => _mm256_add_ps(value, _mm256_loadu_ps(before.add(index * 8))),
                    None => value,
                };
                _mm256_storeu_ps(out.add(index * 8), value);
            }
            return;
        }
        let mut list = [0.0; WIDTH];
        for (index, &value) in values.iter().enumerate() {
            _mm256_storeu_ps(list.as_mut_ptr().add(index * 8), value);
        }
        for (column, &value) in list.iter().enumerate().take(run.columns) {
            *out.add(column) = value + before.map_or(0.0, |before| *before.add(column));
        }
    }
}
