//! The families of models: one file each, with its `config.json` both ways and its tensor names.
//!
//! A network with another encoding or attention than its family's own is handed over under a `model_type` of its own, such
//! as `roformer-alibi` or `llama-linear`: loaded as the type that it resembles it would run, and be wrong. `own.rs` is
//! about those.

mod bert;
mod deberta;
mod gemma;
mod gpt;
mod layer_types;
mod llama;
mod llama4;
mod modernbert;
mod mpt;
mod nomic;
mod own;
mod plain;
mod roformer;
mod t5;
mod written;
mod xlnet;

pub(super) use layer_types::{FULL, SLIDING};
pub(crate) use roformer::positions_table;

use super::fields::Fields;
use super::{Blueprint, Dims, HeadKind, Names};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::weights::Weights;
use rope::Pairing;
use serde_json::{Map, Value, json};

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// RoFormer, RoFormerV2 and RoFormer-Sim: norms after each sum, segments.
    RoFormer,
    /// BERT: RoFormer's layers, with learned positions.
    Bert,
    /// RoBERTa: BERT whose positions count no padding.
    Roberta,
    /// XLM-RoBERTa: RoBERTa in a hundred languages.
    XlmRoberta,
    /// CamemBERT: RoBERTa in French.
    Camembert,
    /// Llama: norms of the mean square before each block, a gate, a norm at the end.
    Llama,
    /// Llama 4's text part, without experts: layers without positions, layers that see pieces of a text.
    Llama4,
    /// Mistral: Llama without biases.
    Mistral,
    /// Qwen2: Llama with biases of queries, keys and values.
    Qwen2,
    /// Qwen3: Llama with norms of single heads.
    Qwen3,
    /// MiniMind: Llama or, in its newer form, Qwen3, with settings of its own.
    MiniMind,
    /// Phi-3: Llama with queries, keys and values in one tensor, and LongRoPE.
    Phi3,
    /// GLM-4: Llama with norms before and after blocks, and half of a head's features rotated in adjacent pairs.
    Glm4,
    /// Gemma 2: norms before and after blocks, every other layer with a window.
    Gemma2,
    /// Gemma 3, EmbeddingGemma among them: Gemma 2 with norms of heads and two rotary embeddings.
    Gemma3,
    /// GPT-2: norms before blocks, learned positions.
    Gpt2,
    /// GPT-J: attention and feed-forward block side by side, rotary embedding of adjacent pairs.
    GptJ,
    /// GPT-NeoX: the same with a norm for each block, and pairs of halves.
    GptNeoX,
    /// ModernBERT: an encoder with a gate, two rotary embeddings, and layers with a window.
    ModernBert,
    /// NomicBERT: BERT with a gate and rotary embedding.
    NomicBert,
    /// EuroBERT: Llama read both ways.
    EuroBert,
    /// MPT: norms before blocks, ALiBi.
    Mpt,
    /// T5's encoder: norms of the mean square before blocks, no biases, a bias by buckets of distances.
    T5,
    /// T5's decoder, which comes with an encoder and attends to what that gives; it shares its `config.json`.
    T5Decoder,
    /// DeBERTa-v2 and v3: BERT's layers with scores of content and distance.
    DebertaV2,
    /// XLNet: BERT's layers with Transformer-XL's encoding, and segments that scores compare.
    XlNet,
    /// PyTorch's `TransformerEncoder` with norms first, GELU and biases, which comparisons train; no `config.json` names it.
    Plain,
}

impl Family {
    /// Those that a `config.json` can name.
    pub(super) const NAMED: [Family; 25] = [
        Family::RoFormer,
        Family::Bert,
        Family::Roberta,
        Family::XlmRoberta,
        Family::Camembert,
        Family::Llama,
        Family::Llama4,
        Family::Mistral,
        Family::Qwen2,
        Family::Qwen3,
        Family::MiniMind,
        Family::Phi3,
        Family::Glm4,
        Family::Gemma2,
        Family::Gemma3,
        Family::Gpt2,
        Family::GptJ,
        Family::GptNeoX,
        Family::ModernBert,
        Family::NomicBert,
        Family::EuroBert,
        Family::Mpt,
        Family::T5,
        Family::DebertaV2,
        Family::XlNet,
    ];

    /// Its `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Family::RoFormer => "roformer",
            Family::Bert => "bert",
            Family::Roberta => "roberta",
            Family::XlmRoberta => "xlm-roberta",
            Family::Camembert => "camembert",
            Family::Llama => "llama",
            Family::Llama4 => "llama4_text",
            Family::Mistral => "mistral",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
            Family::MiniMind => "minimind",
            Family::Phi3 => "phi3",
            Family::Glm4 => "glm4",
            Family::Gemma2 => "gemma2",
            Family::Gemma3 => "gemma3_text",
            Family::Gpt2 => "gpt2",
            Family::GptJ => "gptj",
            Family::GptNeoX => "gpt_neox",
            Family::ModernBert => "modernbert",
            Family::NomicBert => "nomic_bert",
            Family::EuroBert => "eurobert",
            Family::Mpt => "mpt",
            Family::T5 | Family::T5Decoder => "t5",
            Family::DebertaV2 => "deberta-v2",
            Family::XlNet => "xlnet",
            Family::Plain => "plain",
        }
    }

    /// What stands before `Model` and `ForCausalLM` in the names of its classes.
    pub fn class(self) -> &'static str {
        match self {
            Family::RoFormer => "RoFormer",
            Family::Bert => "Bert",
            Family::Roberta => "Roberta",
            Family::XlmRoberta => "XLMRoberta",
            Family::Camembert => "Camembert",
            Family::Llama => "Llama",
            Family::Llama4 => "Llama4Text",
            Family::Mistral => "Mistral",
            Family::Qwen2 => "Qwen2",
            Family::Qwen3 => "Qwen3",
            Family::MiniMind => "MiniMind",
            Family::Phi3 => "Phi3",
            Family::Glm4 => "Glm4",
            Family::Gemma2 => "Gemma2",
            Family::Gemma3 => "Gemma3Text",
            Family::Gpt2 => "GPT2",
            Family::GptJ => "GPTJ",
            Family::GptNeoX => "GPTNeoX",
            Family::ModernBert => "ModernBert",
            Family::NomicBert => "NomicBert",
            Family::EuroBert => "EuroBert",
            Family::Mpt => "Mpt",
            Family::T5 | Family::T5Decoder => "T5",
            Family::DebertaV2 => "DebertaV2",
            Family::XlNet => "XLNet",
            Family::Plain => "Plain",
        }
    }

    /// The class that has a head.
    pub(crate) fn class_of(self, head: HeadKind) -> String {
        match (self, head) {
            (Family::Gpt2, HeadKind::CausalLm) => "GPT2LMHeadModel".into(),
            (Family::XlNet, HeadKind::MaskedLm) => "XLNetLMHeadModel".into(),
            (Family::XlNet, HeadKind::QuestionAnswering) => "XLNetForQuestionAnsweringSimple".into(),
            (Family::Gemma3, HeadKind::CausalLm) => "Gemma3ForCausalLM".into(),
            (Family::Llama4, HeadKind::CausalLm) => "Llama4ForCausalLM".into(),
            (Family::T5, HeadKind::None) => "T5EncoderModel".into(),
            (Family::T5Decoder, HeadKind::CausalLm) => "T5ForConditionalGeneration".into(),
            _ => format!("{}{}", self.class(), head.class()),
        }
    }

    /// Which features of a head form pairs, where it is rotary.
    pub(super) fn pairing(self) -> Pairing {
        match self {
            Family::RoFormer | Family::GptJ | Family::Glm4 | Family::Llama4 | Family::Plain => {
                Pairing::Interleaved
            }
            _ => Pairing::Half,
        }
    }

    /// The field of a `config.json` that says the dropout, and what it is where the file is silent.
    pub(crate) fn dropout(self) -> (&'static str, f64) {
        match self {
            Family::NomicBert => ("hidden_dropout_prob", 0.0),
            Family::RoFormer | Family::DebertaV2 => ("hidden_dropout_prob", 0.1),
            family if family.is_bert() => ("hidden_dropout_prob", 0.1),
            Family::Gpt2 => ("resid_pdrop", 0.1),
            Family::GptJ | Family::Mpt => ("resid_pdrop", 0.0),
            Family::T5 | Family::T5Decoder => ("dropout_rate", 0.1),
            Family::XlNet => ("dropout", 0.1),
            _ => ("attention_dropout", 0.0),
        }
    }

    /// Whether its models are encoders, made to be read both ways.
    pub fn is_encoder(self) -> bool {
        use Family::{DebertaV2, EuroBert, ModernBert, NomicBert, RoFormer, T5, XlNet};
        self.is_bert()
            || matches!(self, RoFormer | ModernBert | NomicBert | EuroBert | DebertaV2 | T5 | XlNet)
    }

    /// Whether it is BERT or one of those that have its layers.
    pub(crate) fn is_bert(self) -> bool {
        matches!(self, Family::Bert | Family::Roberta | Family::XlmRoberta | Family::Camembert)
    }

    /// What it calls its tensors.
    pub(crate) fn names(self) -> &'static Names {
        match self {
            Family::RoFormer => &roformer::NAMES,
            Family::Bert => &bert::BERT,
            Family::Roberta | Family::XlmRoberta | Family::Camembert => &bert::ROBERTA,
            Family::Plain => &plain::NAMES,
            Family::Gpt2 => &gpt::GPT2,
            Family::GptJ => &gpt::GPTJ,
            Family::GptNeoX => &gpt::NEOX,
            Family::ModernBert => &modernbert::NAMES,
            Family::NomicBert => &nomic::NAMES,
            Family::Gemma2 | Family::Gemma3 => &gemma::NAMES,
            Family::Llama4 => &llama4::NAMES,
            Family::Phi3 => &llama::PHI3,
            Family::Glm4 => &llama::GLM4,
            Family::EuroBert => &llama::EUROBERT,
            Family::Mpt => &mpt::NAMES,
            Family::T5 => &t5::ENCODER,
            Family::T5Decoder => &t5::DECODER,
            Family::DebertaV2 => &deberta::NAMES,
            Family::XlNet => &xlnet::NAMES,
            Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3 | Family::MiniMind => {
                &llama::NAMES
            }
        }
    }

    /// The field of a `config.json` that says a size.
    pub(super) fn field(self, part: &str) -> &'static str {
        if matches!(self, Family::Gpt2 | Family::GptJ) {
            match part {
                "width" => return "n_embd",
                "layers" => return "n_layer",
                "heads" => return "n_head",
                "inner width" => return "n_inner",
                "positions" => return "n_positions",
                _ => {}
            }
        }
        if self == Family::Mpt {
            match part {
                "width" => return "d_model",
                "layers" => return "n_layers",
                "heads" => return "n_heads",
                "positions" => return "max_seq_len",
                _ => {}
            }
        }
        if matches!(self, Family::T5 | Family::T5Decoder) {
            match part {
                "width" => return "d_model",
                "layers" if self == Family::T5Decoder => return "num_decoder_layers",
                "layers" => return "num_layers",
                "heads" => return "num_heads",
                "head width" => return "d_kv",
                "inner width" => return "d_ff",
                "positions" => return "n_positions",
                "query width" => return "num_heads · d_kv",
                _ => {}
            }
        }
        if self == Family::XlNet {
            match part {
                "width" => return "d_model",
                "layers" => return "n_layer",
                "heads" => return "n_head",
                "head width" => return "d_head",
                "inner width" => return "d_inner",
                "query width" => return "n_head · d_head",
                _ => {}
            }
        }
        match part {
            "inner width" if self == Family::Llama4 => "intermediate_size_mlp",
            "vocabulary" => "vocab_size",
            "layers" => "num_hidden_layers",
            "positions" => "max_position_embeddings",
            "embedding" => "embedding_size",
            "width" => "hidden_size",
            "heads" => "num_attention_heads",
            "key heads" => "num_key_value_heads",
            "head width" => "head_dim",
            "inner width" => "intermediate_size",
            "labels" => "num_labels",
            _ => "num_attention_heads · head_dim",
        }
    }
}

/// What a `config.json` says of weights in 8 bits with a scale for each row, under `quant_method` of its `quantization_config`.
pub const QUANTISED: &str = "roformer_int8";

/// The blueprint of a `config.json`, and of the weights beside it for what the file does not say.
pub(super) fn read(mut map: Map<String, Value>, weights: Option<&Weights>) -> Result<Blueprint> {
    let own = own::take(&mut map)?;
    let fields = Fields(&map);
    if let Some(quantised) = map.get("quantization_config").filter(|value| !value.is_null())
        && quantised.get("quant_method").and_then(Value::as_str) != Some(QUANTISED)
    {
        let expected =
            format!("none, or the quant_method {QUANTISED}: other weights of fewer bits cannot be read");
        return Err(fields.error("quantization_config", expected));
    }
    let name = fields.string("model_type", "roformer")?;
    let family = Family::NAMED.into_iter().find(|family| family.model_type() == name).ok_or_else(|| {
        let why = match name {
            "llama4" => " (of Llama 4 the text part alone is run, without experts)",
            name if name.contains("moe") || name == "mixtral" => " (experts are not supported)",
            _ => "",
        };
        let known = Family::NAMED.map(Family::model_type).join(", ");
        fields.error("model_type", format!("one of {known}{why}"))
    })?;
    if fields.get("per_layer_config").is_some_and(|own| *own != json!({})) {
        return Err(fields.error("per_layer_config", "none: layers have no settings of their own"));
    }
    let blueprint = match family {
        Family::RoFormer => roformer::read(&fields, weights)?,
        Family::Bert | Family::Roberta | Family::XlmRoberta | Family::Camembert => {
            bert::read(&fields, family, weights)?
        }
        Family::ModernBert => modernbert::read(&fields, weights)?,
        Family::NomicBert => nomic::read(&fields, weights)?,
        Family::Mpt => mpt::read(&fields, weights)?,
        Family::DebertaV2 => deberta::read(&fields, weights)?,
        Family::XlNet => xlnet::read(&fields, weights)?,
        Family::Gpt2 | Family::GptJ | Family::GptNeoX => gpt::read(&fields, family, weights)?,
        Family::Gemma2 | Family::Gemma3 => gemma::read(&fields, family, weights)?,
        Family::Llama4 => llama4::read(&fields, weights)?,
        Family::T5 => t5::read(&fields, weights)?,
        _ => llama::read(&fields, family, weights)?,
    };
    let blueprint = own.apply(blueprint)?;
    let is_own = family == Family::RoFormer && matches!(blueprint.encoding, Encoding::Rotary(_));
    if is_own && !blueprint.head_dim.is_multiple_of(2) {
        let expected = format!("an even number for each of the {} heads", blueprint.heads);
        return Err(fields.error("hidden_size", expected));
    }
    if is_own && blueprint.head_dim > MOST_TURNING {
        let expected = format!("a head_dim of at most {MOST_TURNING}, where it is {}", blueprint.head_dim);
        return Err(fields.error("hidden_size", expected));
    }
    Ok(blueprint)
}

/// The heads that most encoders come with.
const ENCODER_HEADS: [HeadKind; 6] = [
    HeadKind::None,
    HeadKind::MaskedLm,
    HeadKind::SequenceClassification,
    HeadKind::TokenClassification,
    HeadKind::QuestionAnswering,
    HeadKind::MultipleChoice,
];

/// The most features of a head that can be rotated.
const MOST_TURNING: usize = 8192;

/// The fields that say these sizes.
fn dims_fields(dims: Dims, wide: usize) -> Map<String, Value> {
    object(json!({
        "vocab_size": dims.vocabulary,
        "hidden_size": dims.width,
        "num_hidden_layers": dims.layers,
        "num_attention_heads": dims.heads,
        "intermediate_size": wide,
    }))
}

/// The head that `architectures` names, where it names any.
fn head(fields: &Fields, family: Family, kinds: &[HeadKind]) -> Result<Option<HeadKind>> {
    let name = match fields.get("architectures") {
        None => return Ok(None),
        Some(Value::Array(list)) if list.is_empty() => return Ok(None),
        Some(list) => list.as_array().and_then(|list| list[0].as_str()),
    };
    let Some(name) = name else { return Err(fields.error("architectures", "a list of names")) };
    match kinds.iter().find(|&&kind| family.class_of(kind) == name) {
        Some(&kind) => Ok(Some(kind)),
        // A class of another family: its tensors may have the same names, and would give other numbers.
        None if is_of_another(family, name) => {
            let expected = format!("a class of {}, as model_type says", family.model_type());
            Err(fields.error("architectures", expected))
        }
        // Heads that RoFormer has elsewhere (pre-training, say) stand on layers that are the same.
        None if family.is_encoder() => Ok(None),
        None => {
            let known: Vec<String> =
                kinds.iter().map(|&kind| format!("[\"{}\"]", family.class_of(kind))).collect();
            Err(fields.error("architectures", format!("one of {}", known.join(", "))))
        }
    }
}

/// Whether the name of a class is that of another family's.
fn is_of_another(family: Family, name: &str) -> bool {
    let is_class = |family: Family| HeadKind::CLASSES.iter().any(|&(kind, _)| family.class_of(kind) == name);
    !name.starts_with(family.class()) && Family::NAMED.into_iter().any(is_class)
}

/// The fields of a JSON object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
