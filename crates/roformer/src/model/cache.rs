//! Keys and values of tokens already seen, so that decoding computes each token once.

use super::call::{Encoded, Input};
use crate::blueprint::{Blueprint, Mixing};
use crate::error::{Error, Result};
use crate::ops::memory::filled;
use crate::ops::{Backend, Cpu, Part, Real};

/// The cache of one batch of sequences. Keys are stored rotated.
pub struct Cache<T: Real = f32, B: Backend = Cpu> {
    pub(super) layers: Vec<LayerCache<T, B>>,
    /// `[batch, capacity]`: the tokens, which are read again where a rule gives other frequencies to a longer text.
    tokens: Vec<Token>,
    /// Numbers of a token's keys, and of its values.
    pub(super) width: usize,
    /// Numbers of a token of the other model's output.
    hidden: usize,
    /// The length of the other model's output, once a step has used one.
    pub(super) encoded: Option<usize>,
    pub(super) batch: usize,
    pub(super) capacity: usize,
    pub(super) length: usize,
    /// The length of the text that keys were rotated for.
    pub(super) told: usize,
    /// Whether a step began and did not end.
    is_under_way: bool,
}

/// A token of a text.
#[derive(Clone, Copy, Default)]
struct Token {
    id: u32,
    kind: u32,
    is_real: bool,
}

/// Keys and values of one layer, `[batch, capacity, width]`; none with linear attention.
pub(super) struct LayerCache<T: Real, B: Backend> {
    pub keys: B::Buffer<T>,
    pub values: B::Buffer<T>,
    /// Keys and values of the other model's output, `[batch, encoded, 2 · queries]`, once they have been computed.
    pub cross: Option<B::Buffer<T>>,
    /// What linear attention keeps in place of keys and values.
    pub state: Option<B::State<T>>,
}

impl<T: Real, B: Backend> Cache<T, B> {
    pub(super) fn new(device: &B, blueprint: &Blueprint, batch: usize, capacity: usize) -> Result<Self> {
        let none = || Error::memory("the cache");
        let (layers, width) = (blueprint.layers, blueprint.key_width());
        let tokens = batch.checked_mul(capacity).ok_or_else(none)?;
        let form = match blueprint.mixing {
            Mixing::Softmax => None,
            Mixing::Linear(form) => Some(form),
        };
        let len = if form.is_some() { 0 } else { tokens.checked_mul(width).ok_or_else(none)? };
        if !device.has_room::<T>(2 * layers as u128 * len as u128) {
            return Err(none());
        }
        let tokens = filled(tokens, Token::default()).ok_or_else(none)?;
        let memory = || device.zeros(len).map_err(Error::for_want_of("the cache"));
        let layer = |_| {
            let size = [batch, blueprint.heads, blueprint.head_dim];
            let state = form.map(|form| device.state(form, size));
            Ok(LayerCache { keys: memory()?, values: memory()?, cross: None, state: state.transpose()? })
        };
        let layers = (0..layers).map(layer).collect::<Result<_>>()?;
        let hidden = blueprint.width;
        Ok(Cache {
            layers,
            tokens,
            width,
            hidden,
            batch,
            capacity,
            length: 0,
            told: 0,
            encoded: None,
            is_under_way: false,
        })
    }

    /// The cache of one text, `batch` times over.
    pub(super) fn repeat(&self, device: &B, blueprint: &Blueprint, batch: usize) -> Result<Self> {
        if self.batch != 1 || self.encoded.is_some() {
            let value = format!("of {} texts", self.batch);
            return Err(Error::input("the cache", value, "that of one text, without cross-attention"));
        }
        let (width, capacity) = (self.width, self.capacity);
        let mut cache = Cache::new(device, blueprint, batch, capacity)?;
        let (at, size) = ((0, width, capacity * width), [batch, self.length, width]);
        for (own, new) in self.layers.iter().zip(&mut cache.layers) {
            if let Some(state) = &own.state {
                new.state = Some(device.repeat_state(state, batch)?);
                continue;
            }
            // No step from sequence to sequence: each is the same one.
            let one = |buffer| Part { buffer, offset: 0, token: width, sequence: 0 };
            device.copy(one(&own.keys), &mut new.keys, at, size)?;
            device.copy(one(&own.values), &mut new.values, at, size)?;
        }
        cache.tokens = self.tokens.repeat(batch);
        (cache.length, cache.told) = (self.length, self.told);
        Ok(cache)
    }

    /// Checks that the tokens and the other model's output fit, and notes which tokens are real.
    pub(super) fn admit(
        &mut self,
        input: &Input,
        encoded: Option<&Encoded<T>>,
        batch: usize,
        length: usize,
    ) -> Result<()> {
        // Keys and values of a step that failed are written over; sums that it joined are not taken back.
        if self.is_under_way && self.layers.iter().any(|layer| layer.state.is_some()) {
            return Err(Error::input("the cache", "left by a step that failed", "a new one"));
        }
        match self.encoded {
            Some(length)
                if encoded.is_some_and(|other| other.hidden.len() != batch * length * self.hidden) =>
            {
                let value = encoded.map_or(0, |other| other.hidden.len());
                return Err(Error::input("the encoded input", value, "that of the first step"));
            }
            Some(_) => {}
            // What a step that failed may have left.
            None => self.layers.iter_mut().for_each(|layer| layer.cross = None),
        }
        if batch != self.batch {
            return Err(Error::input(
                "the batch",
                batch,
                format!("{}, as the cache was made for", self.batch),
            ));
        }
        if self.length + length > self.capacity {
            let expected = format!("at most the {} that the cache has room for", self.capacity - self.length);
            return Err(Error::input("the number of new tokens", length, expected));
        }
        for sequence in 0..batch {
            for token in 0..length {
                let place = sequence * length + token;
                self.tokens[sequence * self.capacity + self.length + token] = Token {
                    id: input.ids[place],
                    kind: input.token_types.map_or(0, |kinds| kinds[place]),
                    is_real: input.mask.is_none_or(|mask| mask[place]),
                };
            }
        }
        Ok(())
    }

    /// A layer's part, and the tokens it has room for. From here on until [`advance`](Self::advance) a step is under way.
    pub(super) fn layer(&mut self, index: usize) -> (&mut LayerCache<T, B>, usize) {
        self.is_under_way = true;
        (&mut self.layers[index], self.capacity)
    }

    /// Ends a step: the cache holds `length` tokens now, rotated for a text of `told`, and knows the length of the other model's
    /// output.
    pub(super) fn advance(&mut self, length: usize, told: usize, encoded: Option<usize>) {
        (self.length, self.told) = (length, told);
        self.encoded = self.encoded.or(encoded);
        self.is_under_way = false;
    }

    /// The mask of the first tokens, `[batch, length]`.
    pub(super) fn mask_of(&self, length: usize) -> Vec<bool> {
        self.first(length).map(|token| token.is_real).collect()
    }

    /// The ids and the segments of the tokens it holds, `[batch, length]`.
    pub(super) fn ids_and_kinds(&self) -> (Vec<u32>, Vec<u32>) {
        self.first(self.length).map(|token| (token.id, token.kind)).unzip()
    }

    /// The first tokens of each sequence.
    fn first(&self, length: usize) -> impl Iterator<Item = &Token> {
        self.tokens.chunks_exact(self.capacity).flat_map(move |row| &row[..length])
    }

    /// Takes the keys and values of another cache of the same tokens.
    pub(super) fn replace(&mut self, other: Self) {
        let tokens = std::mem::take(&mut self.tokens);
        *self = Cache { tokens, ..other };
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
