//! One layer: attention to itself, to another model where there is one, and a feed-forward block, each with a norm before it
//! or behind its sum with what went in.

use super::buffers::Buffers;
use super::cache::LayerCache;
use super::cross::Cross;
use super::parameters::Parameters;
use super::pass::Pass;
use super::products::{Norm, linear, stack, table};
use crate::blueprint::{Blueprint, HeadNorms, NormPlace};
use crate::error::Result;
use crate::ops::{Activation, Backend, Real};

/// The parameters of a layer.
pub(super) struct Layer<T: Real, B: Backend> {
    pub query_key_value: B::Matrix<T>,
    /// Norms of single heads of queries and of keys, before they are rotated or after.
    pub heads: Option<[Norm<T, B>; 2]>,
    /// What is added to queries where they meet the vectors of segments, and those vectors.
    pub segments: Option<[B::Buffer<T>; 2]>,
    output: B::Matrix<T>,
    /// None where the first layer has none.
    pub norm: Option<Norm<T, B>>,
    /// Norms behind attention and behind the feed-forward block, where there are norms before them as well.
    after: Option<[Norm<T, B>; 2]>,
    cross: Option<Cross<T, B>>,
    /// The first product of the feed-forward block; with a gate before it where there is one.
    up: B::Matrix<T>,
    down: B::Matrix<T>,
    /// None where the norm of attention serves both blocks.
    last_norm: Option<Norm<T, B>>,
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
        let cross = blueprint.has_cross_attention.then(|| Cross::load(device, source, blueprint, layer));
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
            cross: cross.transpose()?,
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
        let own = [&self.query_key_value, &self.output, &self.up, &self.down];
        let cross = self.cross.as_ref().map_or(0, |cross| cross.bytes(device));
        own.map(|matrix| device.matrix_bytes(matrix)).iter().sum::<usize>() + cross
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
}
