//! One layer: attention to itself, to another model where there is one, and a feed-forward block, each with a norm before it
//! or behind its sum with what went in.

use super::cache::LayerCache;
use super::parameters::Parameters;
use super::positions::{Distant, Tables, Turning};
use super::products::{Norm, linear, stack, table};
use crate::attention::softmax::{Chunks, Mask, Shape};
use crate::blueprint::{Blueprint, HeadNorms, Mixing, NormPlace};
use crate::error::{Error, Result};
use crate::graph::{Polar, TurnedHeads};
use crate::ops::{Accumulate, Activation, Backend, HeadRows, LinearWork, Part, Real, TermSegments, Terms};
use rope::Table;
use std::ops::Range;

/// What is added to the mean square of w before it is made as long as 1: of zeros alone does it change anything.
const UNIT: f64 = 1e-24;

/// The parameters of a layer.
pub(super) struct Layer<T: Real, B: Backend> {
    query_key_value: B::Matrix<T>,
    /// Norms of single heads of queries and of keys, before they are rotated or after.
    heads: Option<[Norm<T, B>; 2]>,
    /// What is added to queries where they meet the vectors of segments, and those vectors.
    segments: Option<[B::Buffer<T>; 2]>,
    output: B::Matrix<T>,
    /// None where the first layer has none.
    norm: Option<Norm<T, B>>,
    /// Norms behind attention and behind the feed-forward block, where there are norms before them as well.
    after: Option<[Norm<T, B>; 2]>,
    cross: Option<Cross<T, B>>,
    /// The first product of the feed-forward block; with a gate before it where there is one.
    up: B::Matrix<T>,
    down: B::Matrix<T>,
    /// None where the norm of attention serves both blocks.
    last_norm: Option<Norm<T, B>>,
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
    /// `[tokens, width]`: what goes into a layer and what comes out of it; with norms before blocks, the sum so far.
    pub x: B::Buffer<T>,
    /// `[tokens, width]`
    pub y: B::Buffer<T>,
    /// `[tokens, width]`: what a block adds to the sum, once the next norm is taken. Empty with norms behind sums.
    pub delta: B::Buffer<T>,
    /// `[tokens, queries + keys + values]`
    qkv: B::Buffer<T>,
    /// `[tokens, queries]`
    context: B::Buffer<T>,
    /// `[tokens, queries]`: those of attention to another model's output; empty without.
    cross: B::Buffer<T>,
    /// `[tokens, 2 · wide]`; empty without a gate.
    gate_up: B::Buffer<T>,
    /// `[tokens, wide]`
    wide: B::Buffer<T>,
    /// `[tokens, 2 · (queries + keys + values)]` and `[tokens, 2 · queries]`: features as pairs, where they are such.
    pairs: B::Buffer<T>,
    paired_context: B::Buffer<T>,
    /// `[tokens, heads]` and `[tokens, 2 · heads]`: gates, and without a cache their sums, where there are such.
    gates: B::Buffer<T>,
    sums: B::Buffer<T>,
    /// `[tokens, key_heads · pairs]` and twice as many: how far each token turns by what is read, and the numbers by which it does, where
    /// there are such.
    steps: B::Buffer<T>,
    turns: B::Buffer<T>,
    /// `[tokens, queries + keys]`: those that meet far away, where they are others.
    distant: B::Buffer<T>,
    /// `[tokens, rank]`, `[tokens, key_heads · head_dim]` and `[tokens, key_heads]`: what maps of tokens are made of, and their w and z,
    /// where they have such.
    low: B::Buffer<T>,
    maps: [B::Buffer<T>; 2],
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
            cross: empty()?,
            gate_up: empty()?,
            wide: empty()?,
            pairs: empty()?,
            paired_context: empty()?,
            gates: empty()?,
            sums: empty()?,
            steps: empty()?,
            turns: empty()?,
            distant: empty()?,
            low: empty()?,
            maps: [empty()?, empty()?],
            attention: device.scratch().map_err(Error::for_want_of("attention"))?,
        })
    }

    /// Makes them long enough for this many tokens. Nothing is allocated where they were before.
    pub fn fit(&mut self, device: &B, blueprint: &Blueprint, tokens: usize) -> Result<()> {
        let (width, query, key) = (blueprint.width, blueprint.query_width(), blueprint.key_width());
        let is_before = blueprint.norms.place.is_before();
        let pairs = if blueprint.encoding.meeting_dim(1) == 2 { 2 } else { 0 };
        let gates = if blueprint.encoding.has_gates() { blueprint.heads } else { 0 };
        let turns = blueprint.turns_width();
        let rank = blueprint.encoding.map_rank();
        let map_heads = if rank > 0 { blueprint.key_heads } else { 0 };
        let [w, z] = &mut self.maps;
        let buffers = [
            (&mut self.x, width),
            (&mut self.y, width),
            (&mut self.delta, if is_before { width } else { 0 }),
            (&mut self.qkv, query + 2 * key),
            (&mut self.context, query),
            (&mut self.cross, if blueprint.has_cross_attention { query } else { 0 }),
            (&mut self.gate_up, if blueprint.is_gated { 2 * blueprint.wide } else { 0 }),
            (&mut self.wide, blueprint.wide),
            (&mut self.pairs, pairs * (query + 2 * key)),
            (&mut self.paired_context, pairs * query),
            (&mut self.gates, gates),
            (&mut self.sums, 2 * gates),
            (&mut self.steps, turns / 2),
            (&mut self.turns, turns),
            (&mut self.distant, if blueprint.encoding.far().is_some() { query + key } else { 0 }),
            (&mut self.low, rank),
            (w, map_heads * blueprint.head_dim),
            (z, map_heads),
        ];
        let numbers = tokens as u128 * buffers.iter().map(|(_, width)| *width as u128).sum::<u128>();
        if !device.has_room::<T>(numbers) {
            return Err(Error::memory("the activations"));
        }
        for (buffer, width) in buffers {
            let len = tokens.checked_mul(width).ok_or(Error::memory("the activations"))?;
            device.fit(buffer, len).map_err(Error::for_want_of("the activations"))?;
        }
        Ok(())
    }
}

/// What all layers of a forward pass share.
pub(super) struct Pass<'a, T: Real, B: Backend> {
    pub device: &'a B,
    pub blueprint: &'a Blueprint,
    pub batch: usize,
    pub length: usize,
    /// The rows of each text, where they lie one behind the other; else each has `length`.
    pub texts: Option<&'a [Range<usize>]>,
    /// Tokens before these, in the cache.
    pub past: usize,
    pub tables: &'a Tables<T, B>,
    pub turnings: &'a [Turning<T>],
    /// Tables for what is far away, where it stands elsewhere.
    pub distant: Option<&'a Distant<T>>,
    /// By what queries of layers without positions grow.
    pub temperature: Option<&'a Table<T>>,
    /// `[batch, past + length]`
    pub mask: Mask<'a>,
    /// The segments of tokens, `[batch, length]`, where scores compare them; then there is no past.
    pub segments: Option<&'a [u32]>,
    /// `[batch]`: the first token of each text that is real.
    pub starts: &'a [usize],
    /// Which of these tokens are real, `[batch, length]`.
    pub real: Option<&'a [bool]>,
    pub encoded: Option<Other<'a, T, B>>,
}

impl<T: Real, B: Backend> Pass<'_, T, B> {
    /// Rows of all texts together.
    fn rows(&self) -> usize {
        self.texts.map_or(self.batch * self.length, |texts| texts.last().map_or(0, |last| last.end))
    }
}

/// Another model's output, `[batch, length, width]`.
pub(super) struct Other<'a, T: Real, B: Backend> {
    pub hidden: B::Buffer<T>,
    pub length: usize,
    pub mask: Option<&'a [bool]>,
}

impl<T: Real, B: Backend> Layer<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        blueprint: &Blueprint,
        layer: usize,
    ) -> Result<Self> {
        let (names, biases) = (blueprint.family.names(), blueprint.biases);
        let (width, wide) = (blueprint.width, blueprint.wide);
        let (query, key) = (blueprint.query_width(), blueprint.key_width());
        let name = |part: &str| names.of_layer(layer, part);
        let norm = |part: &str, width: usize| Norm::load(device, source, blueprint, &name(part), width);
        let one = |part: &str, shape: [usize; 2], has_bias: bool| {
            linear(device, source, &[name(part)], shape, has_bias)
        };
        let cross = match blueprint.has_cross_attention {
            true => {
                let [queries, keys, values, output, own_norm] = names.cross;
                let product = |parts: &[&str], shape: [usize; 2]| {
                    let parts: Vec<String> = parts.iter().map(|part| name(part)).collect();
                    linear(device, source, &parts, shape, biases.queries)
                };
                Some(Cross {
                    query: product(&[queries], [query, width])?,
                    key_value: product(&[keys, values], [query, width])?,
                    output: product(&[output], [width, query])?,
                    norm: norm(own_norm, width)?,
                })
            }
            false => None,
        };
        let [query_norm, key_norm] = names.head_norms;
        let with_biases = |names: &dyn Fn(&str) -> Vec<(String, usize)>| -> Vec<_> {
            let both = names("weight").into_iter().zip(names("bias"));
            both.map(|((weight, rows), (bias, _))| (weight, bias, rows)).collect()
        };
        let queries = with_biases(&|kind: &str| names.joined(layer, kind, [query, key, key]));
        let behind = with_biases(&|kind: &str| names.behind(layer, kind, width));
        let ups = with_biases(&|kind: &str| names.ups(layer, kind, wide, blueprint.is_gated));
        let [after_attention, after_feed_forward] = names.after;
        Ok(Layer {
            query_key_value: stack(device, source, &queries, width, biases.queries)?,
            heads: match blueprint.head_norms {
                HeadNorms::Weighted => {
                    Some([norm(query_norm, blueprint.head_dim)?, norm(key_norm, blueprint.head_dim)?])
                }
                HeadNorms::Bare if blueprint.nope_of(layer).is_none() => {
                    let bare = || Norm::bare(device, blueprint.head_dim, blueprint.norms.epsilon);
                    Some([bare()?, bare()?])
                }
                HeadNorms::Bare | HeadNorms::None => None,
            },
            segments: match blueprint.has_segment_scores {
                true => {
                    let [added, vectors] = names.segments;
                    let read = |part, rows| table(device, source, &name(part), [rows, query]);
                    Some([read(added, 1)?, read(vectors, 2)?])
                }
                false => None,
            },
            output: stack(device, source, &behind, query, biases.output)?,
            norm: match layer == 0 && blueprint.norms.skips_first {
                true => None,
                false => Some(norm(names.attention_norm, width)?),
            },
            after: match blueprint.norms.place {
                NormPlace::Around => Some([norm(after_attention, width)?, norm(after_feed_forward, width)?]),
                NormPlace::Before | NormPlace::After => None,
            },
            cross,
            up: stack(device, source, &ups, width, biases.wide)?,
            down: one(names.down, [width, wide], biases.wide)?,
            last_norm: match names.feed_forward_norm == names.attention_norm {
                true => None,
                false => Some(norm(names.feed_forward_norm, width)?),
            },
        })
    }

    /// The memory its weights take, in bytes.
    pub fn bytes(&self, device: &B) -> usize {
        let cross = self.cross.iter().flat_map(|cross| [&cross.query, &cross.key_value, &cross.output]);
        let own = [&self.query_key_value, &self.output, &self.up, &self.down];
        own.into_iter().chain(cross).map(|matrix| device.matrix_bytes(matrix)).sum()
    }

    /// Layer `index`: x ← layer(x). With norms before blocks, x ← x + delta and what attention adds, and delta what the
    /// feed-forward block adds; before the first layer there is no delta.
    pub fn forward(
        &self,
        pass: &Pass<T, B>,
        buffers: &mut Buffers<T, B>,
        index: usize,
        cache: Option<(&mut LayerCache<T, B>, usize)>,
    ) -> Result<()> {
        let (device, plain) = (pass.device, Activation::Identity);
        let is_before = pass.blueprint.norms.place.is_before();
        let Buffers { x, y, delta, .. } = &mut *buffers;
        match &self.norm {
            Some(norm) if is_before => norm.apply_to(device, x, (index > 0).then_some(&*delta), y)?,
            _ => {}
        }
        let cross = self.attend(pass, buffers, index, cache)?;
        let Buffers { x, y, delta, context, .. } = &mut *buffers;
        if !is_before {
            device.product(&self.output, context, plain, y)?;
            self.norm.iter().try_for_each(|norm| norm.apply(device, y, Some(x)))?;
        } else {
            device.product(&self.output, context, plain, delta)?;
            if let Some([after, _]) = &self.after {
                after.apply(device, delta, None)?;
            }
        }
        if let (Some(own), Some(other)) = (&self.cross, &pass.encoded) {
            own.forward(pass, other, buffers, cross)?;
        }
        if is_before {
            let Buffers { x, y, delta, .. } = &mut *buffers;
            // Side by side, the feed-forward block reads what attention read.
            let added = (!pass.blueprint.is_parallel).then_some(&*delta);
            self.last_norm.iter().try_for_each(|norm| norm.apply_to(device, x, added, y))?;
        }
        let Buffers { x, y, delta, gate_up, wide, .. } = &mut *buffers;
        match pass.blueprint.is_gated {
            true => {
                device.product(&self.up, y, plain, gate_up)?;
                device.gate(gate_up, pass.blueprint.wide, pass.blueprint.activation, wide)?;
            }
            false => device.product(&self.up, y, pass.blueprint.activation, wide)?,
        }
        if !is_before {
            device.product(&self.down, wide, plain, x)?;
            self.last_norm.iter().try_for_each(|norm| norm.apply(device, x, Some(y)))?;
        } else if pass.blueprint.is_parallel {
            device.product(&self.down, wide, plain, y)?;
            device.add_rows(delta, y, 0, [1, pass.rows(), pass.blueprint.width])?;
        } else {
            device.product(&self.down, wide, plain, delta)?;
            if let Some([_, after]) = &self.after {
                after.apply(device, delta, None)?;
            }
        }
        Ok(())
    }

    /// context ← attention of x, or of its norm in y. Returns what the cache keeps for cross-attention.
    fn attend<'c>(
        &self,
        pass: &Pass<T, B>,
        buffers: &mut Buffers<T, B>,
        index: usize,
        mut cache: Option<(&'c mut LayerCache<T, B>, usize)>,
    ) -> Result<Option<&'c mut Option<B::Buffer<T>>>> {
        let Pass { device, blueprint, batch, length, past, .. } = *pass;
        let (heads, key_heads, dim) = (blueprint.heads, blueprint.key_heads, blueprint.head_dim);
        let (query, key) = (blueprint.query_width(), blueprint.key_width());
        let row = query + 2 * key;
        let Buffers {
            x,
            y,
            qkv,
            context,
            attention,
            pairs,
            paired_context,
            gates,
            sums,
            steps,
            turns,
            distant,
            low,
            maps,
            ..
        } = buffers;
        let own = &pass.tables.layers[index];
        let read = if blueprint.norms.place.is_before() && self.norm.is_some() { &*y } else { &*x };
        device.product(&self.query_key_value, read, Activation::Identity, qkv)?;
        let norm_heads = |qkv: &mut B::Buffer<T>, when: HeadNorms| match &self.heads {
            Some([queries, keys]) if blueprint.head_norms == when => {
                queries.apply_to_heads(device, qkv, HeadRows { step: row, offset: 0, heads })?;
                keys.apply_to_heads(device, qkv, HeadRows { step: row, offset: query, heads: key_heads })
            }
            _ => Ok(()),
        };
        norm_heads(qkv, HeadNorms::Weighted)?;
        if let Some((matrix, angles)) = &own.angles {
            device.product(matrix, read, Activation::Identity, steps)?;
            let kept = cache.as_mut().and_then(|(cache, _)| cache.angles.as_mut());
            device.sum_angles(angles, steps, kept, batch, turns)?;
        }
        if let Some(rows) = &own.turns {
            // The same for every text.
            let width = blueprint.turns_width();
            let part = Part { buffer: rows, offset: past * width, token: width, sequence: 0 };
            device.copy(part, turns, (0, width, length * width), [batch, length, width])?;
        }
        let turns = (own.turns.is_some() || own.angles.is_some()).then_some(&*turns);
        if let Mixing::Linear(form) = blueprint.mixing {
            let rotation = own.ropes.as_ref().map(|(ropes, values)| {
                let turning = &pass.turnings[ropes[0]];
                (&turning.queries, turning.keys.as_ref().unwrap_or(&turning.queries), *values)
            });
            let (is_causal, mask, first) = (blueprint.is_causal(), pass.real, past as i64);
            let work =
                LinearWork { form, batch, length, heads, head_dim: dim, is_causal, mask, rotation, first };
            let state = cache.and_then(|(cache, _)| cache.state.as_mut());
            device.attend_linear(&work, qkv, turns, state, context)?;
            return Ok(None);
        }
        if let Some((matrix, _)) = &own.gate {
            device.product(matrix, read, Activation::Identity, gates)?;
        }
        if let Some(own) = &own.path {
            let [w, z] = &mut *maps;
            device.product(&own.down, read, Activation::Identity, low)?;
            device.product(&own.up, low, Activation::Identity, w)?;
            let each = HeadRows { step: key, offset: 0, heads: key_heads };
            device.rms_norm_heads(w, each, &own.unit, UNIT)?;
            device.product(&own.beta, read, Activation::Identity, z)?;
        }
        if let (Some(table), Some(_)) = (pass.temperature, blueprint.nope_of(index)) {
            let (shape, steps) = ([batch, length, heads, dim], [length * row, row, dim]);
            device.rotate(table, past as i64, qkv, 0, shape, steps)?;
        }
        let is_polar = own.polar.is_some();
        let (qkv, [dim, query, key, row]) = match &own.polar {
            None => (qkv, [dim, query, key, row]),
            Some(phases) => {
                device.polar(qkv, phases.as_ref(), Polar { heads, key_heads, head_dim: dim }, pairs)?;
                (pairs, [dim, query, key, row].map(|count| 2 * count))
            }
        };
        let steps = [length * row, row, dim];
        let far = own.far.zip(pass.distant);
        if let Some((_, Distant { queries, keys })) = far {
            let both = query + key;
            let part = Part { buffer: &*qkv, offset: 0, token: row, sequence: length * row };
            device.copy(part, distant, (0, both, length * both), [batch, length, both])?;
            let steps = [length * both, both, dim];
            device.rotate_rows(queries, distant, 0, [batch, length, heads, dim], steps)?;
            device.rotate_rows(keys, distant, query, [batch, length, key_heads, dim], steps)?;
        }
        let mut turn = |table, first: usize, heads: usize| match pass.texts {
            None => device.rotate(table, past as i64, qkv, first * dim, [batch, length, heads, dim], steps),
            Some(texts) => texts.iter().try_for_each(|text| {
                let shape = [1, text.len(), heads, dim];
                device.rotate(table, 0, qkv, text.start * row + first * dim, shape, steps)
            }),
        };
        if let Some((ropes, values)) = &own.ropes {
            let (count, group) = (ropes.len(), heads / ropes.len());
            for (part, turning) in ropes.iter().map(|&rope| &pass.turnings[rope]).enumerate() {
                match &turning.keys {
                    // Queries, keys and values stand side by side: one view of all their heads.
                    None if count == 1 => {
                        let all = heads + key_heads + if *values { key_heads } else { 0 };
                        turn(&turning.queries, 0, all)?;
                    }
                    keys => {
                        let each = key_heads / count;
                        turn(&turning.queries, part * group, group)?;
                        turn(keys.as_ref().unwrap_or(&turning.queries), heads + part * each, each)?;
                        if *values {
                            turn(&turning.queries, heads + key_heads + part * each, each)?;
                        }
                    }
                }
            }
        }
        if let Some(turns) = turns {
            let place = TurnedHeads { step: row, offset: 0, heads, key_heads, head_dim: dim };
            device.turn(turns, qkv, place)?;
            device.turn(turns, qkv, TurnedHeads { offset: query, heads: key_heads, ..place })?;
        }
        norm_heads(qkv, HeadNorms::Bare)?;
        let fused = |offset: usize| Part { buffer: &*qkv, offset, token: row, sequence: length * row };
        let (mut keys, mut values) = (fused(query), fused(query + key));
        let both = query + key;
        let apart = |offset: usize| Part { buffer: &*distant, offset, token: both, sequence: length * both };
        let mut far_keys = apart(query);
        let (mut cross, mut summed) = (None, None);
        let [w, z] = &*maps;
        let mut path = own.path.as_ref().map(|_| {
            [(w, key), (z, key_heads)].map(|(buffer, width)| Part {
                buffer,
                offset: 0,
                token: width,
                sequence: length * width,
            })
        });
        if let Some((cache, capacity)) = cache {
            // All layers of a cache keep as many numbers of a token, and this one may have fewer.
            let kept = blueprint.kept_width();
            let (at, size) = ((past * kept, kept, capacity * kept), [batch, length, key]);
            device.copy(keys, &mut cache.keys, at, size)?;
            device.copy(values, &mut cache.values, at, size)?;
            let whole = |buffer| Part { buffer, offset: 0, token: kept, sequence: capacity * kept };
            (keys, values) = (whole(&cache.keys), whole(&cache.values));
            if let (Some(_), Some(kept)) = (far, &mut cache.far) {
                device.copy(far_keys, kept, at, size)?;
                far_keys = whole(kept);
            }
            let gate = own.gate.as_ref().map(|(_, gate)| *gate);
            if let (Some(gate), Some(sums)) = (gate, &mut cache.sums) {
                device.accumulate(gate, gates, sums, &Accumulate { batch, length, heads, past, capacity })?;
                let (token, sequence) = (2 * heads, capacity * 2 * heads);
                summed = Some(Part { buffer: &*sums, offset: 0, token, sequence });
            }
            if let (Some(own), Some(kept)) = (&mut path, &mut cache.maps) {
                for (part, kept) in own.iter_mut().zip(kept) {
                    let width = part.token;
                    let at = (past * width, width, capacity * width);
                    device.copy(*part, kept, at, [batch, length, width])?;
                    *part = Part { buffer: &*kept, offset: 0, token: width, sequence: capacity * width };
                }
            }
            cross = Some(&mut cache.cross);
        } else if let Some((_, gate)) = &own.gate {
            let work = Accumulate { batch, length, heads, past: 0, capacity: length };
            device.accumulate(*gate, gates, sums, &work)?;
            summed = Some(Part { buffer: &*sums, offset: 0, token: 2 * heads, sequence: length * 2 * heads });
        }
        let shape = Shape { batch, queries: length, keys: past + length, heads, key_heads, head_dim: dim };
        let mut terms = pass.tables.terms(index, length, past + length);
        terms.scale = terms.scale.or(blueprint.scale);
        terms.cap = blueprint.score_cap;
        terms.gate = summed;
        terms.path = path;
        if is_polar {
            terms.scale = terms.scale.or(Some(1.0 / (blueprint.head_dim as f64).sqrt()));
        }
        let segments = self.segments.as_ref().zip(pass.segments);
        terms.segments = segments.map(|([query, vectors], ids)| TermSegments { query, vectors, ids });
        let chunks = blueprint.chunk_of(index).map(|size| Chunks { size, starts: pass.starts });
        let mask = Mask { window: blueprint.window_of(index), chunks, texts: pass.texts, ..pass.mask };
        let qkv = [fused(0), keys, values];
        let out = if is_polar { &mut *paired_context } else { &mut *context };
        match far {
            None => device.attend(&shape, qkv, &mask, &terms, out, attention),
            Some((far, _)) => {
                let far_qk = [apart(0), far_keys];
                device.attend_far(&shape, qkv, far_qk, far.window, &mask, &terms, out, attention)
            }
        }
        .map_err(Error::for_want_of("attention"))?;
        if is_polar {
            device.firsts(paired_context, context)?;
        }
        Ok(cross)
    }
}

impl<T: Real, B: Backend> Cross<T, B> {
    /// y ← norm(y + attention of y to the other model's output), or with norms before blocks x ← x + delta and delta the
    /// attention of norm(x). Its keys and values are kept in the slot.
    fn forward(
        &self,
        pass: &Pass<T, B>,
        other: &Other<T, B>,
        buffers: &mut Buffers<T, B>,
        slot: Option<&mut Option<B::Buffer<T>>>,
    ) -> Result<()> {
        let Pass { device, blueprint, batch, length, .. } = *pass;
        let (width, heads) = (blueprint.query_width(), blueprint.heads);
        let Buffers { x, y, delta, context, cross, attention, .. } = buffers;
        let is_before = blueprint.norms.place.is_before();
        if is_before {
            self.norm.apply_to(device, x, Some(&*delta), y)?;
        }
        let mut fresh = None;
        let slot = slot.unwrap_or(&mut fresh);
        let both = match slot {
            Some(both) => both,
            None => {
                let memory = device.zeros(batch * other.length * 2 * width);
                let mut both = memory.map_err(Error::for_want_of("attention"))?;
                device.product(&self.key_value, &other.hidden, Activation::Identity, &mut both)?;
                slot.insert(both)
            }
        };
        // No rotation here: the two sequences have no positions in common.
        device.product(&self.query, y, Activation::Identity, cross)?;
        let head_dim = blueprint.head_dim;
        let shape = Shape { batch, queries: length, keys: other.length, heads, key_heads: heads, head_dim };
        let query = Part { buffer: &*cross, offset: 0, token: width, sequence: length * width };
        let part = |part: usize| Part {
            buffer: &*both,
            offset: part * width,
            token: 2 * width,
            sequence: other.length * 2 * width,
        };
        let mask = Mask { keys: other.mask, ..Mask::default() };
        let terms = Terms { scale: blueprint.scale, ..Terms::default() };
        device
            .attend(&shape, [query, part(0), part(1)], &mask, &terms, context, attention)
            .map_err(Error::for_want_of("attention"))?;
        if is_before {
            return Ok(device.product(&self.output, context, Activation::Identity, delta)?);
        }
        device.product(&self.output, context, Activation::Identity, x)?;
        self.norm.apply(device, x, Some(y))?;
        std::mem::swap(x, y);
        Ok(())
    }
}
