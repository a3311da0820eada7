//! Keys and values of tokens already seen, so that decoding computes each token once.

use super::call::{Encoded, Input};
use crate::attention::kept::KeptSize;
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
    /// Numbers of a token's sums of gates.
    sums: usize,
    /// Numbers of a text's angles.
    angles: usize,
    /// Numbers of a token's w, and of its z, where tokens have maps.
    maps: [usize; 2],
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

/// Keys and values of one layer, `[batch, capacity, width]`; none with linear attention, nor where they are `kept`.
pub(super) struct LayerCache<T: Real, B: Backend> {
    pub keys: B::Buffer<T>,
    pub values: B::Buffer<T>,
    /// Keys and values as attention multiplies them, on a device that keeps them so.
    pub kept: Option<B::Kept<T>>,
    /// Keys as they stand for queries that are far away, where those are others.
    pub far: Option<B::Buffer<T>>,
    /// Sums of gates over tokens, `[batch, capacity, 2 · heads]`: those and what rounding left of them. Where there are gates.
    pub sums: Option<B::Buffer<T>>,
    /// Angles by what was read up to the last token, `[batch, pairs, 2]`: those and what rounding left of them. Where there are such.
    pub angles: Option<B::Buffer<T>>,
    /// w and z of the maps of tokens, `[batch, capacity, key_heads · head_dim]` and `[batch, capacity, key_heads]`. Where they have such.
    pub maps: Option<[B::Buffer<T>; 2]>,
    /// Keys and values of the other model's output, `[batch, encoded, 2 · queries]`, once they have been computed.
    pub cross: Option<B::Buffer<T>>,
    /// What linear attention keeps in place of keys and values.
    pub state: Option<B::State<T>>,
}

impl<T: Real, B: Backend> Cache<T, B> {
    /// Of a model whose attention has no terms where `is_plain`.
    pub(super) fn new(
        device: &B,
        blueprint: &Blueprint,
        batch: usize,
        capacity: usize,
        is_plain: bool,
    ) -> Result<Self> {
        let none = || Error::memory("the cache");
        let (layers, width) = (blueprint.layers, blueprint.kept_width());
        let sums = if blueprint.encoding.has_gates() { 2 * blueprint.heads } else { 0 };
        let angles = if blueprint.encoding.has_angles() { blueprint.turns_width() } else { 0 };
        let maps = match blueprint.encoding.map_rank() {
            0 => [0, 0],
            _ => [blueprint.key_width(), blueprint.key_heads],
        };
        let form = match blueprint.mixing {
            Mixing::Softmax => None,
            Mixing::Linear(form) => Some(form),
        };
        let len =
            batch.checked_mul(capacity).and_then(|tokens| tokens.checked_mul(width)).ok_or_else(none)?;
        let len = if form.is_some() { 0 } else { len };
        let has_far = blueprint.encoding.far().is_some();
        let held = if has_far { 3 } else { 2 };
        let others = (sums + maps[0] + maps[1]) as u128;
        // Twice what those need that are kept in fewer bits.
        let all = layers as u128 * (held * len as u128 + (batch * capacity) as u128 * others);
        if !device.has_room::<T>(all) {
            return Err(none());
        }
        let size = KeptSize { batch, capacity, key_heads: blueprint.key_heads, head_dim: blueprint.head_dim };
        let is_plain = is_plain && form.is_none();
        let tokens = filled(batch * capacity, Token::default()).ok_or_else(none)?;
        let numbers = |len: usize| device.zeros(len).map_err(Error::for_want_of("the cache"));
        let layer = |_| {
            let kept =
                if is_plain { device.kept(size).map_err(Error::for_want_of("the cache"))? } else { None };
            let len = if kept.is_some() { 0 } else { len };
            let memory = || numbers(len);
            let state = form.map(|form| device.state(form, [batch, blueprint.heads, blueprint.head_dim]));
            let sums = (sums > 0).then(|| numbers(batch * capacity * sums)).transpose()?;
            let angles = (angles > 0).then(|| numbers(batch * angles)).transpose()?;
            let maps = match maps {
                [0, 0] => None,
                [w, z] => Some([numbers(batch * capacity * w)?, numbers(batch * capacity * z)?]),
            };
            Ok(LayerCache {
                keys: memory()?,
                values: memory()?,
                kept,
                far: has_far.then(memory).transpose()?,
                sums,
                angles,
                maps,
                cross: None,
                state: state.transpose()?,
            })
        };
        let layers = (0..layers).map(layer).collect::<Result<_>>()?;
        let hidden = blueprint.width;
        Ok(Cache {
            layers,
            tokens,
            width,
            sums,
            angles,
            maps,
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
        let is_kept = self.layers.iter().any(|layer| layer.kept.is_some());
        let mut cache = Cache::new(device, blueprint, batch, self.capacity, is_kept)?;
        let texts = vec![0; batch];
        for (own, new) in self.layers.iter().zip(&mut cache.layers) {
            self.pick(device, own, &texts, new)?;
        }
        cache.tokens = self.tokens.repeat(batch);
        (cache.length, cache.told) = (self.length, self.told);
        Ok(cache)
    }

    /// Drops all texts but these, which are then its texts in this order. A failure leaves a cache of no text.
    pub(super) fn keep(&mut self, device: &B, texts: &[usize]) -> Result<()> {
        if texts.is_empty() || self.encoded.is_some() || texts.iter().any(|&text| text >= self.batch) {
            let value = format!("{texts:?} of a cache of {} texts", self.batch);
            return Err(Error::input("the texts to keep", value, "some of them, without cross-attention"));
        }
        let each = self.capacity * self.width;
        // Layer by layer: the memory of a layer is there twice, that of the cache is not.
        let mut layers = std::mem::take(&mut self.layers);
        let outcome = layers.iter_mut().try_for_each(|layer| {
            let is_empty = layer.state.is_some() || layer.kept.is_some();
            let len = if is_empty { 0 } else { texts.len() * each };
            let memory = || device.zeros(len).map_err(Error::for_want_of("the cache"));
            let summed = texts.len() * self.capacity * self.sums;
            let sums = layer.sums.as_ref().map(|_| device.zeros(summed)).transpose();
            let sums = sums.map_err(Error::for_want_of("the cache"))?;
            let angles = layer.angles.as_ref().map(|_| device.zeros(texts.len() * self.angles)).transpose();
            let angles = angles.map_err(Error::for_want_of("the cache"))?;
            let numbers = |width: usize| {
                let memory = device.zeros(texts.len() * self.capacity * width);
                memory.map_err(Error::for_want_of("the cache"))
            };
            let maps = match layer.maps {
                Some(_) => Some([numbers(self.maps[0])?, numbers(self.maps[1])?]),
                None => None,
            };
            let (keys, values) = (memory()?, memory()?);
            let far = layer.far.as_ref().map(|_| memory()).transpose()?;
            let mut picked =
                LayerCache { keys, values, kept: None, far, sums, angles, maps, cross: None, state: None };
            self.pick(device, layer, texts, &mut picked)?;
            *layer = picked;
            Ok(())
        });
        self.layers = layers;
        let row = |&text: &usize| &self.tokens[text * self.capacity..][..self.capacity];
        self.tokens = texts.iter().flat_map(row).copied().collect();
        self.batch = if outcome.is_ok() { texts.len() } else { 0 };
        outcome
    }

    /// Copies these texts of one of its layers to the texts of another layer.
    fn pick(
        &self,
        device: &B,
        from: &LayerCache<T, B>,
        texts: &[usize],
        to: &mut LayerCache<T, B>,
    ) -> Result<()> {
        if let (Some(from), Some(to)) = (&from.angles, &mut to.angles) {
            for (index, text) in texts.iter().enumerate() {
                let (width, offset) = (self.angles, text * self.angles);
                let part = Part { buffer: from, offset, token: width, sequence: width };
                device.copy(part, to, (index * width, width, width), [1, 1, width])?;
            }
        }
        if let Some(state) = &from.state {
            to.state = Some(device.pick_state(state, texts)?);
            return Ok(());
        }
        if let Some(kept) = &from.kept {
            to.kept = Some(device.pick_kept(kept, texts).map_err(Error::for_want_of("the cache"))?);
            return Ok(());
        }
        let (width, each) = (self.width, self.capacity * self.width);
        for (index, text) in texts.iter().enumerate() {
            let part = |buffer| Part { buffer, offset: text * each, token: width, sequence: each };
            let (at, size) = ((index * each, width, each), [1, self.length, width]);
            device.copy(part(&from.keys), &mut to.keys, at, size)?;
            device.copy(part(&from.values), &mut to.values, at, size)?;
            if let (Some(from), Some(to)) = (&from.far, &mut to.far) {
                device.copy(part(from), to, at, size)?;
            }
            let sums = from.sums.iter().zip(&mut to.sums).map(|(from, to)| (from, to, self.sums));
            let maps = from.maps.iter().flatten().zip(to.maps.iter_mut().flatten());
            let maps = maps.zip(self.maps).map(|((from, to), width)| (from, to, width));
            for (from, to, width) in sums.chain(maps) {
                let each = self.capacity * width;
                let part = Part { buffer: from, offset: text * each, token: width, sequence: each };
                device.copy(part, to, (index * each, width, each), [1, self.length, width])?;
            }
        }
        Ok(())
    }

    /// Checks that the tokens and the other model's output fit, and notes which tokens are real.
    pub(super) fn admit(
        &mut self,
        input: &Input,
        encoded: Option<&Encoded<T>>,
        batch: usize,
        length: usize,
    ) -> Result<()> {
        // Keys and values of a step that failed are written over; sums that it joined and angles that it went on are not taken back.
        if self.is_under_way
            && self.layers.iter().any(|layer| layer.state.is_some() || layer.angles.is_some())
        {
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

    /// With how many tokens of a kind each sequence ends.
    pub(super) fn ends_with(&self, is_of_the_kind: impl Fn(u32) -> bool) -> Vec<usize> {
        let run = |row: &[Token]| {
            row[..self.length].iter().rev().take_while(|token| is_of_the_kind(token.id)).count()
        };
        self.tokens.chunks_exact(self.capacity).map(run).collect()
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
