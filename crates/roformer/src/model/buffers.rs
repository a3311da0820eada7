//! The memory of a forward pass: kept from one to the next, and larger only where one needs more.

use crate::blueprint::Blueprint;
use crate::error::{Error, Result};
use crate::ops::{Backend, Real};

/// Memory for the tokens of one forward pass; `tokens` = batch · length.
pub(super) struct Buffers<T: Real, B: Backend> {
    /// `[tokens, width]`: what goes into a layer and what comes out of it; with norms before blocks, the sum so far.
    pub x: B::Buffer<T>,
    /// `[tokens, width]`
    pub y: B::Buffer<T>,
    /// `[tokens, width]`: what a block adds to the sum, once the next norm is taken. Empty with norms behind sums.
    pub delta: B::Buffer<T>,
    /// `[tokens, queries + keys + values]`
    pub qkv: B::Buffer<T>,
    /// `[tokens, queries]`
    pub context: B::Buffer<T>,
    /// `[tokens, queries]`: those of attention to another model's output; empty without.
    pub cross: B::Buffer<T>,
    /// `[tokens, 2 · wide]`; empty without a gate.
    pub gate_up: B::Buffer<T>,
    /// `[tokens, wide]`
    pub wide: B::Buffer<T>,
    /// `[tokens, 2 · (queries + keys + values)]` and `[tokens, 2 · queries]`: features as pairs, where they are such.
    pub pairs: B::Buffer<T>,
    pub paired_context: B::Buffer<T>,
    /// `[tokens, heads]` and `[tokens, 2 · heads]`: gates, and without a cache their sums, where there are such.
    pub gates: B::Buffer<T>,
    pub sums: B::Buffer<T>,
    /// `[tokens, key_heads · pairs]` and twice as many: how far each token turns by what is read, and the numbers by which it does, where
    /// there are such.
    pub steps: B::Buffer<T>,
    pub turns: B::Buffer<T>,
    /// `[tokens, queries + keys]`: those that meet far away, where they are others.
    pub distant: B::Buffer<T>,
    /// `[tokens, rank]`, `[tokens, key_heads · head_dim]` and `[tokens, key_heads]`: what maps of tokens are made of, and their w and z,
    /// where they have such.
    pub low: B::Buffer<T>,
    pub maps: [B::Buffer<T>; 2],
    pub attention: B::Scratch<T>,
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
