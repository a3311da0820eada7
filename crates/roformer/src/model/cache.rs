//! Keys and values of tokens already seen, so that decoding computes each token once.

use crate::error::{Error, Result};
use crate::ops::memory::{filled, is_available};
use crate::ops::{Backend, Cpu, Part, Real};

/// The cache of one batch of sequences. Keys are stored rotated.
pub struct Cache<T: Real = f32, B: Backend = Cpu> {
    pub(super) layers: Vec<LayerCache<T, B>>,
    /// `[batch, capacity]`: whether a token is real.
    pub(super) mask: Vec<bool>,
    pub(super) hidden: usize,
    /// The length of the other model's output, once a step has used one.
    pub(super) encoded: Option<usize>,
    pub(super) batch: usize,
    pub(super) capacity: usize,
    pub(super) length: usize,
}

/// Keys and values of one layer, `[batch, capacity, hidden]`.
pub(super) struct LayerCache<T: Real, B: Backend> {
    pub keys: B::Buffer<T>,
    pub values: B::Buffer<T>,
    /// Keys and values of the other model's output, `[batch, encoded, 2 · hidden]`, once they have been computed.
    pub cross: Option<B::Buffer<T>>,
}

impl<T: Real, B: Backend> Cache<T, B> {
    pub(super) fn new(
        device: &B,
        layers: usize,
        hidden: usize,
        batch: usize,
        capacity: usize,
    ) -> Result<Self> {
        let none = || Error::Memory { what: "the cache" };
        let tokens = batch.checked_mul(capacity).ok_or_else(none)?;
        let len = tokens.checked_mul(hidden).ok_or_else(none)?;
        if !is_available(2 * layers as u128 * len as u128 * size_of::<T>() as u128) {
            return Err(none());
        }
        let mask = filled(tokens, false).ok_or_else(none)?;
        let memory = || device.zeros(len).ok_or_else(none);
        let layer = |_| Ok(LayerCache { keys: memory()?, values: memory()?, cross: None });
        let layers = (0..layers).map(layer).collect::<Result<_>>()?;
        Ok(Cache { layers, mask, hidden, batch, capacity, length: 0, encoded: None })
    }

    /// The cache of one text, `batch` times over.
    pub(super) fn repeat(&self, device: &B, batch: usize) -> Result<Self> {
        if self.batch != 1 || self.encoded.is_some() {
            let value = format!("of {} texts", self.batch);
            return Err(Error::input("the cache", value, "that of one text, without cross-attention"));
        }
        let (hidden, capacity) = (self.hidden, self.capacity);
        let mut cache = Cache::new(device, self.layers.len(), hidden, batch, capacity)?;
        let (at, size) = ((0, hidden, capacity * hidden), [batch, self.length, hidden]);
        for (own, new) in self.layers.iter().zip(&mut cache.layers) {
            // No step from sequence to sequence: each is the same one.
            let one = |buffer| Part { buffer, offset: 0, token: hidden, sequence: 0 };
            device.copy(one(&own.keys), &mut new.keys, at, size);
            device.copy(one(&own.values), &mut new.values, at, size);
        }
        cache.mask = self.mask.repeat(batch);
        cache.length = self.length;
        Ok(cache)
    }

    /// Tokens of each sequence in the cache.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Tokens it has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}
