//! The model: embeddings, layers, output; loading and running it.

use super::super::cache::Cache;
use super::super::call::{Call, Input, Output, Pool, check_call, check_input};
use super::super::heads::{HeadKind, Logits, Scores};
use super::super::layer::vector;
use super::super::parameters::Parameters;
use super::super::roformer::read_config;
use super::config::DecoderConfig;
use super::layer::{Buffers, Layer, Pass, norm};
use super::names::{self, OUTPUT, SCORE, SCORE_BIAS};
use crate::attention::softmax::{Mask, Reach};
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Cpu, Memory, Part, Real};
use crate::weights::Weights;
use rayon::prelude::*;
use std::path::Path;

/// The word embeddings' name.
const WORDS: &str = "model.embed_tokens.weight";

/// A decoder of the Llama form.
pub struct Decoder<T: Real = f32, B: Backend = Cpu> {
    device: B,
    config: DecoderConfig,
    /// `[vocabulary, hidden]`
    words: B::Buffer<T>,
    /// `[1, hidden]`, zeros: the one segment that all tokens are of.
    segment: B::Buffer<T>,
    layers: Vec<Layer<T, B>>,
    norm: B::Buffer<T>,
    output: Option<B::Matrix<T>>,
    buffers: Pool<Buffers<T, B>>,
}

impl Decoder {
    /// Loads a model from a folder with a `config.json` and weights, as transformers saves it.
    ///
    /// ```no_run
    /// use roformer::model::{Decoder, Input};
    ///
    /// let model = Decoder::load("Qwen3-0.6B")?;
    /// let input = Input { ids: &[9707, 11, 1879], batch: 1, token_types: None, mask: None };
    /// let output = model.forward(&input)?;
    /// assert_eq!(output.last_hidden_state.len(), 3 * model.config().hidden_size);
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_on(Cpu, path)
    }
}

impl<B: Backend> Decoder<f32, B> {
    /// Loads a model as [`load`](Decoder::load) does, to run on a device.
    pub fn load_on(device: B, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut config = DecoderConfig::from_json(&read_config(&path.join("config.json"))?)?;
        let weights = Weights::open(path)?;
        names::complete(&mut config, &weights);
        names::check(&config, &weights)?;
        Decoder::on(device, config, &names::named(&weights))
    }
}

impl<T: Real> Decoder<T> {
    /// Makes a model from a source of tensors, under the names that a model with a head has (`model.…`).
    pub fn from_parameters(config: DecoderConfig, source: &impl Parameters<T>) -> Result<Self> {
        Decoder::on(Cpu, config, source)
    }
}

impl<T: Real, B: Backend> Decoder<T, B> {
    /// Makes a model on a device.
    pub fn on(device: B, config: DecoderConfig, source: &impl Parameters<T>) -> Result<Self> {
        config.check()?;
        // A file of another size says more than a lack of memory does.
        source.check(WORDS, &[config.vocab_size, config.hidden_size])?;
        if !device.has_room::<T>(config.parameters()) {
            return Err(Error::Memory { what: "the weights" });
        }
        let (words, segment, layers, norm, output) = Self::load_parts(&device, &config, source)?;
        Ok(Decoder { device, config, words, segment, layers, norm, output, buffers: Pool::new() })
    }

    /// Embeddings, the one segment, layers, the last norm and the output layer.
    #[expect(clippy::type_complexity, reason = "the parts of a model")]
    fn load_parts(
        device: &B,
        config: &DecoderConfig,
        source: &impl Parameters<T>,
    ) -> Result<(B::Buffer<T>, B::Buffer<T>, Vec<Layer<T, B>>, B::Buffer<T>, Option<B::Matrix<T>>)> {
        let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
        let out_of_memory = || Error::Memory { what: "the embeddings" };
        let mut list = Memory::zeros(vocabulary * hidden).ok_or_else(out_of_memory)?;
        source.read(WORDS, &[vocabulary, hidden], &mut list)?;
        let mut words = device.zeros(list.len()).map_err(Error::for_want_of("the embeddings"))?;
        device.upload(&list, &mut words)?;
        let output = output(device, source, config, list)?;
        let layers = (0..config.num_hidden_layers)
            .into_par_iter()
            .map(|layer| Layer::load(device, source, config, &format!("model.layers.{layer}")))
            .collect::<Result<_>>()?;
        let norm = norm(device, source, "model.norm", hidden)?;
        let segment = device.zeros(hidden).map_err(Error::for_want_of("the embeddings"))?;
        Ok((words, segment, layers, norm, output))
    }

    /// The configuration.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// The head: a language model's, a classifier's, or [`HeadKind::None`] for the bare model.
    pub fn head(&self) -> HeadKind {
        self.config.head()
    }

    /// The memory that the layers' weights take, in bytes.
    pub fn layer_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes(&self.device)).sum()
    }

    /// Runs the model on a batch of texts of any length that memory allows. The first token of a row stands at position 0,
    /// whether it is padded or not.
    pub fn forward(&self, input: &Input) -> Result<Output<T>> {
        self.call(input, Call::default())
    }

    /// A cache for `batch` texts of at most `capacity` tokens.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Cache<T, B>> {
        Cache::new(&self.device, self.layers.len(), self.config.key_width(), batch, capacity)
    }

    /// The cache of one text as the start of `batch` texts.
    pub fn repeat(&self, cache: &Cache<T, B>, batch: usize) -> Result<Cache<T, B>> {
        cache.repeat(&self.device, batch)
    }

    /// Runs the model on the tokens that follow those in the cache, and adds them to it.
    pub fn step(&self, input: &Input, cache: &mut Cache<T, B>) -> Result<Output<T>> {
        self.call(input, Call { cache: Some(cache), ..Call::default() })
    }

    /// Runs the model with all that a call can be given; nothing here reads another model's output.
    ///
    /// Rules whose frequencies depend on the length (dynamic NTK, LongRoPE) are given the number of tokens up to the last
    /// of this call. Keys in a cache stay as they were rotated, as in transformers.
    pub fn call(&self, input: &Input, call: Call<T, B>) -> Result<Output<T>> {
        let Call { encoded, mut cache, prefix, scores } = call;
        let (device, config) = (&self.device, &self.config);
        let (batch, length) = check_input(input, config.vocab_size, 1)?;
        if let Some(encoded) = encoded {
            let expected = "none: nothing in this model reads it";
            return Err(Error::input("the encoded input", encoded.hidden.len(), expected));
        }
        check_call(prefix, scores, cache.is_some(), batch, length)?;
        let past = cache.as_ref().map_or(0, |cache| cache.length);
        if let Some(cache) = &mut cache {
            if cache.layers.len() != self.layers.len() || cache.width != config.key_width() {
                return Err(Error::input("the cache", "of another model", "one that this model made"));
            }
            cache.admit(input, None, batch, length)?;
        }
        let mut buffers = self.buffers.take(|| Buffers::new(device))?;
        buffers.fit(device, config, batch * length)?;
        // Before the first work, so that a device does not wait for it.
        let end = past + length;
        let table = config.rope.table::<T>(past as i64..end as i64, end as u64)?;
        device.embed((&self.words, input.ids), (&self.segment, None), config.hidden_size, &mut buffers.x)?;
        // `[batch, past + length]`
        let mask: Option<Vec<bool>> = match &cache {
            Some(cache) => Some(cache.mask_of(end)),
            None => input.mask.map(<[bool]>::to_vec),
        };
        let mask = Mask { keys: mask.as_deref(), reach: prefix.map_or(Reach::Causal, Reach::Prefix) };
        let pass = Pass { device, config, batch, length, past, table: &table, mask };
        for (index, layer) in self.layers.iter().enumerate() {
            let cache = cache.as_deref_mut().map(|cache| (&mut cache.layers[index], cache.capacity));
            layer.forward(&pass, &mut buffers, index == 0, cache)?;
        }
        let Buffers { x, y, delta, .. } = &mut buffers;
        let delta = (!self.layers.is_empty()).then_some(&*delta);
        device.add_rms_norm(x, delta, &self.norm, config.rms_norm_eps, y)?;
        let logits = self.score(y, input.mask, [batch, length], scores)?;
        let list = device.list(y, batch * length * config.hidden_size);
        let last_hidden_state = list.map_err(Error::for_want_of("the output"))?;
        // Last, so that a step that fails leaves the cache as it was.
        if let Some(cache) = cache {
            cache.length = end;
        }
        self.buffers.give_back(buffers);
        Ok(Output { last_hidden_state, pooled: None, logits })
    }

    /// The head's scores for hidden states `[batch, length, hidden]`: at every token, at those that are asked for, or, by a
    /// classifier of texts, at the last real token of each, as transformers has it.
    fn score(
        &self,
        hidden: &B::Buffer<T>,
        mask: Option<&[bool]>,
        [batch, length]: [usize; 2],
        scores: Scores,
    ) -> Result<Option<Logits<T>>> {
        let (device, width) = (&self.device, self.config.hidden_size);
        let (Some(output), Some(outputs)) = (&self.output, self.config.outputs()) else { return Ok(None) };
        let last = |text: usize| {
            let real = |place: &usize| mask.is_none_or(|mask| mask[text * length + place]);
            text * length + (0..length).rev().find(real).unwrap_or(length - 1)
        };
        let lasts: Vec<usize>;
        let scores = match (self.head(), scores) {
            (_, Scores::At([])) => scores,
            (HeadKind::SequenceClassification, _) => {
                lasts = (0..batch).map(last).collect();
                Scores::At(&lasts)
            }
            (HeadKind::TokenClassification, _) => Scores::All,
            _ => scores,
        };
        let memory = |rows: usize, width: usize| {
            device.zeros(rows.saturating_mul(width)).map_err(Error::for_want_of("the scores"))
        };
        let mut picked = None;
        let (rows, shape) = match scores {
            Scores::At([]) => return Ok(None),
            Scores::All => (batch * length, vec![batch, length, outputs]),
            Scores::At(list) => {
                let rows = picked.insert(memory(list.len(), width)?);
                for (row, &token) in list.iter().enumerate() {
                    let from = Part { buffer: hidden, offset: token * width, token: width, sequence: width };
                    device.copy(from, rows, (row * width, width, width), [1, 1, width])?;
                }
                (list.len(), vec![list.len(), outputs])
            }
        };
        let mut out = memory(rows, outputs)?;
        device.product(output, picked.as_ref().unwrap_or(hidden), Activation::Identity, &mut out)?;
        let scores = device.list(&out, rows * outputs).map_err(Error::for_want_of("the scores"))?;
        Ok(Some(Logits { scores, shape }))
    }
}

/// The output layer, where there is a head. `words` are the word embeddings, `[vocabulary, hidden]`, for a tied one.
fn output<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    config: &DecoderConfig,
    mut words: Memory<T>,
) -> Result<Option<B::Matrix<T>>> {
    let Some(outputs) = config.outputs() else { return Ok(None) };
    let out_of_memory = || Error::Memory { what: "the output layer" };
    let shape = [outputs, config.hidden_size];
    match config.head() {
        HeadKind::SequenceClassification | HeadKind::TokenClassification => {
            source.check(SCORE, &shape)?;
            words = Memory::zeros(outputs * config.hidden_size).ok_or_else(out_of_memory)?;
            source.read(SCORE, &shape, &mut words)?;
        }
        _ if config.tie_word_embeddings => {}
        _ => source.read(OUTPUT, &shape, &mut words)?,
    }
    let mut matrix =
        device.matrix(outputs, config.hidden_size).map_err(Error::for_want_of("the output layer"))?;
    device.set_rows(&mut matrix, 0, &words)?;
    if config.head() == HeadKind::TokenClassification {
        device.set_bias(&mut matrix, 0, &vector(source, SCORE_BIAS, outputs)?)?;
    }
    Ok(Some(matrix))
}
