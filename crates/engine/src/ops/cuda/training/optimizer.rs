//! AdamW over all parameters in one launch, after one that finds the norm of their gradients.

use super::{Launcher, Scalars};
use crate::error::Result;
use crate::ops::optimizer::AdamW;
use gpu::{Function, Module, Size, Span};

/// Blocks of the launch that sums squares: each leaves a part.
const PARTS: usize = 256;
/// Blocks of the other.
const BLOCKS: usize = 1024;

pub(crate) struct Kernels {
    squares: Function,
    adam: Function,
    shorten: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        Ok(Kernels {
            squares: module.function("gradient_squares")?,
            adam: module.function("adam")?,
            shorten: module.function("shorten")?,
        })
    }
}

/// Buffers of `len` numbers, a multiple of 32.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub parameters: Span,
    pub gradients: Span,
    pub first: Span,
    pub second: Span,
    /// The parameters in `bf16`, or nothing.
    pub copies: Span,
    /// A bit for each parameter: whether it decays.
    pub decays: Span,
    pub len: usize,
}

/// As the kernels' struct.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    parameters: u64,
    gradients: u64,
    first: u64,
    second: u64,
    copies: u64,
    decays: u64,
    squares: u64,
    scalars: u64,
    loss: u64,
    norm: u64,
    fours: u64,
    parts: u32,
    old: [f32; 2],
    new: [f32; 2],
    epsilon: f32,
}

const _: () = assert!(size_of::<Arguments>() == 112);

/// Bytes that an update needs.
pub(crate) const SCRATCH: usize = PARTS * size_of::<f64>();

impl Launcher<'_> {
    /// Changes the parameters, unless the loss or the norm of the gradients is not finite; leaves the norm (`f64`) at `norm`.
    /// `scratch` has [`SCRATCH`] bytes.
    pub(crate) fn update(
        &self,
        buffers: &Buffers,
        adam: &AdamW,
        [scalars, loss, norm, scratch]: [Span; 4],
    ) -> Result<()> {
        let kernels = &self.training()?.optimizer;
        let fours = buffers.len / 4;
        let parts = fours.div_ceil(256).clamp(1, PARTS);
        let len = buffers.len;
        let work = Arguments {
            parameters: self.floats(buffers.parameters, len)?,
            gradients: self.floats(buffers.gradients, len)?,
            first: self.floats(buffers.first, len)?,
            second: self.floats(buffers.second, len)?,
            copies: self.maybe(buffers.copies, 2 * len)?,
            decays: self.at(buffers.decays, len.div_ceil(8))?,
            squares: self.at(scratch, parts * size_of::<f64>())?,
            scalars: self.at(scalars, size_of::<Scalars>())?,
            loss: self.floats(loss, 1)?,
            norm: self.at(norm, size_of::<f64>())?,
            fours: fours as u64,
            parts: parts as u32,
            old: [adam.beta1 as f32, adam.beta2 as f32],
            new: [(1.0 - adam.beta1) as f32, (1.0 - adam.beta2) as f32],
            epsilon: adam.epsilon as f32,
        };
        let size = |blocks| Size::new(blocks, [256, 1]);
        let list = (work.gradients, work.squares, work.fours);
        // SAFETY: all buffers have `len` numbers; the scratch has a part for each block.
        unsafe {
            self.launch(&kernels.squares, size(parts), list)?;
            self.launch(&kernels.adam, size(fours.div_ceil(256).clamp(1, BLOCKS)), (work,))
        }
    }

    /// Rounds parameters, as they are when they come from the CPU.
    pub(crate) fn shorten(&self, parameters: Span, copies: Span, len: usize) -> Result<()> {
        let fours = len / 4;
        let list = (self.floats(parameters, len)?, self.at(copies, 2 * len)?, fours as u64);
        // SAFETY: both have `len` numbers.
        unsafe { self.launch(&self.training()?.optimizer.shorten, Size::each(fours), list) }
    }
}
