//! The loops that rotate, and all of this crate's unsafe code.
//!
//! `view.rs` says what memory may be touched; this file walks over it, vector by vector, and hands runs of vectors to
//! the loops: `portable.rs`, written plainly, or `x86.rs` for AVX2 and AVX-512, chosen once at run time. All give the
//! same bits. `fill.rs` makes the tables, `fresh.rs` memory for results.

pub(crate) mod fill;
pub(crate) mod fresh;
mod portable;
pub(crate) mod view;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::element::{Element, Precision};
use crate::instructions::Instructions;
use crate::pairing::Order;
use crate::position::{Covered, Positions};
use crate::schedule::AnglePrecision;
use crate::trig::Angle;
use half::{bf16, f16};
use std::sync::OnceLock;
use view::{Strides, View, ViewMut};

/// The most rotary features that a head may have: what one vector's copy on the stack has room for.
pub(crate) const MAX_ROTARY_DIM: usize = 8192;

/// Below this many bytes, waking other threads costs more than it saves.
#[cfg(feature = "rayon")]
const PARALLEL_BYTES: usize = 1 << 20;
/// Pieces of work for each thread. Measured on 16 cores: with 4, the last ones are waited for for a tenth of the time.
#[cfg(feature = "rayon")]
const PIECES_A_THREAD: usize = 16;

/// Heads worked on at a time when they are far apart in memory: each is a stream, and of a few, wide ones memory gives most.
const fn heads_at_a_time<T>() -> usize {
    let heads = 8 / size_of::<T>();
    if heads > 2 { heads } else { 2 }
}

/// The instruction sets that the loops are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with instructions that round to `bf16`.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
}

impl Level {
    /// All that this machine can run, the best last.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut, reason = "other machines have the portable loops alone")]
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") {
                levels.push(Level::Avx2);
                if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                    levels.push(Level::Avx512);
                    if has!("avx512bf16") {
                        levels.push(Level::Avx512Bf16);
                    }
                }
            }
        }
        levels
    }

    /// The best that may be used, found once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Instructions::best(&Level::available(), Level::needs).unwrap_or(Level::Portable))
    }

    fn needs(self) -> Instructions {
        match self {
            Level::Portable => Instructions::Portable,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Instructions::Avx2,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Avx512Bf16 => Instructions::Avx512,
        }
    }
}

/// Vectors to rotate: `tokens` × `heads` of them. The tokens take consecutive rows of a table.
///
/// Invariants, kept by whoever makes one: all those vectors, of 2·`pairs` features, are valid to read at `source` and to
/// write at `target`; source and target are the same vectors or do not overlap; with different orders they do not
/// overlap. Token t takes the `pairs` cosines and sines at t·`pairs`.
#[derive(Clone, Copy)]
pub(crate) struct Run<T: Element> {
    source: *const T,
    target: *mut T,
    /// Elements between neighbours.
    source_steps: Steps,
    target_steps: Steps,
    tokens: usize,
    heads: usize,
    cos: *const T::Table,
    sin: *const T::Table,
    pairs: usize,
    from: Order,
    to: Order,
    /// Whether the sign of the sine is turned: the rotation back.
    conjugate: bool,
}

#[derive(Clone, Copy)]
struct Steps {
    token: usize,
    head: usize,
}

impl<T: Element> Run<T> {
    /// The vector of one token and head: where it is read, where it is written, its cosines and its sines.
    ///
    /// # Safety
    ///
    /// The run's invariants hold and it has this token and head.
    #[inline(always)]
    unsafe fn vector(
        &self,
        token: usize,
        head: usize,
    ) -> (*const T, *mut T, *const T::Table, *const T::Table) {
        let at = |steps: Steps| token * steps.token + head * steps.head;
        // SAFETY: the invariants: all vectors of the run, and a row of the table for every token.
        unsafe {
            let row = token * self.pairs;
            (
                self.source.add(at(self.source_steps)),
                self.target.add(at(self.target_steps)),
                self.cos.add(row),
                self.sin.add(row),
            )
        }
    }
}

/// The loops for one number type at every level. Implemented for the four element types alone, which seals `Element`.
pub(crate) trait Kernel: Sized {
    /// Rotates a run.
    ///
    /// # Safety
    ///
    /// The run's invariants hold, and `level` is available on this machine.
    unsafe fn run(level: Level, run: &Run<Self>)
    where
        Self: Element;
}

macro_rules! kernel {
    ($($type:ty: $avx2:ident, $avx512:ident, $bf16:ident;)*) => {$(
        impl Kernel for $type {
            #[inline]
            unsafe fn run(level: Level, run: &Run<Self>) {
                match level {
                    // SAFETY: the caller's promise, handed on.
                    Level::Portable => unsafe { portable::run(run) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the caller's promise, handed on; the level says that the features are there.
                    Level::Avx2 => unsafe { x86::run_avx2::<$type, x86::$avx2, x86::Plain>(run) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    Level::Avx512 => unsafe { x86::run_avx512::<$type, x86::$avx512, x86::Plain>(run) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    Level::Avx512Bf16 => unsafe { x86::run_avx512_bf16::<$type, x86::$avx512, x86::$bf16>(run) },
                }
            }
        }
    )*};
}
kernel! {
    f32: F32x8, F32x16, Plain;
    f64: F64x4, F64x8, Plain;
    f16: F32x8, F32x16, Plain;
    bf16: F32x8, F32x16, InHardware;
}

/// The rows of a table that the tokens of an input take.
#[derive(Clone, Copy)]
pub(crate) struct Trig<'a, P> {
    /// `[rows, pairs]`
    pub cos: &'a [P],
    /// `[rows, pairs]`
    pub sin: &'a [P],
    pub pairs: usize,
    pub covered: Covered,
    pub positions: Positions<'a>,
}

/// What is done to every vector.
#[derive(Clone, Copy)]
pub(crate) struct Turning {
    pub from: Order,
    pub to: Order,
    pub conjugate: bool,
    /// The first rotary feature.
    pub offset: usize,
}

/// Rotates every vector of `x` in place. The positions have been checked against the table and the shape.
pub(crate) fn rotate<T: Element>(level: Level, trig: &Trig<T::Table>, turning: Turning, x: &mut ViewMut<T>) {
    let shape = x.shape();
    let (pointer, strides) = x.parts();
    let walk = Walk { trig, turning, shape, source: pointer, target: pointer, from: strides, to: strides };
    walk.all(level);
}

/// Rotates every vector of `x` into `y`, of the same shape; features that are not rotary are copied.
pub(crate) fn rotate_to<T: Element>(
    level: Level,
    trig: &Trig<T::Table>,
    turning: Turning,
    x: &View<T>,
    y: &mut ViewMut<T>,
) {
    let shape = x.shape();
    assert_eq!(shape, y.shape(), "checked by the caller");
    let (source, from) = x.parts();
    let (target, to) = y.parts();
    Walk { trig, turning, shape, source, target, from, to }.all(level);
}

/// A walk over all vectors of a source and a target of one shape. They are the same view, or do not overlap: one is
/// borrowed shared and the other exclusively.
struct Walk<'a, T: Element> {
    trig: &'a Trig<'a, T::Table>,
    turning: Turning,
    shape: view::Shape,
    source: *const T,
    target: *mut T,
    from: Strides,
    to: Strides,
}

// SAFETY: a walk reads its source and writes its target, which it has for itself; threads are given different tokens,
// and no two vectors of the target share an element.
unsafe impl<T: Element> Sync for Walk<'_, T> {}

impl<T: Element> Walk<'_, T> {
    fn all(&self, level: Level) {
        // Everything the loops rely on that is not in a type: checked here, once a call.
        let (trig, shape) = (self.trig, self.shape);
        assert!(trig.pairs * 2 <= MAX_ROTARY_DIM && self.turning.offset + trig.pairs * 2 <= shape.head_dim);
        assert_eq!(trig.cos.len(), trig.covered.rows() * trig.pairs);
        assert_eq!(trig.sin.len(), trig.cos.len());
        if shape.is_empty() {
            return;
        }
        // A decode step: one token, all heads, with nothing to divide up.
        if shape.batch * shape.length == 1 {
            return self.run(level, 0, (0, 1), (0, shape.heads));
        }
        self.split(level);
    }

    /// All tokens, over the threads of the current pool if there is enough to do.
    fn split(&self, level: Level) {
        let tokens = self.shape.batch * self.shape.length;
        #[cfg(feature = "rayon")]
        {
            use rayon::prelude::*;
            let bytes = tokens * self.shape.heads * self.shape.head_dim * size_of::<T>();
            let threads = if bytes < PARALLEL_BYTES { 1 } else { rayon::current_num_threads() };
            if threads > 1 {
                // A few pieces per thread even out what else the machine is doing.
                let piece = tokens.div_ceil(threads * PIECES_A_THREAD);
                return (0..tokens.div_ceil(piece)).into_par_iter().for_each(|index| {
                    self.piece(level, index * piece, tokens.min((index + 1) * piece));
                });
            }
        }
        self.piece(level, 0, tokens);
    }

    /// The tokens `first..end`, counted through all sequences.
    fn piece(&self, level: Level, first: usize, end: usize) {
        let length = self.shape.length;
        let mut at = first;
        while at < end {
            let (batch, token) = (at / length, at % length);
            let count = (length - token).min(end - at);
            self.tokens(level, batch, token, token + count);
            at += count;
        }
    }

    /// The tokens `first..end` of one sequence, in the order of memory.
    fn tokens(&self, level: Level, batch: usize, first: usize, end: usize) {
        // With heads side by side, all heads of a token. With tokens side by side, a few heads at a time: each row of
        // the table then serves them all, and no more streams run through memory than the hardware follows.
        let group = if self.to.heads <= self.to.length { self.shape.heads } else { heads_at_a_time::<T>() };
        for head in (0..self.shape.heads).step_by(group) {
            let heads = group.min(self.shape.heads - head);
            let mut token = first;
            while token < end {
                let Trig { covered, positions, .. } = self.trig;
                let tokens = covered.consecutive(positions, batch, token, end, self.shape.length);
                self.run(level, batch, (token, tokens), (head, heads));
                token += tokens;
            }
        }
    }

    /// `tokens` tokens from one on, with consecutive rows, and `heads` heads of each.
    fn run(
        &self,
        level: Level,
        batch: usize,
        (token, tokens): (usize, usize),
        (head, heads): (usize, usize),
    ) {
        let Trig { pairs, covered, positions, cos, sin } = self.trig;
        let row = covered.row(positions, batch, token, self.shape.length);
        let table = row * pairs..(row + tokens) * pairs;
        let at = |strides: &Strides| batch * strides.batch + token * strides.length + head * strides.heads;
        let steps = |strides: &Strides| Steps { token: strides.length, head: strides.heads };
        let Turning { from, to, conjugate, offset } = self.turning;
        // SAFETY: batch, token and head are within the shape of both views, so these are elements of theirs.
        let (source, target) = unsafe { (self.source.add(at(&self.from)), self.target.add(at(&self.to))) };
        let run: Run<T> = Run {
            // SAFETY: the rotary features lie within the head: checked in `all`.
            source: unsafe { source.add(offset) },
            // SAFETY: as above.
            target: unsafe { target.add(offset) },
            source_steps: steps(&self.from),
            target_steps: steps(&self.to),
            tokens,
            heads,
            cos: cos[table.clone()].as_ptr(),
            sin: sin[table].as_ptr(),
            pairs: *pairs,
            from,
            to,
            conjugate,
        };
        // SAFETY: the run's vectors are vectors of both views, its rows were sliced above, and the views are the same
        // or do not overlap. The level comes from `Level::available`.
        unsafe {
            if source == target && from != to {
                rotate_reordered(level, &run);
            } else {
                T::run(level, &run);
            }
            if source != target {
                copy_around(&run, offset, self.shape.head_dim);
            }
        }
    }
}

/// Rotates a run in place into another order of features: every vector is copied aside before it is written.
///
/// # Safety
///
/// As [`Kernel::run`], but source and target are the same vectors; at most `MAX_ROTARY_DIM` features.
// Never inlined: every caller would pay for probing the pages of its copy.
#[inline(never)]
unsafe fn rotate_reordered<T: Element>(level: Level, run: &Run<T>) {
    let mut copy = std::mem::MaybeUninit::<[T; MAX_ROTARY_DIM]>::uninit();
    let copy = copy.as_mut_ptr().cast::<T>();
    for token in 0..run.tokens {
        for head in 0..run.heads {
            // SAFETY: a vector of the run, at most as long as the copy, of which as much is read as was written.
            unsafe {
                let (source, target, cos, sin) = run.vector(token, head);
                std::ptr::copy_nonoverlapping(source, copy, 2 * run.pairs);
                T::run(level, &Run { source: copy, target, cos, sin, tokens: 1, heads: 1, ..*run });
            }
        }
    }
}

/// Copies the features of a run's heads that lie around the rotary ones, which begin at `offset`.
///
/// # Safety
///
/// The run's invariants hold for whole heads of `head_dim` features, and source and target do not overlap.
unsafe fn copy_around<T: Element>(run: &Run<T>, offset: usize, head_dim: usize) {
    let after = head_dim - offset - 2 * run.pairs;
    for token in 0..run.tokens {
        for head in 0..run.heads {
            // SAFETY: what lies before and after the rotary features of a vector of the run, within its head.
            unsafe {
                let (source, target, ..) = run.vector(token, head);
                std::ptr::copy_nonoverlapping(source.sub(offset), target.sub(offset), offset);
                std::ptr::copy_nonoverlapping(source.add(2 * run.pairs), target.add(2 * run.pairs), after);
            }
        }
    }
}

/// Fills `offsets`, see [`fill::offsets`].
pub(crate) fn fill_offsets(high: &[f64], low: &[f64], offsets: &mut fill::Offsets) {
    match Level::best() {
        Level::Portable => fill::offsets(high, low, offsets),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there.
        _ => unsafe { x86::fill_offsets(high, low, offsets) },
    }
}

/// Fills a block of rows, see [`fill::block`].
pub(crate) fn fill_block<P: Precision>(
    level: Level,
    (high, low): (&[f64], &[f64]),
    offsets: &fill::Offsets,
    first: f64,
    scale: f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    match level {
        Level::Portable => fill::block(high, low, offsets, first, scale, cos, sin),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there.
        Level::Avx2 => unsafe { x86::fill_block_avx2(high, low, offsets, first, scale, cos, sin) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512 | Level::Avx512Bf16 => unsafe {
            x86::fill_block_avx512(high, low, offsets, first, scale, cos, sin)
        },
    }
}

/// Fills one row, see [`fill::row`].
pub(crate) fn fill_row<P: Precision>(
    level: Level,
    precision: AnglePrecision,
    angle: impl Fn(usize) -> Angle,
    scale: impl Fn(usize) -> f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    match level {
        Level::Portable => fill::row(precision, angle, scale, cos, sin),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there.
        _ => unsafe { x86::fill_row(precision, angle, scale, cos, sin) },
    }
}
