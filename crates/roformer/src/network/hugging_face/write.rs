//! Network → `config.json`, parameters → tensors: what transformers and the commands that run models load.

use super::super::{Family, Form, LlamaForm, Network, RoFormerForm, Task};
use super::rope::fields;
use crate::encoding::{Encoding, Rotary};
use crate::error::{Error, Result};
use crate::graph::Parameters;
use crate::ops::Activation;
use rope::{Pairing, Rope};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Positions that transformers' RoFormer makes a table for; its own default.
const ROFORMER_POSITIONS: usize = 1536;

/// A tensor to be handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers, row by row.
    pub numbers: Cow<'a, [f32]>,
}

impl Network {
    /// The `config.json` of the network, for texts of up to `longest` tokens. Labels are the names of its classes, in order;
    /// without any they are `LABEL_0` and so on.
    ///
    /// It names the class of the task: `RoFormerForSequenceClassification`, `LlamaForCausalLM`, and so on. A network whose
    /// encoding transformers' class does not have has a `model_type` of its own, such as `roformer-alibi`, and the encoding in
    /// `position_encoding`, such as `rotary:base=500`: loaded as the type that it resembles it would run, rotated otherwise,
    /// and be wrong. The padding token is 0 and no token begins or ends a text; whoever knows the tokenizer replaces those
    /// (`pad_token_id`, `bos_token_id`, `eos_token_id`).
    ///
    /// [`from_config`](Network::from_config) gives the same network again. One that no `config.json` describes is an error.
    pub fn to_config(&self, longest: usize, labels: &[String]) -> Result<Value> {
        let mut all = match self.form {
            Form::RoFormer(form) => self.roformer(form, longest),
            Form::Llama(form) => self.llama(form, longest),
            Form::Plain => {
                let expected = "RoFormer's or Llama's form: transformers has no class for it";
                return Err(Error::input("the network", "PyTorch's plain encoder", expected));
            }
        };
        all.extend(map(json!({
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.wide,
            "initializer_range": 0.02,
            "tie_word_embeddings": self.form.is_tied(),
            "pad_token_id": 0,
            "bos_token_id": null,
            "eos_token_id": null,
            "dtype": "float32",
        })));
        if let Some(classes) = self.task.classes() {
            all.extend(self::labels(classes, labels)?);
        }
        if !self.is_of_its_class() {
            let (name, label) = (self.encoding.name(), self.encoding.label());
            let own = all.get("model_type").and_then(Value::as_str).unwrap_or_default();
            all.extend(map(json!({"model_type": format!("{own}-{name}"), "position_encoding": label})));
        }
        let config = Value::Object(all);
        self.check_written(&config)?;
        Ok(config)
    }

    /// Whether transformers' class, and the commands that run models, have the encoding of the network: RoFormer's is fixed,
    /// Llama's has the fields of `rope_parameters`.
    pub fn is_of_its_class(&self) -> bool {
        let Encoding::Rotary(rotary) = &self.encoding else { return false };
        match self.form {
            Form::RoFormer(_) => *rotary == Rotary { values: rotary.values, ..Rotary::default() },
            Form::Llama(_) => {
                let plain = Rotary { values: false, is_learned: false, rotary_dim: None, ..rotary.clone() };
                rotary.pairing == Pairing::Half && *rotary == plain
            }
            Form::Plain => false,
        }
    }

    /// Checks that a configuration says all of the network.
    fn check_written(&self, config: &Value) -> Result<()> {
        let read = Network::from_config(config.to_string().as_bytes(), self.task, Some(self.is_causal))?;
        let parts = [
            ("the form", format!("{:?}", self.form), read.form == self.form),
            ("the encoding", format!("{:?}", self.encoding), read.encoding == self.encoding),
            ("the attention", format!("{:?}", self.mixing), read.mixing == self.mixing),
            ("the width of a head", self.head_dim.to_string(), read.head_dim == self.head_dim),
            ("the number of key heads", self.key_heads.to_string(), read.key_heads == self.key_heads),
            ("the network", format!("{self:?}"), read == *self),
        ];
        match parts.into_iter().find(|(_, _, is_same)| !is_same) {
            Some((name, value, _)) => Err(Error::input(name, value, "what a config.json can say")),
            None => Ok(()),
        }
    }

    /// All tensors of the network, from parameters laid out as `layout` says: those that are trained, and what transformers
    /// keeps beside them. `longest` is that of [`to_config`](Network::to_config).
    pub fn tensors<'a>(
        &self,
        layout: &Parameters,
        parameters: &'a [f32],
        longest: usize,
    ) -> Result<Vec<Tensor<'a>>> {
        if parameters.len() != layout.len() {
            return Err(Error::input("the number of parameters", parameters.len(), layout.len().to_string()));
        }
        let mut tensors: Vec<Tensor> = Vec::with_capacity(layout.entries().len() + 1);
        for entry in layout.entries() {
            let numbers = Cow::Borrowed(&parameters[entry.range.clone()]);
            tensors.push(Tensor { name: entry.name.clone(), shape: entry.shape.clone(), numbers });
        }
        // Where the output is not tied, transformers has its bias twice and reads this one.
        if let Some(bias) = tensors.iter().find(|tensor| tensor.name == "cls.predictions.decoder.bias") {
            tensors.push(Tensor { name: "cls.predictions.bias".into(), ..bias.clone() });
        }
        if matches!(self.form, Form::RoFormer(_)) && self.is_of_its_class() {
            tensors.push(self.positions_table(longest)?);
        }
        Ok(tensors)
    }

    /// The table that transformers' RoFormer keeps with its weights, a row a position: sines, then cosines. It makes one
    /// itself where there is none, but says so in a way that sounds like a loss.
    fn positions_table(&self, longest: usize) -> Result<Tensor<'static>> {
        let (rows, dim) = (longest.max(ROFORMER_POSITIONS), self.head_dim);
        let table = Rope::builder(dim).build()?.table::<f32>(0..rows as i64, None)?;
        let (sines, cosines) = (table.sin().chunks(dim / 2), table.cos().chunks(dim / 2));
        let numbers = sines.zip(cosines).flat_map(|(sines, cosines)| sines.iter().chain(cosines)).copied();
        let name = "roformer.encoder.embed_positions.weight".into();
        Ok(Tensor { name, shape: vec![rows, dim], numbers: numbers.collect() })
    }

    fn roformer(&self, form: RoFormerForm, longest: usize) -> Map<String, Value> {
        let class = match self.task {
            Task::Language if self.is_causal => "ForCausalLM",
            Task::Language => "ForMaskedLM",
            task => class(task),
        };
        let mut all = map(json!({
            "model_type": "roformer",
            "architectures": [format!("RoFormer{class}")],
            "is_decoder": self.is_causal,
            "embedding_size": self.embedding(),
            "hidden_act": name(form.activation),
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.dropout,
            "layer_norm_eps": self.epsilon,
            "type_vocab_size": form.types,
            "rotary_value": matches!(&self.encoding, Encoding::Rotary(Rotary { values: true, .. })),
            "max_position_embeddings": longest.max(ROFORMER_POSITIONS),
        }));
        // Fields of RoFormerV2 and RoFormer-Sim, which transformers does not know.
        if form.has_plain_norms {
            all.insert("norm_type".into(), "rms_norm".into());
        }
        if !form.has_bias {
            all.insert("use_bias".into(), false.into());
        }
        if let Some(activation) = form.pooler {
            all.extend(map(json!({"add_pooling_layer": true, "pooler_activation": name(activation)})));
        }
        all
    }

    fn llama(&self, form: LlamaForm, longest: usize) -> Map<String, Value> {
        let class = format!("{}{}", form.family.class(), class(self.task));
        let mut all = map(json!({
            "model_type": form.family.class().to_lowercase(),
            "architectures": [class],
            "hidden_act": "silu",
            "rms_norm_eps": self.epsilon,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_dim,
            "attention_dropout": self.dropout,
            "max_position_embeddings": longest,
        }));
        if let Encoding::Rotary(rotary) = &self.encoding
            && self.is_of_its_class()
        {
            all.extend(fields(rotary, self.head_dim, longest));
        }
        all.extend(map(match form.family {
            Family::Llama { attention_bias, mlp_bias } => {
                json!({"attention_bias": attention_bias, "mlp_bias": mlp_bias})
            }
            // Its class takes a window of 4096 where nothing is said.
            Family::Mistral => json!({"sliding_window": null}),
            Family::Qwen2 => json!({"use_sliding_window": false}),
            Family::Qwen3 { attention_bias } => {
                json!({"attention_bias": attention_bias, "use_sliding_window": false})
            }
        }));
        all
    }
}

/// What stands behind the name of a model in that of its class for a task.
fn class(task: Task) -> &'static str {
    match task {
        Task::Language => "ForCausalLM",
        Task::Text(_) => "ForSequenceClassification",
        Task::Token(_) => "ForTokenClassification",
        Task::Similarity => "Model",
    }
}

/// The names of classes, by number and by name.
fn labels(classes: usize, given: &[String]) -> Result<Map<String, Value>> {
    if !given.is_empty() && given.len() != classes {
        return Err(Error::input("the number of labels", given.len(), classes.to_string()));
    }
    let name = |class: usize| given.get(class).cloned().unwrap_or_else(|| format!("LABEL_{class}"));
    let by_number: Map<String, Value> = (0..classes).map(|i| (i.to_string(), name(i).into())).collect();
    let by_name: Map<String, Value> = (0..classes).map(|i| (name(i), i.into())).collect();
    if by_name.len() != classes {
        return Err(Error::input("the labels", format!("{given:?}"), "a name of its own for each"));
    }
    Ok(map(json!({"id2label": by_number, "label2id": by_name})))
}

/// The name of an activation in a configuration.
fn name(activation: Activation) -> &'static str {
    match activation {
        Activation::Identity => "linear",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_new",
        Activation::Relu => "relu",
        Activation::Silu => "silu",
        Activation::Tanh => "tanh",
    }
}

/// The fields of a JSON object.
fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
