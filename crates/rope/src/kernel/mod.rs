//! The loops that rotate, and all of this crate's unsafe code.
//!
//! `view.rs` says what memory may be touched; this file walks over it, vector by vector, and hands runs of vectors to
//! the loops: `portable.rs`, written plainly, or `x86.rs` for AVX2 and AVX-512, chosen once at run time. All give the
//! same bits. `fill.rs` makes the tables.

pub(crate) mod fill;
mod portable;
pub(crate) mod view;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::element::{Element, Precision};
use crate::pairing::Order;
use crate::position::{Covered, Positions};
use crate::schedule::AnglePrecision;
use crate::trig::Angle;
use half::{bf16, f16};
use std::sync::OnceLock;
use view::{Strides, View, ViewMut};

/// The most rotary features a head may have: what one vector's copy on the stack has room for.
pub(crate) const MAX_ROTARY_DIM: usize = 8192;

/// Below this many bytes, waking other threads costs more than it saves.
#[cfg(feature = "rayon")]
const PARALLEL_BYTES: usize = 1 << 20;
/// Pieces of work for each thread.
#[cfg(feature = "rayon")]
const PIECES_A_THREAD: usize = 4;

/// Rows of a table worked on at a time when heads are far apart: they stay in the second-level cache for all heads.
const CACHED_TABLE_BYTES: usize = 256 << 10;

/// The instruction sets that the loops are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
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
                }
            }
        }
        levels
    }

    /// The best, found once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| *Level::available().last().unwrap_or(&Level::Portable))
    }
}

/// A run of vectors that are rotated by one row of a table, or by consecutive rows.
///
/// Invariants, kept by whoever makes one: `count` vectors of 2·`pairs` features, `source_step` and `target_step` elements
/// apart, are valid to read at `source` and to write at `target`; source and target are the same vectors or do not
/// overlap; with different orders they do not overlap. Vector i takes the `pairs` cosines and sines at
/// i · `table_step`.
pub(crate) struct Run<T: Element> {
    source: *const T,
    target: *mut T,
    source_step: usize,
    target_step: usize,
    count: usize,
    cos: *const T::Table,
    sin: *const T::Table,
    table_step: usize,
    pairs: usize,
    from: Order,
    to: Order,
    /// Whether the sign of the sine is turned: the rotation back.
    conjugate: bool,
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
    ($($type:ty: $avx2:ident, $avx512:ident;)*) => {$(
        impl Kernel for $type {
            #[inline]
            unsafe fn run(level: Level, run: &Run<Self>) {
                match level {
                    // SAFETY: the caller's promise, handed on.
                    Level::Portable => unsafe { portable::run(run) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the caller's promise, handed on; the level says that the features are there.
                    Level::Avx2 => unsafe { x86::run_avx2::<$type, x86::$avx2>(run) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    Level::Avx512 => unsafe { x86::run_avx512::<$type, x86::$avx512>(run) },
                }
            }
        }
    )*};
}
kernel! {
    f32: F32x8, F32x16;
    f64: F64x4, F64x8;
    f16: F32x8, F32x16;
    bf16: F32x8, F32x16;
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
                // A few pieces a thread even out what else the machine is doing.
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
        if self.to.heads <= self.to.length {
            // Heads side by side: one row of the table for all heads of a token.
            for token in first..end {
                self.run(level, batch, token, 0, self.shape.heads, Along::Heads);
            }
            return;
        }
        // Tokens side by side: as many as their rows of the table stay cached, for one head after another.
        let row = 2 * self.trig.pairs.max(1) * size_of::<T::Table>();
        let cached = (CACHED_TABLE_BYTES / row).max(1);
        let mut token = first;
        while token < end {
            let block = cached.min(end - token);
            for head in 0..self.shape.heads {
                let mut at = token;
                while at < token + block {
                    let consecutive =
                        self.trig.covered.consecutive(&self.trig.positions, at, self.shape.length);
                    let count = consecutive.min(token + block - at);
                    self.run(level, batch, at, head, count, Along::Tokens);
                    at += count;
                }
            }
            token += block;
        }
    }

    /// `count` vectors from one head of one token on.
    #[inline]
    fn run(&self, level: Level, batch: usize, token: usize, head: usize, count: usize, along: Along) {
        let Trig { pairs, covered, positions, cos, sin } = self.trig;
        let row = covered.row(positions, batch, token, self.shape.length);
        let at = |strides: &Strides| batch * strides.batch + token * strides.length + head * strides.heads;
        let (source_step, target_step, rows, table_step) = match along {
            Along::Heads => (self.from.heads, self.to.heads, 1, 0),
            Along::Tokens => (self.from.length, self.to.length, count, *pairs),
        };
        let table = row * pairs..(row + rows) * pairs;
        let Turning { from, to, conjugate, offset } = self.turning;
        // SAFETY: batch, token and head are within the shape of both views, so this is their first feature there.
        let (source, target) = unsafe { (self.source.add(at(&self.from)), self.target.add(at(&self.to))) };
        let mut run: Run<T> = Run {
            // SAFETY: the rotary features lie within the head: checked in `all`.
            source: unsafe { source.add(offset) },
            // SAFETY: as above.
            target: unsafe { target.add(offset) },
            source_step,
            target_step,
            count,
            cos: cos[table.clone()].as_ptr(),
            sin: sin[table].as_ptr(),
            table_step,
            pairs: *pairs,
            from,
            to,
            conjugate,
        };
        if source == target && from != to {
            // SAFETY: as below; the copy is what makes the vectors different.
            return unsafe { rotate_reordered(level, &mut run) };
        }
        // SAFETY: the run's vectors are `count` vectors of both views, its rows were sliced above, and the views are
        // the same or do not overlap. The level comes from `Level::available`.
        unsafe { T::run(level, &run) };
        if source != target {
            let rotary = offset..offset + 2 * pairs;
            for vector in 0..count {
                for part in [0..rotary.start, rotary.end..self.shape.head_dim] {
                    // SAFETY: the features around the rotary ones, of vectors that do not overlap.
                    unsafe {
                        let source = source.add(vector * source_step + part.start);
                        let target = target.add(vector * target_step + part.start);
                        std::ptr::copy_nonoverlapping(source, target, part.len());
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Along {
    Heads,
    Tokens,
}

/// Rotates a run in place into another order of features: every vector is copied aside before it is written.
///
/// # Safety
///
/// As [`Kernel::run`], but source and target are the same vectors; at most `MAX_ROTARY_DIM` features.
unsafe fn rotate_reordered<T: Element>(level: Level, run: &mut Run<T>) {
    let mut copy = std::mem::MaybeUninit::<[T; MAX_ROTARY_DIM]>::uninit();
    let copy = copy.as_mut_ptr().cast::<T>();
    let count = std::mem::replace(&mut run.count, 1);
    for _ in 0..count {
        // SAFETY: the vector is valid and at most as long as the copy, of which as much is read as was written; then
        // on to the next of `count` vectors (after the last the pointers are not used again).
        unsafe {
            let vector = run.target;
            std::ptr::copy_nonoverlapping(vector, copy, 2 * run.pairs);
            run.source = copy;
            T::run(level, run);
            run.target = vector.wrapping_add(run.target_step);
            run.cos = run.cos.wrapping_add(run.table_step);
            run.sin = run.sin.wrapping_add(run.table_step);
        }
    }
}

/// Fills `offsets`, see [`fill::offsets`].
pub(crate) fn fill_offsets(high: &[f64], low: &[f64], offsets: &mut fill::Offsets) {
    match Level::best() {
        Level::Portable => fill::offsets(high, low, offsets),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there.
        Level::Avx2 | Level::Avx512 => unsafe { x86::fill_offsets(high, low, offsets) },
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
        Level::Avx512 => unsafe { x86::fill_block_avx512(high, low, offsets, first, scale, cos, sin) },
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
        Level::Avx2 | Level::Avx512 => unsafe { x86::fill_row(precision, angle, scale, cos, sin) },
    }
}
