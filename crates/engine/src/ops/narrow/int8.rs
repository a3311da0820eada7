//! 8 bits: whole numbers between −127 and 127, times a scale for each row.
//!
//! A row's scale is its largest magnitude over 127; so sums of products of whole numbers are exact, and every instruction set gives the
//! same bits.

use super::level::Level;
use super::{Narrow, RowScale, Run, portable};
use crate::ops::dispatch::vectorised;
use crate::ops::memory::Memory;
use std::cell::Cell;

/// AVX-512 multiplies numbers without a sign by numbers with one: weights are stored so much larger there.
#[cfg(target_arch = "x86_64")]
pub(super) const OFFSET: i32 = 128;

thread_local! {
    static ROWS: Cell<Option<Memory<i8>>> = const { Cell::new(None) };
    static SCALES: Cell<Vec<RowScale>> = const { Cell::new(Vec::new()) };
}

impl Narrow for i8 {
    const DEPTH: usize = 64;
    // 2³¹ / (255 · 127), the largest product of a stored weight and a number of x.
    const MOST_INPUTS: usize = 66_000;

    fn width(level: Level, outputs: usize) -> usize {
        match level {
            Level::Portable => portable::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => super::avx2::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Vnni | Level::Avx512 => super::avx512::width(outputs),
            #[cfg(target_arch = "x86_64")]
            Level::Amx => super::amx::WIDTH,
        }
    }

    fn group(level: Level) -> usize {
        if is_wide(level) { WIDE_GROUP } else { GROUP }
    }

    fn weight(level: Level, row: &[f32], to: &mut [i8]) -> f32 {
        let scale = quantise(row, to);
        if is_offset(level) {
            // 128 more, as a number without a sign, is the same with the highest bit turned.
            to.iter_mut().for_each(|x| *x ^= i8::MIN);
        }
        scale
    }

    fn place(level: Level, row: &[i8], panel: &mut [i8], width: usize) {
        match is_wide(level) {
            true => super::place::<i8, WIDE_GROUP>(row, panel, width),
            false => super::place::<i8, GROUP>(row, panel, width),
        }
    }

    fn room(level: Level, depth: usize) -> usize {
        if is_wide(level) { 2 * depth } else { depth }
    }

    fn row(level: Level, row: &[f32], to: &mut [i8]) -> RowScale {
        let (to, rest) = to.split_at_mut(Self::room(level, row.len()));
        rest.fill(0);
        if is_wide(level) {
            return RowScale { scale: quantise_wide(row, to.as_chunks_mut().0), sum: 0 };
        }
        let scale = quantise(row, to);
        RowScale { scale, sum: if is_offset(level) { to.iter().map(|&x| i32::from(x)).sum() } else { 0 } }
    }

    unsafe fn run(level: Level, run: &Run<i8>) {
        let each = |one: unsafe fn(&Run<i8>)| {
            // SAFETY: the caller's promise, handed on; the level says that the instructions are there.
            run.panels().for_each(|panel| unsafe { one(&panel) });
        };
        match level {
            Level::Portable => each(portable::run_int8),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => each(super::avx2::run_int8),
            #[cfg(target_arch = "x86_64")]
            Level::Vnni | Level::Avx512 => each(super::avx512::run_int8),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Amx => unsafe { super::amx::run_int8(run) },
        }
    }

    fn with_rows<R>(
        rows: usize,
        room: usize,
        work: impl FnOnce(&mut [i8], &mut [RowScale]) -> R,
    ) -> Option<R> {
        super::lend(&ROWS, &SCALES, rows, room, work)
    }
}

/// Whether weights are stored [`OFFSET`] larger.
fn is_offset(level: Level) -> bool {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Vnni | Level::Avx512 => true,
        _ => false,
    }
}

/// Inputs that `vpdpbusd` and `tdpbssd` add up.
const GROUP: usize = 4;
/// Inputs that `vpmaddwd` adds up.
const WIDE_GROUP: usize = 2;

/// Whether rows of x are numbers of 16 bits: where products of 8 bits might not fit into what they are added up in.
fn is_wide(level: Level) -> bool {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => true,
        _ => false,
    }
}

vectorised!(
    /// Rounds a row to whole numbers times a scale, which is returned. A row with a number that is not finite has a scale that is no
    /// number, and so has whatever is made of it.
    pub fn quantise(row: &[f32], to: &mut [i8]) -> f32 = quantise_loop
);

vectorised!(
    /// The same in numbers of 16 bits.
    fn quantise_wide(row: &[f32], to: &mut [[i8; 2]]) -> f32 = quantise_wide_loop
);

#[inline(always)]
fn quantise_loop(row: &[f32], to: &mut [i8]) -> f32 {
    let scale = scale_of(row);
    let factor = factor(scale);
    for (to, &x) in to.iter_mut().zip(row) {
        *to = whole(x * factor);
    }
    scale
}

#[inline(always)]
fn quantise_wide_loop(row: &[f32], to: &mut [[i8; 2]]) -> f32 {
    let scale = scale_of(row);
    let factor = factor(scale);
    for (to, &x) in to.iter_mut().zip(row) {
        *to = i16::from(whole(x * factor)).to_ne_bytes().map(|byte| byte as i8);
    }
    scale
}

/// What a row's whole numbers are to be multiplied with: 0 for a row of nothing, no number for one with a number that is not finite.
#[inline(always)]
fn scale_of(row: &[f32]) -> f32 {
    // As whole numbers, magnitudes are ordered as they are as numbers, and those that are not finite come last.
    let mut largest = [0u32; 16];
    for chunk in row.chunks(16) {
        for (largest, x) in largest.iter_mut().zip(chunk) {
            *largest = (x.to_bits() & 0x7fff_ffff).max(*largest);
        }
    }
    let largest = f32::from_bits(largest.into_iter().fold(0, u32::max));
    // Not smaller than what has an inverse.
    match largest.is_finite() {
        true if largest < 1e-36 => 0.0,
        true => scale(largest),
        false => f32::NAN,
    }
}

/// What a row is multiplied with to be whole numbers: nothing is left of it where its scale is 0 or no number.
#[inline(always)]
fn factor(scale: f32) -> f32 {
    if scale > 0.0 { 1.0 / scale } else { 0.0 }
}

/// The nearest whole number between −127 and 127; 0 of what is not finite times 0.
#[inline(always)]
fn whole(x: f32) -> i8 {
    /// Adding it rounds to a whole number, which is then in the lowest bits.
    const MAGIC: f32 = 12_582_912.0;
    (x + MAGIC).to_bits() as i8
}

/// A scale for numbers up to this magnitude: a 127th, rounded up to 17 bits. So 127 times it is exact, and a row that was made of whole
/// numbers and this scale gives the same again.
#[inline(always)]
fn scale(largest: f32) -> f32 {
    const DROPPED: u32 = 0x7f;
    f32::from_bits(((largest / 127.0).to_bits() + DROPPED) & !DROPPED)
}
