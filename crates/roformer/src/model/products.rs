//! What layers and heads are made of: norms, and linear layers, one below the other where they read the same.

use super::parameters::Parameters;
use crate::blueprint::{Blueprint, NormKind};
use crate::error::{Error, Result};
use crate::ops::{Backend, HeadRows, Memory, Real};

/// A norm.
pub(super) struct Norm<T: Real, B: Backend> {
    /// All ones where the norm has none.
    weight: B::Buffer<T>,
    /// That of a norm of mean and variance; the others are of the mean square.
    bias: Option<B::Buffer<T>>,
    epsilon: f64,
}

impl<T: Real, B: Backend> Norm<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        blueprint: &Blueprint,
        name: &str,
        width: usize,
    ) -> Result<Self> {
        let upload = |list: &[T]| {
            let mut buffer = device.zeros(width).map_err(Error::for_want_of("the weights"))?;
            device.upload(list, &mut buffer)?;
            Ok::<_, Error>(buffer)
        };
        let read = |part: &str| upload(&vector(source, &format!("{name}.{part}"), width)?);
        let epsilon = blueprint.norms.epsilon;
        Ok(match blueprint.norms.kind {
            NormKind::Bare => Norm::bare(device, width, epsilon)?,
            NormKind::Rms | NormKind::RmsLessOne => Norm { weight: read("weight")?, bias: None, epsilon },
            NormKind::LayerWeight => {
                let bias = Some(upload(&vec![T::ZERO; width])?);
                Norm { weight: read("weight")?, bias, epsilon }
            }
            NormKind::Layer => Norm { weight: read("weight")?, bias: Some(read("bias")?), epsilon },
        })
    }

    /// A norm of the mean square without parameters.
    pub fn bare(device: &B, width: usize, epsilon: f64) -> Result<Self> {
        let mut weight = device.zeros(width).map_err(Error::for_want_of("the weights"))?;
        device.upload(&vec![T::ONE; width], &mut weight)?;
        Ok(Norm { weight, bias: None, epsilon })
    }

    /// x ← norm(x + residual).
    pub fn apply(&self, device: &B, x: &mut B::Buffer<T>, residual: Option<&B::Buffer<T>>) -> Result<()> {
        match &self.bias {
            Some(bias) => device.layer_norm(x, residual, &self.weight, bias, self.epsilon)?,
            None => device.rms_norm(x, residual, &self.weight, self.epsilon)?,
        }
        Ok(())
    }

    /// x ← x + delta, out = norm(x).
    pub fn apply_to(
        &self,
        device: &B,
        x: &mut B::Buffer<T>,
        delta: Option<&B::Buffer<T>>,
        out: &mut B::Buffer<T>,
    ) -> Result<()> {
        Ok(device.add_norm(x, delta, &self.weight, self.bias.as_ref(), self.epsilon, out)?)
    }

    /// Norms heads where they stand.
    pub fn apply_to_heads(&self, device: &B, x: &mut B::Buffer<T>, heads: HeadRows) -> Result<()> {
        Ok(device.rms_norm_heads(x, heads, &self.weight, self.epsilon)?)
    }
}

/// A tensor of one axis.
pub(super) fn vector<T: Real>(source: &impl Parameters<T>, name: &str, len: usize) -> Result<Vec<T>> {
    let mut out = vec![T::ZERO; len];
    source.read(name, &[len], &mut out)?;
    Ok(out)
}

/// A tensor of two axes on the device.
pub(super) fn table<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    name: &str,
    [rows, width]: [usize; 2],
) -> Result<B::Buffer<T>> {
    let len = rows.checked_mul(width).ok_or(Error::memory("the weights"))?;
    let mut list = Memory::zeros(len).ok_or(Error::memory("the weights"))?;
    source.read(name, &[rows, width], &mut list)?;
    let mut buffer = device.zeros(len).map_err(Error::for_want_of("the weights"))?;
    device.upload(&list, &mut buffer)?;
    Ok(buffer)
}

/// Several linear layers with the same input, one below the other, as one.
pub(super) fn linear<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    names: &[String],
    [outputs, inputs]: [usize; 2],
    has_bias: bool,
) -> Result<B::Matrix<T>> {
    let part = |name: &String| (format!("{name}.weight"), format!("{name}.bias"), outputs);
    let parts: Vec<_> = names.iter().map(part).collect();
    stack(device, source, &parts, inputs, has_bias)
}

/// The same where they have different numbers of outputs: the names of weights and biases, and the outputs.
pub(super) fn stack<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    parts: &[(String, String, usize)],
    inputs: usize,
    has_bias: bool,
) -> Result<B::Matrix<T>> {
    for (weight, _, outputs) in parts {
        source.check(weight, &[*outputs, inputs])?;
    }
    let total = parts.iter().map(|(_, _, outputs)| outputs).sum();
    let mut matrix = device.matrix(total, inputs).map_err(Error::for_want_of("the weights"))?;
    let mut first = 0;
    for (weight, bias, outputs) in parts {
        in_pieces(source, weight, [*outputs, inputs], |row, rows| {
            Ok(device.set_rows(&mut matrix, first + row, rows)?)
        })?;
        if has_bias {
            device.set_bias(&mut matrix, first, &vector(source, bias, *outputs)?)?;
        }
        first += outputs;
    }
    Ok(matrix)
}

/// Numbers that are read at a time: few beside a model, many beside what reading them costs.
const PIECE: usize = 1 << 18;

/// Reads a tensor `[rows, width]` some rows at a time: `take` is given the first of them and their numbers.
pub(super) fn in_pieces<T: Real>(
    source: &impl Parameters<T>,
    name: &str,
    [rows, width]: [usize; 2],
    mut take: impl FnMut(usize, &mut [T]) -> Result<()>,
) -> Result<()> {
    let shape = [rows, width];
    source.check(name, &shape)?;
    let most = match source.is_in_rows(name, &shape) {
        true => (PIECE / width.max(1)).clamp(1, rows.max(1)),
        false => rows,
    };
    let memory = most.checked_mul(width).and_then(Memory::zeros);
    let mut memory = memory.ok_or_else(|| Error::memory("the weights"))?;
    if most == rows {
        source.read(name, &shape, &mut memory)?;
        return take(0, &mut memory);
    }
    for first in (0..rows).step_by(most) {
        let piece = &mut memory[..most.min(rows - first) * width];
        source.read_rows(name, &shape, first, piece)?;
        take(first, piece)?;
    }
    Ok(())
}
