//! A layer's attention to its own tokens: queries, keys and values, what the encoding does to them, and those of a cache.

use super::buffers::Buffers;
use super::cache::LayerCache;
use super::layer::Layer;
use super::pass::Pass;
use super::positions::Distant;
use crate::attention::softmax::{Chunks, Mask, Shape};
use crate::blueprint::{HeadNorms, Mixing};
use crate::error::{Error, Result};
use crate::graph::{Polar, TurnedHeads};
use crate::ops::{Accumulate, Activation, Backend, HeadRows, LinearWork, Part, Real, TermSegments};

/// What is added to the mean square of w before it is made as long as 1: of zeros alone does it change anything.
const UNIT: f64 = 1e-24;

impl<T: Real, B: Backend> Layer<T, B> {
    /// context ← attention of x, or of its norm in y. Returns what the cache keeps for cross-attention.
    pub(super) fn attend<'c>(
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
        let (mut cross, mut summed, mut kept) = (None, None, None);
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
            let width = blueprint.kept_width();
            let (at, size) = ((past * width, width, capacity * width), [batch, length, key]);
            let whole = |buffer| Part { buffer, offset: 0, token: width, sequence: capacity * width };
            if let Some(own) = &mut cache.kept {
                device.append([keys, values], own, past, length)?;
                kept = Some(&*own);
            } else {
                device.copy(keys, &mut cache.keys, at, size)?;
                device.copy(values, &mut cache.values, at, size)?;
                (keys, values) = (whole(&cache.keys), whole(&cache.values));
            }
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
        match (far, kept) {
            (_, Some(_)) if far.is_some() || !terms.is_empty() => {
                return Err(Error::input("the cache", "of another model", "one that this model made"));
            }
            (_, Some(kept)) => {
                device.attend_kept(&shape, (fused(0), kept), &mask, terms.scale, out, attention)
            }
            (None, None) => device.attend(&shape, qkv, &mask, &terms, out, attention),
            (Some((far, _)), None) => {
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
