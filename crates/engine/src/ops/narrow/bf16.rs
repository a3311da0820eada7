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
        if x.is_nan() { Bf16((x.to_bits() >> 16) as u16 | 0x40) } else { Bf16::of_number(x) }
    }

    /// The nearest to what is a number, or to NaN anything: for where NaN makes all of a result NaN by another way.
    #[inline(always)]
    pub fn of_number(x: f32) -> Bf16 {
        let bits = x.to_bits();
        Bf16((bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
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
    const DEPTH: usize = 32;
    const MOST_INPUTS: usize = usize::MAX;

    fn width(level: Level, outputs: usize) -> usize {
        match level {
            Level::Portable => portable::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Vnni => super::avx2::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => super::avx512::width(outputs),
            #[cfg(target_arch = "x86_64")]
            Level::Amx => super::amx::WIDTH,
        }
    }

    fn group(_: Level) -> usize {
        GROUP
    }

    fn weight(_: Level, row: &[f32], to: &mut [Bf16]) -> f32 {
        round(row, to);
        1.0
    }

    fn place(_: Level, row: &[Bf16], panel: &mut [Bf16], width: usize) {
        super::place::<Bf16, GROUP>(row, panel, width);
    }

    fn room(level: Level, depth: usize) -> usize {
        if is_wide(level) { 2 * depth } else { depth }
    }

    fn row(level: Level, row: &[f32], to: &mut [Bf16]) -> RowScale {
        let (to, rest) = to.split_at_mut(Self::room(level, row.len()));
        match is_wide(level) {
            true => round_wide(row, to.as_chunks_mut().0),
            false => round(row, to),
        }
        rest.fill(Bf16::default());
        RowScale::default()
    }

    unsafe fn run(level: Level, run: &Run<Bf16>) {
        let each = |one: unsafe fn(&Run<Bf16>)| {
            // SAFETY: the caller's promise, handed on; the level says that the instructions are there.
            run.panels().for_each(|panel| unsafe { one(&panel) });
        };
        match level {
            Level::Portable => each(portable::run_bf16),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Vnni => each(super::avx2::run_bf16),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => each(super::avx512::run_bf16),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Amx => unsafe { super::amx::run_bf16(run) },
        }
    }

    fn with_rows<R>(
        rows: usize,
        room: usize,
        work: impl FnOnce(&mut [Bf16], &mut [RowScale]) -> R,
    ) -> Option<R> {
        super::lend(&ROWS, &SCALES, rows, room, work)
    }
}

/// Inputs that `vdpbf16ps` and `tdpbf16ps` add up; the others take them one by one.
pub(super) const GROUP: usize = 2;

/// Whether rows of x are numbers of 32 bits, of which the upper halves say all: where numbers of 16 bits cannot be multiplied.
pub(super) fn is_wide(level: Level) -> bool {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Vnni => true,
        _ => false,
    }
}

vectorised!(
    /// Rounds numbers to 16 bits, which become the upper halves of numbers of 32.
    fn round_wide(from: &[f32], to: &mut [[Bf16; 2]]) = round_wide_loop
);

#[inline(always)]
fn round_wide_loop(from: &[f32], to: &mut [[Bf16; 2]]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = [Bf16(0), Bf16::of(from)];
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
