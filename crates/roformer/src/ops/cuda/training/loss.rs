//! Cross-entropy.

use super::{Either, Launched, Storage, arguments, either, launch_list, narrow};
use crate::ops::cuda::Cuda;
use crate::ops::cuda::kernels::{Size, launch};
use rope::cuda::{Function, Module};

/// Classes that a warp looks through; more are for a block.
const WARP: usize = 1024;

pub(crate) struct Kernels {
    /// Scores and slopes in `f32`, both in `bf16`, scores in `f32` and slopes in `bf16`.
    entropy: [Either; 3],
    mean: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> rope::Result<Kernels> {
        let find = |kind: &str| either(module, &format!("{kind}_entropy"));
        Ok(Kernels {
            entropy: [find("f32")?, find("bf16")?, find("mixed")?],
            mean: module.function("mean_loss")?,
        })
    }
}

/// −ln softmax(scores) at the targets, row by row; as the kernels' struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Entropy {
    /// `[rows, classes]`
    pub scores: u64,
    /// As the scores, and perhaps in their place: their gradient. 0 if it is not wanted.
    pub slopes: u64,
    /// `[rows]`
    pub targets: u64,
    /// `[rows]`, `f32`: 0 for rows that do not count.
    pub losses: u64,
    pub scalars: u64,
    pub rows: u32,
    pub classes: u32,
}

const _: () = assert!(size_of::<Entropy>() == 48);

impl Cuda {
    pub(crate) fn entropy(&self, scores: Storage, slopes: Storage, work: &Entropy) -> Launched {
        let kernels = &self.training()?.loss;
        let index = match (scores, slopes) {
            (Storage::F32, Storage::F32) => 0,
            (Storage::Bf16, _) => 1,
            (Storage::F32, Storage::Bf16) => 2,
        };
        let (rows, is_wide) = (work.rows as usize, work.classes as usize > WARP);
        let size = match is_wide {
            true => Size { blocks: rows, threads: [512, 1], shared: 0 },
            false => Size { blocks: rows.div_ceil(8), threads: [32, 8], shared: 0 },
        };
        // SAFETY: everything has these rows; targets were checked when they were set.
        unsafe { launch(&self.0.queue, kernels.entropy[index][usize::from(is_wide)], size, work) }
    }

    /// total += scale·Σ losses/counted: losses `[rows]`.
    pub(crate) fn mean_loss(&self, losses: u64, rows: usize, scalars: u64, total: u64) -> Launched {
        let size = Size { blocks: 1, threads: [1024, 1], shared: 0 };
        let list = arguments![losses, narrow(rows)?, scalars, total];
        // SAFETY: so many losses.
        unsafe { launch_list(&self.0.queue, self.training()?.loss.mean, size, list) }
    }
}
