//! A model: loading it and running it.

use super::buffers::Buffers;
use super::cache::Cache;
use super::call::{Call, Encoded, Input, Output, Pool, States, check_call, check_input};
use super::convolve::Convolve;
use super::embed::{Before, Embeddings};
use super::heads::{Head, Hidden, Pooler, Scores};
use super::layer::Layer;
use super::packed::Packed;
use super::parameters::Parameters;
use super::pass::{Other, Pass};
use super::positions::{Positions, Tables};
use super::products::Norm;
use crate::attention::softmax::{Chunks, Mask, Reach};
use crate::blueprint::{Blueprint, Direction, Family, HeadKind, Kept, Mixing, Named};
use crate::error::{Error, Result};
use crate::ops::{Backend, Cpu, Part, Real};
use rayon::prelude::*;
use std::path::Path;

/// A model of any family: a blueprint with weights, on a device.
pub struct Model<T: Real = f32, B: Backend = Cpu> {
    device: B,
    blueprint: Blueprint,
    parts: Parts<T, B>,
    /// Those of the encoder that comes with it.
    encoder: Option<Parts<T, B>>,
    buffers: Pool<Buffers<T, B>>,
}

/// What a model is made of.
struct Parts<T: Real, B: Backend> {
    embeddings: Embeddings<T, B>,
    positions: Positions<T, B>,
    layers: Vec<Layer<T, B>>,
    convolve: Option<Convolve<T, B>>,
    last_norm: Option<Norm<T, B>>,
    head: Head<T, B>,
    pooler: Option<Pooler<T, B>>,
}

impl Model {
    /// Loads a model from a folder with a `config.json` and weights, as transformers saves it or as `train` hands it over.
    ///
    /// ```no_run
    /// use roformer::model::{Input, Model};
    ///
    /// let model = Model::load("roformer_chinese_base")?;
    /// let input = Input { ids: &[101, 1234, 102], batch: 1, token_types: None, mask: None };
    /// let output = model.forward(&input)?;
    /// assert_eq!(output.last_hidden_state.len(), 3 * model.blueprint().width);
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_on(Cpu::default(), path)
    }
}

impl<B: Backend> Model<f32, B> {
    /// Loads a model as [`load`](Model::load) does, to run on a device.
    pub fn load_on(device: B, path: impl AsRef<Path>) -> Result<Self> {
        Self::load_changed(device, path, Ok)
    }

    /// Loads a model to run as another than its file says, with the same weights:
    ///
    /// ```no_run
    /// use roformer::graph::Far;
    /// use roformer::model::Model;
    /// use roformer::ops::Cpu;
    ///
    /// let far = Far { window: 1024, group: Some(8) };
    /// let model = Model::load_changed(Cpu::default(), "Qwen/Qwen3-0.6B", |own| own.extended(far))?;
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn load_changed(
        device: B,
        path: impl AsRef<Path>,
        change: impl FnOnce(Blueprint) -> Result<Blueprint>,
    ) -> Result<Self> {
        let (blueprint, weights) = Blueprint::open(path)?;
        let blueprint = change(blueprint)?;
        let source = Named::new(&weights, blueprint.family.names());
        Model::on(device, blueprint.clone(), &Kept { blueprint: &blueprint, source })
    }
}

impl<T: Real> Model<T> {
    /// Makes a model from a source of tensors, under the names that a model with a head has (`roformer.…`).
    pub fn from_parameters(blueprint: Blueprint, source: &impl Parameters<T>) -> Result<Self> {
        Model::on(Cpu::default(), blueprint, source)
    }
}

impl<T: Real, B: Backend> Model<T, B> {
    /// Makes a model on a device.
    pub fn on(device: B, blueprint: Blueprint, source: &impl Parameters<T>) -> Result<Self> {
        blueprint.check()?;
        if blueprint.family == Family::Plain {
            let expected = "a family that a config.json can name";
            return Err(Error::input(
                "the family",
                "PyTorch's plain encoder, which is only trained",
                expected,
            ));
        }
        // A file of another size says more than a lack of memory does.
        let words = format!("{}.weight", blueprint.family.names().words);
        source.check(&words, &[blueprint.vocabulary, blueprint.embedding])?;
        if !device.has_room::<T>(blueprint.numbers()) {
            return Err(Error::memory("the weights"));
        }
        let parts = Parts::load(&device, &blueprint, source)?;
        let encoder = blueprint.encoder.as_ref().map(|encoder| Parts::load(&device, encoder, source));
        Ok(Model { device, encoder: encoder.transpose()?, blueprint, parts, buffers: Pool::new() })
    }

    /// What it is.
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// The head.
    pub fn head(&self) -> HeadKind {
        self.blueprint.head
    }

    /// The memory that the layers' weights take, in bytes.
    pub fn layer_bytes(&self) -> usize {
        let encoder = self.encoder.iter().flat_map(|encoder| &encoder.layers);
        self.parts.layers.iter().chain(encoder).map(|layer| layer.bytes(&self.device)).sum()
    }

    /// Runs the model on a batch of texts of any length that memory and the encoding allow. The first token of a row stands
    /// at position 0, whether it is padded or not.
    pub fn forward(&self, input: &Input) -> Result<Output<T>> {
        self.call(input, Call::default())
    }

    /// Runs a decoder that also attends to another model's output.
    pub fn forward_with(&self, input: &Input, encoded: Encoded<T>) -> Result<Output<T>> {
        self.call(input, Call { encoded: Some(encoded), ..Call::default() })
    }

    /// Runs the encoder that comes with the model: what its decoder then attends to.
    ///
    /// ```no_run
    /// use roformer::model::{Encoded, Input, Model};
    ///
    /// let model = Model::load("google-t5/t5-small")?;
    /// let text = Input { ids: &[13959, 1566, 12, 2968, 1], batch: 1, token_types: None, mask: None };
    /// let read = model.encode(&text)?.last_hidden_state;
    /// let begun = Input { ids: &[model.blueprint().start], ..text };
    /// let output = model.forward_with(&begun, Encoded { hidden: &read, mask: None })?;
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn encode(&self, input: &Input) -> Result<Output<T>> {
        self.encode_to(input, States::All)
    }

    /// [`encode`](Model::encode) with a choice of what is copied back.
    pub fn encode_to(&self, input: &Input, states: States) -> Result<Output<T>> {
        let (Some(blueprint), Some(parts)) = (&self.blueprint.encoder, &self.encoder) else {
            let expected = "one that comes with an encoder, such as T5";
            return Err(Error::input("the model", "without an encoder of its own", expected));
        };
        let Model { device, buffers, .. } = self;
        let call = Call { states, ..Call::default() };
        device.within(|| Stack { device, blueprint, parts, buffers }.call(input, call))
    }

    /// Whether texts of several lengths run together without padding, where what is asked for does not need it.
    pub fn packs_texts(&self) -> bool {
        let Model { device, blueprint, parts, buffers, encoder } = self;
        let tables = parts.positions.tables(device, blueprint, 1);
        let stack = Stack { device, blueprint, parts, buffers };
        encoder.is_none() && tables.is_ok_and(|tables| stack.packs_texts(&tables, Scores::At(&[])))
    }

    /// A cache for `batch` texts of at most `capacity` tokens.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Cache<T, B>> {
        if !self.blueprint.is_generative() {
            return Err(Error::input(
                "the model",
                "not a decoder",
                "one whose is_decoder is true, or RoFormer-Sim: only those can use a cache",
            ));
        }
        let tables = self.parts.positions.tables(&self.device, &self.blueprint, 1)?;
        Cache::new(&self.device, &self.blueprint, batch, capacity, is_plain(&self.blueprint, &tables))
    }

    /// The cache of one text as the start of `batch` texts.
    pub fn repeat(&self, cache: &Cache<T, B>, batch: usize) -> Result<Cache<T, B>> {
        cache.repeat(&self.device, &self.blueprint, batch)
    }

    /// Drops all texts of a cache but these, which are then its texts in this order: the next step is theirs alone. Not after
    /// a step with another model's output.
    pub fn keep(&self, cache: &mut Cache<T, B>, texts: &[usize]) -> Result<()> {
        cache.keep(&self.device, texts)
    }

    /// Runs a decoder on the tokens that follow those in the cache, and adds them to it. RoFormer-Sim reads what comes
    /// first as a whole, and what follows token after token.
    pub fn step(
        &self,
        input: &Input,
        encoded: Option<Encoded<T>>,
        cache: &mut Cache<T, B>,
    ) -> Result<Output<T>> {
        self.call(input, Call { encoded, cache: Some(cache), ..Call::default() })
    }

    /// Runs the model with all that a call can be given.
    ///
    /// Rules whose frequencies depend on the length (dynamic NTK, LongRoPE) are given the number of tokens up to the last
    /// of this call. LongRoPE has two sets of frequencies: when a text in a cache passes the length of the first, it is read
    /// again with the second, so that a step gives what the whole text gives at once. (To turn its keys further would not
    /// do: from the second layer on, keys and values themselves come from scores of the first set.) Under dynamic NTK, whose
    /// frequencies change with every token, keys stay as they were rotated, as in transformers.
    pub fn call(&self, input: &Input, call: Call<T, B>) -> Result<Output<T>> {
        let Model { device, blueprint, parts, buffers, .. } = self;
        device.within(|| Stack { device, blueprint, parts, buffers }.call(input, call))
    }
}

/// Whether attention has no terms: all that the encoding does is to add codes of places and to turn queries, keys and values.
fn is_plain<T: Real, B: Backend>(blueprint: &Blueprint, tables: &Tables<T, B>) -> bool {
    blueprint.mixing == Mixing::Softmax
        && blueprint.score_cap.is_none()
        && !blueprint.has_segment_scores
        && tables.are_codes_and_turns()
}

/// Layers with what stands before and behind them, as they run: a model's own, or those of its encoder.
struct Stack<'m, T: Real, B: Backend> {
    device: &'m B,
    blueprint: &'m Blueprint,
    parts: &'m Parts<T, B>,
    buffers: &'m Pool<Buffers<T, B>>,
}

impl<T: Real, B: Backend> Stack<'_, T, B> {
    fn call(&self, input: &Input, call: Call<T, B>) -> Result<Output<T>> {
        self.call_within(input, call, 0)
    }

    /// The same for the beginning of a text of at least `whole` tokens.
    fn call_within(&self, input: &Input, call: Call<T, B>, whole: usize) -> Result<Output<T>> {
        let Call { encoded, mut cache, prefix, scores, states: wanted } = call;
        let Stack { device, blueprint, parts, .. } = *self;
        let (batch, length) = self.check(input, encoded.as_ref())?;
        check_call(prefix, scores, wanted, cache.is_some(), batch, length)?;
        if prefix.is_some() && blueprint.mixing != Mixing::Softmax {
            return Err(Error::input("the prefix", "given with linear attention", "none"));
        }
        let segments = input.token_types.filter(|_| blueprint.has_segment_scores);
        if segments.is_some() && cache.is_some() {
            return Err(Error::input("the token types", "given with a cache", "none: it keeps no segments"));
        }
        let past = cache.as_ref().map_or(0, |cache| cache.length);
        let end = past + length;
        if let Some(cache) = &mut cache {
            if !blueprint.is_generative()
                || cache.layers.len() != parts.layers.len()
                || cache.width != blueprint.kept_width()
            {
                return Err(Error::input("the cache", "of another model", "one that this model made"));
            }
            cache.admit(input, encoded.as_ref(), batch, length)?;
        }
        // Before the first work, so that a device does not wait for it.
        let tables = parts.positions.tables(device, blueprint, end)?;
        let told = whole.max(end);
        let turnings = tables.turnings(past, end, told)?;
        let distant = tables.distant(past, end)?;
        // One that was read whole at first cannot be told from one that was not.
        let is_read_in_order = past > 0 && blueprint.is_causal();
        let is_outgrown = |cache: &&mut &mut Cache<T, B>| is_read_in_order && tables.switch(cache.told, told);
        if let Some(cache) = cache.as_mut().filter(is_outgrown) {
            self.read_again(cache, encoded, told)?;
        }
        let is_whole = cache.is_none() && prefix.is_none() && encoded.is_none();
        let packed = match is_whole && self.packs_texts(&tables, scores) {
            true => Packed::of(input, scores, wanted),
            false => None,
        };
        let texts = packed.as_ref().map(|packed| &packed.texts[..]);
        let mut buffers = self.buffers.take(|| Buffers::new(device))?;
        buffers.fit(device, blueprint, packed.as_ref().map_or(batch * length, Packed::rows))?;
        let temperature = blueprint.nope.as_ref().and_then(|nope| nope.temperature);
        let temperature =
            temperature.map(|own| own.table(blueprint.head_dim, past..end)).transpose()?.flatten();
        let before = Before {
            tokens: past,
            digits: match (&cache, tables.digits()) {
                (Some(cache), Some(digits)) => cache.ends_with(|id| digits.has(id)),
                _ => Vec::new(),
            },
            texts,
        };
        match &packed {
            None => parts.embeddings.forward(device, blueprint, input, &tables, &before, &mut buffers.x)?,
            Some(packed) => {
                let (ids, types) =
                    (packed.take(input.ids), input.token_types.map(|types| packed.take(types)));
                let input = Input { ids: &ids, batch: 1, token_types: types.as_deref(), mask: None };
                parts.embeddings.forward(device, blueprint, &input, &tables, &before, &mut buffers.x)?;
            }
        }
        // `[batch, past + length]`
        let mask: Option<Vec<bool>> = match &cache {
            _ if packed.is_some() => None,
            Some(cache) => Some(cache.mask_of(end)),
            None => input.mask.map(<[bool]>::to_vec),
        };
        let reach = match (prefix, blueprint.direction) {
            (Some(prefix), _) => Reach::Prefix(prefix),
            (None, Direction::Causal) => Reach::Causal,
            (None, Direction::Prefix) if past > 0 => Reach::Causal,
            (None, Direction::Prefix | Direction::Both) => Reach::All,
        };
        let encoded = encoded.map(|other| self.upload(other, batch)).transpose()?;
        let encoded_length = encoded.as_ref().map(|other| other.length);
        let starts =
            mask.as_deref().map_or_else(|| vec![0; batch], |mask| Chunks::starts(mask, end).collect());
        let mask = Mask { keys: mask.as_deref(), reach, ..Mask::default() };
        let pass = Pass {
            device,
            blueprint,
            batch,
            length,
            texts,
            past,
            tables: &tables,
            turnings: &turnings,
            distant: distant.as_ref(),
            temperature: temperature.as_ref(),
            mask,
            segments,
            starts: &starts,
            real: input.mask,
            encoded,
        };
        let convolve = parts.convolve.as_ref();
        let convolved = convolve.map(|own| own.forward(device, input, &buffers.x, blueprint.width));
        let convolved = convolved.transpose()?;
        for (index, layer) in parts.layers.iter().enumerate() {
            let cache = cache.as_deref_mut().map(|cache| cache.layer(index));
            layer.forward(&pass, &mut buffers, index, cache)?;
            if let (0, Some(own), Some(made)) = (index, convolve, &convolved) {
                own.join(device, &mut buffers.x, made)?;
            }
        }
        let states = self.finish(&mut buffers)?;
        // What is asked for by its place is found without padding; what reads all texts at once is given them with it.
        let is_found = blueprint.head == HeadKind::None || blueprint.head.is_language_model();
        let found = packed.as_ref().filter(|_| is_found && parts.pooler.is_none());
        let found = found.map(|packed| packed.find(scores, wanted));
        let padded = packed.as_ref().filter(|_| found.is_none());
        let padded = padded.map(|packed| self.padded(packed, states, length)).transpose()?;
        let states = padded.as_ref().unwrap_or(states);
        let (scores, wanted) = match (&found, scores) {
            (None, scores) => (scores, wanted),
            (Some((_, spans)), Scores::All) => (Scores::All, States::Pooled(spans)),
            (Some((places, spans)), Scores::At(_)) => (Scores::At(places), States::Pooled(spans)),
        };
        let hidden = Hidden { states, batch, length, mask: input.mask };
        let logits = parts.head.forward(device, blueprint, &hidden, scores)?;
        let pooled = match &parts.pooler {
            Some(pooler) if cache.is_none() => Some(pooler.forward(device, &hidden, blueprint.width)?),
            _ => None,
        };
        let list = match wanted {
            States::All => device.list(states, batch * length * blueprint.width),
            States::Pooled(spans) => device.pool(states, blueprint.width, spans),
        };
        let last_hidden_state = list.map_err(Error::for_want_of("the output"))?;
        // Last, so that a step that fails leaves the cache as it was.
        if let Some(cache) = cache {
            cache.advance(end, told, encoded_length);
        }
        self.buffers.give_back(buffers);
        Ok(Output { last_hidden_state, pooled, logits })
    }

    /// Whether texts of several lengths can lie one behind the other: on this device, with such an encoding, for such a head.
    fn packs_texts(&self, tables: &Tables<T, B>, scores: Scores) -> bool {
        let Stack { device, blueprint, parts, .. } = *self;
        let is_cut = (0..blueprint.layers).any(|layer| blueprint.chunk_of(layer).is_some());
        let has_more = is_cut || blueprint.nope.is_some();
        // These read what stands behind a text.
        let reads_padding = match blueprint.head {
            HeadKind::MultipleChoice => true,
            head => head.is_language_model() && scores == Scores::All,
        };
        device.packs_texts()
            && is_plain(blueprint, tables)
            && parts.convolve.is_none()
            && !has_more
            && !reads_padding
    }

    /// The rows of texts with their padding, `[batch · length, width]`, which is zeros.
    fn padded(&self, packed: &Packed, states: &B::Buffer<T>, length: usize) -> Result<B::Buffer<T>> {
        let (device, width) = (self.device, self.blueprint.width);
        let numbers = packed.texts.len() as u128 * length as u128 * width as u128;
        if !device.has_room::<T>(numbers) {
            return Err(Error::memory("the hidden states"));
        }
        let mut padded = device.zeros(numbers as usize).map_err(Error::for_want_of("the hidden states"))?;
        for (index, text) in packed.texts.iter().enumerate() {
            let part = Part { buffer: states, offset: text.start * width, token: width, sequence: 0 };
            let at = (index * length * width, width, 0);
            device.copy(part, &mut padded, at, [1, text.len(), width])?;
        }
        Ok(padded)
    }

    /// Reads the tokens of a cache again, as the beginning of a text of `whole` tokens.
    fn read_again(&self, cache: &mut Cache<T, B>, encoded: Option<Encoded<T>>, whole: usize) -> Result<()> {
        let tables = self.parts.positions.tables(self.device, self.blueprint, 1)?;
        let is_plain = is_plain(self.blueprint, &tables);
        let mut fresh = Cache::new(self.device, self.blueprint, cache.batch, cache.capacity, is_plain)?;
        let ((ids, kinds), mask) = (cache.ids_and_kinds(), cache.mask_of(cache.length));
        let input = Input { ids: &ids, batch: cache.batch, token_types: Some(&kinds), mask: Some(&mask) };
        let scores = Scores::At(&[]);
        let call = Call { encoded, cache: Some(&mut fresh), scores, states: States::NONE, ..Call::default() };
        self.call_within(&input, call, whole)?;
        cache.replace(fresh);
        Ok(())
    }

    /// The last hidden states: normed where there is a last norm.
    fn finish<'b>(&self, buffers: &'b mut Buffers<T, B>) -> Result<&'b B::Buffer<T>> {
        let Buffers { x, y, delta, .. } = buffers;
        let delta = (!self.parts.layers.is_empty()).then_some(&*delta);
        match (&self.parts.last_norm, self.blueprint.norms.place.is_before()) {
            (Some(norm), true) => {
                norm.apply_to(self.device, x, delta, y)?;
                Ok(y)
            }
            (None, false) => Ok(x),
            _ => Err(Error::input("the norms", "neither RoFormer's nor Llama's", "one of the two")),
        }
    }

    /// Another model's output, on the device.
    fn upload<'a>(&self, other: Encoded<'a, T>, batch: usize) -> Result<Other<'a, T, B>> {
        let hidden = self.device.zeros(other.hidden.len());
        let mut hidden = hidden.map_err(Error::for_want_of("the encoded input"))?;
        self.device.upload(other.hidden, &mut hidden)?;
        let length = other.hidden.len() / (batch * self.blueprint.width);
        Ok(Other { hidden, length, mask: other.mask })
    }

    /// Checks an input; returns batch and length.
    fn check(&self, input: &Input, encoded: Option<&Encoded<T>>) -> Result<(usize, usize)> {
        let Blueprint { vocabulary, width, has_cross_attention, .. } = *self.blueprint;
        let (batch, length) = check_input(input, vocabulary, self.blueprint.segments())?;
        let Some(encoded) = encoded else {
            if self.blueprint.encoder.is_some() {
                let expected = "what the model's encoder made of a text: its decoder attends to it";
                return Err(Error::input("the encoded input", "none", expected));
            }
            return Ok((batch, length));
        };
        if !has_cross_attention {
            let expected = "none: nothing in this model reads it";
            return Err(Error::input("the encoded input", encoded.hidden.len(), expected));
        }
        let encoded_length = encoded.hidden.len() / (batch * width);
        if encoded.hidden.len() != batch * width * encoded_length || encoded_length == 0 {
            let expected = format!("[batch {batch}, length, hidden {width}]");
            return Err(Error::input("the encoded input", encoded.hidden.len(), expected));
        }
        if encoded.mask.is_some_and(|mask| mask.len() != batch * encoded_length) {
            let expected = format!("{batch} × {encoded_length}");
            return Err(Error::input("the encoded mask", "of another length", expected));
        }
        Ok((batch, length))
    }
}

impl<T: Real, B: Backend> Parts<T, B> {
    fn load(device: &B, blueprint: &Blueprint, source: &impl Parameters<T>) -> Result<Self> {
        let embeddings = Embeddings::load(device, source, blueprint)?;
        let head = Head::load(device, source, blueprint)?;
        let pooler = blueprint.pooler;
        let pooler = pooler.map(|activation| Pooler::load(device, source, blueprint, activation));
        let layers = (0..blueprint.layers)
            .into_par_iter()
            .map(|layer| Layer::load(device, source, blueprint, layer))
            .collect::<Result<_>>()?;
        let names = blueprint.family.names();
        let last_norm = match blueprint.norms.at_end {
            true => Some(Norm::load(device, source, blueprint, names.last_norm, blueprint.width)?),
            false => None,
        };
        let positions = Positions::load(blueprint, source)?;
        let convolve = Convolve::load(device, source, blueprint)?;
        let pooler = pooler.transpose()?;
        Ok(Parts { embeddings, positions, layers, convolve, last_norm, head, pooler })
    }
}
