//! Gemma 2 and Gemma 3: norms before and after each block, whose weights files keep less 1; embeddings times the root of the
//! width; layers with a window, which in Gemma 3 have a rotary embedding of their own. EmbeddingGemma is Gemma 3 read both
//! ways.

use super::super::check::CAPS;
use super::super::fields::Fields;
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, Direction, HeadKind, HeadNorms, Judged, Local, Names, NormKind, NormPlace, Norms,
    Output, rope,
};
use super::{FULL, Family, SLIDING, head, layer_types, llama, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    after: ["post_attention_layernorm", "post_feedforward_layernorm"],
    feed_forward_norm: "pre_feedforward_layernorm",
    ..llama::NAMES
};

/// The heads they come with; Gemma 3 has none for tokens.
const HEADS: [HeadKind; 4] =
    [HeadKind::CausalLm, HeadKind::None, HeadKind::SequenceClassification, HeadKind::TokenClassification];

pub(super) fn read(fields: &Fields, family: Family, weights: Option<&Weights>) -> Result<Blueprint> {
    let is_third = family == Family::Gemma3;
    let width = fields.size("hidden_size", 2304, 1)?;
    let heads = fields.size("num_attention_heads", 8, 1)?;
    let layers = fields.size("num_hidden_layers", 26, 0)?;
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let found = || match () {
        () if source.as_ref().is_some_and(Named::is_bare) => HeadKind::None,
        () if has("score.bias") => HeadKind::TokenClassification,
        () if has("score.weight") => HeadKind::SequenceClassification,
        () => HeadKind::CausalLm,
    };
    // Gemma 2's class caps where the file is silent; Gemma 3's passes over the cap of attention.
    let score_cap = cap(fields, "attn_logit_softcapping", 50.0, is_third)?.filter(|_| !is_third);
    let output_cap = cap(fields, "final_logit_softcapping", 30.0, is_third)?;
    let is_both = fields.boolean("use_bidirectional_attention", false)?;
    // The file says how many tokens the window has in all where it is on both sides.
    let window = match fields.0.get("sliding_window") {
        Some(Value::Null) => None,
        _ => Some(fields.size("sliding_window", 4096, 1)?),
    };
    let window = window.map(|window| if is_both { window / 2 + 1 } else { window });
    let pattern = if is_third { fields.size("sliding_window_pattern", 6, 1)? } else { 2 };
    let are_local = layer_types::read(fields, layers, SLIDING)?;
    let are_local =
        are_local.unwrap_or_else(|| (1..=layers).map(|layer| layer % pattern != 0).collect::<Vec<bool>>());
    if window.is_none() && are_local.contains(&true) {
        return Err(fields.error("sliding_window", "a whole number: there are layers with a window"));
    }
    let (global, local) = match is_third {
        true => {
            let [global, local] = rope::read_both(fields, family, [width, heads])?;
            (global, Some(Encoding::Rotary(Rotary::of(&local))))
        }
        false => (rope::read(fields, family, [width, heads])?, None),
    };
    let scalar = fields.size("query_pre_attn_scalar", 256, 1)?;
    let has_bias = fields.boolean("attention_bias", false)?;
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", if is_third { 262_208 } else { 256_000 }, 1)?,
        embedding: width,
        width,
        layers,
        heads,
        key_heads: fields.size("num_key_value_heads", 4, 1)?,
        head_dim: global.head_dim(),
        wide: fields.size("intermediate_size", 9216, 1)?,
        is_gated: true,
        activation: fields.activation("hidden_activation", "gelu_pytorch_tanh")?,
        scale: (scalar != global.head_dim()).then(|| (scalar as f64).powf(-0.5)),
        score_cap,
        embedding_scale: (width as f64).sqrt(),
        norms: Norms {
            kind: NormKind::RmsLessOne,
            place: NormPlace::Around,
            epsilon: fields.fraction("rms_norm_eps", 1e-6)?,
            at_end: true,
            ..parts.norms
        },
        biases: Biases { queries: has_bias, output: has_bias, wide: false },
        head_norms: if is_third { HeadNorms::Weighted } else { HeadNorms::None },
        direction: if is_both { Direction::Both } else { Direction::Causal },
        encoding: Encoding::Rotary(Rotary::of(&global)),
        local: Some(Local { layers: are_local, window, chunk: None, encoding: local }),
        longest: fields.positions(if is_third { 131_072 } else { 8192 }),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", true)?,
            cap: output_cap,
            ..parts.output
        },
        head: head(fields, family, if is_third { &HEADS[..3] } else { &HEADS })?.unwrap_or_else(found),
        judged: Judged::Last,
        labels: fields.labels()?,
        ends: fields.token_ids("eos_token_id")?,
        ..parts
    })
}

/// A soft cap: a number, or none where the file says null.
fn cap(fields: &Fields, field: &str, usual: f64, is_third: bool) -> Result<Option<f64>> {
    match fields.0.get(field) {
        None => Ok((!is_third).then_some(usual)),
        Some(Value::Null) => Ok(None),
        Some(cap) => match cap.as_f64().filter(|cap| CAPS.contains(cap)) {
            Some(cap) => Ok(Some(cap)),
            None => Err(fields.error(field, "a number from 1e-30 to 1e30, or null")),
        },
    }
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let is_both = !blueprint.is_causal();
    let window = blueprint.local.as_ref().and_then(|local| local.window);
    let window = window.map(|window| if is_both { 2 * (window - 1) } else { window });
    let scalar = blueprint.scale.map_or(blueprint.head_dim as f64, |scale| scale.powi(-2)).round() as u64;
    let mut all = object(json!({
        "hidden_activation": match blueprint.activation.name() {
            "gelu_new" => "gelu_pytorch_tanh",
            other => other,
        },
        "rms_norm_eps": blueprint.norms.epsilon,
        "num_key_value_heads": blueprint.key_heads,
        "head_dim": blueprint.head_dim,
        "query_pre_attn_scalar": scalar,
        "attention_bias": blueprint.biases.queries,
        "attention_dropout": dropout,
        "max_position_embeddings": longest,
        "sliding_window": window,
        "attn_logit_softcapping": blueprint.score_cap,
        "final_logit_softcapping": blueprint.output.cap,
        "use_bidirectional_attention": is_both,
    }));
    all.extend(layer_types::write(blueprint, SLIDING));
    let of = |encoding: &Encoding| match encoding {
        Encoding::Rotary(rotary) => Some(rope::parameters(blueprint.family, rotary, blueprint.head_dim)),
        _ => None,
    };
    let local = blueprint.local.as_ref().and_then(|local| local.encoding.as_ref());
    let parameters = match (of(&blueprint.encoding), local.and_then(of)) {
        (Some(global), Some(local)) => json!({FULL: global, SLIDING: local}),
        (Some(global), None) => global,
        (None, _) => Value::Null,
    };
    all.insert("rope_parameters".into(), parameters);
    all
}
