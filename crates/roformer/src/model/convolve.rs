//! A convolution over the embeddings, whose result joins that of the first layer.

use super::call::Input;
use super::parameters::Parameters;
use super::products::{Norm, linear};
use crate::blueprint::{Blueprint, Convolution};
use crate::error::{Error, Result};
use crate::ops::{Backend, Part, Real};

/// The parameters of a convolution, as a product of each token's neighbours.
pub(super) struct Convolve<T: Real, B: Backend> {
    product: B::Matrix<T>,
    norm: Norm<T, B>,
    form: Convolution,
}

impl<T: Real, B: Backend> Convolve<T, B> {
    pub fn load(device: &B, source: &impl Parameters<T>, blueprint: &Blueprint) -> Result<Option<Self>> {
        let Some(form) = blueprint.convolution else { return Ok(None) };
        let ([product, norm], width) = (blueprint.family.names().convolution, blueprint.width);
        Ok(Some(Convolve {
            product: linear(device, source, &[product.into()], [width, form.kernel * width], true)?,
            norm: Norm::load(device, source, blueprint, norm, width)?,
            form,
        }))
    }

    /// activation(convolution) of the embeddings x `[batch · length, width]`. Tokens that are not real count as 0.
    pub fn forward(&self, device: &B, input: &Input, x: &B::Buffer<T>, width: usize) -> Result<B::Buffer<T>> {
        let (tokens, kernel) = (input.ids.len(), self.form.kernel);
        let (length, row, before) = (tokens / input.batch, kernel * width, kernel / 2);
        let memory = |numbers: usize| device.zeros(numbers).map_err(Error::for_want_of("the convolution"));
        let mut around = memory(tokens.checked_mul(row).ok_or(Error::memory("the convolution"))?)?;
        for neighbour in 0..kernel {
            for (first, count) in runs(input, length) {
                // Those whose neighbour it is stand as far the other way, as far as they are of the text.
                let (place, text) = (first % length, first - first % length);
                let start = (place + before).saturating_sub(neighbour);
                let end = (place + count + before).saturating_sub(neighbour).min(length);
                if start >= end {
                    continue;
                }
                let from = text + start + neighbour - before;
                let part = Part { buffer: x, offset: from * width, token: width, sequence: width };
                let at = ((text + start) * row + neighbour * width, row, row);
                device.copy(part, &mut around, at, [1, end - start, width])?;
            }
        }
        let mut out = memory(tokens * width)?;
        device.product(&self.product, &around, self.form.activation, &mut out)?;
        Ok(out)
    }

    /// x ← norm(x + what the convolution gave).
    pub fn join(&self, device: &B, x: &mut B::Buffer<T>, made: &B::Buffer<T>) -> Result<()> {
        self.norm.apply(device, x, Some(made))
    }
}

/// Where real tokens follow one another within a text: the first of them, and how many.
fn runs(input: &Input, length: usize) -> Vec<(usize, usize)> {
    let is_real = |token: usize| input.mask.is_none_or(|mask| mask[token]);
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for token in (0..input.ids.len()).filter(|&token| is_real(token)) {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == token && token % length != 0 => *count += 1,
            _ => runs.push((token, 1)),
        }
    }
    runs
}
