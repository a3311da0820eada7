//! The processor, taking note of what attention gives its weight to. For looking at models, not for running them: the weights
//! of all queries on all keys are kept.

use super::backend::{Backend, Part};
use super::{Activation, Cpu, Matrix, Memory, Real};
use crate::attention::softmax::{self, Mask, Shape};
use crate::error::Result;
use rope::Table;
use std::sync::{Arc, Mutex, PoisonError};

/// The processor with a notebook. A clone writes into the same one: keep one, give the other to a model.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    seen: Arc<Mutex<Vec<AttentionWeights>>>,
}

/// The weights of one attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionWeights {
    /// Its sizes.
    pub shape: Shape,
    /// `[batch, heads, queries, keys]`: each row sums to 1, and is 0 where a key is not seen.
    pub weights: Vec<f32>,
}

impl Watched {
    /// All that was noted since it was last asked, in order: layer by layer of each forward pass.
    pub fn take(&self) -> Vec<AttentionWeights> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, weights: AttentionWeights) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(weights);
    }
}

/// softmax(q·kᵀ/√d) in `f64`, by its definition.
fn weights<T: Real>(shape: &Shape, q: Part<'_, Memory<T>>, k: Part<'_, Memory<T>>, mask: &Mask) -> Vec<f32> {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
    let first = |part: &Part<'_, Memory<T>>, sequence: usize, token: usize, head: usize| {
        part.offset + sequence * part.sequence + token * part.token + head * head_dim
    };
    let mut all = Vec::with_capacity(batch * heads * queries * keys);
    for sequence in 0..batch {
        for head in 0..heads {
            for query in 0..queries {
                let q = &q.buffer[first(&q, sequence, query, head)..][..head_dim];
                let reach = mask.reach.of(shape, sequence, query);
                let is_seen =
                    |key: usize| key < reach && mask.keys.is_none_or(|mask| mask[sequence * keys + key]);
                let score = |key: usize| {
                    let k = &k.buffer[first(&k, sequence, key, head * key_heads / heads)..][..head_dim];
                    let product: f64 = q.iter().zip(k).map(|(&q, &k)| q.to_f64() * k.to_f64()).sum();
                    if is_seen(key) { product / (head_dim as f64).sqrt() } else { f64::NEG_INFINITY }
                };
                let scores: Vec<f64> = (0..keys).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                let share = |score: f64| if sum > 0.0 { ((score - most).exp() / sum) as f32 } else { 0.0 };
                all.extend(scores.into_iter().map(share));
            }
        }
    }
    all
}

impl Backend for Watched {
    type Buffer<T: Real> = Memory<T>;
    type Matrix<T: Real> = Matrix<T>;
    type Scratch<T: Real> = softmax::Workspace<T>;

    fn attend<T: Real>(
        &self,
        shape: &Shape,
        qkv: [Part<'_, Memory<T>>; 3],
        mask: &Mask,
        out: &mut Memory<T>,
        scratch: &softmax::Workspace<T>,
    ) -> Result<()> {
        self.note(AttentionWeights { shape: *shape, weights: weights(shape, qkv[0], qkv[1], mask) });
        Cpu.attend(shape, qkv, mask, out, scratch)
    }

    // All else is the processor's.

    fn zeros<T: Real>(&self, len: usize) -> Result<Memory<T>> {
        Cpu.zeros(len)
    }

    fn fit<T: Real>(&self, buffer: &mut Memory<T>, len: usize) -> Result<()> {
        Cpu.fit(buffer, len)
    }

    fn upload<T: Real>(&self, from: &[T], to: &mut Memory<T>) -> Result<()> {
        Cpu.upload(from, to)
    }

    fn download<T: Real>(&self, from: &Memory<T>, to: &mut [T]) -> Result<()> {
        Cpu.download(from, to)
    }

    fn matrix<T: Real>(&self, outputs: usize, inputs: usize) -> Result<Matrix<T>> {
        Cpu.matrix(outputs, inputs)
    }

    fn set_rows<T: Real>(&self, matrix: &mut Matrix<T>, first: usize, rows: &[T]) -> Result<()> {
        Cpu.set_rows(matrix, first, rows)
    }

    fn set_bias<T: Real>(&self, matrix: &mut Matrix<T>, first: usize, bias: &[T]) -> Result<()> {
        Cpu.set_bias(matrix, first, bias)
    }

    fn matrix_bytes<T: Real>(&self, matrix: &Matrix<T>) -> usize {
        Cpu.matrix_bytes(matrix)
    }

    fn scratch<T: Real>(&self) -> Result<softmax::Workspace<T>> {
        Cpu.scratch()
    }

    fn product<T: Real>(
        &self,
        matrix: &Matrix<T>,
        x: &Memory<T>,
        activation: Activation,
        out: &mut Memory<T>,
    ) -> Result<()> {
        Cpu.product(matrix, x, activation, out)
    }

    fn layer_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        residual: Option<&Memory<T>>,
        weight: &Memory<T>,
        bias: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        Cpu.layer_norm(x, residual, weight, bias, epsilon)
    }

    fn rms_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        residual: Option<&Memory<T>>,
        weight: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        Cpu.rms_norm(x, residual, weight, epsilon)
    }

    fn add_rms_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        delta: Option<&Memory<T>>,
        weight: &Memory<T>,
        epsilon: f64,
        out: &mut Memory<T>,
    ) -> Result<()> {
        Cpu.add_rms_norm(x, delta, weight, epsilon, out)
    }

    fn rms_norm_heads<T: Real>(
        &self,
        x: &mut Memory<T>,
        step_offset_heads: [usize; 3],
        weight: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        Cpu.rms_norm_heads(x, step_offset_heads, weight, epsilon)
    }

    fn swiglu<T: Real>(&self, gate_up: &Memory<T>, wide: usize, out: &mut Memory<T>) -> Result<()> {
        Cpu.swiglu(gate_up, wide, out)
    }

    fn embed<T: Real>(
        &self,
        words_and_ids: (&Memory<T>, &[u32]),
        kinds_and_types: (&Memory<T>, Option<&[u32]>),
        width: usize,
        out: &mut Memory<T>,
    ) -> Result<()> {
        Cpu.embed(words_and_ids, kinds_and_types, width, out)
    }

    fn rotate<T: Real>(
        &self,
        table: &Table<T>,
        first: i64,
        x: &mut Memory<T>,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()> {
        Cpu.rotate(table, first, x, shape, steps)
    }

    fn copy<T: Real>(
        &self,
        from: Part<'_, Memory<T>>,
        to: &mut Memory<T>,
        at: (usize, usize, usize),
        size: [usize; 3],
    ) -> Result<()> {
        Cpu.copy(from, to, at, size)
    }

    fn mean<T: Real>(&self, x: &Memory<T>, size: [usize; 3], out: &mut Memory<T>) -> Result<()> {
        Cpu.mean(x, size, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::softmax::Reach;
    use crate::graph::mix;

    #[test]
    fn what_is_noted_gives_the_output() {
        let shape = Shape { batch: 2, queries: 5, keys: 7, heads: 4, key_heads: 2, head_dim: 3 };
        let numbers = |seed: u64, len: usize| {
            let mut memory = Memory::<f64>::zeros(len).unwrap();
            for (index, number) in memory.iter_mut().enumerate() {
                *number = (mix(seed ^ mix(index as u64)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            }
            memory
        };
        let (q, k, v) = (numbers(1, 2 * 5 * 12), numbers(2, 2 * 7 * 6), numbers(3, 2 * 7 * 6));
        let part = |buffer, token, tokens| Part { buffer, offset: 0, token, sequence: token * tokens };
        // A key that is not there, and queries that see what came before.
        let keys: Vec<bool> = (0..14).map(|key| key != 9).collect();
        for reach in [Reach::All, Reach::Causal, Reach::Prefix(&[4, 1])] {
            let watched = Watched::default();
            let mut out = Memory::zeros(2 * 5 * 12).unwrap();
            let scratch = watched.scratch().unwrap();
            let mask = Mask { keys: Some(&keys), reach };
            let qkv = [part(&q, 12, 5), part(&k, 6, 7), part(&v, 6, 7)];
            watched.attend(&shape, qkv, &mask, &mut out, &scratch).unwrap();
            let seen = watched.take();
            assert_eq!((seen.len(), seen[0].shape, watched.take().len()), (1, shape, 0));
            for (row, weights) in seen[0].weights.chunks(7).enumerate() {
                let (sequence, head, query) = (row / 20, row / 5 % 4, row % 5);
                assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                for feature in 0..3 {
                    let value = |key: usize| v[(sequence * 7 + key) * 6 + head / 2 * 3 + feature];
                    let expected: f64 = (0..7).map(|key| f64::from(weights[key]) * value(key)).sum();
                    let got = out[(sequence * 5 + query) * 12 + head * 3 + feature];
                    assert!((got - expected).abs() < 1e-6, "{got} {expected}");
                }
            }
        }
    }
}
