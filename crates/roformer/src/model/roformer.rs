//! The model: embeddings, layers, head; loading and running it.

use super::cache::Cache;
use super::call::{Call, Encoded, Input, Output, Pool, check_call, check_input};
use super::config::RoFormerConfig;
use super::heads::{Head, HeadKind, Pooler};
use super::layer::{Buffers, Layer, Norm, Other, Pass, linear};
use super::parameters::{Named, Parameters, check_pairing};
use crate::attention::softmax::{Mask, Reach};
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Cpu, Memory, Real};
use crate::weights::Weights;
use rayon::prelude::*;
use rope::{Pairing, Rope};
use std::io::Read;
use std::path::Path;

/// A RoFormer.
pub struct RoFormer<T: Real = f32, B: Backend = Cpu> {
    device: B,
    config: RoFormerConfig,
    /// `[vocabulary, embedding]`
    words: B::Buffer<T>,
    /// `[types, embedding]`
    types: B::Buffer<T>,
    norm: Norm<T, B>,
    project: Option<B::Matrix<T>>,
    layers: Vec<Layer<T, B>>,
    head: Head<T, B>,
    pooler: Option<Pooler<T, B>>,
    kind: HeadKind,
    rope: Rope,
    buffers: Pool<Buffers<T, B>>,
}

impl RoFormer {
    /// Loads a model from a folder with a `config.json` and weights, as transformers saves it.
    ///
    /// ```no_run
    /// use roformer::model::{Input, RoFormer};
    ///
    /// let model = RoFormer::load("roformer_chinese_base")?;
    /// let input = Input { ids: &[101, 1234, 102], batch: 1, token_types: None, mask: None };
    /// let output = model.forward(&input)?;
    /// assert_eq!(output.last_hidden_state.len(), 3 * model.config().hidden_size);
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_on(Cpu, path)
    }
}

impl<B: Backend> RoFormer<f32, B> {
    /// Loads a model as [`load`](RoFormer::load) does, to run on a device.
    pub fn load_on(device: B, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = path.join("config.json");
        let mut config = RoFormerConfig::from_json(&read_config(&file)?)?;
        let weights = Weights::open(path)?;
        let kind = check(&weights, &config)?;
        let source = Named::new(&weights);
        config.pooler = source.has_pooler();
        RoFormer::on(device, config, kind, &source)
    }
}

/// Checks that a file has the tensors that a configuration asks for and nothing that nothing asks for, in the model's own
/// pairing. Returns the head they are for.
pub fn check(weights: &Weights, config: &RoFormerConfig) -> Result<HeadKind> {
    check_pairing(weights, Pairing::Interleaved)?;
    let kind = config.architecture.unwrap_or_else(|| head_of(weights, config));
    Named::new(weights).check(config, kind)?;
    Ok(kind)
}

/// The bytes of a configuration; no more than one can have.
pub(crate) fn read_config(path: &Path) -> Result<Vec<u8>> {
    let fail = |reason: String| Error::File { path: path.display().to_string(), reason };
    // Asked before opening: a pipe would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?;
    if !metadata.is_file() {
        return Err(fail("not a file".into()));
    }
    let file = std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut bytes = Vec::new();
    let limit = rope::config::MAX_CONFIG_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
    Ok(bytes)
}

/// The head that a file's tensors are for.
fn head_of(weights: &Weights, config: &RoFormerConfig) -> HeadKind {
    let has = |name: &str| weights.get(name).is_some();
    match () {
        () if has("cls.predictions.bias") => HeadKind::MaskedLm,
        () if has("classifier.out_proj.weight") => HeadKind::SequenceClassification,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        // RoFormerV2's output is the word embeddings alone; a bare encoder's have no prefix.
        () if config.rms_norm && has("roformer.embeddings.word_embeddings.weight") => HeadKind::MaskedLm,
        () => HeadKind::None,
    }
}

impl<T: Real> RoFormer<T> {
    /// Makes a model from a source of tensors, under the names that a model with this head has (`roformer.…`).
    pub fn from_parameters(
        config: RoFormerConfig,
        kind: HeadKind,
        source: &impl Parameters<T>,
    ) -> Result<Self> {
        RoFormer::on(Cpu, config, kind, source)
    }
}

impl<T: Real, B: Backend> RoFormer<T, B> {
    /// Makes a model on a device.
    pub fn on(
        device: B,
        config: RoFormerConfig,
        kind: HeadKind,
        source: &impl Parameters<T>,
    ) -> Result<Self> {
        config.check()?;
        let rope = Rope::builder(config.head_dim()).pairing(Pairing::Interleaved).build()?;
        // A file of another size says more than a lack of memory does.
        let name = "roformer.embeddings.word_embeddings.weight";
        source.check(name, &[config.vocab_size, config.embedding_size])?;
        if !device.has_room::<T>(config.parameters()) {
            return Err(Error::Memory { what: "the weights" });
        }
        let parts = Loaded::from(&device, &config, kind, source)?;
        let Loaded { words, types, norm, project, layers, head, pooler } = parts;
        Ok(RoFormer {
            device,
            config,
            words,
            types,
            norm,
            project,
            layers,
            head,
            pooler,
            kind,
            rope,
            buffers: Pool::new(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &RoFormerConfig {
        &self.config
    }

    /// The head.
    pub fn head(&self) -> HeadKind {
        self.kind
    }

    /// The memory that the layers' weights take, in bytes.
    pub fn layer_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes(&self.device)).sum()
    }

    /// Runs the model on a batch of texts of any length that memory allows.
    pub fn forward(&self, input: &Input) -> Result<Output<T>> {
        self.call(input, Call::default())
    }

    /// Runs a decoder that also attends to another model's output.
    pub fn forward_with(&self, input: &Input, encoded: Encoded<T>) -> Result<Output<T>> {
        self.call(input, Call { encoded: Some(encoded), ..Call::default() })
    }

    /// A cache for `batch` texts of at most `capacity` tokens.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Cache<T, B>> {
        if !self.config.is_generative() {
            return Err(Error::input(
                "the model",
                "no decoder",
                "one whose is_decoder is true, or RoFormer-Sim: only those can use a cache",
            ));
        }
        Cache::new(&self.device, self.layers.len(), self.config.hidden_size, batch, capacity)
    }

    /// The cache of one text as the start of `batch` texts.
    pub fn repeat(&self, cache: &Cache<T, B>, batch: usize) -> Result<Cache<T, B>> {
        cache.repeat(&self.device, batch)
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
    pub fn call(&self, input: &Input, call: Call<T, B>) -> Result<Output<T>> {
        let Call { encoded, mut cache, prefix, scores } = call;
        let config = &self.config;
        let (batch, length) = self.check(input, encoded.as_ref())?;
        check_call(prefix, scores, cache.is_some(), batch, length)?;
        let past = cache.as_ref().map_or(0, |cache| cache.length);
        if let Some(cache) = &mut cache {
            if !config.is_generative()
                || cache.layers.len() != self.layers.len()
                || cache.width != config.hidden_size
            {
                return Err(Error::input("the cache", "of another model", "one that this model made"));
            }
            cache.admit(input, encoded.as_ref(), batch, length)?;
        }
        let device = &self.device;
        let mut buffers = self.buffers.take(|| Buffers::new(device))?;
        buffers.fit(device, config, batch * length)?;
        // Before the first work, so that a device does not wait for it.
        let end = (past + length) as i64;
        let table = self.rope.table::<T>(past as i64..end, None)?;
        self.embed(input, &mut buffers.x)?;
        // `[batch, past + length]`
        let mask: Option<Vec<bool>> = match &cache {
            Some(cache) => Some(cache.mask_of(past + length)),
            None => input.mask.map(<[bool]>::to_vec),
        };
        let reach = match prefix {
            Some(prefix) => Reach::Prefix(prefix),
            None if config.is_unilm() && past > 0 => Reach::Causal,
            None if config.is_decoder && !config.is_unilm() => Reach::Causal,
            None => Reach::All,
        };
        let encoded = match encoded {
            None => None,
            Some(other) => {
                let hidden = device.zeros(other.hidden.len());
                let mut hidden = hidden.map_err(Error::for_want_of("the encoded input"))?;
                device.upload(other.hidden, &mut hidden)?;
                let length = other.hidden.len() / (batch * config.hidden_size);
                Some(Other { hidden, length, mask: other.mask })
            }
        };
        let mask = Mask { keys: mask.as_deref(), reach };
        let encoded_length = encoded.as_ref().map(|other| other.length);
        let pass = Pass { device, config, batch, length, past, table: &table, mask, encoded };
        for (index, layer) in self.layers.iter().enumerate() {
            let cache = cache.as_deref_mut().map(|cache| (&mut cache.layers[index], cache.capacity));
            layer.forward(&pass, &mut buffers, cache)?;
        }
        let logits = self.head.forward(device, config, &buffers.x, [batch, length], scores)?;
        let pooled = match &self.pooler {
            Some(pooler) if cache.is_none() => {
                Some(pooler.forward(device, config, &buffers.x, [batch, length])?)
            }
            _ => None,
        };
        let list = device.list(&buffers.x, batch * length * config.hidden_size);
        let last_hidden_state = list.map_err(Error::for_want_of("the output"))?;
        // Last, so that a step that fails leaves the cache as it was.
        if let Some(cache) = cache {
            cache.length = past + length;
            cache.encoded = cache.encoded.or(encoded_length);
        }
        self.buffers.give_back(buffers);
        Ok(Output { last_hidden_state, pooled, logits })
    }

    /// x ← norm(word + segment), projected to the model's width.
    fn embed(&self, input: &Input, x: &mut B::Buffer<T>) -> Result<()> {
        let (device, width) = (&self.device, self.config.embedding_size);
        let (words, types) = ((&self.words, input.ids), (&self.types, input.token_types));
        let Some(project) = &self.project else {
            device.embed(words, types, width, x)?;
            self.norm.apply(device, x, None)?;
            return Ok(());
        };
        let narrow = device.zeros(input.ids.len().saturating_mul(width));
        let mut narrow = narrow.map_err(Error::for_want_of("the embeddings"))?;
        device.embed(words, types, width, &mut narrow)?;
        self.norm.apply(device, &mut narrow, None)?;
        device.product(project, &narrow, Activation::Identity, x)?;
        Ok(())
    }

    /// Checks an input; returns batch and length.
    fn check(&self, input: &Input, encoded: Option<&Encoded<T>>) -> Result<(usize, usize)> {
        let (batch, length) = check_input(input, self.config.vocab_size, self.config.type_vocab_size)?;
        if let Some(encoded) = encoded {
            if !(self.config.is_decoder && self.config.add_cross_attention) {
                return Err(Error::input(
                    "the encoded input",
                    encoded.hidden.len(),
                    "none: nothing in this model reads it",
                ));
            }
            let row = batch * self.config.hidden_size;
            let length = encoded.hidden.len() / row;
            if encoded.hidden.len() != row * length || length == 0 {
                let expected = format!("[batch {batch}, length, hidden {}]", self.config.hidden_size);
                return Err(Error::input("the encoded input", encoded.hidden.len(), expected));
            }
            if encoded.mask.is_some_and(|mask| mask.len() != batch * length) {
                return Err(Error::input(
                    "the encoded mask",
                    "of another length",
                    format!("{batch} × {length}"),
                ));
            }
        }
        Ok((batch, length))
    }
}

/// What a model loads.
struct Loaded<T: Real, B: Backend> {
    words: B::Buffer<T>,
    types: B::Buffer<T>,
    norm: Norm<T, B>,
    project: Option<B::Matrix<T>>,
    layers: Vec<Layer<T, B>>,
    head: Head<T, B>,
    pooler: Option<Pooler<T, B>>,
}

impl<T: Real, B: Backend> Loaded<T, B> {
    fn from(
        device: &B,
        config: &RoFormerConfig,
        kind: HeadKind,
        source: &impl Parameters<T>,
    ) -> Result<Self> {
        let width = config.embedding_size;
        let out_of_memory = || Error::Memory { what: "the embeddings" };
        let read = |name: &str, rows: usize| {
            let mut list = rows.checked_mul(width).and_then(Memory::zeros).ok_or_else(out_of_memory)?;
            source.read(&format!("roformer.embeddings.{name}.weight"), &[rows, width], &mut list)?;
            let mut buffer = device.zeros(list.len()).map_err(Error::for_want_of("the embeddings"))?;
            device.upload(&list, &mut buffer)?;
            Ok::<_, Error>((list, buffer))
        };
        let (list, words) = read("word_embeddings", config.vocab_size)?;
        let (_, types) = read("token_type_embeddings", config.type_vocab_size)?;
        let norm = Norm::load(device, source, config, "roformer.embeddings.LayerNorm", width)?;
        let project = match width == config.hidden_size {
            true => None,
            false => {
                let name = "roformer.embeddings_project".to_string();
                Some(linear(device, source, &[name], [config.hidden_size, width], true)?)
            }
        };
        let head = Head::load(device, source, config, kind, &list)?;
        drop(list);
        let pooler = match config.pooler {
            true => Some(Pooler::load(device, source, config)?),
            false => None,
        };
        let layers = (0..config.num_hidden_layers)
            .into_par_iter()
            .map(|layer| Layer::load(device, source, config, &format!("roformer.encoder.layer.{layer}")))
            .collect::<Result<_>>()?;
        Ok(Loaded { words, types, norm, project, layers, head, pooler })
    }
}
