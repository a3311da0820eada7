//! Where a model begins, and the files by which others load it.

use super::data::{Choice, Data, Request};
use super::settings::{Attention, FormName, Goal, Settings};
use super::trainer::Trainer;
use crate::Device;
use crate::blueprint::fields::read_config;
use crate::blueprint::{Blueprint, Dims, Direction, Features, HeadKind, LinearForm, Mixing};
use crate::encoding::{Encoding, Extend, Hierarchical, NoPositions, Rotary};
use crate::error::{Error, Result};
use crate::graph::FeatureMap;
use crate::network::{Network, Task};
use rope::Pairing;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where a model begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Start {
    /// With the sizes of the settings and random weights.
    #[default]
    Scratch,
    /// With the sizes of a `config.json` and random weights.
    Config(PathBuf),
    /// With the sizes, the weights and the tokenizer of a model's folder. What its task adds begins with random weights.
    Checkpoint(PathBuf),
    /// The same with another encoding than the model has. `hierarchical` stretches n learned positions to n². Of a model with rotary
    /// embedding `none` drops its positions (DroPE), and `extend` reaches further with them.
    Encoded(PathBuf, Box<Encoding>),
}

/// A beginning, as far as it is known before the text is read.
#[derive(Default)]
pub(super) struct Given {
    config: Option<Vec<u8>>,
    folder: Option<PathBuf>,
    encoding: Option<Encoding>,
    labels: Vec<String>,
}

impl Start {
    pub(super) fn read(&self, settings: &Settings) -> Result<Given> {
        let (config, folder) = match self {
            Start::Scratch => return Ok(Given::default()),
            Start::Config(path) => (read_config(path)?, None),
            Start::Checkpoint(folder) | Start::Encoded(folder, _) => {
                (Blueprint::config_of(folder)?, Some(folder.clone()))
            }
        };
        let encoding = if let Start::Encoded(_, own) = self { Some((**own).clone()) } else { None };
        let is_classifier = folder.is_some() && settings.goal == Goal::Classification;
        let labels = if is_classifier { labels(&config) } else { Vec::new() };
        Ok(Given { config: Some(config), folder, encoding, labels })
    }
}

impl Given {
    /// What is to be read, with what the beginning adds.
    pub fn complete(&self, request: &Request) -> Request {
        let mut request = request.clone();
        let own = || self.folder.clone().map_or(Choice::Characters, Choice::Given);
        request.tokenizer.get_or_insert_with(own);
        if request.labels.is_empty() {
            request.labels = self.labels.clone();
        }
        request
    }

    /// The model, where it begins.
    pub fn trainer(&self, device: &Device, settings: &Settings, data: Data) -> Result<Trainer> {
        let mut trainer = match (&self.folder, &self.config) {
            (Some(folder), _) => {
                let opened = Network::open(folder, task(settings, &data), is_causal(settings))?;
                let network = positioned(opened.0, self.encoding.as_ref(), settings.block)?;
                let (settings, network) = fitted(settings, network, &data)?;
                let mut trainer = Trainer::with_network(device, &settings, network, data)?;
                trainer.load(&opened.1)?;
                Ok(trainer)
            }
            (None, Some(config)) => {
                let network = positioned(read(config, settings, &data)?, None, settings.block)?;
                let (settings, network) = fitted(settings, network, &data)?;
                Trainer::with_network(device, &settings, network, data)
            }
            (None, None) => Trainer::new_on(device, settings, data),
        }?;
        if let Some(config) = self.config.as_deref().and_then(|config| rope::config::parse(config).ok()) {
            trainer.keep_longest(&config);
        }
        Ok(trainer)
    }
}

/// A network that was given, for texts of a block: with another encoding, if that is asked for.
fn positioned(network: Network, asked: Option<&Encoding>, block: usize) -> Result<Network> {
    let positions = network.blueprint.longest;
    match (&network.blueprint.encoding, asked) {
        (Encoding::Learned(_), Some(Encoding::Hierarchical(_))) if block > positions.saturating_pow(2) => {
            let reached = positions.saturating_pow(2);
            let expected = format!("at most {reached}, the square of the {positions} positions of the model");
            Err(Error::input("block", block, expected))
        }
        (Encoding::Learned(learned), Some(Encoding::Hierarchical(own))) => {
            let own = Hierarchical { positions: Some(positions), merge: learned.merge, ..*own };
            Ok(network.with(|blueprint| {
                (blueprint.encoding, blueprint.longest) = (Encoding::Hierarchical(own), 1);
            }))
        }
        (encoding, None) if encoding.has_learned_rows() && block > positions => {
            let expected = format!(
                "at most {positions}, the positions that the model has; the encoding hierarchical stretches learned ones to {}",
                positions.saturating_pow(2)
            );
            Err(Error::input("block", block, expected))
        }
        (_, None) => Ok(network),
        (Encoding::Rotary(Rotary { is_learned: false, .. }), Some(Encoding::None(_))) => {
            Ok(network.with(|blueprint| {
                blueprint.encoding = Encoding::None(NoPositions);
                // Layers with a window may have an encoding of their own.
                blueprint.local.iter_mut().for_each(|local| local.encoding = None);
            }))
        }
        (Encoding::Rotary(_), Some(Encoding::Extend(Extend { far, rotary }))) => {
            if *rotary != Rotary::default() {
                let expected = "a window and a group alone: the rotation is that of the model";
                return Err(Error::input("encoding", asked.map_or(String::new(), Encoding::label), expected));
            }
            Ok(Network { blueprint: network.blueprint.extended(*far)?, ..network })
        }
        (own, Some(asked)) => {
            let value = format!("{}, to begin with a model whose encoding is {}", asked.label(), own.label());
            let expected = "hierarchical for learned positions, which it stretches; none or extend for rotary embedding; or leave it \
                            out: other encodings are those that the model has";
            Err(Error::input("encoding", value, expected))
        }
    }
}

/// A network that was given, as the settings train it, and the settings with its sizes.
fn fitted(settings: &Settings, network: Network, data: &Data) -> Result<(Settings, Network)> {
    check_goal(settings, &network.blueprint)?;
    let tokens = data.vocabulary().tokens();
    if tokens > network.blueprint.vocabulary {
        let expected = format!("at least the {tokens} tokens of the tokenizer");
        return Err(Error::input("the vocabulary of the model", network.blueprint.vocabulary, expected));
    }
    let Blueprint { family, layers, width, heads, .. } = network.blueprint;
    let form = if family.is_encoder() { FormName::RoFormer } else { FormName::Llama };
    let encoding = network.blueprint.encoding.label();
    let (attention, features) = match network.blueprint.mixing {
        Mixing::Softmax => (Attention::Softmax, Features::Elu),
        Mixing::Linear(form) => (Attention::Linear, features(form)),
    };
    let settings = Settings { form, encoding, attention, features, layers, width, heads, ..settings.clone() };
    let network = Network { dropout: settings.dropout, ..network };
    Ok((settings, network))
}

/// The feature maps by name.
fn features(form: LinearForm) -> Features {
    match form.queries {
        FeatureMap::Elu => Features::Elu,
        FeatureMap::Softmax | FeatureMap::Exp => Features::Softmax,
        FeatureMap::Favor { .. } => Features::Favor,
    }
}

/// The labels of a classifier; none where a configuration is of something else.
fn labels(config: &[u8]) -> Vec<String> {
    let config: Value = rope::config::parse(config).unwrap_or_default();
    let class = config.get("architectures").and_then(|list| list.get(0)?.as_str()).unwrap_or_default();
    let names = config.get("id2label").and_then(Value::as_object);
    match names.filter(|_| class.ends_with("ForSequenceClassification")) {
        None => Vec::new(),
        Some(names) => {
            let name = |label: usize| names.get(&label.to_string()).and_then(Value::as_str);
            (0..names.len())
                .map(|label| name(label).map_or(format!("LABEL_{label}"), str::to_owned))
                .collect()
        }
    }
}

/// What a network is trained for.
fn task(settings: &Settings, data: &Data) -> Task {
    match settings.goal {
        Goal::Causal | Goal::Masked | Goal::Sequences => Task::Language,
        Goal::Classification => Task::Text(data.labels().len()),
        Goal::Similarity => Task::Similarity,
    }
}

/// Whether a token sees only what came before, where the task says so.
fn is_causal(settings: &Settings) -> Option<bool> {
    match settings.goal {
        Goal::Causal => Some(true),
        Goal::Masked | Goal::Similarity => Some(false),
        Goal::Classification | Goal::Sequences => None,
    }
}

/// Refuses to write one text of another with a network that has no encoder.
fn check_goal(settings: &Settings, network: &Blueprint) -> Result<()> {
    match settings.goal == Goal::Sequences && network.encoder.is_none() {
        true => {
            let value = format!("sequences, for a {}", network.family.model_type());
            let expected = "a model to begin with that has an encoder and a decoder: a T5 or its config.json";
            Err(Error::input("task", value, expected))
        }
        false => Ok(()),
    }
}

/// The network of a `config.json`, for the task of the settings.
pub(super) fn read(config: &[u8], settings: &Settings, data: &Data) -> Result<Network> {
    Network::from_config(config, task(settings, data), is_causal(settings))
}

/// The network of some settings.
pub(super) fn network(settings: &Settings, data: &Data) -> Result<Network> {
    let (width, heads) = (settings.width, settings.heads);
    let mut encoding = settings.encoding()?;
    // The vectors that this block needs: a later one finds as many.
    if let Encoding::Hierarchical(own) = &mut encoding {
        own.positions = Some(own.rows(settings.block));
    }
    encoding = encoding.with_digits(&data.vocabulary().digits);
    if encoding.lacks_digits() {
        let value = format!("{}, for a vocabulary without digits", encoding.name());
        let expected = "a vocabulary in which digits are tokens of their own, as characters of a text with numbers are; \
                        or another encoding";
        return Err(Error::input("encoding", value, expected));
    }
    let dims = Dims { vocabulary: data.vocabulary().tokens(), width, layers: settings.layers, heads };
    let form = match settings.form {
        FormName::RoFormer => Blueprint::roformer(dims)?,
        FormName::Llama => {
            // Llama's pairing, unless another was asked for.
            if let Encoding::Rotary(rotary) = &mut encoding
                && !settings.encoding.contains("pairing=")
            {
                rotary.pairing = Pairing::Half;
            }
            Blueprint::llama(dims)?
        }
    };
    let is_causal = is_causal(settings).unwrap_or(settings.form == FormName::Llama);
    let direction = if is_causal { Direction::Causal } else { Direction::Both };
    let mixing = settings.mixing(form.head_dim);
    // Tables of positions have the rows that a block needs.
    let blueprint = Blueprint { direction, encoding, mixing, head: HeadKind::None, longest: 1, ..form };
    check_goal(settings, &blueprint)?;
    Ok(Network { blueprint, dropout: settings.dropout, task: task(settings, data) })
}

/// `config.json` of a model.
pub(super) fn config(trainer: &Trainer) -> Result<Value> {
    let data = trainer.data();
    let mut config = trainer.network().to_config(trainer.longest(), data.labels())?;
    let vocabulary = data.vocabulary();
    // Where positions count from the padding token, it is the model's own.
    if trainer.network().blueprint.padding.is_none() {
        config["pad_token_id"] = json!(vocabulary.pad);
    }
    config["bos_token_id"] = json!(vocabulary.frame.before.first());
    config["eos_token_id"] = json!(vocabulary.end);
    Ok(config)
}
