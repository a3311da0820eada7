//! Llama and its relatives: Mistral, Qwen2, Qwen3 and MiniMind.

use super::super::fields::Fields;
use super::super::names::NONE;
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, Dims, Direction, HeadKind, Mixing, Names, NormKind, NormPlace, Norms, Output, Summary,
    rope,
};
use super::{Family, dims_fields, head, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "model.",
    words: "model.embed_tokens",
    layer: "model.layers.",
    queries: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    head_norms: ["self_attn.q_norm", "self_attn.k_norm"],
    attended: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
    feed_forward_norm: "post_attention_layernorm",
    last_norm: "model.norm",
    output: "lm_head",
    text: ["", "score"],
    text_has_bias: false,
    token: "score",
    ..NONE
};

/// The heads they come with.
const HEADS: [HeadKind; 4] =
    [HeadKind::CausalLm, HeadKind::SequenceClassification, HeadKind::TokenClassification, HeadKind::None];

/// What their classes take where a file is silent.
struct Defaults {
    vocabulary: usize,
    width: usize,
    layers: usize,
    heads: usize,
    /// As many as heads where `None`.
    key_heads: Option<usize>,
    wide: usize,
    longest: usize,
    is_tied: bool,
}

#[rustfmt::skip]
fn defaults(family: Family) -> Defaults {
    match family {
        Family::Mistral => Defaults { vocabulary: 32_000, width: 4096, layers: 32, heads: 32, key_heads: Some(8), wide: 14_336, longest: 131_072, is_tied: false },
        Family::Qwen2 | Family::Qwen3 => Defaults { vocabulary: 151_936, width: 4096, layers: 32, heads: 32, key_heads: Some(32), wide: 22_016, longest: 32_768, is_tied: false },
        Family::MiniMind => Defaults { vocabulary: 6400, width: 768, layers: 8, heads: 8, key_heads: Some(4), wide: 2432, longest: 32_768, is_tied: true },
        _ => Defaults { vocabulary: 32_000, width: 4096, layers: 32, heads: 32, key_heads: None, wide: 11_008, longest: 2048, is_tied: false },
    }
}

impl Blueprint {
    /// A Llama of these sizes, whose output is tied.
    pub fn llama(dims: Dims) -> Result<Blueprint> {
        // Three matrices of 8/3 widths have the size of two of four.
        let wide = (8 * dims.width).div_ceil(3).next_multiple_of(32);
        let blueprint = read(&Fields(&dims_fields(dims, wide)), Family::Llama, None)?;
        Ok(Blueprint { output: Output { is_tied: true, ..blueprint.output }, ..blueprint })
    }
}

pub(super) fn read(fields: &Fields, family: Family, weights: Option<&Weights>) -> Result<Blueprint> {
    let defaults = defaults(family);
    refuse(fields, family)?;
    let layers = fields.size("num_hidden_layers", defaults.layers, 0)?;
    let heads = fields.size("num_attention_heads", defaults.heads, 1)?;
    let width = fields.size("hidden_size", defaults.width, 1)?;
    let key_heads = match fields.0.get("num_key_value_heads") {
        None => defaults.key_heads.unwrap_or(heads),
        Some(_) => fields.size("num_key_value_heads", heads, 1)?,
    };
    // A head's width, where it is given, is checked before anything is made of it.
    fields.size("head_dim", 1, 1)?;
    if fields.get("head_dim").is_none() && !width.is_multiple_of(heads) {
        return Err(fields.error("hidden_size", format!("a multiple of the {heads} heads, or a head_dim")));
    }
    let has_bias = family != Family::Qwen2 && fields.boolean("attention_bias", false)?;
    let rope = rope::read(fields, family, [width, heads])?;
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    // Newer MiniMinds norm heads, and their config.json does not say so.
    let has_head_norms = family == Family::Qwen3
        || family == Family::MiniMind && has(&format!("{}.weight", NAMES.of_layer(0, NAMES.head_norms[0])));
    let found = || match () {
        () if source.as_ref().is_some_and(Named::is_bare) => HeadKind::None,
        () if has("score.bias") => HeadKind::TokenClassification,
        () if has("score.weight") => HeadKind::SequenceClassification,
        () => HeadKind::CausalLm,
    };
    Ok(Blueprint {
        family,
        vocabulary: fields.size("vocab_size", defaults.vocabulary, 1)?,
        types: 0,
        embedding: width,
        width,
        layers,
        heads,
        key_heads,
        head_dim: rope.head_dim(),
        wide: fields.size("intermediate_size", defaults.wide, 1)?,
        is_gated: true,
        activation: Activation::Silu,
        norms: Norms {
            kind: NormKind::Rms,
            place: NormPlace::Before,
            epsilon: fields.fraction("rms_norm_eps", 1e-6)?,
            of_embeddings: false,
            at_end: true,
        },
        biases: Biases {
            queries: has_bias || family == Family::Qwen2,
            output: has_bias,
            wide: family == Family::Llama && fields.boolean("mlp_bias", false)?,
        },
        has_head_norms,
        direction: Direction::Causal,
        has_cross_attention: false,
        encoding: Encoding::Rotary(Rotary::of(&rope)),
        codes_first: false,
        padding: None,
        longest: fields.positions(defaults.longest),
        mixing: Mixing::Softmax,
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", defaults.is_tied)?,
            transform: None,
            has_bias: false,
        },
        pooler: None,
        head: head(fields, family, &HEADS)?.unwrap_or_else(found),
        window: window(fields, family, layers)?,
        labels: fields.labels()?,
        summary: Summary::default(),
        ends: fields.token_ids("eos_token_id")?,
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields, family: Family) -> Result<()> {
    if !["silu", "swish"].contains(&fields.string("hidden_act", "silu")?) {
        return Err(fields.error("hidden_act", "silu: the gate of this decoder"));
    }
    if family == Family::MiniMind && fields.boolean("use_moe", false)? {
        return Err(fields.error("use_moe", "false: experts are not supported"));
    }
    Ok(())
}

/// The window of attention, if a layer has one.
fn window(fields: &Fields, family: Family, layers: usize) -> Result<Option<usize>> {
    let has_window = match family {
        Family::Mistral => true,
        Family::Qwen2 | Family::Qwen3 => fields.boolean("use_sliding_window", false)?,
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
    let is_sliding = match family {
        Family::Mistral => true,
        _ if kinds.is_empty() => fields.size("max_window_layers", 28, 0)? < layers,
        _ => kinds.iter().any(|kind| kind == SLIDING),
    };
    Ok(window.filter(|_| is_sliding))
}

/// A layer with a window, in `layer_types`.
const SLIDING: &str = "sliding_attention";

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let mut all = object(json!({
        "hidden_act": "silu",
        "rms_norm_eps": blueprint.norms.epsilon,
        "num_key_value_heads": blueprint.key_heads,
        "head_dim": blueprint.head_dim,
        "attention_dropout": dropout,
        "max_position_embeddings": longest,
    }));
    if let Encoding::Rotary(rotary) = &blueprint.encoding
        && blueprint.has_own_encoding()
    {
        all.extend(rope::write(rotary, blueprint.head_dim, longest));
    }
    let attention_bias = blueprint.biases.output;
    all.extend(object(match blueprint.family {
        // Its class takes a window of 4096 where nothing is said.
        Family::Mistral => json!({"sliding_window": null, "attention_bias": attention_bias}),
        Family::Qwen2 => json!({"use_sliding_window": false}),
        Family::Qwen3 => json!({"attention_bias": attention_bias, "use_sliding_window": false}),
        _ => json!({"attention_bias": attention_bias, "mlp_bias": blueprint.biases.wide}),
    }));
    all
}
