//! AdamW over all parameters in one launch, after one that finds the norm of their gradients.

use super::{Launched, arguments, launch_list};
use crate::ops::cuda::Cuda;
use crate::ops::cuda::kernels::{Size, launch};
use crate::ops::optimizer::AdamW;
use rope::cuda::{Function, Module};

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
    pub fn load(module: &Module) -> rope::Result<Kernels> {
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
    pub parameters: u64,
    pub gradients: u64,
    pub first: u64,
    pub second: u64,
    /// The parameters in `bf16`, or 0.
    pub copies: u64,
    /// A bit for each parameter: whether it decays.
    pub decays: u64,
    pub len: usize,
}

/// As the kernels' struct.
#[repr(C)]
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

impl Cuda {
    /// Changes the parameters, unless the loss or the norm of the gradients is not finite; leaves the norm (`f64`) at `norm`.
    /// `scratch` has [`SCRATCH`] bytes.
    pub(crate) fn update(
        &self,
        buffers: &Buffers,
        adam: &AdamW,
        [scalars, loss, norm, scratch]: [u64; 4],
    ) -> Launched {
        let kernels = &self.training()?.optimizer;
        let fours = buffers.len / 4;
        let parts = fours.div_ceil(256).clamp(1, PARTS);
        let work = Arguments {
            parameters: buffers.parameters,
            gradients: buffers.gradients,
            first: buffers.first,
            second: buffers.second,
            copies: buffers.copies,
            decays: buffers.decays,
            squares: scratch,
            scalars,
            loss,
            norm,
            fours: fours as u64,
            parts: parts as u32,
            old: [adam.beta1 as f32, adam.beta2 as f32],
            new: [(1.0 - adam.beta1) as f32, (1.0 - adam.beta2) as f32],
            epsilon: adam.epsilon as f32,
        };
        let size = |blocks| Size { blocks, threads: [256, 1], shared: 0 };
        let list = arguments![buffers.gradients, scratch, fours as u64];
        // SAFETY: all buffers have `len` numbers; the scratch has a part for each block.
        unsafe {
            launch_list(&self.0.queue, kernels.squares, size(parts), list)?;
            launch(&self.0.queue, kernels.adam, size(fours.div_ceil(256).clamp(1, BLOCKS)), &work)
        }
    }

    /// Rounds parameters, as they are when they come from the processor.
    pub(crate) fn shorten(&self, parameters: u64, copies: u64, len: usize) -> Launched {
        let fours = len / 4;
        let list = arguments![parameters, copies, fours as u64];
        // SAFETY: both have `len` numbers.
        unsafe { launch_list(&self.0.queue, self.training()?.optimizer.shorten, Size::each(fours), list) }
    }
}
