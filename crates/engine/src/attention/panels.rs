//! Keys and values of a head, packed for the products that attention is made of: as they are, or in 16 bits.

use super::rows::{LANES, Rows, Running, exponentials, narrow_exponentials};
use super::softmax::{QUERY_BLOCK, Shape};
use crate::ops::fetch::{VECTORS_AHEAD, fetch};
use crate::ops::gemm::{self, Columns, Level, Start};
use crate::ops::narrow::{self, Bf16, Narrow, Precision, TILE_ROWS, round};
use crate::ops::{Memory, Real};
use std::ops::Range;

/// Keys worked on at a time: a multiple of every width of a panel, and the same for any number of keys, so that sums over a text's
/// keys do not depend on what it is padded to.
pub(super) const KEY_BLOCK: usize = 384;

/// Packed keys and values of a head: all, or some that follow each other.
pub(super) enum Panels<T> {
    Exact(Exact<T>),
    /// For `f32` alone.
    Narrow(Narrowed),
}

/// Vectors of a head, `step` numbers apart.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a, T> {
    pub data: &'a [T],
    pub step: usize,
}

/// Rows that are written: `count` of them, `step` apart.
#[derive(Clone, Copy)]
pub(super) struct Target<T> {
    pub out: *mut T,
    pub step: usize,
    pub count: usize,
}

/// Whether numbers of this type are multiplied in 16 bits.
pub(super) fn is_narrow<T: Real>(precision: Precision) -> bool {
    precision != Precision::F32 && narrow::Level::best().has_bf16() && T::singles(&[]).is_some()
}

impl<T: Real> Panels<T> {
    /// Nothing packed yet; `None` if there is not enough memory. Numbers of type `f64` stay as they are, whatever the precision; so do
    /// all where there are no instructions for 16 bits, which would then be widened again.
    pub fn new(precision: Precision) -> Option<Self> {
        Some(match is_narrow::<T>(precision) {
            true => Panels::Narrow(Narrowed::new()?),
            false => {
                let memory = || Memory::zeros(0);
                Panels::Exact(Exact { keys: memory()?, values: memory()?, widths: [0; 2], packed: 0..0 })
            }
        })
    }

    /// Packs a range of the keys and values of a head, from the first of a panel on; `false` if there is not enough memory.
    pub fn pack(&mut self, shape: &Shape, range: Range<usize>, keys: Vectors<T>, values: Vectors<T>) -> bool {
        match self {
            Panels::Exact(panels) => panels.pack(shape, range, keys, values),
            Panels::Narrow(panels) => panels.pack(shape, range, single(keys), single(values)),
        }
    }

    /// Keys of a panel, of a head with so many.
    pub fn width(&self, keys: usize) -> usize {
        match self {
            Panels::Exact(_) => key_width::<T>(Level::best(), keys),
            Panels::Narrow(panels) => panels.key_width(),
        }
    }

    /// Takes the queries that scores are asked for; `false` if there is not enough memory.
    pub fn begin(&mut self, q: Vectors<T>, count: usize, head_dim: usize) -> bool {
        assert!(q.data.len() >= (count - 1) * q.step + head_dim, "queries within their memory");
        match self {
            Panels::Exact(_) => true,
            Panels::Narrow(panels) => panels.begin(single(q), count, head_dim),
        }
    }

    /// out = the scores of queries and the keys `keys`, of which the first is the first of a panel. These are packed, or kept.
    ///
    /// # Safety
    ///
    /// These queries were begun with; rows of as many numbers are valid to write at `out`, by nobody else.
    pub unsafe fn scores(
        &self,
        q: Vectors<T>,
        head_dim: usize,
        keys: Range<usize>,
        kept: Option<KeptHead>,
        out: Target<T>,
    ) {
        match self {
            // SAFETY: the caller's promise, handed on.
            Panels::Exact(panels) => unsafe { panels.scores(q, head_dim, keys.start, keys.len(), out) },
            // SAFETY: as above; the numbers are `f32`, or they would be exact.
            Panels::Narrow(panels) => unsafe { panels.scores(keys, kept, cast(out)) },
        }
    }

    /// Makes weights of the scores of a block of keys, rows `KEY_BLOCK` apart: their exponentials relative to the largest so far.
    pub fn soften(&mut self, scores: &mut [T], count: usize, scale: T, running: Running<T>) {
        let level = Level::best();
        match self {
            Panels::Exact(_) => {
                exponentials(level, Rows { data: scores, step: KEY_BLOCK, count }, scale, running);
            }
            Panels::Narrow(panels) => {
                // They are `f32`, or they would be exact.
                let scores = Rows { data: singles(scores), step: KEY_BLOCK, count };
                let Running { largest, total, shrink } = running;
                let running =
                    Running { largest: singles(largest), total: singles(total), shrink: singles(shrink) };
                panels.soften(level, scores, T::singles(&[scale]).map_or(1.0, |scale| scale[0]), running);
            }
        }
    }

    /// out = the sums of the values of these keys times their weights, which were made of `scores`; added to what is there unless it is
    /// the first.
    ///
    /// # Safety
    ///
    /// Rows of `head_dim` numbers are valid to read and write at `out`, by nobody else.
    pub unsafe fn weigh(
        &mut self,
        scores: &[T],
        shape: &Shape,
        keys: Range<usize>,
        kept: Option<KeptHead>,
        is_first: bool,
        out: Target<T>,
    ) {
        assert!(scores.len() >= out.count * KEY_BLOCK, "weights of a block of keys");
        match self {
            // SAFETY: the caller's promise, handed on.
            Panels::Exact(panels) => unsafe {
                panels.weigh(scores, shape, keys.start, keys.len(), is_first, out)
            },
            // SAFETY: as above; the numbers are `f32`, or they would be exact.
            Panels::Narrow(panels) => unsafe { panels.weigh(shape, keys, kept, is_first, cast(out)) },
        }
    }
}

/// The same vectors as `f32`, which they are.
fn single<T: Real>(vectors: Vectors<T>) -> Vectors<f32> {
    Vectors { data: T::singles(vectors.data).unwrap_or(&[]), step: vectors.step }
}

/// The same numbers as `f32`, which they are.
fn singles<T: Real>(list: &mut [T]) -> &mut [f32] {
    T::singles_mut(list).unwrap_or(&mut [])
}

/// The same rows as `f32`, which they are.
fn cast<T>(target: Target<T>) -> Target<f32> {
    Target { out: target.out.cast(), step: target.step, count: target.count }
}

/// Numbers as they are.
pub(super) struct Exact<T> {
    /// `[panels, head_dim, width]`
    keys: Memory<T>,
    /// `[panels, packed keys, width]`
    values: Memory<T>,
    /// Of a panel of keys, and of values.
    widths: [usize; 2],
    /// Which are packed.
    packed: Range<usize>,
}

/// The width of a panel of keys. Not that of a product: it must be the same for all that begin at a key further on than the smallest
/// panel ends. The widest divides the lengths that texts are cut to; of panels of 48, 128 keys would fill two and two thirds.
fn key_width<T: Real>(level: Level, keys: usize) -> usize {
    T::width(level, keys.min(64))
}

/// Numbers that [`Exact`] holds for a head.
pub(super) fn numbers<T: Real>(keys: usize, head_dim: usize) -> usize {
    let level = Level::best();
    let (key, value) = (key_width::<T>(level, keys), T::width(level, head_dim));
    keys.next_multiple_of(key) * head_dim + keys * head_dim.next_multiple_of(value)
}

impl<T: Real> Exact<T> {
    fn pack(&mut self, shape: &Shape, range: Range<usize>, keys: Vectors<T>, values: Vectors<T>) -> bool {
        let (level, dim, count) = (Level::best(), shape.head_dim, range.len());
        self.widths = [key_width::<T>(level, shape.keys), T::width(level, dim)];
        let [key_width, value_width] = self.widths;
        let is_fit = self.keys.fit(count.next_multiple_of(key_width) * dim)
            && self.values.fit(dim.next_multiple_of(value_width) * count);
        if !is_fit {
            return false;
        }
        for first in (0..count).step_by(key_width) {
            let columns = key_width.min(count - first);
            let columns = Columns { inputs: dim, step: keys.step, columns, width: key_width };
            let from = &keys.data[(range.start + first) * keys.step..];
            T::pack_columns(level, from, columns, T::ONE, &mut self.keys[first * dim..]);
        }
        for first in (0..dim).step_by(value_width) {
            let columns = value_width.min(dim - first);
            let panel = &mut self.values[first * count..];
            for (key, to) in range.clone().zip(panel.chunks_exact_mut(value_width)) {
                if key + VECTORS_AHEAD < range.end {
                    fetch(&values.data[(key + VECTORS_AHEAD) * values.step + first..][..columns]);
                }
                to[..columns].copy_from_slice(&values.data[key * values.step + first..][..columns]);
            }
        }
        self.packed = range;
        true
    }

    /// # Safety
    ///
    /// As of [`Panels::scores`].
    unsafe fn scores(&self, q: Vectors<T>, dim: usize, start: usize, count: usize, out: Target<T>) {
        let (width, start) = (self.widths[0], start - self.packed.start);
        for panel in (0..count).step_by(width) {
            let run = gemm::Run {
                x: q.data.as_ptr(),
                x_step: q.step,
                x_column: 1,
                rows: out.count,
                inputs: dim,
                panel: self.keys[(start + panel) * dim..][..dim * width].as_ptr(),
                width,
                // SAFETY: a column of the rows.
                out: unsafe { out.out.add(panel) },
                out_step: out.step,
                columns: width.min(count - panel),
                start: Start::Zero,
                plus: None,
                next: None,
            };
            // SAFETY: the queries were checked when they were begun with, the panel was sliced, and the caller's promise.
            unsafe { T::run(Level::best(), &run) };
        }
    }

    /// # Safety
    ///
    /// As of [`Panels::weigh`].
    unsafe fn weigh(
        &self,
        weights: &[T],
        shape: &Shape,
        start: usize,
        count: usize,
        is_first: bool,
        out: Target<T>,
    ) {
        let (width, dim) = (self.widths[1], shape.head_dim);
        let start = start - self.packed.start;
        for column in (0..dim).step_by(width) {
            let panel = &self.values[column * self.packed.len() + start * width..][..count * width];
            let run = gemm::Run {
                x: weights.as_ptr(),
                x_step: KEY_BLOCK,
                x_column: 1,
                rows: out.count,
                inputs: count,
                panel: panel.as_ptr(),
                width,
                // SAFETY: a column of the rows.
                out: unsafe { out.out.add(column) },
                out_step: out.step,
                columns: width.min(dim - column),
                start: if is_first { Start::Zero } else { Start::Target },
                plus: None,
                next: None,
            };
            // SAFETY: the weights were checked, the panel was sliced, and the caller's promise.
            unsafe { T::run(Level::best(), &run) };
        }
    }
}

/// Keys and values of a head in 16 bits, in panels.
#[derive(Clone, Copy)]
pub(super) struct KeptHead<'a> {
    /// `[panels, depth / 2, width, 2]`: the depth is head_dim filled up.
    pub keys: &'a [Bf16],
    /// `[panels, value_keys / 2, width, 2]`
    pub values: &'a [Bf16],
    /// Keys of a panel of values, filled up.
    pub value_keys: usize,
    /// The key that the panels begin with.
    pub first: usize,
}

/// Sizes of the panels of a head, for so many keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct PanelSizes {
    /// Keys of a panel: the same however many there are, as of those in 32 bits.
    pub key_width: usize,
    pub value_width: usize,
    /// head_dim filled up.
    pub depth: usize,
    /// Keys of a panel of values: with room for a block of keys that begins within the last depth, as that of a window may.
    pub value_keys: usize,
    /// Numbers of all panels of keys.
    pub keys: usize,
    /// Numbers of all panels of values.
    pub values: usize,
}

impl PanelSizes {
    pub fn new(head_dim: usize, count: usize) -> Self {
        let level = narrow::Level::best();
        let [key_width, value_width] = [Bf16::width(level, 64), Bf16::width(level, head_dim)];
        let depth = head_dim.next_multiple_of(Bf16::DEPTH);
        let value_keys = (count.div_ceil(Bf16::DEPTH) + 1).saturating_mul(Bf16::DEPTH);
        let padded = count.div_ceil(key_width).saturating_mul(key_width);
        let values = head_dim.next_multiple_of(value_width).saturating_mul(value_keys);
        PanelSizes { key_width, value_width, depth, value_keys, keys: padded.saturating_mul(depth), values }
    }
}

/// Numbers of 16 bits: keys, values, queries and weights; scores and sums are `f32`.
pub(super) struct Narrowed {
    level: narrow::Level,
    /// Those of a [`KeptHead`], for keys and values that were not kept.
    keys: Memory<Bf16>,
    values: Memory<Bf16>,
    value_keys: usize,
    first: usize,
    /// `[QUERY_BLOCK, depth]`
    queries: Memory<Bf16>,
    depth: usize,
    /// `[QUERY_BLOCK, keys of a block]`
    weights: Memory<Bf16>,
}

impl Narrowed {
    fn new() -> Option<Self> {
        let memory = || Memory::zeros(0);
        Some(Narrowed {
            level: narrow::Level::best(),
            keys: memory()?,
            values: memory()?,
            value_keys: 0,
            first: 0,
            queries: memory()?,
            depth: 0,
            weights: Memory::zeros(QUERY_BLOCK * KEY_BLOCK)?,
        })
    }

    fn key_width(&self) -> usize {
        Bf16::width(self.level, 64)
    }

    fn own(&self) -> KeptHead<'_> {
        let Narrowed { keys, values, value_keys, first, .. } = self;
        KeptHead { keys, values, value_keys: *value_keys, first: *first }
    }

    fn pack(&mut self, shape: &Shape, range: Range<usize>, keys: Vectors<f32>, values: Vectors<f32>) -> bool {
        let (dim, count) = (shape.head_dim, range.len());
        let sizes = PanelSizes::new(dim, count);
        (self.first, self.depth, self.value_keys) = (range.start, sizes.depth, sizes.value_keys);
        if !self.keys.fit(sizes.keys) || !self.values.fit(sizes.values) {
            return false;
        }
        let [keys, values] = [keys, values].map(|x| (&x.data[range.start * x.step..], (count, x.step)));
        narrow::pack_columns(keys, (dim, self.depth), sizes.key_width, &mut self.keys);
        narrow::pack_rows(values, (dim, self.value_keys), sizes.value_width, &mut self.values);
        true
    }

    fn begin(&mut self, q: Vectors<f32>, count: usize, dim: usize) -> bool {
        self.depth = dim.next_multiple_of(Bf16::DEPTH);
        if !self.queries.fit(QUERY_BLOCK * self.depth) {
            return false;
        }
        for (row, to) in self.queries.chunks_exact_mut(self.depth).enumerate().take(count) {
            round(&q.data[row * q.step..][..dim], to);
            to[dim..].fill(Bf16::default());
        }
        true
    }

    /// # Safety
    ///
    /// As of [`Panels::scores`].
    unsafe fn scores(&self, keys: Range<usize>, kept: Option<KeptHead>, out: Target<f32>) {
        let head = kept.unwrap_or(self.own());
        let (width, depth, start, count) =
            (self.key_width(), self.depth, keys.start - head.first, keys.len());
        let run = narrow::Run {
            x: self.queries[..out.count.next_multiple_of(TILE_ROWS) * depth].as_ptr(),
            depth,
            rows: out.count,
            panel: head.keys[start * depth..][..count.next_multiple_of(width) * depth].as_ptr(),
            panel_step: width * depth,
            width,
            out: out.out,
            out_step: out.step,
            columns: count,
            start: Start::Zero,
            scales: (std::ptr::null(), std::ptr::null()),
        };
        // SAFETY: queries and panels were sliced, and the caller's promise; numbers of 16 bits have no scales.
        unsafe { Bf16::run(self.level, &run) };
    }

    /// See [`Panels::soften`].
    fn soften(&mut self, level: Level, scores: Rows<f32>, scale: f32, running: Running<f32>) {
        let depth = scores.count.next_multiple_of(Bf16::DEPTH);
        let weights = &mut self.weights[..running.largest.len() * depth];
        // Exponentials fill whole lanes.
        let rest = scores.count.next_multiple_of(LANES);
        weights.chunks_exact_mut(depth).for_each(|row| row[rest..].fill(Bf16::default()));
        narrow_exponentials(level, scores, scale, running, weights, depth);
    }

    /// # Safety
    ///
    /// As of [`Panels::weigh`].
    unsafe fn weigh(
        &self,
        shape: &Shape,
        keys: Range<usize>,
        kept: Option<KeptHead>,
        is_first: bool,
        out: Target<f32>,
    ) {
        let head = kept.unwrap_or(self.own());
        let (dim, start, count) = (shape.head_dim, keys.start - head.first, keys.len());
        let width = Bf16::width(self.level, dim);
        let depth = count.next_multiple_of(Bf16::DEPTH);
        let last = dim.next_multiple_of(width) - width;
        let run = narrow::Run {
            x: self.weights[..out.count.next_multiple_of(TILE_ROWS) * depth].as_ptr(),
            depth,
            rows: out.count,
            panel: head.values[start * width..][..last * head.value_keys + width * depth].as_ptr(),
            panel_step: width * head.value_keys,
            width,
            out: out.out,
            out_step: out.step,
            columns: dim,
            start: if is_first { Start::Zero } else { Start::Target },
            scales: (std::ptr::null(), std::ptr::null()),
        };
        // SAFETY: weights and panels were sliced, and the caller's promise; numbers of 16 bits have no scales.
        unsafe { Bf16::run(self.level, &run) };
    }
}
