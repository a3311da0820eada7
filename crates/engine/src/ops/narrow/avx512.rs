//! The loops for AVX-512 with BF16 and VNNI: tiles of 8 rows × 48 columns or 6 × 64, all sums in registers.

use super::int8::OFFSET;
use super::{Bf16, Run};
use crate::ops::gemm::Start;
use std::arch::x86_64::*;

/// Columns of a panel: three registers of sixteen, or four where fewer are then left empty.
pub(super) fn width(outputs: usize) -> usize {
    if outputs.next_multiple_of(64) < outputs.next_multiple_of(48) { 64 } else { 48 }
}

/// How far ahead of the sums the panel is fetched, in groups of inputs.
const AHEAD: usize = 16;

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is 48 or 64, and the CPU has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16")]
pub(super) unsafe fn run_bf16(run: &Run<Bf16>) {
    // SAFETY: the caller's promise; each tile's rows are among those of the run.
    unsafe {
        match run.width {
            64 => rows(run, (6, tile_bf16::<6, 4>), tile_bf16::<4, 4>, tile_bf16::<1, 4>),
            _ => rows(run, (8, tile_bf16::<8, 3>), tile_bf16::<4, 3>, tile_bf16::<1, 3>),
        }
    }
}

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is 48 or 64, and the CPU has AVX-512 F and VNNI.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni")]
pub(super) unsafe fn run_int8(run: &Run<i8>) {
    assert!(run.depth >= 4, "inputs of a product");
    // SAFETY: the caller's promise; each tile's rows are among those of the run.
    unsafe {
        match run.width {
            64 => rows(run, (6, tile_int8::<6, 4>), tile_int8::<4, 4>, tile_int8::<1, 4>),
            _ => rows(run, (8, tile_int8::<8, 3>), tile_int8::<4, 3>, tile_int8::<1, 3>),
        }
    }
}

/// A tile: some rows of a run, from one on; which of the run's tiles it is, and how many there are.
type Tile<N> = unsafe fn(&Run<N>, usize, (usize, usize));

/// All rows, as many at a time as the largest tile has, then four, then one.
///
/// # Safety
///
/// As of the tiles, for all rows of the run.
#[inline(always)]
unsafe fn rows<N>(run: &Run<N>, (most, many): (usize, Tile<N>), four: Tile<N>, one: Tile<N>) {
    let (whole, rest) = (run.rows / most, run.rows % most);
    let tiles = whole + rest / 4 + rest % 4;
    let (mut row, mut tile) = (0, 0);
    for (rows, count, body) in [(most, whole, many), (4, rest / 4, four), (1, rest % 4, one)] {
        for _ in 0..count {
            // SAFETY: the tile's rows are among those of the run.
            unsafe { body(run, row, (tile, tiles)) };
            row += rows;
            tile += 1;
        }
    }
}

/// Fetches what the loops read after this panel into the second-level cache: a row of the next one at a time, each tile its share, so that
/// memory gives evenly while rows are multiplied with this one. Where there are few rows, that is what the product waits for.
struct Fetch {
    next: *const i8,
    tiles: usize,
    due: usize,
}

impl Fetch {
    fn new<N>(run: &Run<N>, (tile, tiles): (usize, usize)) -> Self {
        Fetch { next: run.panel.wrapping_add(run.panel_step).cast(), tiles, due: tile }
    }

    /// Called for one row of the panel after the other, `lines` cache lines each.
    #[inline(always)]
    fn step(&mut self, lines: usize) {
        if self.due == 0 {
            for line in 0..lines {
                // SAFETY: fetching is allowed at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(self.next.wrapping_add(line * 64)) };
            }
            self.due = self.tiles;
        }
        self.due -= 1;
        self.next = self.next.wrapping_add(lines * 64);
    }
}

/// `ROWS` rows from `row` on, with `VECTORS` registers of sixteen each.
///
/// # Safety
///
/// As of `run_bf16`; the rows are among those of the run, whose panels are `VECTORS` registers wide.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16")]
unsafe fn tile_bf16<const ROWS: usize, const VECTORS: usize>(
    run: &Run<Bf16>,
    row: usize,
    turn: (usize, usize),
) {
    // SAFETY: pairs of the rows and of the panel, `depth` / 2 of both; any 512 bits are numbers of 16. Prefetching touches nothing.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
        let (mut panel, mut x) = (run.panel, run.x.add(row * run.depth));
        let mut fetch = Fetch::new(run, turn);
        for _ in 0..run.depth / 2 {
            fetch.step(VECTORS);
            let mut weights = [_mm512_setzero_si512(); VECTORS];
            for (index, weight) in weights.iter_mut().enumerate() {
                *weight = _mm512_loadu_si512(panel.add(index * 32).cast());
                _mm_prefetch::<_MM_HINT_T0>(panel.wrapping_add(AHEAD * VECTORS * 32 + index * 32).cast());
            }
            for (index, sums) in sums.iter_mut().enumerate() {
                let pair = _mm512_set1_epi32(x.add(index * run.depth).cast::<i32>().read_unaligned());
                for (sum, &weight) in sums.iter_mut().zip(&weights) {
                    *sum = _mm512_dpbf16_ps(*sum, bits(weight), bits(pair));
                }
            }
            panel = panel.add(VECTORS * 32);
            x = x.wrapping_add(2);
        }
        for (index, sums) in sums.iter().enumerate() {
            finish(run, row + index, sums);
        }
    }
}

/// The same bits as numbers of 16.
#[inline(always)]
fn bits(x: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits, of which any are numbers.
    unsafe { std::mem::transmute(x) }
}

/// `ROWS` rows from `row` on, with `VECTORS` registers of sixteen each.
///
/// # Safety
///
/// As of `run_int8`; the rows are among those of the run, whose panels are `VECTORS` registers wide.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni")]
unsafe fn tile_int8<const ROWS: usize, const VECTORS: usize>(
    run: &Run<i8>,
    row: usize,
    turn: (usize, usize),
) {
    // SAFETY: groups of four of the rows and of the panel, `depth` / 4 of both. Prefetching touches nothing.
    unsafe {
        let mut sums = [[_mm512_setzero_si512(); VECTORS]; ROWS];
        let (mut panel, mut x) = (run.panel, run.x.add(row * run.depth));
        let mut fetch = Fetch::new(run, turn);
        // Left at its end: for a loop that may not run at all the compiler clears the sums in memory too.
        let mut groups = run.depth / 4;
        loop {
            fetch.step(VECTORS);
            let mut weights = [_mm512_setzero_si512(); VECTORS];
            for (index, weight) in weights.iter_mut().enumerate() {
                *weight = _mm512_loadu_si512(panel.add(index * 64).cast());
                _mm_prefetch::<_MM_HINT_T0>(panel.wrapping_add(AHEAD * VECTORS * 64 + index * 64).cast());
            }
            for (index, sums) in sums.iter_mut().enumerate() {
                let group = _mm512_set1_epi32(x.add(index * run.depth).cast::<i32>().read_unaligned());
                for (sum, &weight) in sums.iter_mut().zip(&weights) {
                    *sum = _mm512_dpbusd_epi32(*sum, weight, group);
                }
            }
            panel = panel.add(VECTORS * 64);
            x = x.wrapping_add(4);
            groups -= 1;
            if groups == 0 {
                break;
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            let too_much = _mm512_set1_epi32(OFFSET * (*run.scales.0.add(row + index)).sum);
            let mut wanted = *sums;
            for sum in &mut wanted {
                *sum = _mm512_sub_epi32(*sum, too_much);
            }
            finish_int8(run, row + index, &wanted);
        }
    }
}

/// The mask of the columns that a register of a row has.
#[inline(always)]
fn mask<N>(run: &Run<N>, index: usize) -> u16 {
    ((1u32 << run.columns.saturating_sub(index * 16).min(16)) - 1) as u16
}

/// Writes one row: what it starts from, and the sums times the scales of its row and columns.
///
/// # Safety
///
/// As of a run in 8 bits; `row` is one of its rows, with as many registers as the panel is wide; the CPU has AVX-512 F.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
pub(super) unsafe fn finish_int8<const V: usize>(run: &Run<i8>, row: usize, sums: &[__m512i; V]) {
    // SAFETY: a scale for the row and for each column.
    unsafe {
        let scale = _mm512_set1_ps((*run.scales.0.add(row)).scale);
        let mut values = [_mm512_setzero_ps(); V];
        for (index, value) in values.iter_mut().enumerate() {
            let columns = _mm512_maskz_loadu_ps(mask(run, index), run.scales.1.wrapping_add(index * 16));
            *value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[index]), _mm512_mul_ps(scale, columns));
        }
        finish(run, row, &values);
    }
}

/// Writes one row: what it starts from, and the values.
///
/// # Safety
///
/// As of a run; `row` is one of its rows, with as many registers as the panel is wide; the CPU has AVX-512 F.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
pub(super) unsafe fn finish<N, const V: usize>(run: &Run<N>, row: usize, values: &[__m512; V]) {
    // SAFETY: the columns of the row, and of a bias.
    unsafe {
        let out = run.out.add(row * run.out_step);
        for (index, &value) in values.iter().enumerate() {
            let (mask, at) = (mask(run, index), index * 16);
            let value = match run.start {
                Start::Zero => value,
                Start::Bias(bias) => _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, bias.wrapping_add(at))),
                Start::Target => {
                    _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, out.wrapping_add(at).cast_const()))
                }
            };
            _mm512_mask_storeu_ps(out.wrapping_add(at), mask, value);
        }
    }
}
