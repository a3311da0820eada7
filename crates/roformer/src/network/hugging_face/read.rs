//! `config.json` → network, through the readers of the models that are only run.

use super::super::{Family, Form, LlamaForm, Mixing, Network, RoFormerForm, Task};
use super::rope::rotary;
use crate::encoding::{Encoding, Rotary};
use crate::error::{Error, Result};
use crate::model::config::{Fields, object};
use crate::model::decoder::names;
use crate::model::parameters::Named;
use crate::model::roformer::read_config;
use crate::model::{DecoderConfig, RoFormerConfig};
use crate::weights::Weights;
use serde_json::{Map, Value};
use std::path::Path;

impl Network {
    /// The network that a `config.json` describes, to be trained for a task: any model that [`Model`](crate::model::Model)
    /// loads. Whether a token sees only what came before is as the file says where it is not given here; a RoFormer that
    /// judges a text by its first token sees all of it.
    ///
    /// What a file does not say but its tensors do (RoFormer-Sim's pooler, the norms of heads of newer MiniMinds) is seen by
    /// [`open`](Network::open) alone. Dropout is `hidden_dropout_prob`, or `attention_dropout` in the Llama form.
    pub fn from_config(bytes: &[u8], task: Task, is_causal: Option<bool>) -> Result<Network> {
        read(bytes, None, task, is_causal)
    }

    /// The network of a folder with a `config.json` and weights, to begin from. Its tensors are read by
    /// [`load`](Network::load), once it is built.
    ///
    /// ```no_run
    /// use roformer::network::{Network, Task};
    ///
    /// let (network, weights) = Network::open("roformer_chinese_base", Task::Text(3), None)?;
    /// let mut laid = network.build::<f32>(16, 128, 512)?;
    /// let layout = laid.graph.layout().clone();
    /// layout.initialise(1, laid.graph.parameters_mut());
    /// let loaded = network.load(&weights, &layout, laid.graph.parameters_mut())?;
    /// assert_eq!(loaded.missing.len(), 4); // weights and biases of the classifier, which keep their first numbers
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn open(folder: impl AsRef<Path>, task: Task, is_causal: Option<bool>) -> Result<(Network, Weights)> {
        let folder = folder.as_ref();
        let bytes = read_config(&folder.join("config.json"))?;
        let weights = Weights::of_model(folder)?;
        Ok((read(&bytes, Some(&weights), task, is_causal)?, weights))
    }
}

fn read(bytes: &[u8], weights: Option<&Weights>, task: Task, is_causal: Option<bool>) -> Result<Network> {
    let mut map = object(bytes)?;
    let encoding = take_encoding(&mut map)?;
    let is_roformer = matches!(map.get("model_type").and_then(Value::as_str), None | Some("roformer"));
    let network = match is_roformer {
        true => roformer(map, weights, task, is_causal)?,
        false => decoder(map, weights, task, is_causal)?,
    };
    Ok(match encoding {
        Some(encoding) => Network { encoding, ..network },
        None => network,
    })
}

/// The encoding of a network that was handed over under a type of its own, as `roformer-alibi`, with its settings; what is
/// left is the type that it resembles.
fn take_encoding(map: &mut Map<String, Value>) -> Result<Option<Encoding>> {
    let fields = Fields(map);
    let Some(label) = fields.get("position_encoding") else { return Ok(None) };
    let encoding = Encoding::parse(label.as_str().unwrap_or_default()).map_err(|error| match error {
        Error::Input { expected, .. } => fields.error("position_encoding", expected),
        other => other,
    })?;
    let own = fields.string("model_type", "")?.strip_suffix(encoding.name());
    let base = own.and_then(|own| own.strip_suffix('-')).map(str::to_string);
    let base = base.ok_or_else(|| {
        fields.error("model_type", format!("one that ends with -{}, the position_encoding", encoding.name()))
    })?;
    map.insert("model_type".into(), base.into());
    Ok(Some(encoding))
}

fn roformer(
    map: Map<String, Value>,
    weights: Option<&Weights>,
    task: Task,
    is_causal: Option<bool>,
) -> Result<Network> {
    let fields = Fields(&map);
    let mut config = RoFormerConfig::from_json(Value::Object(map.clone()).to_string().as_bytes())?;
    if config.is_decoder && config.add_cross_attention {
        let expected = "false: attention to another model's output is run, but not trained";
        return Err(fields.error("add_cross_attention", expected));
    }
    config.pooler = fields.boolean("add_pooling_layer", false)?
        || weights.is_some_and(|weights| Named::new(weights).has_pooler());
    let form = RoFormerForm {
        types: config.type_vocab_size,
        activation: config.hidden_act,
        embedding: Some(config.embedding_size).filter(|&width| width != config.hidden_size),
        has_bias: config.use_bias,
        has_plain_norms: config.rms_norm,
        is_tied: config.tie_word_embeddings,
        pooler: Some(config.pooler_activation).filter(|_| config.pooler && task == Task::Similarity),
    };
    // A text is judged by its first token, which would see no other; RoFormer-Sim reads it whole whatever the file says.
    let reads_whole = matches!(task, Task::Text(_)) || form.pooler.is_some() || config.is_unilm();
    Ok(Network {
        form: Form::RoFormer(form),
        vocabulary: config.vocab_size,
        width: config.hidden_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        key_heads: config.num_attention_heads,
        head_dim: config.head_dim(),
        wide: config.intermediate_size,
        epsilon: config.layer_norm_eps,
        is_causal: is_causal.unwrap_or(config.is_decoder && !reads_whole),
        encoding: Encoding::Rotary(Rotary { values: config.rotary_value, ..Rotary::default() }),
        mixing: Mixing::Softmax,
        dropout: fields.fraction("hidden_dropout_prob", 0.1)?,
        task,
    })
}

fn decoder(
    map: Map<String, Value>,
    weights: Option<&Weights>,
    task: Task,
    is_causal: Option<bool>,
) -> Result<Network> {
    let fields = Fields(&map);
    let mut config = DecoderConfig::from_json(Value::Object(map.clone()).to_string().as_bytes())?;
    if is_causal == Some(false) {
        let value = format!("asked to see ahead as a {}", config.model_type);
        return Err(Error::input("the network", value, "causal: all that load such a model run it so"));
    }
    if config.window.is_some() {
        let expected = "null: attention to a window is run, for texts that fit into it, but not trained";
        return Err(fields.error("sliding_window", expected));
    }
    if let Some(weights) = weights {
        names::complete(&mut config, weights);
    }
    let family = match () {
        () if config.head_norms => Family::Qwen3 { attention_bias: config.output_bias },
        () if config.attention_bias && !config.output_bias => Family::Qwen2,
        () if config.model_type == "mistral" && !config.attention_bias => Family::Mistral,
        () => Family::Llama { attention_bias: config.attention_bias, mlp_bias: config.mlp_bias },
    };
    Ok(Network {
        form: Form::Llama(LlamaForm { family, is_tied: config.tie_word_embeddings }),
        vocabulary: config.vocab_size,
        width: config.hidden_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        key_heads: config.num_key_value_heads,
        head_dim: config.head_dim,
        wide: config.intermediate_size,
        epsilon: config.rms_norm_eps,
        is_causal: true,
        encoding: Encoding::Rotary(rotary(&config.rope)?),
        mixing: Mixing::Softmax,
        dropout: fields.fraction("attention_dropout", 0.0)?,
        task,
    })
}
