//! Cross-entropy.

use super::{Either, Launcher, Scalars, Storage, Stored, either, narrow};
use crate::error::Result;
use gpu::{Function, Module, Size, Span};

/// Classes that a warp looks through; more are for a block.
const WARP: usize = 1024;
/// Scores that a block has in registers, by kernel, where it has.
const REGISTERS: [usize; 2] = [4 << 10, 12 << 10];
/// Blocks that have rows in registers at most, each of which leaves a part of the sums of columns: as many as run at a time on the
/// largest chips.
const BLOCKS: usize = 132;

pub(crate) struct Kernels {
    /// Scores and their gradient in `f32`, both in `bf16`, scores in `f32` and their gradient in `bf16`.
    entropy: [Either; 3],
    /// With rows in registers: scores and their gradient in `f32`, and scores in `f32` and their gradient in `bf16`.
    registers: Stored<[Function; 2]>,
    mean: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let find = |kind: &str| either(module, &format!("{kind}_entropy"));
        Ok(Kernels {
            entropy: [find("f32")?, find("bf16")?, find("mixed")?],
            registers: Stored::load(|kind| {
                let kind = if kind == "bf16" { "mixed" } else { kind };
                let sized = |count: &str| module.function(&format!("{kind}_entropy_{count}"));
                Ok([sized("1")?, sized("3")?])
            })?,
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

impl Entropy {
    /// How many parts of the sums of the columns of the gradient [`Launcher::entropy_and_sums`] leaves; `None` where it is not for such
    /// scores.
    pub fn parts(&self) -> Option<usize> {
        let is_aligned = [self.scores, self.dscores].iter().all(|place| place.is_aligned(16));
        let range = WARP + 1..=REGISTERS[1];
        (is_aligned && self.classes.is_multiple_of(4) && range.contains(&self.classes))
            .then(|| self.rows.min(BLOCKS))
    }

    fn arguments(&self, gpu: &Launcher, scores: Storage, dscores: Storage) -> Result<Arguments> {
        let count = self.rows * self.classes;
        Ok(Arguments {
            scores: gpu.numbers(self.scores, scores, count)?,
            slopes: gpu.maybe(self.dscores, count * dscores.size())?,
            targets: gpu.at(self.targets, self.rows * size_of::<u32>())?,
            losses: gpu.floats(self.losses, self.rows)?,
            scalars: gpu.at(self.scalars, size_of::<Scalars>())?,
            rows: narrow(self.rows)?,
            classes: narrow(self.classes)?,
        })
    }
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
        let arguments = work.arguments(self, scores, dscores)?;
        let size = match is_wide {
            true => Size::new(rows, [512, 1]),
            false => Size::new(rows.div_ceil(8), [32, 8]),
        };
        let kernel = &kernels.entropy[index][usize::from(is_wide)];
        // SAFETY: everything has these rows; targets are as the caller promises.
        unsafe { self.launch(kernel, size, (arguments,)) }
    }

    /// The same of scores in `f32` with rows in registers, and parts `[parts, classes]` of the sums of the columns of their gradient,
    /// where there is memory for them.
    ///
    /// # Safety
    ///
    /// As of [`Launcher::entropy`].
    pub(crate) unsafe fn entropy_and_sums(
        &self,
        dscores: Storage,
        work: &Entropy,
        parts: usize,
        partials: Span,
    ) -> Result<()> {
        let size = usize::from(work.classes > REGISTERS[0]);
        let kernel = &self.training()?.loss.registers.of(dscores)[size];
        let partials = self.maybe(partials, parts * work.classes * size_of::<f32>())?;
        let list = (work.arguments(self, Storage::F32, dscores)?, partials);
        // SAFETY: as above; a part for each block.
        unsafe { self.launch(kernel, Size::new(parts, [1024, 1]), list) }
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
