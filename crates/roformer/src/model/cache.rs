//! Keys and values of tokens already seen, so that decoding computes each token once.

use crate::error::{Error, Result};
use crate::ops::{Backend, Cpu, Real};

/// The cache of one batch of sequences. Keys are stored rotated.
pub struct Cache<T: Real = f32, B: Backend = Cpu> {
    pub(super) layers: Vec<LayerCache<T, B>>,
    /// `[batch, capacity]`: whether a token is real.
    pub(super) mask: Vec<bool>,
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
        let memory = || {
            let len = batch.checked_mul(capacity).and_then(|tokens| tokens.checked_mul(hidden));
            len.and_then(|len| device.zeros(len)).ok_or(Error::Memory { what: "the cache" })
        };
        let layer = |_| Ok(LayerCache { keys: memory()?, values: memory()?, cross: None });
        let layers = (0..layers).map(layer).collect::<Result<_>>()?;
        Ok(Cache { layers, mask: vec![false; batch * capacity], batch, capacity, length: 0 })
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
