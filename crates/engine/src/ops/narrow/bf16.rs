//! 16 bits: the upper half of an `f32`, rounded to the nearest, to even where two are as near.

use super::level::Level;
use super::{Narrow, RowScale, Run, portable};
use crate::ops::dispatch::vectorised;
use crate::ops::memory::{Memory, Plain};
use std::cell::Cell;

/// A number of 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Bf16(pub u16);

// SAFETY: sixteen bits, any of which are a number.
unsafe impl Plain for Bf16 {}
// SAFETY: two of them.
unsafe impl Plain for [Bf16; 2] {}

impl Bf16 {
    /// The nearest; NaN stays NaN.
    #[inline(always)]
    pub fn of(x: f32) -> Bf16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        Bf16(if x.is_nan() { (bits >> 16) | 0x40 } else { rounded } as u16)
    }

    /// The same number in 32 bits.
    #[inline(always)]
    pub fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

thread_local! {
    static ROWS: Cell<Option<Memory<Bf16>>> = const { Cell::new(None) };
    static SCALES: Cell<Vec<RowScale>> = const { Cell::new(Vec::new()) };
}

impl Narrow for Bf16 {
    const GROUP: usize = 2;
    const DEPTH: usize = 32;
    const MOST_INPUTS: usize = usize::MAX;

    fn weight(_: Level, row: &[f32], to: &mut [Bf16]) -> f32 {
        round(row, to);
        1.0
    }

    fn row(_: Level, row: &[f32], to: &mut [Bf16]) -> RowScale {
        round(row, to);
        RowScale::default()
    }

    fn place(row: &[Bf16], panel: &mut [Bf16], width: usize) {
        super::place::<Bf16, { Self::GROUP }>(row, panel, width);
    }

    unsafe fn run(level: Level, run: &Run<Bf16>) {
        let each = |one: unsafe fn(&Run<Bf16>)| {
            // SAFETY: the caller's promise, handed on; the level says that the instructions are there.
            run.panels().for_each(|panel| unsafe { one(&panel) });
        };
        match level {
            Level::Portable => each(portable::run_bf16),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => each(super::avx2::run_bf16),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => each(super::avx512::run_bf16),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Amx => unsafe { super::amx::run_bf16(run) },
        }
    }

    fn with_rows<R>(
        rows: usize,
        depth: usize,
        work: impl FnOnce(&mut [Bf16], &mut [RowScale]) -> R,
    ) -> Option<R> {
        super::lend(&ROWS, &SCALES, rows, depth, work)
    }
}

vectorised!(
    /// Rounds numbers to 16 bits, as many as there are of both.
    pub(crate) fn round(from: &[f32], to: &mut [Bf16]) = round_loop
);

#[inline(always)]
pub(super) fn round_loop(from: &[f32], to: &mut [Bf16]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = Bf16::of(from);
    }
}
