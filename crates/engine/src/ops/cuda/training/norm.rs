//! Norms and their gradients.

use super::{Launcher, Storage, Stored, narrow};
use crate::error::Result;
use gpu::{Function, Module, Size, Span};

/// Blocks of the way back at most, each of which leaves a part of the sums: about as many as run at a time, by kernel.
const BLOCKS: [usize; 6] = [396, 264, 264, 132, 264, 132];
/// Numbers of all parts up to which the last block adds them; more are for a launch of its own.
const FEW: usize = 1 << 14;
/// The widest row that a warp keeps in registers.
const WIDEST: usize = 1024;
/// Chunks of 16 bytes that a lane keeps, by kernel.
const CHUNKS: [usize; 6] = [1, 2, 3, 4, 6, 8];
/// Bytes of shared memory that any chip gives.
const SHARED: usize = 48 << 10;

pub(crate) struct Kernels {
    narrow: Stored<Vec<[Function; 2]>>,
    any: Stored<[Function; 2]>,
    parts: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let both = |kind: &str, end: String| -> gpu::Result<[Function; 2]> {
            Ok([
                module.function(&format!("{kind}_norm_{end}"))?,
                module.function(&format!("{kind}_norm_back_{end}"))?,
            ])
        };
        let any = Stored::load(|kind| both(kind, "any".into()))?;
        for kernels in [&any.f32, &any.bf16] {
            // What a chip has not, its launch reports.
            let _ = kernels[1].allow_shared(200 << 10);
        }
        let chunks = |kind: &str| if kind == "bf16" { &CHUNKS[..4] } else { &CHUNKS[..] };
        let narrow =
            Stored::load(|kind| chunks(kind).iter().map(|count| both(kind, count.to_string())).collect())?;
        Ok(Kernels { narrow, any, parts: module.function("norm_parts")? })
    }
}

/// A norm of rows; as the kernels' struct. Addresses are 0 where there is nothing.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Arguments {
    x: u64,
    weight: u64,
    bias: u64,
    out: u64,
    dy: u64,
    dx: u64,
    dweight: u64,
    dbias: u64,
    partials: u64,
    counter: u64,
    rows: u32,
    width: u32,
    accumulate: u32,
    is_layer: u32,
    epsilon: f32,
    constant: f32,
}

const _: () = assert!(size_of::<Arguments>() == 104);

/// A norm of the rows of x `[rows, width]`.
#[derive(Clone, Copy)]
pub(crate) struct Norm {
    pub storage: Storage,
    pub x: Span,
    /// `[width]`, or nothing: `constant` everywhere.
    pub weight: Span,
    pub constant: f32,
    /// `[width]` or nothing.
    pub bias: Span,
    /// Whether the mean is taken off.
    pub is_layer: bool,
    pub epsilon: f64,
    pub rows: usize,
    pub width: usize,
}

/// Where gradients go.
#[derive(Clone, Copy)]
pub(crate) struct NormGradients {
    /// The gradient of the result.
    pub dy: Span,
    /// The gradient of x, and whether it is added to.
    pub dx: (Span, bool),
    /// Added to, or nothing.
    pub dweight: Span,
    pub dbias: Span,
    /// As many bytes as [`Norm::scratch`] says.
    pub scratch: Span,
    /// 4 bytes of 0, which are 0 again afterwards.
    pub counter: Span,
}

impl Norm {
    /// Bytes that the way back needs.
    pub fn scratch(&self) -> usize {
        BLOCKS[0] * 2 * self.width * size_of::<f32>()
    }

    /// The address of as many numbers as x has.
    fn place(&self, gpu: &Launcher, span: Span) -> Result<u64> {
        gpu.numbers(span, self.storage, self.rows * self.width)
    }

    fn arguments(&self, gpu: &Launcher) -> Result<Arguments> {
        let vector = self.width * size_of::<f32>();
        Ok(Arguments {
            x: self.place(gpu, self.x)?,
            weight: gpu.maybe(self.weight, vector)?,
            bias: gpu.maybe(self.bias, vector)?,
            rows: narrow(self.rows)?,
            width: narrow(self.width)?,
            is_layer: u32::from(self.is_layer),
            epsilon: self.epsilon as f32,
            constant: self.constant,
            ..Arguments::default()
        })
    }

    /// Which kernel keeps rows in registers, if one does.
    fn in_registers(&self, places: &[Span]) -> Option<usize> {
        let chunk = super::chunk(self.storage, self.width, places);
        let is_aligned =
            self.width.is_multiple_of(4) && [self.weight, self.bias].iter().all(|p| p.is_aligned(16));
        if chunk == 1 || !is_aligned || self.width > WIDEST {
            return None;
        }
        let needed = self.width.div_ceil(32 * chunk);
        CHUNKS.iter().position(|&count| count >= needed)
    }
}

impl Launcher<'_> {
    /// out `[rows, width]` = the norm.
    pub(crate) fn norm_rows(&self, norm: &Norm, out: Span) -> Result<()> {
        let kernels = &self.training()?.norm;
        let work = Arguments { out: norm.place(self, out)?, ..norm.arguments(self)? };
        let (kernel, size) = match norm.in_registers(&[norm.x, out]) {
            Some(index) => {
                let size = Size::new(norm.rows.div_ceil(8), [32, 8]);
                (&kernels.narrow.of(norm.storage)[index][0], size)
            }
            None => {
                let size = Size::new(norm.rows, [256, 1]);
                (&kernels.any.of(norm.storage)[0], size)
            }
        };
        // SAFETY: x and out have these rows, weight and bias this width.
        unsafe { self.launch(kernel, size, (work,)) }
    }

    /// The way back.
    pub(crate) fn norm_rows_back(&self, norm: &Norm, given: &NormGradients) -> Result<()> {
        let kernels = &self.training()?.norm;
        let NormGradients { dy, dx, dweight, dbias, scratch, counter } = *given;
        let vector = norm.width * size_of::<f32>();
        let work = Arguments {
            dy: norm.place(self, dy)?,
            dx: norm.place(self, dx.0)?,
            accumulate: u32::from(dx.1),
            dweight: self.maybe(dweight, vector)?,
            dbias: self.maybe(dbias, vector)?,
            partials: 0,
            counter: self.at(counter, size_of::<u32>())?,
            ..norm.arguments(self)?
        };
        let shared = if dweight.is_nothing() { 0 } else { 2 * norm.width * size_of::<f32>() };
        let (kernel, size) = match norm.in_registers(&[norm.x, dy, dx.0]) {
            Some(index) if shared <= SHARED => {
                let size = Size::new(norm.rows.div_ceil(8).min(BLOCKS[index]), [32, 8]).shared(shared);
                (&kernels.narrow.of(norm.storage)[index][1], size)
            }
            _ => {
                let shared = 2 * norm.width * size_of::<f32>();
                let size = Size::new(norm.rows.min(BLOCKS[0]), [256, 1]).shared(shared);
                (&kernels.any.of(norm.storage)[1], size)
            }
        };
        let parts = size.blocks();
        let has_many = !dweight.is_nothing() && parts * 2 * norm.width > FEW;
        let partials = self.floats(scratch, parts * 2 * norm.width)?;
        let work = Arguments { partials, counter: if has_many { 0 } else { work.counter }, ..work };
        // SAFETY: as above; the scratch has a part for each block.
        unsafe { self.launch(kernel, size, (work,)) }?;
        if !has_many {
            return Ok(());
        }
        let size = Size::new((2 * norm.width).div_ceil(32), [256, 1]);
        let list = (partials, narrow(parts)?, narrow(norm.width)?, work.dweight, work.dbias);
        // SAFETY: so many parts, which were just made.
        unsafe { self.launch(&kernels.parts, size, list) }
    }
}
