//! Losses: over a vocabulary, whose scores exist for some rows at a time, over a few classes, and of pairs.

use super::dense::Product;
use super::{Lowered, Lowering};
use crate::graph::loss::{Classes, Vocabulary};
use crate::graph::similarity::PairLoss;
use crate::ops::Real;
use crate::ops::cuda::check_cap;
use crate::ops::cuda::product::{Epilogue, Storage};
use crate::ops::cuda::training::loss::Entropy;
use crate::ops::cuda::training::sums::Parts;
use crate::ops::cuda::training::{Scalars, pairs};
use gpu::Span;
use std::mem::offset_of;

/// Scores that exist at a time: half a gigabyte of `f32`.
const SCORES: usize = 1 << 27;
/// Rows of products that waste nothing.
const ROWS: usize = 128;

impl<T: Real> Vocabulary<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        check_cap(self.cap)?;
        let (x, weight, bias, vocabulary) = (self.x, self.weight, self.bias, self.vocabulary);
        let place = lowering.place(x);
        let storage = place.storage;
        let pieces = (x.rows * vocabulary).div_ceil(SCORES);
        let block = x.rows.div_ceil(pieces.max(1)).next_multiple_of(ROWS).min(x.rows);
        let scores = lowering.memory(block * vocabulary * size_of::<f32>());
        // Scores are f32; what comes back to them is stored as tokens' numbers are.
        let dscores = match storage {
            Storage::F32 => scores,
            Storage::Bf16 => lowering.memory(block * vocabulary * storage.size()),
        };
        let losses = lowering.memory(x.rows * size_of::<f32>());
        let (targets, scalars, total) =
            (lowering.targets(x.rows, vocabulary), lowering.scalars(), lowering.loss());
        let factor = lowering.factor(weight, storage);
        let wide = bias.map(|bias| lowering.parameter(bias));
        let rows_of = move |first: usize| (x.rows - first).min(block);
        let input = move |first: usize| place.span.from(first * x.width * storage.size());

        let forward = move |first: usize| {
            let sizes = [rows_of(first), x.width, vocabulary];
            let mut product = Product::forward(storage, sizes, input(first), factor, scores);
            product.key.result = Storage::F32;
            if let Some(bias) = wide {
                (product.key.epilogue, product.places.bias, product.bias) = (Epilogue::Bias, bias, bias);
            }
            product
        };
        let entropy = move |first: usize, dscores: Span| Entropy {
            scores,
            dscores,
            targets: targets.from(4 * first),
            losses: losses.from(4 * first),
            scalars,
            rows: rows_of(first),
            classes: vocabulary,
        };
        lowering.evaluate(move |gpu| {
            for first in (0..x.rows).step_by(block) {
                forward(first).launch(gpu)?;
                // SAFETY: targets beyond the classes are refused where a batch brings them.
                unsafe { gpu.entropy(Storage::F32, storage, &entropy(first, Span::NOTHING))? };
            }
            gpu.mean_loss(losses, x.rows, scalars, total)
        });
        Ok(Box::new(move |lowering| {
            let dweight = lowering.parameter_gradient(weight);
            // Where rows of scores fit in registers, their gradient is summed as it is written.
            let firsts = || (0..x.rows).step_by(block);
            let parts: Option<Vec<usize>> = firsts().map(|first| entropy(first, dscores).parts()).collect();
            let vector = vocabulary * size_of::<f32>();
            let partials = match (&parts, bias) {
                (Some(parts), Some(_)) => lowering.memory(parts.iter().sum::<usize>() * vector),
                _ => Span::NOTHING,
            };
            lowering.set_gradient(x, |lowering, dx| {
                let mut left = 0;
                for (index, first) in firsts().enumerate() {
                    let parts = parts.as_ref().map(|parts| parts[index]);
                    let own = if partials.is_nothing() { partials } else { partials.from(left * vector) };
                    left += parts.unwrap_or(0);
                    let sizes = [rows_of(first), x.width, vocabulary];
                    let dx = dx.from(first * x.width * storage.size());
                    let to_input = Product::to_input(storage, sizes, dscores, factor, (dx, false));
                    let to_weight = Product::to_weight(storage, sizes, dscores, input(first), dweight);
                    lowering.backward(move |gpu| {
                        forward(first).launch(gpu)?;
                        let work = entropy(first, dscores);
                        // SAFETY: as above.
                        unsafe {
                            match parts {
                                Some(parts) => gpu.entropy_and_sums(storage, &work, parts, own)?,
                                None => gpu.entropy(Storage::F32, storage, &work)?,
                            }
                        }
                        to_input.launch(gpu)?;
                        to_weight.launch(gpu)
                    });
                    if let (None, Some(bias)) = (parts, bias) {
                        let dbias = lowering.parameter_gradient(bias);
                        lowering.sum_columns(storage, dscores, [rows_of(first), vocabulary], dbias);
                    }
                }
                if let (false, Some(bias)) = (partials.is_nothing(), bias) {
                    let out = lowering.parameter_gradient(bias);
                    let (step, count) = (vocabulary, vocabulary);
                    lowering.add_parts(Parts { partials, parts: left, step, out, count });
                }
            });
            lowering.backward(move |gpu| gpu.mean_loss(losses, x.rows, scalars, total));
            Ok(())
        }))
    }
}

impl Classes {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Classes { scores, .. } = *self;
        let place = lowering.place(scores);
        let (storage, rows) = (place.storage, scores.rows);
        let losses = lowering.memory(rows * size_of::<f32>());
        let (targets, scalars, total) =
            (lowering.targets(rows, scores.width), lowering.scalars(), lowering.loss());
        let entropy = move |dscores: Span| Entropy {
            scores: place.span,
            dscores,
            targets,
            losses,
            scalars,
            rows,
            classes: scores.width,
        };
        lowering.evaluate(move |gpu| {
            // SAFETY: targets beyond the classes are refused where a batch brings them.
            unsafe { gpu.entropy(storage, storage, &entropy(Span::NOTHING))? };
            gpu.mean_loss(losses, rows, scalars, total)
        });
        Ok(Box::new(move |lowering| {
            lowering.set_gradient(scores, |lowering, dscores| {
                lowering.backward(move |gpu| {
                    // SAFETY: as above.
                    unsafe { gpu.entropy(storage, storage, &entropy(dscores))? };
                    gpu.mean_loss(losses, rows, scalars, total)
                });
            });
            Ok(())
        }))
    }
}

impl<T: Real> PairLoss<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let vectors = self.vectors;
        let (place, rows) = (lowering.place(vectors), vectors.rows);
        let arithmetic = place.storage.arithmetic();
        let counts = lowering.feed("pairs that count", 4 * (rows / 2), move |batch, out| {
            let length = batch.ids.len() / rows;
            for (pair, out) in out.chunks_exact_mut(4).enumerate() {
                out.copy_from_slice(&u32::from(!batch.is_empty(2 * pair, length)).to_ne_bytes());
            }
        });
        let scores = lowering.feed("scores", 4 * (rows / 2), |batch, out| {
            out.chunks_exact_mut(4)
                .zip(&batch.scores)
                .for_each(|(out, x)| out.copy_from_slice(&x.to_ne_bytes()));
        });
        let is_scored = lowering.feed("whether there are scores", 4, |batch, out| {
            out.copy_from_slice(&u32::from(!batch.scores.is_empty()).to_ne_bytes());
        });
        let (loss, scalars, total) = (lowering.memory(4), lowering.scalars(), lowering.loss());
        let mut work = pairs::Work {
            vectors: place.span,
            rows,
            width: vectors.width,
            counts,
            scores,
            is_scored,
            loss,
            scratch: Span::NOTHING,
        };
        // The way back goes on with it.
        work.scratch = lowering.memory(pairs::scratch(&work));
        lowering.forward(move |gpu| {
            pairs::forward(&gpu.training()?.linear()?.pairs, gpu, arithmetic, &work)?;
            // One number, which is the mean already.
            gpu.mean_loss(loss, 1, scalars, total)
        });
        Ok(Box::new(move |lowering| {
            let scale = scalars.from(offset_of!(Scalars, scale));
            lowering.set_gradient(vectors, |lowering, dvectors| {
                lowering.backward(move |gpu| {
                    let kernels = &gpu.training()?.linear()?.pairs;
                    pairs::backward(kernels, gpu, arithmetic, &work, scale, dvectors)
                });
            });
            Ok(())
        }))
    }
}
