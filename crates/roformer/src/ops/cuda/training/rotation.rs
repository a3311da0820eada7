//! Rotary embedding of heads inside rows, its learned frequencies, and what else positions are made of.
//!
//! The turning itself is [`rope::cuda`]'s: nothing of it is allocated or copied where position ids lie in the GPU's memory, so
//! it can be recorded. Here is what it lacks: a table that is filled from frequencies in the GPU's memory, and their
//! gradient as `f32`.

use super::narrow;
use crate::ops::cuda::kernels::{Size, THREADS, launch, launch_with};
use crate::ops::cuda::memory::Queue;
use crate::ops::cuda::{Arithmetic, Fault};
use half::bf16;
use rope::cuda::{Device, Function, Ids, Module, Number, Positions, Slice, Table, ViewMut};
use rope::{Pairing, Turn};
use std::ptr::from_ref;

/// Blocks that sum the gradient of frequencies side by side: the same on every chip, so that sums have the same order.
const SLICES: usize = 256;

/// The kernels of this part; pairs are for `f32` and `bf16`.
pub(crate) struct Kernels {
    fill: Function,
    gradient: [Function; 2],
    gradient_total: Function,
    field: [Function; 2],
    kernel: [Function; 2],
}

impl Kernels {
    pub fn load(module: &Module, _device: &Device) -> rope::Result<Kernels> {
        let find = |name: &str| module.function(name);
        Ok(Kernels {
            fill: find("rotation_fill")?,
            gradient: [find("rotation_gradient_f32")?, find("rotation_gradient_bf16")?],
            gradient_total: find("rotation_gradient_total")?,
            field: [find("rotation_field")?, find("rotation_field_backward")?],
            kernel: [find("rotation_kernel")?, find("rotation_kernel_backward")?],
        })
    }
}

/// Heads inside rows: `[batch · length, width]`, of which each row has heads one after the other from a number on.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    /// Position ids `[length]`, `u32`, the same for every text.
    pub positions: u64,
    pub batch: usize,
    pub length: usize,
    /// Numbers of a row.
    pub width: usize,
    /// The first number of a row that turns.
    pub first: usize,
    pub heads: usize,
}

impl Heads {
    /// Sizes and steps of the heads as a view has them.
    fn view(&self, head_dim: usize) -> ([usize; 4], [usize; 3]) {
        let Heads { batch, length, width, heads, .. } = *self;
        ([batch, length, heads, head_dim], [length * width, width, head_dim])
    }
}

/// Turns heads of `x` in place: [`Turn::Forward`], or [`Turn::Backward`] for their gradient. The table has a row for every position
/// from 0 on.
pub(crate) fn turn(
    queue: &Queue,
    arithmetic: Arithmetic,
    table: &Table,
    turn: Turn,
    x: u64,
    heads: &Heads,
) -> Result<(), Fault> {
    match arithmetic {
        Arithmetic::Bf16 => turn_as::<bf16>(queue, table, turn, x, heads),
        _ => turn_as::<f32>(queue, table, turn, x, heads),
    }
}

fn turn_as<T: Number>(queue: &Queue, table: &Table, turn: Turn, x: u64, heads: &Heads) -> Result<(), Fault> {
    let (shape, steps) = heads.view(table.rope().head_dim());
    // SAFETY: the program's memory: an id for every token of a text, and the rows that heads are inside of.
    let (ids, mut view) = unsafe {
        let place = x + (heads.first * size_of::<T>()) as u64;
        let ids = Slice::<u32>::from_raw(heads.positions, heads.length);
        (ids, ViewMut::<T>::from_raw(place, shape, steps)?)
    };
    table.at(Positions::Ids(Ids::U32(ids)))?.rotate(&queue.stream, turn, &mut view)?;
    Ok(())
}

/// As `Fill` in kernels/rotation.cu.
#[repr(C)]
struct Fill {
    frequencies: u64,
    table: u64,
    rows: u32,
    pairs: u32,
}

/// Fills a table, made for positions from 0 on, with the cosines and sines of frequencies `[pairs]`, `f32`. Frequencies that are no
/// numbers leave it as it was.
pub(crate) fn fill(kernels: &Kernels, queue: &Queue, frequencies: u64, table: &Table) -> Result<(), Fault> {
    let (rows, pairs) = (table.rows(), table.rope().pairs());
    narrow(rows * pairs)?;
    let work = Fill { frequencies, table: table.pointer(), rows: narrow(rows)?, pairs: narrow(pairs)? };
    // SAFETY: the table has so many rows and pairs, and there is a frequency for each pair.
    unsafe { launch(queue, kernels.fill, Size::each(rows * pairs), &work) }
}

/// As `Gradient` in kernels/rotation.cu.
#[repr(C)]
struct Gradient {
    y: u64,
    dy: u64,
    positions: u64,
    sums: u64,
    gradient: u64,
    width: u64,
    first: u64,
    length: u32,
    vectors: u32,
    heads: u32,
    head_dim: u32,
    pairs: u32,
    is_half: u32,
}

/// Where the gradient of frequencies comes from and goes to.
#[derive(Clone, Copy)]
pub(crate) struct Slopes {
    /// The rows as [`turn`] forward left them.
    pub y: u64,
    /// Their gradient, in rows alike, before [`turn`] backward.
    pub dy: u64,
    /// dL/dθ `[pairs]`, `f32`, added to.
    pub gradient: u64,
    /// [`scratch`] bytes.
    pub scratch: u64,
}

/// Bytes of scratch that [`frequency_gradient`] needs.
pub(crate) fn scratch(pairs: usize) -> usize {
    SLICES * pairs * size_of::<f64>()
}

/// Adds dL/dθ of all heads to the gradient of the frequencies. It comes before [`turn`] backward, which overwrites dy.
pub(crate) fn frequency_gradient(
    kernels: &Kernels,
    queue: &Queue,
    arithmetic: Arithmetic,
    table: &Table,
    slopes: &Slopes,
    heads: &Heads,
) -> Result<(), Fault> {
    let rope = table.rope();
    let vectors = heads.batch * heads.length * heads.heads;
    let work = Gradient {
        y: slopes.y,
        dy: slopes.dy,
        positions: heads.positions,
        sums: slopes.scratch,
        gradient: slopes.gradient,
        width: heads.width as u64,
        first: (heads.first + rope.rotary_offset()) as u64,
        length: narrow(heads.length)?,
        vectors: narrow(vectors)?,
        heads: narrow(heads.heads)?,
        head_dim: narrow(rope.head_dim())?,
        pairs: narrow(rope.pairs())?,
        is_half: (rope.pairing() != Pairing::Interleaved).into(),
    };
    let kernel = kernels.gradient[usize::from(arithmetic == Arithmetic::Bf16)];
    // As many blocks whatever the size, so that all of the scratch is set.
    let size = |blocks| Size { blocks, threads: [THREADS, 1], shared: 0 };
    let blocks = SLICES as u32;
    // SAFETY: heads within rows of y and dy, sums for every block, a number for each pair.
    unsafe {
        launch(queue, kernel, size(SLICES), &work)?;
        let arguments = &mut [from_ref(&work).cast_mut().cast(), from_ref(&blocks).cast_mut().cast()];
        launch_with(queue, kernels.gradient_total, size(rope.pairs()), arguments)
    }
}

/// The frequencies of a receptive field: as `Field` in kernels/rotation.cu.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Field {
    /// `[a, ρ]`, `f32`.
    pub field: u64,
    /// θ `[pairs]`, `f64`.
    pub theta: u64,
    /// `[pairs]`, `f32`: where θ* goes; on the way back its gradient.
    pub frequencies: u64,
    /// `[2]`, `f32`: on the way back, what the gradient of `[a, ρ]` is added to.
    pub gradient: u64,
    pub pairs: u32,
}

/// θ* from `[a, ρ]`.
pub(crate) fn field_forward(kernels: &Kernels, queue: &Queue, work: &Field) -> Result<(), Fault> {
    // SAFETY: the program's memory, of these sizes.
    unsafe { launch(queue, kernels.field[0], Size::each(work.pairs as usize), work) }
}

/// The gradient of `[a, ρ]` from that of θ*.
pub(crate) fn field_backward(kernels: &Kernels, queue: &Queue, work: &Field) -> Result<(), Fault> {
    // SAFETY: as above.
    unsafe { launch(queue, kernels.field[1], Size::each(1), work) }
}

/// KERPLE's biases: as `Kernel` in kernels/rotation.cu.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// `[heads, 2]`, `f32`: ln r₁ and ln r₂.
    pub weight: u64,
    /// `[heads, length]`, `f32`: set by the way forward, read on the way back.
    pub table: u64,
    /// `[heads, length]`, `f32`: the gradient of the table; of the way back.
    pub slopes: u64,
    /// `[heads, 2]`, `f32`: what the gradient of the weight is added to; of the way back.
    pub gradient: u64,
    pub heads: u32,
    pub length: u32,
}

/// The biases at distances 0, 1, 2 and so on.
pub(crate) fn kernel_forward(kernels: &Kernels, queue: &Queue, work: &Kernel) -> Result<(), Fault> {
    let count = work.heads as usize * work.length as usize;
    narrow(count)?;
    // SAFETY: the program's memory, of these sizes.
    unsafe { launch(queue, kernels.kernel[0], Size::each(count), work) }
}

/// The gradient of the weight from that of the biases.
pub(crate) fn kernel_backward(kernels: &Kernels, queue: &Queue, work: &Kernel) -> Result<(), Fault> {
    let size = Size { blocks: work.heads as usize, threads: [THREADS, 1], shared: 0 };
    // SAFETY: as above.
    unsafe { launch(queue, kernels.kernel[1], size, work) }
}

const _: () = assert!(size_of::<Fill>() == 24 && size_of::<Gradient>() == 80);
const _: () = assert!(size_of::<Field>() == 40 && size_of::<Kernel>() == 40);

#[cfg(test)]
mod tests;
