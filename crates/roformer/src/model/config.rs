//! `config.json` of a RoFormer, under Hugging Face's field names and defaults.

use super::heads::HeadKind;
use crate::error::{Error, Result};
use crate::ops::Activation;
use serde_json::{Map, Value};

/// The configuration of a RoFormer.
#[derive(Clone, Debug, PartialEq)]
pub struct RoFormerConfig {
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Width of the embeddings; projected to `hidden_size` where they differ.
    pub embedding_size: usize,
    /// Width of the model.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Attention heads.
    pub num_attention_heads: usize,
    /// Width between the two products of a feed-forward block.
    pub intermediate_size: usize,
    /// Its activation.
    pub hidden_act: Activation,
    /// Segments.
    pub type_vocab_size: usize,
    /// ε of the norms.
    pub layer_norm_eps: f64,
    /// Whether norms divide by the root of the mean square and have no parameters, as RoFormerV2's do (`norm_type`).
    pub rms_norm: bool,
    /// Whether the layers' products have biases; RoFormerV2's have none.
    pub use_bias: bool,
    /// Whether there is a pooler, as in RoFormer-Sim. `config.json` does not say: [`load`](super::RoFormer::load) looks
    /// into the weights.
    pub pooler: bool,
    /// The activation of the pooler: linear in RoFormer-Sim, whose files leave it out; tanh where a decoder leaves it out.
    pub pooler_activation: Activation,
    /// Whether values are rotated as well as queries and keys.
    pub rotary_value: bool,
    /// Whether a token sees only what came before.
    pub is_decoder: bool,
    /// Whether layers also attend to another model's output.
    pub add_cross_attention: bool,
    /// Whether the output of a language model shares the word embeddings.
    pub tie_word_embeddings: bool,
    /// Labels of a classifier.
    pub num_labels: usize,
    /// What its scores mean.
    pub problem: Problem,
    /// Their names (`id2label`), where they have any; see [`label`](Self::label).
    pub labels: Vec<Option<String>>,
    /// What a multiple-choice head reads: `last`, `first` or `mean`.
    pub summary_type: String,
    /// Whether it projects that first.
    pub summary_use_proj: bool,
    /// The activation after that projection.
    pub summary_activation: Activation,
    /// The head that `architectures` names.
    pub architecture: Option<HeadKind>,
}

/// What the scores of a classifier of texts mean (`problem_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A text has one of the labels: softmax.
    OneLabel,
    /// A text has any of them: a probability each. Also for a single label, where the file does not say.
    SeveralLabels,
    /// The scores are what was asked for.
    Regression,
}

/// More than any model has, and little enough that products of two sizes cannot overflow.
pub(super) const MAX_SIZE: u64 = 1 << 24;

/// The object that a `config.json` is.
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>> {
    let wrong = |reason: String| Error::File { path: "config.json".into(), reason };
    let value = rope::config::parse(bytes).map_err(|error| match error {
        rope::Error::Json(reason) => wrong(reason),
        other => wrong(other.to_string()),
    })?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(wrong("not a JSON object".into())),
    }
}

impl RoFormerConfig {
    /// Reads a configuration.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        Fields(&object(bytes)?).read()
    }

    /// Checks the sizes of a configuration that may have been made by hand.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |field: &str, size: usize, expected: String| {
            Err(Error::Config { field: field.into(), value: size.to_string(), expected })
        };
        for (field, size) in [
            ("vocab_size", self.vocab_size),
            ("embedding_size", self.embedding_size),
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("type_vocab_size", self.type_vocab_size),
            ("num_labels", self.num_labels),
        ] {
            if size == 0 || size as u64 > MAX_SIZE {
                return wrong(field, size, format!("a whole number from 1 to {MAX_SIZE}"));
            }
        }
        let heads = self.num_attention_heads;
        if !self.hidden_size.is_multiple_of(heads) || !self.head_dim().is_multiple_of(2) {
            let expected = format!("an even number for each of the {heads} heads");
            return wrong("hidden_size", self.hidden_size, expected);
        }
        Ok(())
    }

    /// About how many numbers the weights of a model are.
    pub(super) fn parameters(&self) -> u128 {
        let [vocabulary, embedding, hidden, wide, layers] = [
            self.vocab_size,
            self.embedding_size,
            self.hidden_size,
            self.intermediate_size,
            self.num_hidden_layers,
        ]
        .map(|size| size as u128);
        let attention = if self.is_decoder && self.add_cross_attention { 8 } else { 4 };
        vocabulary * embedding + layers * hidden * (attention * hidden + 2 * wide)
    }

    /// Whether it reads a text whole and then continues it, token after token, as UniLM does and RoFormer-Sim is trained.
    pub fn is_unilm(&self) -> bool {
        self.pooler && self.pooler_activation == Activation::Identity
    }

    /// Whether it continues a text token after token: a decoder, or RoFormer-Sim.
    pub fn is_generative(&self) -> bool {
        self.is_decoder || self.is_unilm()
    }

    /// The name of a label, `LABEL_0` and so on where there is none.
    pub fn label(&self, label: usize) -> String {
        label_name(&self.labels, label)
    }

    /// The width of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }
}

/// The name of a label, `LABEL_0` and so on where there is none.
pub(super) fn label_name(labels: &[Option<String>], label: usize) -> String {
    let name = labels.get(label).cloned().flatten();
    name.unwrap_or_else(|| format!("LABEL_{label}"))
}

/// The fields of a configuration, with errors that name them.
pub(crate) struct Fields<'a>(pub &'a Map<String, Value>);

impl Fields<'_> {
    fn read(&self) -> Result<RoFormerConfig> {
        let model_type = self.string("model_type", "roformer")?;
        if model_type != "roformer" {
            return Err(self.error("model_type", "\"roformer\""));
        }
        let hidden_size = self.size("hidden_size", 768, 1)?;
        let heads = self.size("num_attention_heads", 12, 1)?;
        let (num_labels, labels) = self.labels()?;
        let is_decoder = self.boolean("is_decoder", false)?;
        let pooler_activation = if is_decoder { "tanh" } else { "linear" };
        let summary_type = self.string("summary_type", "last")?.to_string();
        if !["last", "first", "mean"].contains(&summary_type.as_str()) {
            return Err(self.error("summary_type", "last, first or mean"));
        }
        let architecture = match self.get("architectures") {
            None => None,
            Some(Value::Array(list)) if list.is_empty() => None,
            Some(list) => match list.as_array().and_then(|list| list[0].as_str()) {
                Some(name) => Some(name),
                None => return Err(self.error("architectures", "a list of names")),
            },
        };
        let config = RoFormerConfig {
            vocab_size: self.size("vocab_size", 50_000, 1)?,
            embedding_size: self.size("embedding_size", hidden_size, 1)?,
            hidden_size,
            num_hidden_layers: self.size("num_hidden_layers", 12, 0)?,
            num_attention_heads: heads,
            intermediate_size: self.size("intermediate_size", 3072, 1)?,
            hidden_act: self.activation("hidden_act", "gelu")?,
            type_vocab_size: self.size("type_vocab_size", 2, 1)?,
            layer_norm_eps: self.fraction("layer_norm_eps", 1e-12)?,
            rms_norm: self.rms_norm()?,
            use_bias: self.boolean("use_bias", true)?,
            pooler: false,
            pooler_activation: self.activation("pooler_activation", pooler_activation)?,
            rotary_value: self.boolean("rotary_value", false)?,
            is_decoder,
            add_cross_attention: self.boolean("add_cross_attention", false)?,
            tie_word_embeddings: self.boolean("tie_word_embeddings", true)?,
            num_labels,
            problem: self.problem(num_labels)?,
            labels,
            summary_type,
            summary_use_proj: self.boolean("summary_use_proj", false)?,
            summary_activation: self.activation("summary_activation", "linear")?,
            architecture: architecture.and_then(HeadKind::from_architecture),
        };
        config.check()?;
        Ok(config)
    }

    /// RoFormer_pytorch takes any name but `layer_norm` for the norm without parameters; here it must be a norm's.
    fn rms_norm(&self) -> Result<bool> {
        match self.string("norm_type", "layer_norm")? {
            "layer_norm" => Ok(false),
            name if name.contains("norm") => Ok(true),
            _ => Err(self.error("norm_type", "layer_norm, or rms_norm for RoFormerV2")),
        }
    }

    pub fn problem(&self, num_labels: usize) -> Result<Problem> {
        let default = match num_labels {
            1 => "multi_label_classification",
            _ => "single_label_classification",
        };
        Ok(match self.string("problem_type", default)? {
            "single_label_classification" => Problem::OneLabel,
            "multi_label_classification" => Problem::SeveralLabels,
            "regression" => Problem::Regression,
            _ => {
                let expected = "single_label_classification, multi_label_classification or regression";
                return Err(self.error("problem_type", expected));
            }
        })
    }

    /// How many labels there are, and the names of those that have one.
    pub fn labels(&self) -> Result<(usize, Vec<Option<String>>)> {
        let names = match self.get("id2label") {
            None => return Ok((self.size("num_labels", 2, 1)?, Vec::new())),
            Some(Value::Object(map)) => map,
            Some(_) => return Err(self.error("id2label", "an object: a name for each label")),
        };
        if names.is_empty() {
            return Ok((self.size("num_labels", 2, 1)?, Vec::new()));
        }
        let name = |label: usize| names.get(&label.to_string()).and_then(Value::as_str).map(String::from);
        Ok((names.len(), (0..names.len()).map(name).collect()))
    }

    /// A value, with `null` read as absent.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub fn error(&self, field: &str, expected: impl Into<String>) -> Error {
        let value = self
            .0
            .get(field)
            .map_or("missing".into(), |value| value.to_string().chars().take(60).collect::<String>());
        Error::Config { field: field.into(), value, expected: expected.into() }
    }

    pub fn size(&self, field: &str, default: usize, least: u64) -> Result<usize> {
        let Some(value) = self.get(field) else { return Ok(default) };
        match value.as_u64() {
            Some(size) if (least..=MAX_SIZE).contains(&size) => Ok(size as usize),
            _ => Err(self.error(field, format!("a whole number from {least} to {MAX_SIZE}"))),
        }
    }

    pub fn boolean(&self, field: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(field) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.error(field, "true or false"))
    }

    pub fn string<'a>(&'a self, field: &str, default: &'a str) -> Result<&'a str> {
        let Some(value) = self.get(field) else { return Ok(default) };
        value.as_str().ok_or_else(|| self.error(field, "a string"))
    }

    fn activation(&self, field: &str, default: &str) -> Result<Activation> {
        Activation::from_name(self.string(field, default)?).ok_or_else(|| {
            self.error(field, "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish, tanh or linear")
        })
    }

    /// A number of at least 0 and less than 1.
    pub fn fraction(&self, field: &str, default: f64) -> Result<f64> {
        let Some(value) = self.get(field) else { return Ok(default) };
        match value.as_f64() {
            Some(fraction) if (0.0..1.0).contains(&fraction) => Ok(fraction),
            _ => Err(self.error(field, "a number from 0 to 1")),
        }
    }
}
