//! GPT-2, GPT-J and GPT-NeoX: norms of mean and variance before blocks, biases, no gate. GPT-2 has learned positions; the
//! others are rotary, and their attention and feed-forward block stand side by side.

use super::super::fields::Fields;
use super::super::names::{NONE, POSITIONS, Queries};
use super::super::tensors::Named;
use super::super::{Biases, Blueprint, Direction, HeadKind, Names, Norms, Output, rope};
use super::{Family, head, object};
use crate::encoding::{Encoding, Learned, Merge, Rotary};
use crate::error::Result;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const GPT2: Names = Names {
    encoding: &[(POSITIONS, "transformer.wpe.weight")],
    queries: Queries::Joined("attn.c_attn"),
    attended: "attn.c_proj",
    feed_forward_norm: "ln_2",
    up: "mlp.c_fc",
    down: "mlp.c_proj",
    is_transposed: true,
    ..TRANSFORMER
};

pub(super) const GPTJ: Names = Names {
    queries: Queries::Apart(["attn.q_proj", "attn.k_proj", "attn.v_proj"]),
    attended: "attn.out_proj",
    // One norm serves both blocks.
    feed_forward_norm: "ln_1",
    up: "mlp.fc_in",
    down: "mlp.fc_out",
    ..TRANSFORMER
};

/// What GPT-2 and GPT-J call alike.
const TRANSFORMER: Names = Names {
    prefix: "transformer.",
    words: "transformer.wte",
    layer: "transformer.h.",
    attention_norm: "ln_1",
    last_norm: "transformer.ln_f",
    ..DECODER
};

pub(super) const NEOX: Names = Names {
    prefix: "gpt_neox.",
    words: "gpt_neox.embed_in",
    layer: "gpt_neox.layers.",
    queries: Queries::ByHead("attention.query_key_value"),
    attended: "attention.dense",
    attention_norm: "input_layernorm",
    feed_forward_norm: "post_attention_layernorm",
    up: "mlp.dense_h_to_4h",
    down: "mlp.dense_4h_to_h",
    last_norm: "gpt_neox.final_layer_norm",
    output: "embed_out",
    ..DECODER
};

/// What these and MPT call their heads.
pub(super) const DECODER: Names = Names {
    output: "lm_head",
    text: ["", "score"],
    text_has_bias: false,
    token: "classifier",
    question: "qa_outputs",
    ..NONE
};

/// The heads that these and MPT come with; GPT-J has none for tokens.
pub(super) const HEADS: [HeadKind; 5] = [
    HeadKind::CausalLm,
    HeadKind::None,
    HeadKind::SequenceClassification,
    HeadKind::QuestionAnswering,
    HeadKind::TokenClassification,
];

pub(super) fn read(fields: &Fields, family: Family, weights: Option<&Weights>) -> Result<Blueprint> {
    let is_neox = family == Family::GptNeoX;
    let [vocabulary, width, layers, heads] = match family {
        Family::Gpt2 => [50_257, 768, 12, 12],
        Family::GptJ => [50_400, 4096, 28, 16],
        _ => [50_432, 6144, 44, 64],
    };
    refuse(fields, family)?;
    let width = fields.size(family.field("width"), width, 1)?;
    let heads = fields.size(family.field("heads"), heads, 1)?;
    if !width.is_multiple_of(heads) {
        return Err(fields.error(family.field("width"), format!("a multiple of the {heads} heads")));
    }
    let source = weights.map(|weights| Named::new(weights, family.names()));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let found = || match () {
        () if source.as_ref().is_some_and(Named::is_bare) => HeadKind::None,
        () if has("score.weight") => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () => HeadKind::CausalLm,
    };
    let kinds = if family == Family::GptJ { &HEADS[..4] } else { &HEADS[..] };
    let attention_bias = match family {
        Family::Gpt2 => true,
        Family::GptJ => false,
        _ => fields.boolean("attention_bias", true)?,
    };
    let encoding = match family {
        Family::Gpt2 => Encoding::Learned(Learned { merge: Merge::Add, offset: 0 }),
        _ => Encoding::Rotary(Rotary::of(&rope::read(fields, family, [width, heads])?)),
    };
    let (activation, act) =
        if is_neox { ("hidden_act", "gelu") } else { ("activation_function", "gelu_new") };
    let positions =
        fields.size(family.field("positions"), if family == Family::Gpt2 { 1024 } else { 2048 }, 1)?;
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", vocabulary, 1)?,
        embedding: width,
        width,
        layers: fields.size(family.field("layers"), layers, 0)?,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide: fields.size(family.field("inner width"), if is_neox { 24_576 } else { 4 * width }, 1)?,
        activation: fields.activation(activation, act)?,
        is_parallel: family == Family::GptJ || is_neox && fields.boolean("use_parallel_residual", true)?,
        norms: Norms { epsilon: fields.fraction(epsilon(family), 1e-5)?, at_end: true, ..parts.norms },
        biases: Biases { queries: attention_bias, output: attention_bias, wide: true },
        direction: Direction::Causal,
        encoding,
        longest: positions,
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", family == Family::Gpt2)?,
            has_bias: family == Family::GptJ,
            ..parts.output
        },
        head: head(fields, family, kinds)?.unwrap_or_else(found),
        labels: fields.labels()?,
        ends: fields.token_ids("eos_token_id")?,
        ..parts
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields, family: Family) -> Result<()> {
    let settings = [
        ("add_cross_attention", false, "false: attention to another model's output is not supported"),
        ("scale_attn_weights", true, "true: scores are divided by the root of a head's width"),
        ("scale_attn_by_inverse_layer_idx", false, "false: scores are not divided by the layer's number"),
    ];
    for (field, usual, expected) in settings {
        if family == Family::Gpt2 && fields.boolean(field, usual)? != usual {
            return Err(fields.error(field, expected));
        }
    }
    match family == Family::GptJ && fields.0.get("rotary_dim").is_some_and(Value::is_null) {
        true => Err(fields.error("rotary_dim", "how many features of a head turn")),
        false => Ok(()),
    }
}

/// The field of ε.
fn epsilon(family: Family) -> &'static str {
    if family == Family::GptNeoX { "layer_norm_eps" } else { "layer_norm_epsilon" }
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let family = blueprint.family;
    let mut all = Map::new();
    all.insert(epsilon(family).into(), blueprint.norms.epsilon.into());
    all.insert(family.field("positions").into(), longest.into());
    match &blueprint.encoding {
        Encoding::Rotary(rotary) if family == Family::GptNeoX => {
            all.insert(
                "rope_parameters".into(),
                rope::parameters(blueprint.family, rotary, blueprint.head_dim),
            );
        }
        Encoding::Rotary(rotary) if family == Family::GptJ => {
            all.insert("rotary_dim".into(), rotary.rotary_dim.unwrap_or(blueprint.head_dim).into());
        }
        _ => {}
    }
    all.extend(object(match family {
        Family::GptNeoX => json!({
            "hidden_act": blueprint.activation.name(),
            "attention_bias": blueprint.biases.queries,
            "use_parallel_residual": blueprint.is_parallel,
            "hidden_dropout": dropout,
            "attention_dropout": dropout,
        }),
        _ => json!({
            "activation_function": blueprint.activation.name(),
            "resid_pdrop": dropout,
            "embd_pdrop": dropout,
            "attn_pdrop": dropout,
        }),
    }));
    all
}
