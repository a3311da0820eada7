//! One layer: attention and a gated feed-forward block, each on a norm of the sum so far, to which its result is added.

use super::super::cache::LayerCache;
use super::super::layer::{linear, stack, vector};
use super::super::parameters::Parameters;
use super::config::DecoderConfig;
use crate::attention::softmax::{Mask, Shape};
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Part, Real};
use rope::Table;

/// The parameters of a layer.
pub(super) struct Layer<T: Real, B: Backend> {
    norm: B::Buffer<T>,
    query_key_value: B::Matrix<T>,
    /// Norms of single heads of queries and of keys.
    heads: Option<[B::Buffer<T>; 2]>,
    output: B::Matrix<T>,
    last_norm: B::Buffer<T>,
    gate_up: B::Matrix<T>,
    down: B::Matrix<T>,
}

/// Memory for the tokens of one forward pass; `tokens` = batch · length.
pub(super) struct Buffers<T: Real, B: Backend> {
    /// `[tokens, hidden]`: the sum so far.
    pub x: B::Buffer<T>,
    /// `[tokens, hidden]`: its norm.
    pub y: B::Buffer<T>,
    /// `[tokens, hidden]`: what a block adds to the sum, once the next norm is taken.
    pub delta: B::Buffer<T>,
    /// `[tokens, queries + keys + values]`
    qkv: B::Buffer<T>,
    /// `[tokens, queries]`
    context: B::Buffer<T>,
    /// `[tokens, 2 · intermediate]`
    gate_up: B::Buffer<T>,
    /// `[tokens, intermediate]`
    wide: B::Buffer<T>,
    attention: B::Scratch<T>,
}

impl<T: Real, B: Backend> Buffers<T, B> {
    pub fn new(device: &B) -> Result<Self> {
        let empty = || device.zeros(0).map_err(Error::for_want_of("the activations"));
        Ok(Buffers {
            x: empty()?,
            y: empty()?,
            delta: empty()?,
            qkv: empty()?,
            context: empty()?,
            gate_up: empty()?,
            wide: empty()?,
            attention: device.scratch().map_err(Error::for_want_of("attention"))?,
        })
    }

    /// Makes them long enough for this many tokens. Nothing is allocated where they were before.
    pub fn fit(&mut self, device: &B, config: &DecoderConfig, tokens: usize) -> Result<()> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let (query, key) = (config.query_width(), config.key_width());
        let buffers = [
            (&mut self.x, hidden),
            (&mut self.y, hidden),
            (&mut self.delta, hidden),
            (&mut self.qkv, query + 2 * key),
            (&mut self.context, query),
            (&mut self.gate_up, 2 * wide),
            (&mut self.wide, wide),
        ];
        let numbers = tokens as u128 * buffers.iter().map(|(_, width)| *width as u128).sum::<u128>();
        if !device.has_room::<T>(numbers) {
            return Err(Error::Memory { what: "the activations" });
        }
        for (buffer, width) in buffers {
            let fitted = device.fit(buffer, tokens.saturating_mul(width));
            fitted.map_err(Error::for_want_of("the activations"))?;
        }
        Ok(())
    }
}

/// What all layers of a forward pass share.
pub(super) struct Pass<'a, T: Real, B: Backend> {
    pub device: &'a B,
    pub config: &'a DecoderConfig,
    pub batch: usize,
    pub length: usize,
    /// Tokens before these, in the cache.
    pub past: usize,
    pub table: &'a Table<T>,
    /// `[batch, past + length]`
    pub mask: Mask<'a>,
}

impl<T: Real, B: Backend> Layer<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        config: &DecoderConfig,
        prefix: &str,
    ) -> Result<Self> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let (query, key) = (config.query_width(), config.key_width());
        let name = |part: &str| format!("{prefix}.{part}");
        let norm = |part: &str, width: usize| norm(device, source, &name(part), width);
        let parts = [("q", query), ("k", key), ("v", key)];
        let parts = parts.map(|(part, width)| (name(&format!("self_attn.{part}_proj")), width));
        let gates = ["gate", "up"].map(|part| name(&format!("mlp.{part}_proj")));
        let (output, down) = ([name("self_attn.o_proj")], [name("mlp.down_proj")]);
        Ok(Layer {
            norm: norm("input_layernorm", hidden)?,
            query_key_value: stack(device, source, &parts, hidden, config.attention_bias)?,
            heads: match config.head_norms {
                true => Some([
                    norm("self_attn.q_norm", config.head_dim)?,
                    norm("self_attn.k_norm", config.head_dim)?,
                ]),
                false => None,
            },
            output: linear(device, source, &output, [hidden, query], config.output_bias)?,
            last_norm: norm("post_attention_layernorm", hidden)?,
            gate_up: linear(device, source, &gates, [wide, hidden], config.mlp_bias)?,
            down: linear(device, source, &down, [hidden, wide], config.mlp_bias)?,
        })
    }

    /// The memory its weights take, in bytes.
    pub fn bytes(&self, device: &B) -> usize {
        let own = [&self.query_key_value, &self.output, &self.gate_up, &self.down];
        own.into_iter().map(|matrix| device.matrix_bytes(matrix)).sum()
    }

    /// delta ← layer(x + delta), x ← x + delta and what attention adds. `is_first`: there is no delta yet.
    pub fn forward(
        &self,
        pass: &Pass<T, B>,
        buffers: &mut Buffers<T, B>,
        is_first: bool,
        cache: Option<(&mut LayerCache<T, B>, usize)>,
    ) -> Result<()> {
        let Pass { device, config, batch, length, past, .. } = *pass;
        let (heads, key_heads, dim) =
            (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        let (query, key, epsilon) = (config.query_width(), config.key_width(), config.rms_norm_eps);
        let row = query + 2 * key;
        let Buffers { x, y, delta, qkv, context, gate_up, wide, attention } = buffers;
        let plain = Activation::Identity;

        device.add_rms_norm(x, (!is_first).then_some(&*delta), &self.norm, epsilon, y)?;
        device.product(&self.query_key_value, y, plain, qkv)?;
        if let Some([queries, keys]) = &self.heads {
            device.rms_norm_heads(qkv, [row, 0, heads], queries, epsilon)?;
            device.rms_norm_heads(qkv, [row, query, key_heads], keys, epsilon)?;
        }
        // Queries and keys stand side by side: one view of all their heads.
        let steps = [length * row, row, dim];
        device.rotate(pass.table, past as i64, qkv, [batch, length, heads + key_heads, dim], steps)?;

        let fused = |offset: usize| Part { buffer: &*qkv, offset, token: row, sequence: length * row };
        let (mut keys, mut values) = (fused(query), fused(query + key));
        if let Some((cache, capacity)) = cache {
            let (at, size) = ((past * key, key, capacity * key), [batch, length, key]);
            device.copy(keys, &mut cache.keys, at, size)?;
            device.copy(values, &mut cache.values, at, size)?;
            let whole = |buffer| Part { buffer, offset: 0, token: key, sequence: capacity * key };
            (keys, values) = (whole(&cache.keys), whole(&cache.values));
        }
        let shape = Shape { batch, queries: length, keys: past + length, heads, key_heads, head_dim: dim };
        device
            .attend(&shape, [fused(0), keys, values], &pass.mask, context, attention)
            .map_err(Error::for_want_of("attention"))?;
        device.product(&self.output, context, plain, delta)?;

        device.add_rms_norm(x, Some(delta), &self.last_norm, epsilon, y)?;
        device.product(&self.gate_up, y, plain, gate_up)?;
        device.swiglu(gate_up, config.intermediate_size, wide)?;
        device.product(&self.down, wide, plain, delta)?;
        Ok(())
    }
}

/// The weight of a norm.
pub(super) fn norm<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    name: &str,
    width: usize,
) -> Result<B::Buffer<T>> {
    let mut buffer = device.zeros(width).map_err(Error::for_want_of("the weights"))?;
    device.upload(&vector(source, &format!("{name}.weight"), width)?, &mut buffer)?;
    Ok(buffer)
}
