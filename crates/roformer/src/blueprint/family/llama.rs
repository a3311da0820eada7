//! Llama and its relatives: Mistral, Qwen2, Qwen3, MiniMind, Phi-3, GLM-4, and EuroBERT, which is read both ways.

use super::super::fields::Fields;
use super::super::names::{NONE, Queries};
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, Dims, Direction, HeadKind, HeadNorms, Judged, Local, Names, NormKind, NormPlace,
    Norms, Output, rope,
};
use super::{Family, SLIDING, dims_fields, head, layer_types, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use ::rope::Schedule;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "model.",
    words: "model.embed_tokens",
    layer: "model.layers.",
    queries: Queries::Apart(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
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

pub(super) const PHI3: Names = Names {
    queries: Queries::Joined("self_attn.qkv_proj"),
    gate: "mlp.gate_up_proj",
    up: "mlp.gate_up_proj",
    ..NAMES
};

pub(super) const GLM4: Names = Names {
    after: ["post_self_attn_layernorm", "post_mlp_layernorm"],
    gate: "mlp.gate_up_proj",
    up: "mlp.gate_up_proj",
    ..NAMES
};

pub(super) const EUROBERT: Names = Names {
    output_bias: "lm_head.bias",
    tied_bias: "lm_head.bias",
    text: ["dense", "classifier"],
    text_activation: Some(Activation::Gelu),
    text_has_bias: true,
    token: "classifier",
    ..NAMES
};

/// The heads they come with.
const HEADS: [HeadKind; 4] =
    [HeadKind::CausalLm, HeadKind::SequenceClassification, HeadKind::TokenClassification, HeadKind::None];

/// Those of EuroBERT, which is read both ways.
const EUROBERT_HEADS: [HeadKind; 4] =
    [HeadKind::MaskedLm, HeadKind::SequenceClassification, HeadKind::TokenClassification, HeadKind::None];

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
        Family::Phi3 => Defaults { vocabulary: 32_064, width: 3072, layers: 32, heads: 32, key_heads: None, wide: 8192, longest: 4096, is_tied: false },
        Family::Glm4 => Defaults { vocabulary: 151_552, width: 4096, layers: 40, heads: 32, key_heads: Some(2), wide: 13_696, longest: 131_072, is_tied: false },
        Family::EuroBert => Defaults { vocabulary: 128_256, width: 768, layers: 12, heads: 12, key_heads: None, wide: 3072, longest: 8192, is_tied: false },
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
    let names = family.names();
    let has_bias = match family {
        Family::Qwen2 | Family::Phi3 => false,
        family => fields.boolean("attention_bias", family == Family::Glm4)?,
    };
    let rope = rope::read(fields, family, [width, heads])?;
    let source = weights.map(|weights| Named::new(weights, names));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let is_encoder = family.is_encoder();
    // Newer MiniMinds norm heads, and their config.json does not say so.
    let has_head_norms = family == Family::Qwen3
        || family == Family::MiniMind && has(&format!("{}.weight", NAMES.of_layer(0, NAMES.head_norms[0])));
    let found = || match () {
        () if source.as_ref().is_some_and(Named::is_bare) => HeadKind::None,
        () if has("score.bias") => HeadKind::TokenClassification,
        () if has("score.weight") || has("dense.weight") => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () if is_encoder => HeadKind::MaskedLm,
        () => HeadKind::CausalLm,
    };
    let mlp_bias = matches!(family, Family::Llama | Family::EuroBert) && fields.boolean("mlp_bias", false)?;
    let kinds = if is_encoder { &EUROBERT_HEADS } else { &HEADS };
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", defaults.vocabulary, 1)?,
        embedding: width,
        width,
        layers,
        heads,
        key_heads,
        head_dim: rope.head_dim(),
        wide: fields.size("intermediate_size", defaults.wide, 1)?,
        is_gated: true,
        activation: fields.activation("hidden_act", "silu")?,
        norms: Norms {
            kind: NormKind::Rms,
            place: if family == Family::Glm4 { NormPlace::Around } else { NormPlace::Before },
            epsilon: fields.fraction("rms_norm_eps", epsilon(family))?,
            of_embeddings: false,
            at_end: true,
            skips_first: false,
        },
        biases: Biases {
            queries: has_bias || family == Family::Qwen2,
            output: has_bias && family != Family::Glm4,
            wide: mlp_bias,
        },
        head_norms: if has_head_norms { HeadNorms::Weighted } else { HeadNorms::None },
        direction: if is_encoder { Direction::Both } else { Direction::Causal },
        encoding: Encoding::Rotary(Rotary::of(&rope)),
        longest: fields.positions(defaults.longest),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", defaults.is_tied)?,
            has_bias: family == Family::EuroBert && mlp_bias,
            ..parts.output
        },
        head: head(fields, family, kinds)?.unwrap_or_else(found),
        judged: judged(fields, family)?,
        local: window(fields, family, layers)?,
        labels: fields.labels()?,
        ends: fields.token_ids("eos_token_id")?,
        ..parts
    })
}

/// ε where a file is silent.
fn epsilon(family: Family) -> f64 {
    match family {
        Family::Phi3 | Family::EuroBert => 1e-5,
        Family::Glm4 => 1.5625e-7,
        _ => 1e-6,
    }
}

/// What a classifier of texts reads.
fn judged(fields: &Fields, family: Family) -> Result<Judged> {
    if family != Family::EuroBert {
        return Ok(Judged::Token);
    }
    Ok(match fields.string("classifier_pooling", "late")? {
        "late" => Judged::MeanOfFirst,
        "mean" => Judged::Mean,
        "bos" => Judged::Token,
        _ => return Err(fields.error("classifier_pooling", "late, mean or bos")),
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields, family: Family) -> Result<()> {
    if family == Family::MiniMind && fields.boolean("use_moe", false)? {
        return Err(fields.error("use_moe", "false: experts are not supported"));
    }
    Ok(())
}

/// The layers that see a window, where there are any.
fn window(fields: &Fields, family: Family, layers: usize) -> Result<Option<Local>> {
    let has_window = match family {
        Family::Mistral | Family::Phi3 => true,
        Family::Qwen2 | Family::Qwen3 => fields.boolean("use_sliding_window", false)?,
        _ => false,
    };
    let window = match fields.0.get("sliding_window") {
        Some(Value::Null) => None,
        // The classes take this where the file is silent; Phi-3's none.
        None => Some(4096).filter(|_| family != Family::Phi3),
        Some(_) if has_window => Some(fields.size("sliding_window", 4096, 1)?),
        Some(_) => None,
    };
    let window = window.filter(|_| has_window);
    let kinds = match family {
        Family::Mistral | Family::Phi3 => None,
        _ => layer_types::read(fields, layers, SLIDING)?,
    };
    // Qwen's classes give all layers from this one on a window where the file does not say which.
    let first = if matches!(family, Family::Mistral | Family::Phi3) {
        0
    } else {
        fields.size("max_window_layers", 28, 0)?
    };
    let are_said = kinds.is_some();
    let are_sliding = kinds.unwrap_or_else(|| (0..layers).map(|layer| layer >= first).collect());
    if window.is_none() && are_said && are_sliding.contains(&true) {
        let expected = "full_attention for every layer, or sliding_attention where there is a window";
        return Err(fields.error("layer_types", expected));
    }
    let has_any = are_sliding.contains(&true);
    Ok(window.filter(|_| has_any).map(|window| Local {
        layers: are_sliding,
        window: Some(window),
        chunk: None,
        encoding: None,
    }))
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let mut all = object(json!({
        "hidden_act": blueprint.activation.name(),
        "rms_norm_eps": blueprint.norms.epsilon,
        "num_key_value_heads": blueprint.key_heads,
        "head_dim": blueprint.head_dim,
        "attention_dropout": dropout,
        "max_position_embeddings": longest,
    }));
    if let Encoding::Rotary(rotary) = &blueprint.encoding
        && blueprint.has_own_encoding()
    {
        match blueprint.family {
            Family::Phi3 | Family::Glm4 | Family::EuroBert => {
                if let Schedule::LongRope(longrope) = &rotary.schedule {
                    all.insert("original_max_position_embeddings".into(), longrope.original_length.into());
                }
                all.insert(
                    "rope_parameters".into(),
                    rope::parameters(blueprint.family, rotary, blueprint.head_dim),
                );
            }
            _ => all.extend(rope::write(rotary, blueprint.head_dim, longest)),
        }
    }
    let (attention_bias, local) = (blueprint.biases.output, blueprint.local.as_ref());
    let window = local.and_then(|local| local.window);
    if matches!(blueprint.family, Family::Qwen2 | Family::Qwen3) {
        all.extend(layer_types::write(blueprint, SLIDING));
    }
    all.extend(object(match blueprint.family {
        // Its class takes a window of 4096 where nothing is said.
        Family::Mistral => json!({"sliding_window": window, "attention_bias": attention_bias}),
        Family::Qwen2 => json!({"use_sliding_window": window.is_some(), "sliding_window": window}),
        Family::Qwen3 => {
            json!({
                "attention_bias": attention_bias,
                "use_sliding_window": window.is_some(),
                "sliding_window": window,
            })
        }
        Family::Phi3 => json!({"sliding_window": window}),
        Family::Glm4 => json!({"attention_bias": blueprint.biases.queries}),
        Family::EuroBert => json!({
            "attention_bias": attention_bias,
            "mlp_bias": blueprint.biases.wide,
            "classifier_pooling": match blueprint.judged {
                Judged::MeanOfFirst => "late",
                Judged::Mean => "mean",
                Judged::Token | Judged::Last => "bos",
            },
        }),
        _ => json!({"attention_bias": attention_bias, "mlp_bias": blueprint.biases.wide}),
    }));
    all
}
