//! `config.json` of a decoder, under Hugging Face's field names and each model's defaults.

use super::super::config::{Fields, MAX_SIZE, Problem, label_name, object};
use super::super::heads::HeadKind;
use crate::error::{Error, Result};
use rope::{Axes, Pairing, Rope};
use serde_json::{Map, Value};

/// The configuration of a decoder.
#[derive(Clone, Debug)]
pub struct DecoderConfig {
    /// `llama`, `mistral`, `qwen2`, `qwen3` or `minimind`.
    pub model_type: String,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Width of the model.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and of values; a divisor of the heads of queries, which share them in turn.
    pub num_key_value_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Width of the gate.
    pub intermediate_size: usize,
    /// ε of the norms.
    pub rms_norm_eps: f64,
    /// Whether the products that make queries, keys and values have biases: by `attention_bias`, and always in Qwen2.
    pub attention_bias: bool,
    /// Whether the product after attention has one: by `attention_bias`, but never in Qwen2.
    pub output_bias: bool,
    /// Whether the products of the feed-forward block have biases.
    pub mlp_bias: bool,
    /// Whether each head of queries and keys is normed before it is rotated, as in Qwen3. Newer MiniMinds do it too, and
    /// `config.json` does not say: [`load`](super::Decoder::load) looks into the weights.
    pub head_norms: bool,
    /// Whether the output shares the word embeddings.
    pub tie_word_embeddings: bool,
    /// The head that `architectures` names: a language model's, a classifier's of texts or of tokens, or
    /// [`HeadKind::None`] for the bare model.
    pub architecture: Option<HeadKind>,
    /// Labels of a classifier.
    pub num_labels: usize,
    /// What its scores mean.
    pub problem: Problem,
    /// Their names (`id2label`), where they have any; see [`label`](Self::label).
    pub labels: Vec<Option<String>>,
    /// The tokens that end a text.
    pub eos_token_id: Vec<u32>,
    /// How many tokens, its own among them, a token sees at most (`sliding_window`), where some layer has such a limit. A
    /// text of so many tokens is none the wiser; a longer one is refused.
    pub window: Option<usize>,
    /// The rotation, in halves. Angles are exact; `with_angle_precision(AnglePrecision::F32)` gives transformers' own.
    pub rope: Rope,
}

/// The models, and what their classes take where a file is silent.
struct Family {
    name: &'static str,
    /// What stands before `Model` and `ForCausalLM`.
    class: &'static str,
    vocab_size: usize,
    hidden_size: usize,
    layers: usize,
    heads: usize,
    /// As many as heads where `None`.
    key_heads: Option<usize>,
    wide: usize,
    tied: bool,
}

#[rustfmt::skip]
const FAMILIES: [Family; 5] = [
    Family { name: "llama", class: "Llama", vocab_size: 32_000, hidden_size: 4096, layers: 32, heads: 32, key_heads: None, wide: 11_008, tied: false },
    Family { name: "mistral", class: "Mistral", vocab_size: 32_000, hidden_size: 4096, layers: 32, heads: 32, key_heads: Some(8), wide: 14_336, tied: false },
    Family { name: "qwen2", class: "Qwen2", vocab_size: 151_936, hidden_size: 4096, layers: 32, heads: 32, key_heads: Some(32), wide: 22_016, tied: false },
    Family { name: "qwen3", class: "Qwen3", vocab_size: 151_936, hidden_size: 4096, layers: 32, heads: 32, key_heads: Some(32), wide: 22_016, tied: false },
    Family { name: "minimind", class: "MiniMind", vocab_size: 6400, hidden_size: 768, layers: 8, heads: 8, key_heads: Some(4), wide: 2432, tied: true },
];

impl DecoderConfig {
    /// Reads a configuration. What would change the result and is not supported is an error that names it.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let map = object(bytes)?;
        let fields = Fields(&map);
        let family = family(&fields)?;
        refuse(&fields, family)?;
        let layers = fields.size("num_hidden_layers", family.layers, 0)?;

        let heads = fields.size("num_attention_heads", family.heads, 1)?;
        let hidden_size = fields.size("hidden_size", family.hidden_size, 1)?;
        let key_heads = match map.get("num_key_value_heads") {
            None => family.key_heads.unwrap_or(heads),
            Some(_) => fields.size("num_key_value_heads", heads, 1)?,
        };
        // A head's width, where it is given, is checked before anything is made of it.
        fields.size("head_dim", 1, 1)?;
        if fields.get("head_dim").is_none() && !hidden_size.is_multiple_of(heads) {
            return Err(
                fields.error("hidden_size", format!("a multiple of the {heads} heads, or a head_dim"))
            );
        }
        let has_bias = family.name != "qwen2" && fields.boolean("attention_bias", false)?;
        let (num_labels, labels) = fields.labels()?;
        let rope = rope(map.clone(), [hidden_size, heads])?;
        let config = DecoderConfig {
            model_type: family.name.into(),
            vocab_size: fields.size("vocab_size", family.vocab_size, 1)?,
            hidden_size,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: key_heads,
            head_dim: rope.head_dim(),
            intermediate_size: fields.size("intermediate_size", family.wide, 1)?,
            rms_norm_eps: fields.fraction("rms_norm_eps", 1e-6)?,
            attention_bias: has_bias || family.name == "qwen2",
            output_bias: has_bias,
            mlp_bias: family.name == "llama" && fields.boolean("mlp_bias", false)?,
            head_norms: family.name == "qwen3",
            tie_word_embeddings: fields.boolean("tie_word_embeddings", family.tied)?,
            architecture: architecture(&fields, family)?,
            num_labels,
            problem: fields.problem(num_labels)?,
            labels,
            eos_token_id: ends(&fields)?,
            window: window(&fields, family, layers)?,
            rope,
        };
        config.check()?;
        Ok(config)
    }

    /// Checks the sizes of a configuration that may have been made by hand.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |field: &str, value: String, expected: String| {
            Err(Error::Config { field: field.into(), value, expected })
        };
        let (heads, dim) = (self.num_attention_heads, self.head_dim);
        for (field, size) in [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", dim),
            ("intermediate_size", self.intermediate_size),
            ("num_labels", self.num_labels),
            // Within bounds as those above are, the product of two cannot overflow.
            ("num_attention_heads · head_dim", heads.saturating_mul(dim)),
        ] {
            if size == 0 || size as u64 > MAX_SIZE {
                return wrong(field, size.to_string(), format!("a whole number from 1 to {MAX_SIZE}"));
            }
        }
        if !heads.is_multiple_of(self.num_key_value_heads) {
            let expected = format!("a divisor of num_attention_heads, which is {heads}");
            return wrong("num_key_value_heads", self.num_key_value_heads.to_string(), expected);
        }
        let rope = &self.rope;
        if rope.head_dim() != dim || rope.pairing() != Pairing::Half || *rope.axes() != Axes::One {
            let value = format!("for heads of {}, pairing {}", rope.head_dim(), rope.pairing());
            return wrong("rope", value, format!("one axis, for heads of {dim}, pairing {}", Pairing::Half));
        }
        Ok(())
    }

    /// Numbers of a token's queries.
    pub(super) fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Numbers of a token's keys, and of its values.
    pub(super) fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// The head, [`HeadKind::CausalLm`] where nothing is said.
    pub(in crate::model) fn head(&self) -> HeadKind {
        self.architecture.unwrap_or(HeadKind::CausalLm)
    }

    /// The name of a label, `LABEL_0` and so on where there is none.
    pub fn label(&self, label: usize) -> String {
        label_name(&self.labels, label)
    }

    /// The numbers that the head gives for a token or a text; none without a head.
    pub(super) fn outputs(&self) -> Option<usize> {
        match self.head() {
            HeadKind::None => None,
            HeadKind::SequenceClassification | HeadKind::TokenClassification => Some(self.num_labels),
            _ => Some(self.vocab_size),
        }
    }

    /// About how many numbers the weights of a model are.
    pub(super) fn parameters(&self) -> u128 {
        let [vocabulary, hidden, query, key, wide, layers] = [
            self.vocab_size,
            self.hidden_size,
            self.query_width(),
            self.key_width(),
            self.intermediate_size,
            self.num_hidden_layers,
        ]
        .map(|size| size as u128);
        let outputs = self.outputs().unwrap_or(0) as u128;
        (vocabulary + outputs) * hidden + layers * hidden * (2 * query + 2 * key + 3 * wide)
    }
}

fn family(fields: &Fields) -> Result<&'static Family> {
    let name = fields.string("model_type", "")?;
    FAMILIES.iter().find(|family| family.name == name).ok_or_else(|| {
        let experts =
            if name.contains("moe") || name == "mixtral" { " (experts are not supported)" } else { "" };
        fields.error("model_type", format!("llama, mistral, qwen2, qwen3, minimind or roformer{experts}"))
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields, family: &Family) -> Result<()> {
    if !["silu", "swish"].contains(&fields.string("hidden_act", "silu")?) {
        return Err(fields.error("hidden_act", "silu: the gate of this decoder"));
    }
    if family.name == "minimind" && fields.boolean("use_moe", false)? {
        return Err(fields.error("use_moe", "false: experts are not supported"));
    }
    Ok(())
}

/// The window of attention, if a layer has one.
fn window(fields: &Fields, family: &Family, layers: usize) -> Result<Option<usize>> {
    let has_window = match family.name {
        "mistral" => true,
        "qwen2" | "qwen3" => fields.boolean("use_sliding_window", false)?,
        _ => false,
    };
    let window = match fields.0.get("sliding_window") {
        Some(Value::Null) => None,
        // The classes take this where the file is silent.
        None => Some(4096),
        Some(_) if has_window => Some(fields.size("sliding_window", 4096, 1)?),
        Some(_) => None,
    };
    let window = window.filter(|_| has_window);
    let kinds = fields.get("layer_types").map_or(Some(&[][..]), |list| list.as_array().map(Vec::as_slice));
    let is_known = |kind: &Value| kind == "full_attention" || window.is_some() && kind == SLIDING;
    let Some(kinds) = kinds.filter(|kinds| kinds.iter().all(is_known)) else {
        let expected = "full_attention for every layer, or sliding_attention where there is a window";
        return Err(fields.error("layer_types", expected));
    };
    // Qwen's classes give all layers from this one on a window where the file does not say which.
    let is_sliding = match family.name {
        "mistral" => true,
        _ if kinds.is_empty() => fields.size("max_window_layers", 28, 0)? < layers,
        _ => kinds.iter().any(|kind| kind == SLIDING),
    };
    Ok(window.filter(|_| is_sliding))
}

/// A layer with a window, in `layer_types`.
const SLIDING: &str = "sliding_attention";

/// The rope, from the file and what the class takes where it is silent.
fn rope(mut map: Map<String, Value>, [hidden_size, heads]: [usize; 2]) -> Result<Rope> {
    map.insert("hidden_size".into(), hidden_size.into());
    map.insert("num_attention_heads".into(), heads.into());
    let bytes = Value::Object(map).to_string();
    Ok(Rope::from_hf(bytes.as_bytes())?.only()?.clone())
}

fn architecture(fields: &Fields, family: &Family) -> Result<Option<HeadKind>> {
    let name = match fields.get("architectures") {
        None => return Ok(None),
        Some(Value::Array(list)) if list.is_empty() => return Ok(None),
        Some(list) => list.as_array().and_then(|list| list[0].as_str()),
    };
    match name.and_then(|name| name.strip_prefix(family.class)) {
        Some("ForCausalLM") => Ok(Some(HeadKind::CausalLm)),
        Some("ForSequenceClassification") => Ok(Some(HeadKind::SequenceClassification)),
        Some("ForTokenClassification") => Ok(Some(HeadKind::TokenClassification)),
        Some("Model") => Ok(Some(HeadKind::None)),
        _ => {
            let kinds = ["ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "Model"];
            let known = kinds.map(|kind| format!("[\"{}{kind}\"]", family.class)).join(", ");
            Err(fields.error("architectures", format!("one of {known}")))
        }
    }
}

/// The tokens that end a text: a number or a list of them.
fn ends(fields: &Fields) -> Result<Vec<u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids = match fields.get("eos_token_id") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(id).collect(),
        Some(value) => id(value).map(|id| vec![id]),
    };
    ids.ok_or_else(|| fields.error("eos_token_id", "a token id, or a list of them"))
}
