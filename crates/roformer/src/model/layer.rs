//! One layer: attention to itself, to another model where there is one, and a feed-forward block, each followed by a norm
//! of its sum with what went in.

use super::cache::LayerCache;
use super::config::RoFormerConfig;
use super::parameters::Parameters;
use crate::attention::softmax::{self, Heads, Mask, Shape};
use crate::error::{Error, Result};
use crate::ops::{Activation, Matrix, Memory, Real, layer_norm};
use rope::{Positions, Table, Turn, ViewMut};

/// Weight and bias of a norm.
pub(super) struct Norm<T> {
    weight: Vec<T>,
    bias: Vec<T>,
    epsilon: f64,
}

impl<T: Real> Norm<T> {
    pub fn load(source: &impl Parameters<T>, name: &str, width: usize, epsilon: f64) -> Result<Self> {
        let read = |part: &str| vector(source, &format!("{name}.{part}"), width);
        Ok(Norm { weight: read("weight")?, bias: read("bias")?, epsilon })
    }

    /// x ← norm(x + residual); without a residual if it is empty.
    pub fn apply(&self, x: &mut [T], residual: &[T]) {
        layer_norm(x, residual, &self.weight, &self.bias, self.epsilon);
    }
}

/// A tensor of one axis.
pub(super) fn vector<T: Real>(source: &impl Parameters<T>, name: &str, len: usize) -> Result<Vec<T>> {
    let mut out = vec![T::ZERO; len];
    source.read(name, &[len], &mut out)?;
    Ok(out)
}

/// Several linear layers with the same input, one below the other, packed as one.
pub(super) fn linear<T: Real>(
    source: &impl Parameters<T>,
    names: &[String],
    outputs: usize,
    inputs: usize,
) -> Result<Matrix<T>> {
    let out_of_memory = Error::Memory { what: "the weights" };
    let Some(mut matrix) = Matrix::zeros(names.len() * outputs, inputs) else { return Err(out_of_memory) };
    let Some(mut rows) = Memory::zeros(outputs * inputs) else { return Err(out_of_memory) };
    for (index, name) in names.iter().enumerate() {
        source.read(&format!("{name}.weight"), &[outputs, inputs], &mut rows)?;
        matrix.set_rows(index * outputs, &rows);
        matrix.set_bias(index * outputs, &vector(source, &format!("{name}.bias"), outputs)?);
    }
    Ok(matrix)
}

/// The parameters of a layer.
pub(super) struct Layer<T> {
    query_key_value: Matrix<T>,
    output: Matrix<T>,
    norm: Norm<T>,
    cross: Option<Cross<T>>,
    up: Matrix<T>,
    down: Matrix<T>,
    last_norm: Norm<T>,
}

/// Attention to another model's output.
struct Cross<T> {
    query: Matrix<T>,
    key_value: Matrix<T>,
    output: Matrix<T>,
    norm: Norm<T>,
}

/// Memory for the tokens of one forward pass; `tokens` = batch · length.
pub(super) struct Buffers<T> {
    /// `[tokens, hidden]`: what goes into a layer and what comes out of it.
    pub x: Memory<T>,
    /// `[tokens, 3 · hidden]`
    qkv: Memory<T>,
    /// `[tokens, hidden]`
    context: Memory<T>,
    /// `[tokens, hidden]`
    y: Memory<T>,
    /// `[tokens, intermediate]`
    wide: Memory<T>,
    attention: softmax::Workspace<T>,
}

impl<T: Real> Buffers<T> {
    pub fn new(config: &RoFormerConfig, tokens: usize) -> Result<Self> {
        let memory = |width: usize| {
            let len = tokens.checked_mul(width).and_then(Memory::zeros);
            len.ok_or(Error::Memory { what: "the activations" })
        };
        let hidden = config.hidden_size;
        Ok(Buffers {
            x: memory(hidden)?,
            qkv: memory(3 * hidden)?,
            context: memory(hidden)?,
            y: memory(hidden)?,
            wide: memory(config.intermediate_size)?,
            attention: softmax::Workspace::new().ok_or(Error::Memory { what: "attention" })?,
        })
    }
}

/// What all layers of a forward pass share.
pub(super) struct Pass<'a, T> {
    pub batch: usize,
    pub length: usize,
    /// Tokens before these, in the cache.
    pub past: usize,
    pub table: &'a Table<T>,
    /// `[batch, past + length]`
    pub mask: Mask<'a>,
    pub encoded: Option<Other<'a, T>>,
}

/// Another model's output, `[batch, length, hidden]`.
#[derive(Clone, Copy)]
pub(super) struct Other<'a, T> {
    pub hidden: &'a [T],
    pub length: usize,
    pub mask: Option<&'a [bool]>,
}

impl<T: Real> Layer<T> {
    pub fn load(source: &impl Parameters<T>, config: &RoFormerConfig, prefix: &str) -> Result<Self> {
        let (hidden, wide, epsilon) = (config.hidden_size, config.intermediate_size, config.layer_norm_eps);
        let name = |part: &str| format!("{prefix}.{part}");
        let three = |at: &str| ["query", "key", "value"].map(|part| name(&format!("{at}.self.{part}")));
        let norm = |part: &str| Norm::load(source, &name(part), hidden, epsilon);
        let cross = match config.is_decoder && config.add_cross_attention {
            true => {
                let [query, key, value] = three("crossattention");
                Some(Cross {
                    query: linear(source, &[query], hidden, hidden)?,
                    key_value: linear(source, &[key, value], hidden, hidden)?,
                    output: linear(source, &[name("crossattention.output.dense")], hidden, hidden)?,
                    norm: norm("crossattention.output.LayerNorm")?,
                })
            }
            false => None,
        };
        Ok(Layer {
            query_key_value: linear(source, &three("attention"), hidden, hidden)?,
            output: linear(source, &[name("attention.output.dense")], hidden, hidden)?,
            norm: norm("attention.output.LayerNorm")?,
            cross,
            up: linear(source, &[name("intermediate.dense")], wide, hidden)?,
            down: linear(source, &[name("output.dense")], hidden, wide)?,
            last_norm: norm("output.LayerNorm")?,
        })
    }

    /// The memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let cross = self
            .cross
            .as_ref()
            .map_or(0, |cross| cross.query.bytes() + cross.key_value.bytes() + cross.output.bytes());
        self.query_key_value.bytes() + self.output.bytes() + self.up.bytes() + self.down.bytes() + cross
    }

    /// x ← layer(x).
    pub fn forward(
        &self,
        config: &RoFormerConfig,
        pass: &Pass<T>,
        buffers: &mut Buffers<T>,
        cache: Option<(&mut LayerCache<T>, usize)>,
    ) -> Result<()> {
        let Buffers { x, qkv, context, y, wide, attention } = buffers;
        let (hidden, heads, dim) = (config.hidden_size, config.num_attention_heads, config.head_dim());
        let Pass { batch, length, past, .. } = *pass;
        let out_of_memory = || Error::Memory { what: "attention" };

        self.query_key_value.apply(x, qkv, Activation::Identity);
        // Queries and keys (and values, where asked) stand side by side: one view of all their heads.
        let turning = if config.rotary_value { 3 * heads } else { 2 * heads };
        let steps = [length * 3 * hidden, 3 * hidden, dim];
        let mut view = ViewMut::strided(qkv, [batch, length, turning, dim], steps)?;
        pass.table.at(Positions::From(past as i64))?.rotate(Turn::Forward, &mut view)?;

        let fused = |first: usize| Heads {
            data: &qkv[first * hidden..],
            token: 3 * hidden,
            sequence: length * 3 * hidden,
        };
        let shape =
            Shape { batch, queries: length, keys: past + length, heads, key_heads: heads, head_dim: dim };
        let (mut keys, mut values) = (fused(1), fused(2));
        let mut cross_cache = None;
        if let Some((cache, capacity)) = cache {
            for sequence in 0..batch {
                for token in 0..length {
                    let from = (sequence * length + token) * 3 * hidden;
                    let to = (sequence * capacity + past + token) * hidden;
                    cache.keys[to..to + hidden].copy_from_slice(&qkv[from + hidden..from + 2 * hidden]);
                    cache.values[to..to + hidden].copy_from_slice(&qkv[from + 2 * hidden..from + 3 * hidden]);
                }
            }
            keys = Heads { data: &cache.keys, token: hidden, sequence: capacity * hidden };
            values = Heads { data: &cache.values, token: hidden, sequence: capacity * hidden };
            cross_cache = Some(&mut cache.cross);
        }
        if !softmax::attend(&shape, (fused(0), keys, values), &pass.mask, context, attention) {
            return Err(out_of_memory());
        }
        self.output.apply(context, y, Activation::Identity);
        self.norm.apply(y, x);

        if let (Some(cross), Some(other)) = (&self.cross, &pass.encoded) {
            let mut fresh = None;
            let slot = cross_cache.unwrap_or(&mut fresh);
            if slot.is_none() {
                let mut both = Memory::zeros(batch * other.length * 2 * hidden).ok_or_else(out_of_memory)?;
                cross.key_value.apply(other.hidden, &mut both, Activation::Identity);
                *slot = Some(both);
            }
            let both: &[T] = slot.as_deref().unwrap_or(&[]);
            // No rotation here: the two sequences have no positions in common.
            cross.query.apply(y, x, Activation::Identity);
            let shape = Shape { keys: other.length, ..shape };
            let query = Heads { data: &x[..], token: hidden, sequence: length * hidden };
            let part = |first: usize| Heads {
                data: both.get(first * hidden..).unwrap_or(&[]),
                token: 2 * hidden,
                sequence: other.length * 2 * hidden,
            };
            let mask = Mask { keys: other.mask, ..Mask::default() };
            if !softmax::attend(&shape, (query, part(0), part(1)), &mask, context, attention) {
                return Err(out_of_memory());
            }
            cross.output.apply(context, x, Activation::Identity);
            cross.norm.apply(x, y);
            y.copy_from_slice(x);
        }

        self.up.apply(y, wide, config.hidden_act);
        self.down.apply(wide, x, Activation::Identity);
        self.last_norm.apply(x, y);
        Ok(())
    }
}
