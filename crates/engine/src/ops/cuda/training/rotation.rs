//! Rotary embedding of heads inside rows, its learned frequencies, and what else positions are made of.
//!
//! The turning itself is [`rope::cuda`]'s: nothing of it is allocated or copied where position ids lie in the GPU's memory, so
//! it can be recorded. Here is what it lacks: a table that is filled from frequencies in the GPU's memory, and their
//! gradient as `f32`.

use super::{Launcher, THREADS, narrow};
use crate::error::Result;
use crate::ops::cuda::Arithmetic;
use gpu::{Function, Module, Size, Slice, Span};
use half::bf16;
use rope::cuda::{Ids, Number, Positions, Table, ViewMut};
use rope::{Pairing, Turn};

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
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
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
    pub positions: Span,
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

    /// The address of rows that heads of so many features are inside of.
    fn place(&self, gpu: &Launcher, rows: Span, size: usize, head_dim: usize) -> Result<u64> {
        let Heads { batch, length, width, first, heads, .. } = *self;
        assert!(first + heads * head_dim <= width, "heads inside their rows");
        gpu.at(rows, batch * length * width * size)
    }

    /// The address of the position ids.
    fn ids(&self, gpu: &Launcher) -> Result<u64> {
        gpu.at(self.positions, self.length * size_of::<u32>())
    }
}

/// Turns heads of `x` in place: [`Turn::Forward`], or [`Turn::Backward`] for their gradient. The table has a row for every position
/// from 0 on.
pub(crate) fn turn(
    gpu: &Launcher,
    arithmetic: Arithmetic,
    table: &Table,
    turn: Turn,
    x: Span,
    heads: &Heads,
) -> Result<()> {
    match arithmetic {
        Arithmetic::Bf16 => turn_as::<bf16>(gpu, table, turn, x, heads),
        _ => turn_as::<f32>(gpu, table, turn, x, heads),
    }
}

fn turn_as<T: Number>(gpu: &Launcher, table: &Table, turn: Turn, x: Span, heads: &Heads) -> Result<()> {
    let (shape, steps) = heads.view(table.rope().head_dim());
    let (x, ids) = (heads.place(gpu, x, size_of::<T>(), table.rope().head_dim())?, heads.ids(gpu)?);
    // SAFETY: an id for every token of a text, and the rows that heads are inside of, in memory of the launcher's.
    let (ids, mut view) = unsafe {
        let place = x + (heads.first * size_of::<T>()) as u64;
        let ids = Slice::<u32>::from_raw(ids, heads.length);
        (ids, ViewMut::<T>::from_raw(place, shape, steps)?)
    };
    table.at(Positions::Ids(Ids::U32(ids)))?.rotate(gpu.stream(), turn, &mut view)?;
    Ok(())
}

/// As `Fill` in kernels/rotation.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Fill {
    frequencies: u64,
    table: u64,
    rows: u32,
    pairs: u32,
}

/// Fills a table, made for positions from 0 on, with the cosines and sines of frequencies `[pairs]`, `f32`. Frequencies that are no
/// numbers leave it as it was.
pub(crate) fn fill(kernels: &Kernels, gpu: &Launcher, frequencies: Span, table: &Table) -> Result<()> {
    let (rows, pairs) = (table.rows(), table.rope().pairs());
    narrow(rows * pairs)?;
    let frequencies = gpu.floats(frequencies, pairs)?;
    let work = Fill { frequencies, table: table.pointer(), rows: narrow(rows)?, pairs: narrow(pairs)? };
    // SAFETY: the table has so many rows and pairs, and there is a frequency for each pair.
    unsafe { gpu.launch(&kernels.fill, Size::each(rows * pairs), (work,)) }
}

/// As `Gradient` in kernels/rotation.cu.
#[repr(C)]
#[derive(Clone, Copy)]
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
pub(crate) struct FrequencyGradient {
    /// The rows as [`turn`] forward left them.
    pub y: Span,
    /// Their gradient, in rows alike, before [`turn`] backward.
    pub dy: Span,
    /// dL/dθ `[pairs]`, `f32`, added to.
    pub gradient: Span,
    /// [`scratch`] bytes.
    pub scratch: Span,
}

/// Bytes of scratch that [`frequency_gradient`] needs.
pub(crate) fn scratch(pairs: usize) -> usize {
    SLICES * pairs * size_of::<f64>()
}

/// Adds dL/dθ of all heads to the gradient of the frequencies. It comes before [`turn`] backward, which overwrites dy.
pub(crate) fn frequency_gradient(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    table: &Table,
    work: &FrequencyGradient,
    heads: &Heads,
) -> Result<()> {
    let rope = table.rope();
    let vectors = heads.batch * heads.length * heads.heads;
    let arguments = Gradient {
        y: heads.place(gpu, work.y, arithmetic.size(), rope.head_dim())?,
        dy: heads.place(gpu, work.dy, arithmetic.size(), rope.head_dim())?,
        positions: heads.ids(gpu)?,
        sums: gpu.at(work.scratch, scratch(rope.pairs()))?,
        gradient: gpu.floats(work.gradient, rope.pairs())?,
        width: heads.width as u64,
        first: (heads.first + rope.rotary_offset()) as u64,
        length: narrow(heads.length)?,
        vectors: narrow(vectors)?,
        heads: narrow(heads.heads)?,
        head_dim: narrow(rope.head_dim())?,
        pairs: narrow(rope.pairs())?,
        is_half: (rope.pairing() != Pairing::Interleaved).into(),
    };
    let kernel = &kernels.gradient[usize::from(arithmetic == Arithmetic::Bf16)];
    // As many blocks whatever the size, so that all of the scratch is set.
    let size = |blocks| Size::new(blocks, [THREADS, 1]);
    let blocks = SLICES as u32;
    // SAFETY: heads within rows of y and dy, sums for every block, a number for each pair.
    unsafe {
        gpu.launch(kernel, size(SLICES), (arguments,))?;
        gpu.launch(&kernels.gradient_total, size(rope.pairs()), (arguments, blocks))
    }
}

/// The frequencies of a receptive field.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    /// `[a, ρ]`, `f32`.
    pub field: Span,
    /// θ `[pairs]`, `f64`.
    pub theta: Span,
    /// `[pairs]`, `f32`: where θ* goes; on the way back its gradient.
    pub frequencies: Span,
    /// `[2]`, `f32`: on the way back, what the gradient of `[a, ρ]` is added to.
    pub gradient: Span,
    pub pairs: usize,
}

/// As `Field` in kernels/rotation.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct FieldWork {
    field: u64,
    theta: u64,
    frequencies: u64,
    gradient: u64,
    pairs: u32,
}

impl Field {
    fn work(&self, gpu: &Launcher) -> Result<FieldWork> {
        Ok(FieldWork {
            field: gpu.floats(self.field, 2)?,
            theta: gpu.at(self.theta, self.pairs * size_of::<f64>())?,
            frequencies: gpu.floats(self.frequencies, self.pairs)?,
            gradient: gpu.maybe(self.gradient, 2 * size_of::<f32>())?,
            pairs: narrow(self.pairs)?,
        })
    }
}

/// θ* from `[a, ρ]`.
pub(crate) fn field_forward(kernels: &Kernels, gpu: &Launcher, work: &Field) -> Result<()> {
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(&kernels.field[0], Size::each(work.pairs), (work.work(gpu)?,)) }
}

/// The gradient of `[a, ρ]` from that of θ*.
pub(crate) fn field_backward(kernels: &Kernels, gpu: &Launcher, work: &Field) -> Result<()> {
    // SAFETY: as above.
    unsafe { gpu.launch(&kernels.field[1], Size::each(1), (work.work(gpu)?,)) }
}

/// KERPLE's biases.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// `[heads, 2]`, `f32`: ln r₁ and ln r₂.
    pub weight: Span,
    /// `[heads, length]`, `f32`: set by the way forward, read on the way back.
    pub table: Span,
    /// `[heads, length]`, `f32`: the gradient of the table; of the way back.
    pub dtable: Span,
    /// `[heads, 2]`, `f32`: what the gradient of the weight is added to; of the way back.
    pub gradient: Span,
    pub heads: usize,
    pub length: usize,
}

/// As `Kernel` in kernels/rotation.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelWork {
    weight: u64,
    table: u64,
    slopes: u64,
    gradient: u64,
    heads: u32,
    length: u32,
}

impl Kernel {
    fn work(&self, gpu: &Launcher) -> Result<KernelWork> {
        let (count, weights) = (self.heads * self.length, 2 * self.heads);
        narrow(count)?;
        Ok(KernelWork {
            weight: gpu.floats(self.weight, weights)?,
            table: gpu.floats(self.table, count)?,
            slopes: gpu.maybe(self.dtable, count * size_of::<f32>())?,
            gradient: gpu.maybe(self.gradient, weights * size_of::<f32>())?,
            heads: narrow(self.heads)?,
            length: narrow(self.length)?,
        })
    }
}

/// The biases at distances 0, 1, 2 and so on.
pub(crate) fn kernel_forward(kernels: &Kernels, gpu: &Launcher, work: &Kernel) -> Result<()> {
    let size = Size::each(work.heads * work.length);
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(&kernels.kernel[0], size, (work.work(gpu)?,)) }
}

/// The gradient of the weight from that of the biases.
pub(crate) fn kernel_backward(kernels: &Kernels, gpu: &Launcher, work: &Kernel) -> Result<()> {
    let size = Size::new(work.heads, [THREADS, 1]);
    // SAFETY: as above.
    unsafe { gpu.launch(&kernels.kernel[1], size, (work.work(gpu)?,)) }
}

const _: () = assert!(size_of::<Fill>() == 24 && size_of::<Gradient>() == 80);
const _: () = assert!(size_of::<FieldWork>() == 40 && size_of::<KernelWork>() == 40);

#[cfg(test)]
mod tests;
