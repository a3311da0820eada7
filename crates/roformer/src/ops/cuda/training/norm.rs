//! Norms and their gradients.

use super::{Launched, Storage, Stored, arguments, launch_list, narrow};
use crate::ops::cuda::Cuda;
use crate::ops::cuda::kernels::{Size, launch};
use rope::cuda::{Device, Function, Module};

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
    pub fn load(module: &Module, device: &Device) -> rope::Result<Kernels> {
        let both = |kind: &str, end: String| -> rope::Result<[Function; 2]> {
            Ok([
                module.function(&format!("{kind}_norm_{end}"))?,
                module.function(&format!("{kind}_norm_back_{end}"))?,
            ])
        };
        let any = Stored::load(|kind| both(kind, "any".into()))?;
        for kernels in [&any.f32, &any.bf16] {
            // What a chip has not, its launch reports.
            let _ = kernels[1].allow_shared(device, 200 << 10);
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
    pub x: u64,
    /// `[width]`, or 0: `constant` everywhere.
    pub weight: u64,
    pub constant: f32,
    /// `[width]` or 0.
    pub bias: u64,
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
    pub dy: u64,
    /// The gradient of x, and whether it is added to.
    pub dx: (u64, bool),
    /// Added to, or 0.
    pub dweight: u64,
    pub dbias: u64,
    /// As many bytes as [`Norm::scratch`] says.
    pub scratch: u64,
    /// 4 bytes of 0, which are 0 again afterwards.
    pub counter: u64,
}

impl Norm {
    /// Bytes that the way back needs.
    pub fn scratch(&self) -> usize {
        BLOCKS[0] * 2 * self.width * size_of::<f32>()
    }

    fn arguments(&self) -> Result<Arguments, super::Fault> {
        Ok(Arguments {
            x: self.x,
            weight: self.weight,
            bias: self.bias,
            rows: narrow(self.rows)?,
            width: narrow(self.width)?,
            is_layer: u32::from(self.is_layer),
            epsilon: self.epsilon as f32,
            constant: self.constant,
            ..Arguments::default()
        })
    }

    /// Which kernel keeps rows in registers, if one does.
    fn in_registers(&self, places: &[u64]) -> Option<usize> {
        let chunk = super::chunk(self.storage, self.width, places);
        let is_aligned = self.width.is_multiple_of(4) && [self.weight, self.bias].iter().all(|p| p % 16 == 0);
        if chunk == 1 || !is_aligned || self.width > WIDEST {
            return None;
        }
        let needed = self.width.div_ceil(32 * chunk);
        CHUNKS.iter().position(|&count| count >= needed)
    }
}

impl Cuda {
    /// out `[rows, width]` = the norm.
    pub(crate) fn norm_rows(&self, norm: &Norm, out: u64) -> Launched {
        let kernels = &self.training()?.norm;
        let work = Arguments { out, ..norm.arguments()? };
        let (kernel, size) = match norm.in_registers(&[norm.x, out]) {
            Some(index) => {
                let size = Size { blocks: norm.rows.div_ceil(8), threads: [32, 8], shared: 0 };
                (kernels.narrow.of(norm.storage)[index][0], size)
            }
            None => {
                let size = Size { blocks: norm.rows, threads: [256, 1], shared: 0 };
                (kernels.any.of(norm.storage)[0], size)
            }
        };
        // SAFETY: x and out have these rows, weight and bias this width.
        unsafe { launch(&self.0.queue, kernel, size, &work) }
    }

    /// The way back.
    pub(crate) fn norm_rows_back(&self, norm: &Norm, given: &NormGradients) -> Launched {
        let kernels = &self.training()?.norm;
        let NormGradients { dy, dx, dweight, dbias, scratch, counter } = *given;
        let work = Arguments {
            dy,
            dx: dx.0,
            accumulate: u32::from(dx.1),
            dweight,
            dbias,
            partials: scratch,
            counter,
            ..norm.arguments()?
        };
        let shared = if dweight == 0 { 0 } else { 2 * norm.width * size_of::<f32>() };
        let (kernel, size) = match norm.in_registers(&[norm.x, dy, dx.0]) {
            Some(index) if shared <= SHARED => {
                let size =
                    Size { blocks: norm.rows.div_ceil(8).min(BLOCKS[index]), threads: [32, 8], shared };
                (kernels.narrow.of(norm.storage)[index][1], size)
            }
            _ => {
                let shared = 2 * norm.width * size_of::<f32>();
                let size = Size { blocks: norm.rows.min(BLOCKS[0]), threads: [256, 1], shared };
                (kernels.any.of(norm.storage)[1], size)
            }
        };
        let parts = size.blocks;
        let has_many = dweight != 0 && parts * 2 * norm.width > FEW;
        let work = Arguments { counter: if has_many { 0 } else { counter }, ..work };
        // SAFETY: as above; the scratch has a part for each block.
        unsafe { launch(&self.0.queue, kernel, size, &work) }?;
        if !has_many {
            return Ok(());
        }
        let size = Size { blocks: (2 * norm.width).div_ceil(32), threads: [256, 1], shared: 0 };
        let list = arguments![scratch, narrow(parts)?, narrow(norm.width)?, dweight, dbias];
        // SAFETY: so many parts, which were just made.
        unsafe { launch_list(&self.0.queue, kernels.parts, size, list) }
    }
}
