//! Products in fewer bits: weights and rows of x are kept in 16 bits ([`bf16`](Precision::Bf16)) or 8 ([`int8`](Precision::Int8)),
//! and sums are not.
//!
//! ```text
//! mod.rs        a weight in fewer bits, and its product over the threads
//! level.rs      the instruction sets
//! bf16.rs       16 bits: the upper half of an f32
//! int8.rs       8 bits: a whole number between −127 and 127 times a scale, of each row of a weight and each row of x
//! pack.rs       keys and values of attention, packed for the same loops
//! portable.rs   the loops in plain Rust
//! avx2.rs       … for AVX2
//! avx512.rs     … for AVX-512 with VNNI, and with BF16
//! amx.rs        … for AMX
//! ```
//!
//! A weight is stored in panels as in [`gemm`](super::gemm), but with some inputs of one output side by side: those that one instruction
//! multiplies and adds up. Every sum runs over all inputs in an order that depends on nothing but their number.

mod bf16;
mod int8;
mod level;
mod pack;
mod portable;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

pub(crate) use bf16::{Bf16, round};
pub use int8::quantise;
pub use level::Level;
pub(crate) use pack::{pack_columns, pack_rows, set_column, set_row};

use super::activation::Activation;
use super::gemm::{Start, Target};
use super::memory::{Memory, Plain};
use super::share::share_blocks;
use rayon::prelude::*;
use std::cell::Cell;
use std::thread::LocalKey;

/// What weights, and what they are multiplied with, are kept in on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits: nothing is rounded but results.
    #[default]
    F32,
    /// 16 bits, the upper half of an `f32`: 8 bits of precision.
    Bf16,
    /// 8 bits: whole numbers, with a scale for each output of a weight and each row that it is multiplied with.
    Int8,
}

impl Precision {
    /// 16 bits where there are instructions for them, else 32.
    pub fn fastest() -> Precision {
        if Level::best().has_bf16() { Precision::Bf16 } else { Precision::F32 }
    }

    /// Its name: `f32`, `bf16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
        }
    }
}

/// A number of fewer bits, and the loops over it.
pub(crate) trait Narrow: Plain + Default {
    /// Rows of x, and panels, are filled up with zeros to a multiple of so many inputs: those of a tile of AMX.
    const DEPTH: usize;
    /// The most inputs whose sums are right.
    const MOST_INPUTS: usize;
    /// The best width of a panel for this many outputs.
    fn width(level: Level, outputs: usize) -> usize;
    /// Inputs of one output that lie side by side in a panel: those that one instruction multiplies and adds up.
    fn group(level: Level) -> usize;
    /// A row of a weight in fewer bits, as it stands in panels for this level; what it is to be multiplied with.
    fn weight(level: Level, row: &[f32], to: &mut [Self]) -> f32;
    /// Puts the numbers of a row into a panel, from its first group on: groups follow each other after `width` of them.
    fn place(level: Level, row: &[Self], panel: &mut [Self], width: usize);
    /// The room that so many inputs of x take: twice theirs where the level multiplies wider numbers, to which they are then widened once
    /// and not for every panel.
    fn room(level: Level, depth: usize) -> usize;
    /// A row of x in fewer bits, in room for more inputs, where 0 is then; and what it is to be multiplied with.
    fn row(level: Level, row: &[f32], to: &mut [Self]) -> RowScale;
    /// Computes a run.
    ///
    /// # Safety
    ///
    /// The run's invariants hold, its width is one that this level gives, and the level is available.
    unsafe fn run(level: Level, run: &Run<Self>);
    /// Lends memory of the calling thread: `rows` rows of `room` numbers, with what each is to be multiplied with. What is in it
    /// is left from before. `None` if there is not enough memory.
    fn with_rows<R>(
        rows: usize,
        room: usize,
        work: impl FnOnce(&mut [Self], &mut [RowScale]) -> R,
    ) -> Option<R>;
}

/// What belongs to a row of x in 8 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RowScale {
    /// Whole numbers times it are the row.
    pub scale: f32,
    /// The sum of the whole numbers: where those of a weight are stored [`OFFSET`](int8::OFFSET) too large, its multiple is taken off again.
    pub sum: i32,
}

/// Rows of x times panels that follow each other.
///
/// Invariants, kept by whoever makes one: `rows` rows with the room of `depth` inputs, one after the other, are valid to read at `x`, and as
/// many more as make `rows` a multiple of [`TILE_ROWS`]; panels `[depth / group, width, group]`, as many as `columns` need, are valid to read at
/// `panel`, each `panel_step` numbers behind the last; `rows` rows of `columns` numbers, `out_step` apart, are valid to read and write at
/// `out` and touched by nobody else; a bias has `columns` numbers. In 8 bits `scales` has `rows` of the rows and `columns` of the columns.
#[derive(Clone, Copy)]
pub(crate) struct Run<N> {
    pub x: *const N,
    pub depth: usize,
    pub rows: usize,
    pub panel: *const N,
    pub panel_step: usize,
    pub width: usize,
    pub out: *mut f32,
    pub out_step: usize,
    pub columns: usize,
    pub start: Start<f32>,
    pub scales: (*const RowScale, *const f32),
}

impl<N: Copy> Run<N> {
    /// The panels one by one: runs whose columns are at most as many as a panel is wide.
    fn panels(&self) -> impl Iterator<Item = Run<N>> + '_ {
        (0..self.columns).step_by(self.width).map(|first| {
            let start = match self.start {
                Start::Bias(bias) => Start::Bias(bias.wrapping_add(first)),
                other => other,
            };
            Run {
                panel: self.panel.wrapping_add(first / self.width * self.panel_step),
                out: self.out.wrapping_add(first),
                columns: self.width.min(self.columns - first),
                start,
                scales: (self.scales.0, self.scales.1.wrapping_add(first)),
                ..*self
            }
        })
    }
}

/// Rows of a tile of AMX.
pub(crate) const TILE_ROWS: usize = 16;

/// A weight in fewer bits, packed for products, with its bias.
pub(crate) struct NarrowMatrix<N> {
    /// `[panels, depth / group, width, group]`, filled up with zeros.
    panels: Memory<N>,
    /// `[panels · width]`: what each output is to be multiplied with.
    scales: Memory<f32>,
    /// `[panels · width]`
    bias: Memory<f32>,
    inputs: usize,
    depth: usize,
    outputs: usize,
    width: usize,
    level: Level,
}

impl<N: Narrow> NarrowMatrix<N> {
    /// Room for a weight `[outputs, inputs]` and its bias, all zero; `None` if there is not enough memory.
    pub fn zeros(outputs: usize, inputs: usize) -> Option<Self> {
        Self::zeros_at(Level::best(), outputs, inputs)
    }

    fn zeros_at(level: Level, outputs: usize, inputs: usize) -> Option<Self> {
        let width = N::width(level, outputs);
        // Never none: of no inputs the sum is that of zeros.
        let depth = inputs.max(1).checked_next_multiple_of(N::DEPTH)?;
        let padded = outputs.checked_next_multiple_of(width)?;
        let panels = Memory::kept(padded.checked_mul(depth)?)?;
        let (scales, bias) = (Memory::kept(padded)?, Memory::kept(padded)?);
        Some(NarrowMatrix { panels, scales, bias, inputs, depth, outputs, width, level })
    }

    /// Packs rows `first`, `first` + 1, … of the weight from `rows`, `[count, inputs]`.
    pub fn set_rows(&mut self, first: usize, rows: &[f32]) {
        let mut narrow = vec![N::default(); self.inputs];
        for (index, row) in rows.chunks_exact(self.inputs.max(1)).enumerate() {
            let scale = N::weight(self.level, row, &mut narrow);
            self.set_row(first + index, &narrow, scale);
        }
    }

    /// Sets one row that is in fewer bits already, as [`Narrow::weight`] makes it.
    fn set_row(&mut self, output: usize, row: &[N], scale: f32) {
        assert!(output < self.outputs, "a row of the weight");
        let (width, column) = (self.width, output % self.width);
        self.scales[output] = scale;
        let panel = &mut self.panels[output / width * width * self.depth..][..width * self.depth];
        N::place(self.level, row, &mut panel[column * N::group(self.level)..], width);
    }

    /// Sets the bias of the outputs from `first` on.
    pub fn set_bias(&mut self, first: usize, bias: &[f32]) {
        self.bias[first..first + bias.len()].copy_from_slice(bias);
    }

    /// The memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.panels.len() * size_of::<N>() + (self.scales.len() + self.bias.len()) * size_of::<f32>()
    }

    /// out = activation(x·Wᵀ + bias), for x `[rows, inputs]` and out `[rows, outputs]`, over the threads of the pool. `false` if there
    /// was not enough memory for x in fewer bits.
    #[must_use]
    pub fn apply(&self, x: &[f32], out: &mut [f32], activation: Activation) -> bool {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let rows = out.len() / outputs.max(1);
        assert_eq!((x.len(), out.len()), (rows * inputs, rows * outputs), "shapes of a product");
        if rows == 0 || outputs == 0 {
            return true;
        }
        let room = N::room(self.level, self.depth);
        N::with_rows(rows.next_multiple_of(TILE_ROWS), room, |narrow, scales| {
            self.narrow(x, narrow, &mut scales[..rows]);
            self.multiply(narrow, scales, out, activation);
        })
        .is_some()
    }

    /// Rows of x in fewer bits, each filled up with zeros.
    fn narrow(&self, x: &[f32], narrow: &mut [N], scales: &mut [RowScale]) {
        let one = |(index, (to, scale)): (usize, (&mut [N], &mut RowScale))| {
            *scale = N::row(self.level, &x[index * self.inputs..][..self.inputs], to);
        };
        let room = N::room(self.level, self.depth).max(1);
        match x.len() >= MANY_NUMBERS {
            true => {
                let rows = narrow.par_chunks_exact_mut(room).zip(scales).enumerate();
                rows.with_min_len(ROWS_AT_LEAST).for_each(one);
            }
            false => narrow.chunks_exact_mut(room).zip(scales).enumerate().for_each(one),
        }
    }

    fn multiply(&self, x: &[N], scales: &[RowScale], out: &mut [f32], activation: Activation) {
        let NarrowMatrix { depth, outputs, width, level, .. } = *self;
        let rows = out.len() / outputs;
        let panels = outputs.div_ceil(width);
        let target = Target(out.as_mut_ptr());
        // Rows that stay in a core's own cache while panel after panel passes by.
        let room = N::room(level, depth);
        let cached = (level.cached_bytes() / (room * size_of::<N>()).max(1)).max(1);
        let row_blocks = rows.div_ceil(cached.next_multiple_of(BLOCK_ROWS));
        let block = rows.div_ceil(row_blocks).next_multiple_of(BLOCK_ROWS);
        share_blocks(rows.div_ceil(block), panels, |row_block, panels| {
            let first_row = row_block * block;
            let count = block.min(rows - first_row);
            let first = panels.start * width;
            let columns = outputs.min(panels.end * width) - first;
            let run = Run {
                x: x[first_row * room..][..count.next_multiple_of(TILE_ROWS) * room].as_ptr(),
                depth,
                rows: count,
                panel: self.panels[first * depth..][..columns.next_multiple_of(width) * depth].as_ptr(),
                panel_step: width * depth,
                width,
                // SAFETY: row and column are within `out`, whose size was checked.
                out: unsafe { target.pointer().add(first_row * outputs + first) },
                out_step: outputs,
                columns,
                start: Start::Bias(self.bias[first..][..columns].as_ptr()),
                scales: (scales[first_row..][..count].as_ptr(), self.scales[first..][..columns].as_ptr()),
            };
            // SAFETY: the slices above have the sizes that a run asks for; each run has rows and columns of `out` for
            // itself; the level is the one that the weight was packed for.
            unsafe { N::run(level, &run) };
            if activation != Activation::Identity {
                for row in 0..count {
                    // SAFETY: the columns that this thread has just written.
                    let line = unsafe { std::slice::from_raw_parts_mut(run.out.add(row * outputs), columns) };
                    activation.apply(line);
                }
            }
        });
    }
}

/// See [`Narrow::place`], for groups of `GROUP`.
fn place<N: Copy, const GROUP: usize>(row: &[N], panel: &mut [N], width: usize) {
    let (groups, rest) = row.as_chunks::<GROUP>();
    let mut places = panel.as_chunks_mut::<GROUP>().0.iter_mut().step_by(width);
    groups.iter().zip(&mut places).for_each(|(group, place)| *place = *group);
    if let (false, Some(place)) = (rest.is_empty(), places.next()) {
        place[..rest.len()].copy_from_slice(rest);
    }
}

/// Lends memory that a thread keeps: see [`Narrow::with_rows`]. It is taken away meanwhile, because a thread that waits for others may
/// begin another product.
fn lend<N: Narrow, R>(
    kept_rows: &'static LocalKey<Cell<Option<Memory<N>>>>,
    kept_scales: &'static LocalKey<Cell<Vec<RowScale>>>,
    rows: usize,
    room: usize,
    work: impl FnOnce(&mut [N], &mut [RowScale]) -> R,
) -> Option<R> {
    let mut memory = match kept_rows.take() {
        Some(memory) => memory,
        None => Memory::zeros(0)?,
    };
    let mut scales = kept_scales.take();
    if !memory.fit(rows.checked_mul(room)?) {
        return None;
    }
    scales.resize(rows, RowScale::default());
    let result = work(&mut memory, &mut scales);
    kept_rows.set(Some(memory));
    kept_scales.set(scales);
    Some(result)
}

/// Numbers of x below which one thread makes them narrow.
const MANY_NUMBERS: usize = 1 << 16;
/// Rows that a thread makes narrow at a time, at least.
const ROWS_AT_LEAST: usize = 8;
/// Rows of x are divided at multiples of it.
const BLOCK_ROWS: usize = 32;

#[cfg(test)]
mod tests;
