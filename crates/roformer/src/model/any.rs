//! Whichever model a folder holds.

use super::RoFormerConfig;
use super::cache::Cache;
use super::call::{Call, Input, Output};
use super::config::{Problem, object};
use super::decoder::{Decoder, DecoderConfig, names};
use super::heads::HeadKind;
use super::roformer::{self, RoFormer, read_config};
use crate::error::Result;
use crate::ops::{Backend, Cpu};
use crate::weights::Weights;
use serde_json::{Map, Value};
use std::path::Path;

/// A model of either kind.
pub enum Model<B: Backend = Cpu> {
    /// RoFormer and its relatives.
    RoFormer(Box<RoFormer<f32, B>>),
    /// Llama and its relatives.
    Decoder(Box<Decoder<f32, B>>),
}

impl Model {
    /// Loads the model that a folder's `config.json` names in `model_type`; RoFormer where it names none.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_on(Cpu, path)
    }
}

impl<B: Backend> Model<B> {
    /// Loads a model as [`load`](Model::load) does, to run on a device.
    pub fn load_on(device: B, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let map = object(&read_config(&path.join("config.json"))?)?;
        match is_roformer(&map) {
            true => Ok(RoFormer::load_on(device, path)?.into()),
            false => Ok(Decoder::load_on(device, path)?.into()),
        }
    }

    /// The RoFormer, if it is one.
    pub fn as_roformer(&self) -> Option<&RoFormer<f32, B>> {
        match self {
            Model::RoFormer(model) => Some(model),
            Model::Decoder(_) => None,
        }
    }

    /// The decoder, if it is one.
    pub fn as_decoder(&self) -> Option<&Decoder<f32, B>> {
        match self {
            Model::RoFormer(_) => None,
            Model::Decoder(model) => Some(model),
        }
    }

    /// The head.
    pub fn head(&self) -> HeadKind {
        match self {
            Model::RoFormer(model) => model.head(),
            Model::Decoder(model) => model.head(),
        }
    }

    /// Tokens of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        match self {
            Model::RoFormer(model) => model.config().vocab_size,
            Model::Decoder(model) => model.config().vocab_size,
        }
    }

    /// Width of the hidden states.
    pub fn hidden_size(&self) -> usize {
        match self {
            Model::RoFormer(model) => model.config().hidden_size,
            Model::Decoder(model) => model.config().hidden_size,
        }
    }

    /// Labels of a classifier.
    pub fn num_labels(&self) -> usize {
        match self {
            Model::RoFormer(model) => model.config().num_labels,
            Model::Decoder(model) => model.config().num_labels,
        }
    }

    /// The name of a label, `LABEL_0` and so on where there is none.
    pub fn label(&self, label: usize) -> String {
        match self {
            Model::RoFormer(model) => model.config().label(label),
            Model::Decoder(model) => model.config().label(label),
        }
    }

    /// What the scores of a classifier of texts mean.
    pub fn problem(&self) -> Problem {
        match self {
            Model::RoFormer(model) => model.config().problem,
            Model::Decoder(model) => model.config().problem,
        }
    }

    /// Whether it is RoFormer-Sim, which reads a text whole and then continues it.
    pub fn is_unilm(&self) -> bool {
        self.as_roformer().is_some_and(|model| model.config().is_unilm())
    }

    /// Whether a token sees only what came before.
    pub fn is_decoder(&self) -> bool {
        self.as_roformer().is_none_or(|model| model.config().is_decoder)
    }

    /// Runs the model on a batch of texts.
    pub fn forward(&self, input: &Input) -> Result<Output<f32>> {
        self.call(input, Call::default())
    }

    /// Runs the model with all that a call can be given.
    pub fn call(&self, input: &Input, call: Call<f32, B>) -> Result<Output<f32>> {
        match self {
            Model::RoFormer(model) => model.call(input, call),
            Model::Decoder(model) => model.call(input, call),
        }
    }

    /// A cache for `batch` texts of at most `capacity` tokens.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<Cache<f32, B>> {
        match self {
            Model::RoFormer(model) => model.cache(batch, capacity),
            Model::Decoder(model) => model.cache(batch, capacity),
        }
    }

    /// The cache of one text as the start of `batch` texts.
    pub fn repeat(&self, cache: &Cache<f32, B>, batch: usize) -> Result<Cache<f32, B>> {
        match self {
            Model::RoFormer(model) => model.repeat(cache, batch),
            Model::Decoder(model) => model.repeat(cache, batch),
        }
    }
}

/// Whether a configuration is a RoFormer's: it says so, or says nothing.
fn is_roformer(config: &Map<String, Value>) -> bool {
    matches!(config.get("model_type"), None | Some(Value::Null)) || config["model_type"] == "roformer"
}

/// Checks whatever [`Model::load`] checks before it reads numbers, and reads none: the configuration, and that weights (of
/// [`Weights::of_model`]) fit it. Returns the head.
pub fn check_model(config: &[u8], weights: &Weights) -> Result<HeadKind> {
    if is_roformer(&object(config)?) {
        return roformer::check(weights, &RoFormerConfig::from_json(config)?);
    }
    let mut config = DecoderConfig::from_json(config)?;
    names::complete(&mut config, weights);
    names::check(&config, weights)?;
    Ok(config.head())
}

impl<B: Backend> From<RoFormer<f32, B>> for Model<B> {
    fn from(model: RoFormer<f32, B>) -> Self {
        Model::RoFormer(Box::new(model))
    }
}

impl<B: Backend> From<Decoder<f32, B>> for Model<B> {
    fn from(model: Decoder<f32, B>) -> Self {
        Model::Decoder(Box::new(model))
    }
}
