//! Cross-entropy.

use super::{Either, Launcher, Scalars, Storage, either, narrow};
use crate::error::Result;
use gpu::{Function, Module, Size, Span};

/// Classes that a warp looks through; more are for a block.
const WARP: usize = 1024;

pub(crate) struct Kernels {
    /// Scores and their gradient in `f32`, both in `bf16`, scores in `f32` and their gradient in `bf16`.
    entropy: [Either; 3],
    mean: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let find = |kind: &str| either(module, &format!("{kind}_entropy"));
        Ok(Kernels {
            entropy: [find("f32")?, find("bf16")?, find("mixed")?],
            mean: module.function("mean_loss")?,
        })
    }
}

/// −ln softmax(scores) at the targets, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Entropy {
    /// `[rows, classes]`
    pub scores: Span,
    /// As the scores, and perhaps in their place: their gradient. Nothing if it is not wanted.
    pub dscores: Span,
    /// `[rows]`
    pub targets: Span,
    /// `[rows]`, `f32`: 0 for rows that do not count.
    pub losses: Span,
    pub scalars: Span,
    pub rows: usize,
    pub classes: usize,
}

/// As the kernels' struct.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    scores: u64,
    slopes: u64,
    targets: u64,
    losses: u64,
    scalars: u64,
    rows: u32,
    classes: u32,
}

const _: () = assert!(size_of::<Arguments>() == 48);

impl Launcher<'_> {
    /// # Safety
    ///
    /// Every target is one of the classes, or says that its row does not count.
    pub(crate) unsafe fn entropy(&self, scores: Storage, dscores: Storage, work: &Entropy) -> Result<()> {
        let kernels = &self.training()?.loss;
        let index = match (scores, dscores) {
            (Storage::F32, Storage::F32) => 0,
            (Storage::Bf16, _) => 1,
            (Storage::F32, Storage::Bf16) => 2,
        };
        let (rows, is_wide) = (work.rows, work.classes > WARP);
        let count = rows * work.classes;
        let arguments = Arguments {
            scores: self.numbers(work.scores, scores, count)?,
            slopes: self.maybe(work.dscores, count * dscores.size())?,
            targets: self.at(work.targets, rows * size_of::<u32>())?,
            losses: self.floats(work.losses, rows)?,
            scalars: self.at(work.scalars, size_of::<Scalars>())?,
            rows: narrow(rows)?,
            classes: narrow(work.classes)?,
        };
        let size = match is_wide {
            true => Size::new(rows, [512, 1]),
            false => Size::new(rows.div_ceil(8), [32, 8]),
        };
        let kernel = &kernels.entropy[index][usize::from(is_wide)];
        // SAFETY: everything has these rows; targets are as the caller promises.
        unsafe { self.launch(kernel, size, (arguments,)) }
    }

    /// total += scale·Σ losses/counted: losses `[rows]`.
    pub(crate) fn mean_loss(&self, losses: Span, rows: usize, scalars: Span, total: Span) -> Result<()> {
        let size = Size::new(1, [1024, 1]);
        let (losses, scalars) = (self.floats(losses, rows)?, self.at(scalars, size_of::<Scalars>())?);
        let list = (losses, narrow(rows)?, scalars, self.floats(total, 1)?);
        // SAFETY: so many losses.
        unsafe { self.launch(&self.training()?.loss.mean, size, list) }
    }
}
