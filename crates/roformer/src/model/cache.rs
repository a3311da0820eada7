//! Keys and values of tokens already seen, so that decoding computes each token once.

use crate::error::{Error, Result};
use crate::ops::memory::{filled, is_available};
use crate::ops::{Backend, Cpu, Real};

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
