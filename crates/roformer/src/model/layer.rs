//! One layer: attention to itself, to another model where there is one, and a feed-forward block, each followed by a norm
//! of its sum with what went in.

use super::cache::LayerCache;
use super::config::RoFormerConfig;
use super::parameters::Parameters;
use crate::attention::softmax::{Mask, Shape};
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Memory, Part, Real};
use rope::Table;

/// A norm: of mean and variance, with a weight and a bias; or of the mean square alone, without either.
pub(super) struct Norm<T: Real, B: Backend> {
    /// All ones where the norm has none.
    weight: B::Buffer<T>,
    bias: Option<B::Buffer<T>>,
    epsilon: f64,
}

impl<T: Real, B: Backend> Norm<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        config: &RoFormerConfig,
        name: &str,
        width: usize,
    ) -> Result<Self> {
        let upload = |list: &[T]| {
            let mut buffer = device.zeros(width).map_err(Error::for_want_of("the weights"))?;
            device.upload(list, &mut buffer)?;
            Ok::<_, Error>(buffer)
        };
        let epsilon = config.layer_norm_eps;
        if config.rms_norm {
            return Ok(Norm { weight: upload(&vec![T::of(1.0); width])?, bias: None, epsilon });
        }
        let read = |part: &str| upload(&vector(source, &format!("{name}.{part}"), width)?);
        Ok(Norm { weight: read("weight")?, bias: Some(read("bias")?), epsilon })
    }

    /// x ← norm(x + residual).
    pub fn apply(&self, device: &B, x: &mut B::Buffer<T>, residual: Option<&B::Buffer<T>>) -> Result<()> {
        match &self.bias {
            Some(bias) => device.layer_norm(x, residual, &self.weight, bias, self.epsilon),
            None => device.rms_norm(x, residual, &self.weight, self.epsilon),
        }
    }
}

/// A tensor of one axis.
pub(super) fn vector<T: Real>(source: &impl Parameters<T>, name: &str, len: usize) -> Result<Vec<T>> {
    let mut out = vec![T::ZERO; len];
    source.read(name, &[len], &mut out)?;
    Ok(out)
}

/// Several linear layers with the same input, one below the other, as one.
pub(super) fn linear<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    names: &[String],
    [outputs, inputs]: [usize; 2],
    has_bias: bool,
) -> Result<B::Matrix<T>> {
    let parts: Vec<(String, usize)> = names.iter().map(|name| (name.clone(), outputs)).collect();
    stack(device, source, &parts, inputs, has_bias)
}

/// The same where they have different numbers of outputs.
pub(super) fn stack<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    parts: &[(String, usize)],
    inputs: usize,
    has_bias: bool,
) -> Result<B::Matrix<T>> {
    for (name, outputs) in parts {
        source.check(&format!("{name}.weight"), &[*outputs, inputs])?;
    }
    let out_of_memory = || Error::Memory { what: "the weights" };
    let total = parts.iter().map(|(_, outputs)| outputs).sum();
    let most = parts.iter().map(|(_, outputs)| *outputs).max().unwrap_or(0);
    let mut matrix = device.matrix(total, inputs).map_err(Error::for_want_of("the weights"))?;
    let mut rows = Memory::zeros(most * inputs).ok_or_else(out_of_memory)?;
    let mut first = 0;
    for (name, outputs) in parts {
        let rows = &mut rows[..outputs * inputs];
        source.read(&format!("{name}.weight"), &[*outputs, inputs], rows)?;
        device.set_rows(&mut matrix, first, rows)?;
        if has_bias {
            device.set_bias(&mut matrix, first, &vector(source, &format!("{name}.bias"), *outputs)?)?;
        }
        first += outputs;
    }
    Ok(matrix)
}

/// The parameters of a layer.
pub(super) struct Layer<T: Real, B: Backend> {
    query_key_value: B::Matrix<T>,
    output: B::Matrix<T>,
    norm: Norm<T, B>,
    cross: Option<Cross<T, B>>,
    up: B::Matrix<T>,
    down: B::Matrix<T>,
    last_norm: Norm<T, B>,
}

/// Attention to another model's output.
struct Cross<T: Real, B: Backend> {
    query: B::Matrix<T>,
    key_value: B::Matrix<T>,
    output: B::Matrix<T>,
    norm: Norm<T, B>,
}

/// Memory for the tokens of one forward pass; `tokens` = batch · length.
pub(super) struct Buffers<T: Real, B: Backend> {
    /// `[tokens, hidden]`: what goes into a layer and what comes out of it.
    pub x: B::Buffer<T>,
    /// `[tokens, 3 · hidden]`
    qkv: B::Buffer<T>,
    /// `[tokens, hidden]`
    context: B::Buffer<T>,
    /// `[tokens, hidden]`
    y: B::Buffer<T>,
    /// `[tokens, intermediate]`
    wide: B::Buffer<T>,
    attention: B::Scratch<T>,
}

impl<T: Real, B: Backend> Buffers<T, B> {
    pub fn new(device: &B) -> Result<Self> {
        let empty = || device.zeros(0).map_err(Error::for_want_of("the activations"));
        Ok(Buffers {
            x: empty()?,
            qkv: empty()?,
            context: empty()?,
            y: empty()?,
            wide: empty()?,
            attention: device.scratch().map_err(Error::for_want_of("attention"))?,
        })
    }

    /// Makes them long enough for this many tokens. Nothing is allocated where they were before.
    pub fn fit(&mut self, device: &B, config: &RoFormerConfig, tokens: usize) -> Result<()> {
        let hidden = config.hidden_size;
        let numbers = tokens as u128 * (6 * hidden + config.intermediate_size) as u128;
        if !device.has_room::<T>(numbers) {
            return Err(Error::Memory { what: "the activations" });
        }
        for (buffer, width) in [
            (&mut self.x, hidden),
            (&mut self.qkv, 3 * hidden),
            (&mut self.context, hidden),
            (&mut self.y, hidden),
            (&mut self.wide, config.intermediate_size),
        ] {
            let fitted = device.fit(buffer, tokens.saturating_mul(width));
            fitted.map_err(Error::for_want_of("the activations"))?;
        }
        Ok(())
    }
}

/// What all layers of a forward pass share.
pub(super) struct Pass<'a, T: Real, B: Backend> {
    pub device: &'a B,
    pub config: &'a RoFormerConfig,
    pub batch: usize,
    pub length: usize,
    /// Tokens before these, in the cache.
    pub past: usize,
    pub table: &'a Table<T>,
    /// `[batch, past + length]`
    pub mask: Mask<'a>,
    pub encoded: Option<Other<'a, T, B>>,
}

/// Another model's output, `[batch, length, hidden]`.
pub(super) struct Other<'a, T: Real, B: Backend> {
    pub hidden: B::Buffer<T>,
    pub length: usize,
    pub mask: Option<&'a [bool]>,
}

impl<T: Real, B: Backend> Layer<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        config: &RoFormerConfig,
        prefix: &str,
    ) -> Result<Self> {
        let (hidden, wide, has_bias) = (config.hidden_size, config.intermediate_size, config.use_bias);
        let name = |part: &str| format!("{prefix}.{part}");
        let three = |at: &str| ["query", "key", "value"].map(|part| name(&format!("{at}.self.{part}")));
        let norm = |part: &str| Norm::load(device, source, config, &name(part), hidden);
        let square = |names: &[String]| linear(device, source, names, [hidden, hidden], has_bias);
        let cross = match config.is_decoder && config.add_cross_attention {
            true => {
                let [query, key, value] = three("crossattention");
                Some(Cross {
                    query: square(&[query])?,
                    key_value: square(&[key, value])?,
                    output: square(&[name("crossattention.output.dense")])?,
                    norm: norm("crossattention.output.LayerNorm")?,
                })
            }
            false => None,
        };
        Ok(Layer {
            query_key_value: square(&three("attention"))?,
            output: square(&[name("attention.output.dense")])?,
            norm: norm("attention.output.LayerNorm")?,
            cross,
            up: linear(device, source, &[name("intermediate.dense")], [wide, hidden], has_bias)?,
            down: linear(device, source, &[name("output.dense")], [hidden, wide], has_bias)?,
            last_norm: norm("output.LayerNorm")?,
        })
    }

    /// The memory its weights take, in bytes.
    pub fn bytes(&self, device: &B) -> usize {
        let cross = self.cross.iter().flat_map(|cross| [&cross.query, &cross.key_value, &cross.output]);
        let own = [&self.query_key_value, &self.output, &self.up, &self.down];
        own.into_iter().chain(cross).map(|matrix| device.matrix_bytes(matrix)).sum()
    }

    /// x ← layer(x).
    pub fn forward(
        &self,
        pass: &Pass<T, B>,
        buffers: &mut Buffers<T, B>,
        cache: Option<(&mut LayerCache<T, B>, usize)>,
    ) -> Result<()> {
        let Pass { device, config, batch, length, past, .. } = *pass;
        let (hidden, heads, dim) = (config.hidden_size, config.num_attention_heads, config.head_dim());
        let Buffers { x, qkv, context, y, wide, attention } = buffers;

        device.product(&self.query_key_value, x, Activation::Identity, qkv)?;
        // Queries and keys (and values, where asked) stand side by side: one view of all their heads.
        let turning = if config.rotary_value { 3 * heads } else { 2 * heads };
        let steps = [length * 3 * hidden, 3 * hidden, dim];
        device.rotate(pass.table, past as i64, qkv, [batch, length, turning, dim], steps)?;

        let fused = |part: usize| Part {
            buffer: &*qkv,
            offset: part * hidden,
            token: 3 * hidden,
            sequence: length * 3 * hidden,
        };
        let shape =
            Shape { batch, queries: length, keys: past + length, heads, key_heads: heads, head_dim: dim };
        let (mut keys, mut values) = (fused(1), fused(2));
        let mut cross_cache = None;
        if let Some((cache, capacity)) = cache {
            let (at, size) = ((past * hidden, hidden, capacity * hidden), [batch, length, hidden]);
            device.copy(fused(1), &mut cache.keys, at, size)?;
            device.copy(fused(2), &mut cache.values, at, size)?;
            let whole = |buffer| Part { buffer, offset: 0, token: hidden, sequence: capacity * hidden };
            (keys, values) = (whole(&cache.keys), whole(&cache.values));
            cross_cache = Some(&mut cache.cross);
        }
        device
            .attend(&shape, [fused(0), keys, values], &pass.mask, context, attention)
            .map_err(Error::for_want_of("attention"))?;
        device.product(&self.output, context, Activation::Identity, y)?;
        self.norm.apply(device, y, Some(x))?;

        if let (Some(cross), Some(other)) = (&self.cross, &pass.encoded) {
            let mut fresh = None;
            let slot = cross_cache.unwrap_or(&mut fresh);
            let both = match slot {
                Some(both) => both,
                None => {
                    let len = batch * other.length * 2 * hidden;
                    let mut both = device.zeros(len).map_err(Error::for_want_of("attention"))?;
                    device.product(&cross.key_value, &other.hidden, Activation::Identity, &mut both)?;
                    slot.insert(both)
                }
            };
            // No rotation here: the two sequences have no positions in common.
            device.product(&cross.query, y, Activation::Identity, x)?;
            let shape = Shape { keys: other.length, ..shape };
            let query = Part { buffer: &*x, offset: 0, token: hidden, sequence: length * hidden };
            let part = |part: usize| Part {
                buffer: &*both,
                offset: part * hidden,
                token: 2 * hidden,
                sequence: other.length * 2 * hidden,
            };
            let mask = Mask { keys: other.mask, ..Mask::default() };
            device
                .attend(&shape, [query, part(0), part(1)], &mask, context, attention)
                .map_err(Error::for_want_of("attention"))?;
            device.product(&cross.output, context, Activation::Identity, x)?;
            cross.norm.apply(device, x, Some(y))?;
            std::mem::swap(x, y);
        }

        device.product(&self.up, y, config.hidden_act, wide)?;
        device.product(&self.down, wide, Activation::Identity, x)?;
        self.last_norm.apply(device, x, Some(y))?;
        Ok(())
    }
}
