//! The losses of vectors that come in pairs, as [`Pairs`](crate::ops::similarity::Pairs) of the CPU. Whether a batch has
//! scores is read from the GPU's memory, so that what was recorded serves both kinds of batches.

use super::{Launcher, THREADS, narrow};
use crate::error::Result;
use crate::ops::cuda::Arithmetic;
use gpu::{Function, Module, Size, Span};

/// Rows and columns of a tile, and rows of a block that sums them one by one: as in kernels/pairs.cu.
const TILE: usize = 64;
const ROWS: usize = THREADS / 32;

/// The kernels of this part; pairs are for `f32` and `bf16`.
pub(crate) struct Kernels {
    cosines: [Function; 2],
    losses: [Function; 2],
    gradient: [Function; 2],
    total: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let pair = |name: &str| -> gpu::Result<[Function; 2]> {
            Ok([
                module.function(&format!("pairs_{name}_f32"))?,
                module.function(&format!("pairs_{name}_bf16"))?,
            ])
        };
        Ok(Kernels {
            cosines: pair("cosines")?,
            losses: pair("losses")?,
            gradient: pair("gradient")?,
            total: module.function("pairs_total")?,
        })
    }
}

/// Vectors of length 1, rows 2i and 2i + 1 being a pair.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// `[rows, width]`.
    pub vectors: Span,
    pub rows: usize,
    pub width: usize,
    /// `[rows / 2]`, `u32`: 1 where a pair counts, else 0. The others may hold anything finite.
    pub counts: Span,
    /// `[rows / 2]`, `f32`; read where `is_scored` leads to something else than 0.
    pub scores: Span,
    /// A `u32`: whether there are scores.
    pub is_scored: Span,
    /// An `f32`: where the loss goes.
    pub loss: Span,
    /// [`scratch`] bytes, which the way back finds as the way forward left them.
    pub scratch: Span,
}

/// Bytes of scratch.
pub(crate) fn scratch(work: &Work) -> usize {
    (work.rows * work.rows + 2 * work.rows + 1) * size_of::<f32>()
}

/// As `Pairs` in kernels/pairs.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    vectors: u64,
    counts: u64,
    scores: u64,
    is_scored: u64,
    scale: u64,
    loss: u64,
    gradient: u64,
    cosines: u64,
    logarithms: u64,
    losses: u64,
    share: u64,
    rows: u32,
    width: u32,
}

const _: () = assert!(size_of::<Arguments>() == 96);

impl Work {
    fn arguments(
        &self,
        gpu: &Launcher,
        arithmetic: Arithmetic,
        scale: Span,
        gradient: Span,
    ) -> Result<Arguments> {
        let cosines = gpu.at(self.scratch, scratch(self))?;
        let after = |numbers: usize| cosines + (numbers * size_of::<f32>()) as u64;
        let (squares, pairs) = (self.rows * self.rows, self.rows / 2);
        let vectors = self.rows * self.width * arithmetic.size();
        Ok(Arguments {
            vectors: gpu.at(self.vectors, vectors)?,
            counts: gpu.at(self.counts, pairs * size_of::<u32>())?,
            scores: gpu.floats(self.scores, pairs)?,
            is_scored: gpu.at(self.is_scored, size_of::<u32>())?,
            scale: gpu.maybe(scale, size_of::<f32>())?,
            loss: gpu.floats(self.loss, 1)?,
            gradient: gpu.maybe(gradient, vectors)?,
            cosines,
            logarithms: after(squares),
            losses: after(squares + self.rows),
            share: after(squares + 2 * self.rows),
            rows: narrow(self.rows)?,
            width: narrow(self.width)?,
        })
    }
}

fn size(blocks: usize) -> Size {
    Size::new(blocks, [THREADS, 1])
}

/// The loss: with scores the mean squared error of the cosines, else the mean cross-entropy of finding each row's partner among
/// all other rows that count.
pub(crate) fn forward(kernels: &Kernels, gpu: &Launcher, arithmetic: Arithmetic, work: &Work) -> Result<()> {
    let arguments = work.arguments(gpu, arithmetic, Span::NOTHING, Span::NOTHING)?;
    let kind = usize::from(arithmetic == Arithmetic::Bf16);
    let tiles = work.rows.div_ceil(TILE);
    // SAFETY: memory of these sizes.
    unsafe {
        gpu.launch(&kernels.cosines[kind], size(tiles * tiles), (arguments,))?;
        gpu.launch(&kernels.losses[kind], size(work.rows.div_ceil(ROWS)), (arguments,))?;
        gpu.launch(&kernels.total, size(1), (arguments,))
    }
}

/// Sets `gradient` `[rows, width]` to that of the loss times an `f32` at `scale`. After [`forward`], with the scratch as
/// that left it.
pub(crate) fn backward(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    work: &Work,
    scale: Span,
    gradient: Span,
) -> Result<()> {
    let arguments = work.arguments(gpu, arithmetic, scale, gradient)?;
    let kernel = &kernels.gradient[usize::from(arithmetic == Arithmetic::Bf16)];
    let blocks = work.rows.div_ceil(TILE) * work.width.div_ceil(TILE);
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(kernel, size(blocks), (arguments,)) }
}

#[cfg(test)]
mod tests {
    use super::super::check::{STORAGES, close, done, gpu, numbers};
    use super::*;
    use crate::ops::similarity::{self, Pairs};

    #[test]
    fn losses_and_gradients_are_those_of_the_processor() {
        let Some(gpu) = gpu() else { return };
        let kernels = &gpu.kernels().linear().unwrap().pairs;
        for (pairs, width) in [(1, 3), (2, 1), (7, 33), (40, 70), (100, 256)] {
            for (arithmetic, is_scored) in STORAGES.into_iter().flat_map(|a| [(a, false), (a, true)]) {
                let size = 2 * pairs * width;
                // Of the order of length 1, so that exponentials are those of cosines; without more rounding.
                let scale = 0.5f32.powi((width as f32).log2().ceil() as i32 / 2);
                let vectors: Vec<f32> = numbers(arithmetic, 1, size).into_iter().map(|x| x * scale).collect();
                let counts: Vec<bool> = (0..pairs).map(|pair| pairs == 2 || pair % 4 != 2).collect();
                let scores = numbers(Arithmetic::F32, 2, pairs);
                let (mut memory, mut expected) = (vec![0.0; similarity::scratch(2 * pairs)], vec![0.0; size]);
                let there = Pairs { vectors: &vectors, width, counts: &counts };
                let given = Some((&mut expected[..], 0.5));
                let loss = match is_scored {
                    true => there.squared_error(&scores, &mut memory, given),
                    false => there.contrast(&mut memory, given),
                };
                let flags: Vec<u32> = counts.iter().map(|&counts| counts.into()).collect();
                let [vectors, gradient] =
                    [&vectors[..], &vec![9.0; size]].map(|list| gpu.store(arithmetic, list));
                let (flags, scores, is_there) =
                    (gpu.put(&flags), gpu.put(&scores), gpu.put(&[u32::from(is_scored)]));
                let (place, half) = (gpu.put(&[9f32]), gpu.put(&[0.5f32]));
                let mut work = Work {
                    vectors: vectors.span(),
                    rows: 2 * pairs,
                    width,
                    counts: flags.span(),
                    scores: scores.span(),
                    is_scored: is_there.span(),
                    loss: place.span(),
                    scratch: Span::NOTHING,
                };
                let scratch = gpu.put(&vec![f32::NAN; scratch(&work) / 4]);
                work.scratch = scratch.span();
                done(forward(kernels, &gpu.launcher(), arithmetic, &work));
                let (half, place_of_gradient) = (half.span(), gradient.span());
                done(backward(kernels, &gpu.launcher(), arithmetic, &work, half, place_of_gradient));
                let what = format!("{pairs} pairs of {width}, scores: {is_scored}");
                // Cosines are rounded width times, and the softmax turns 20 of them into relative error.
                let units = 40.0 * (width as f32 + 4.0);
                let got = gpu.get::<f32>(&place, 1)[0];
                let bound = units * f32::EPSILON * (loss.abs() as f32).max(1.0);
                assert!((got - loss as f32).abs() <= bound, "{what}: {got} but {loss}");
                let got = gpu.fetch(arithmetic, &gradient, size);
                let units = if arithmetic == Arithmetic::Bf16 { 2.0 } else { units };
                close(&what, arithmetic, &got, &expected, units);
            }
        }
    }
}
