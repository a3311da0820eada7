//! The operations on the processor: each is a loop of this folder, over the threads of the current rayon pool.

use super::backend::{Backend, Part};
use super::{Activation, Matrix, Memory, Real, activation, norm, prenorm};
use crate::attention::softmax::{self, Heads, Mask, Shape};
use crate::error::{Error, Result, WORK};
use rope::{Positions, Table, Turn, ViewMut};

/// The processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

/// There is not as much memory as was asked for.
const MEMORY: Error = Error::Memory { what: WORK };

impl Backend for Cpu {
    type Buffer<T: Real> = Memory<T>;
    type Matrix<T: Real> = Matrix<T>;
    type Scratch<T: Real> = softmax::Workspace<T>;

    fn zeros<T: Real>(&self, len: usize) -> Result<Memory<T>> {
        Memory::zeros(len).ok_or(MEMORY)
    }

    fn fit<T: Real>(&self, buffer: &mut Memory<T>, len: usize) -> Result<()> {
        buffer.fit(len).then_some(()).ok_or(MEMORY)
    }

    fn upload<T: Real>(&self, from: &[T], to: &mut Memory<T>) -> Result<()> {
        to.copy_from_slice(from);
        Ok(())
    }

    fn download<T: Real>(&self, from: &Memory<T>, to: &mut [T]) -> Result<()> {
        to.copy_from_slice(from);
        Ok(())
    }

    fn matrix<T: Real>(&self, outputs: usize, inputs: usize) -> Result<Matrix<T>> {
        Matrix::zeros(outputs, inputs).ok_or(MEMORY)
    }

    fn set_rows<T: Real>(&self, matrix: &mut Matrix<T>, first: usize, rows: &[T]) -> Result<()> {
        matrix.set_rows(first, rows);
        Ok(())
    }

    fn set_bias<T: Real>(&self, matrix: &mut Matrix<T>, first: usize, bias: &[T]) -> Result<()> {
        matrix.set_bias(first, bias);
        Ok(())
    }

    fn matrix_bytes<T: Real>(&self, matrix: &Matrix<T>) -> usize {
        matrix.bytes()
    }

    fn scratch<T: Real>(&self) -> Result<softmax::Workspace<T>> {
        softmax::Workspace::new().ok_or(MEMORY)
    }

    fn product<T: Real>(
        &self,
        matrix: &Matrix<T>,
        x: &Memory<T>,
        activation: Activation,
        out: &mut Memory<T>,
    ) -> Result<()> {
        matrix.apply(x, out, activation);
        Ok(())
    }

    fn layer_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        residual: Option<&Memory<T>>,
        weight: &Memory<T>,
        bias: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        norm::layer_norm(x, residual.map_or(&[], |residual| residual), weight, bias, epsilon);
        Ok(())
    }

    fn rms_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        residual: Option<&Memory<T>>,
        weight: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        norm::rms_norm(x, residual.map_or(&[], |residual| residual), weight, epsilon);
        Ok(())
    }

    fn add_rms_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        delta: Option<&Memory<T>>,
        weight: &Memory<T>,
        epsilon: f64,
        out: &mut Memory<T>,
    ) -> Result<()> {
        prenorm::add_rms_norm(x, delta.map_or(&[], |delta| delta), weight, epsilon, out);
        Ok(())
    }

    fn rms_norm_heads<T: Real>(
        &self,
        x: &mut Memory<T>,
        step_offset_heads: [usize; 3],
        weight: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        prenorm::rms_norm_heads(x, step_offset_heads, weight, epsilon);
        Ok(())
    }

    fn swiglu<T: Real>(&self, gate_up: &Memory<T>, wide: usize, out: &mut Memory<T>) -> Result<()> {
        activation::swiglu(gate_up, wide, out);
        Ok(())
    }

    fn embed<T: Real>(
        &self,
        (words, ids): (&Memory<T>, &[u32]),
        (kinds, types): (&Memory<T>, Option<&[u32]>),
        width: usize,
        out: &mut Memory<T>,
    ) -> Result<()> {
        for (index, (row, &id)) in out.chunks_exact_mut(width).zip(ids).enumerate() {
            let kind = types.map_or(0, |types| types[index]) as usize;
            let (word, kind) = (&words[id as usize * width..][..width], &kinds[kind * width..][..width]);
            for ((x, word), kind) in row.iter_mut().zip(word).zip(kind) {
                *x = *word + *kind;
            }
        }
        Ok(())
    }

    fn rotate<T: Real>(
        &self,
        table: &Table<T>,
        first: i64,
        x: &mut Memory<T>,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()> {
        let mut view = ViewMut::strided(x, shape, steps)?;
        Ok(table.at(Positions::From(first))?.rotate(Turn::Forward, &mut view)?)
    }

    fn attend<T: Real>(
        &self,
        shape: &Shape,
        [q, k, v]: [Part<'_, Memory<T>>; 3],
        mask: &Mask,
        out: &mut Memory<T>,
        scratch: &softmax::Workspace<T>,
    ) -> Result<()> {
        fn heads<'a, T>(part: Part<'a, Memory<T>>) -> Heads<'a, T> {
            Heads { data: &part.buffer[part.offset..], token: part.token, sequence: part.sequence }
        }
        let fits = softmax::attend(shape, (heads(q), heads(k), heads(v)), mask, out, scratch);
        fits.then_some(()).ok_or(MEMORY)
    }

    fn copy<T: Real>(
        &self,
        from: Part<'_, Memory<T>>,
        to: &mut Memory<T>,
        (offset, token, sequence): (usize, usize, usize),
        [batch, tokens, width]: [usize; 3],
    ) -> Result<()> {
        for b in 0..batch {
            for t in 0..tokens {
                let source = &from.buffer[from.offset + b * from.sequence + t * from.token..][..width];
                to[offset + b * sequence + t * token..][..width].copy_from_slice(source);
            }
        }
        Ok(())
    }

    fn mean<T: Real>(
        &self,
        x: &Memory<T>,
        [batch, tokens, width]: [usize; 3],
        out: &mut Memory<T>,
    ) -> Result<()> {
        let scale = T::ONE / T::of(tokens as f64);
        for b in 0..batch {
            let out = &mut out[b * width..][..width];
            out.fill(T::ZERO);
            for t in 0..tokens {
                let row = &x[(b * tokens + t) * width..][..width];
                out.iter_mut().zip(row).for_each(|(out, x)| *out += *x);
            }
            out.iter_mut().for_each(|out| *out *= scale);
        }
        Ok(())
    }
}
