//! The loops for AVX2. 16 bits are widened to 32. Of 8 bits, magnitudes of x are multiplied with weights that have x's signs: two
//! products of at most 127² fit into 16 bits, so nothing saturates.

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
    unsafe { rows(run, tile_bf16::<4>, tile_bf16::<1>) }
}

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is `WIDTH`, and the CPU has AVX2.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_int8(run: &Run<i8>) {
    // SAFETY: the caller's promise.
    unsafe { rows(run, tile_int8::<4>, tile_int8::<1>) }
}

/// All rows, four at a time, then one.
///
/// # Safety
///
/// As of the tiles, for all rows of the run.
#[inline(always)]
unsafe fn rows<N>(run: &Run<N>, four: unsafe fn(&Run<N>, usize), one: unsafe fn(&Run<N>, usize)) {
    let mut row = 0;
    while row + 4 <= run.rows {
        // SAFETY: four rows of the run.
        unsafe { four(run, row) };
        row += 4;
    }
    while row < run.rows {
        // SAFETY: a row of the run.
        unsafe { one(run, row) };
        row += 1;
    }
}

/// `ROWS` rows from `row` on.
///
/// # Safety
///
/// As of `run_bf16`; the rows are among those of the run.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_bf16<const ROWS: usize>(run: &Run<Bf16>, row: usize) {
    // SAFETY: pairs of the rows and of the panel, `depth` / 2 of both.
    unsafe {
        let upper = _mm256_set1_epi32(0xffff_0000u32 as i32);
        // The first number of a pair is the lower half.
        let first = |pair: __m256i| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pair));
        let second = |pair: __m256i| _mm256_castsi256_ps(_mm256_and_si256(pair, upper));
        let mut sums = [[_mm256_setzero_ps(); VECTORS]; ROWS];
        for pair in 0..run.depth / 2 {
            let weights = run.panel.add(pair * WIDTH * 2).cast::<__m256i>();
            let weights: [__m256i; VECTORS] = std::array::from_fn(|i| _mm256_loadu_si256(weights.add(i)));
            for (index, sums) in sums.iter_mut().enumerate() {
                let x = run.x.add((row + index) * run.depth + pair * 2).cast::<i32>();
                let x = _mm256_set1_epi32(x.read_unaligned());
                let (a, b) = (first(x), second(x));
                for (sum, &weight) in sums.iter_mut().zip(&weights) {
                    *sum = _mm256_fmadd_ps(a, first(weight), *sum);
                    *sum = _mm256_fmadd_ps(b, second(weight), *sum);
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
    // SAFETY: groups of four of the rows and of the panel, `depth` / 4 of both; a scale for each row and column.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let mut sums = [[_mm256_setzero_si256(); VECTORS]; ROWS];
        for group in 0..run.depth / 4 {
            let weights = run.panel.add(group * WIDTH * 4).cast::<__m256i>();
            let weights: [__m256i; VECTORS] = std::array::from_fn(|i| _mm256_loadu_si256(weights.add(i)));
            for (index, sums) in sums.iter_mut().enumerate() {
                let x = run.x.add((row + index) * run.depth + group * 4).cast::<i32>();
                let x = _mm256_set1_epi32(x.read_unaligned());
                let magnitude = _mm256_abs_epi8(x);
                for (sum, &weight) in sums.iter_mut().zip(&weights) {
                    let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(weight, x));
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
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
