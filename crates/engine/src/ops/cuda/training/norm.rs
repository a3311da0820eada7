//! Norms and their gradients.

use super::{Launcher, Storage, Stored, narrow};
use crate::error::Result;
use gpu::{Function, Module, Size, Span};

/// Blocks of the way forward at most, by kernel: about as many as run at a time on the largest chips.
const FORWARD: [usize; 6] = [528, 396, 264, 264, 264, 264];
/// The same of the way back. Each block leaves a part of the sums, so these say in which order they are summed: on every chip the
/// same.
const BLOCKS: [usize; 6] = [396, 264, 264, 132, 132, 132];
/// Sums that the way back leaves: the gradients of weight and bias, and those of the columns of dx.
pub(crate) const SUMS: usize = 3;
/// The widest row that a warp keeps in registers.
const WIDEST: usize = 1024;
/// Chunks of 16 bytes that a lane keeps, by kernel.
const CHUNKS: [usize; 6] = [1, 2, 3, 4, 6, 8];
/// Warps of a block, each with a row of its own.
const WARPS: usize = 8;

pub(crate) struct Kernels {
    narrow: Stored<Vec<Both>>,
    any: Stored<[Function; 2]>,
}

/// A kernel forward and one back.
struct Both {
    forward: Function,
    back: Function,
    /// Of the way back, whose rows lie in shared memory: as many as the chip has room for.
    warps: usize,
}

/// Bytes of shared memory that a warp of the way back needs: two rows of x, of dy and of dx.
fn shared_of_warp(chunks: usize) -> usize {
    2 * 3 * chunks * 32 * 16
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let both = |kind: &str, end: &str| -> gpu::Result<[Function; 2]> {
            let find = |name: &str| module.function(&format!("{kind}_{name}_{end}"));
            Ok([find("norm")?, find("norm_back")?])
        };
        let any = Stored::load(|kind| both(kind, "any"))?;
        for kernels in [&any.f32, &any.bf16] {
            // What a chip has not, its launch reports.
            let _ = kernels[1].allow_shared(200 << 10);
        }
        let sized = |kind: &str, chunks: usize| {
            let [forward, back] = both(kind, &chunks.to_string())?;
            let has_room = |&warps: &usize| back.allow_shared(warps * shared_of_warp(chunks)).is_ok();
            let warps = [WARPS, WARPS / 2, WARPS / 4].into_iter().find(has_room).unwrap_or(1);
            Ok(Both { forward, back, warps })
        };
        let chunks = |kind: &str| if kind == "bf16" { &CHUNKS[..4] } else { &CHUNKS[..] };
        let narrow = Stored::load(|kind| chunks(kind).iter().map(|&count| sized(kind, count)).collect())?;
        Ok(Kernels { narrow, any })
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
    partials: u64,
    rows: u32,
    width: u32,
    accumulate: u32,
    is_layer: u32,
    epsilon: f32,
    constant: f32,
}

const _: () = assert!(size_of::<Arguments>() == 80);

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
    /// Where parts of the sums are left, `[parts, SUMS, width]`, or nothing.
    pub partials: Span,
}

impl Norm {
    /// How many parts the way back leaves.
    pub fn parts(&self, dy: Span, dx: Span) -> usize {
        match self.in_registers(&[self.x, dy, dx]) {
            Some(index) => self.rows.div_ceil(WARPS).min(BLOCKS[index]),
            None => self.rows.min(BLOCKS[0]),
        }
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
                let size = Size::new(norm.rows.div_ceil(WARPS).min(FORWARD[index]), [32, WARPS]);
                (&kernels.narrow.of(norm.storage)[index].forward, size)
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
        let NormGradients { dy, dx, partials } = *given;
        let parts = norm.parts(dy, dx.0);
        let work = Arguments {
            dy: norm.place(self, dy)?,
            dx: norm.place(self, dx.0)?,
            accumulate: u32::from(dx.1),
            partials: self.maybe(partials, parts * SUMS * norm.width * size_of::<f32>())?,
            ..norm.arguments(self)?
        };
        let (kernel, size) = match norm.in_registers(&[norm.x, dy, dx.0]) {
            Some(index) => {
                let Both { back, warps, .. } = &kernels.narrow.of(norm.storage)[index];
                let shared = warps * shared_of_warp(CHUNKS[index]);
                (back, Size::new(parts, [32, *warps]).shared(shared))
            }
            None => {
                let shared = SUMS * norm.width * size_of::<f32>();
                (&kernels.any.of(norm.storage)[1], Size::new(parts, [256, 1]).shared(shared))
            }
        };
        // SAFETY: as above; there is a part for each block.
        unsafe { self.launch(kernel, size, (work,)) }
    }
}
