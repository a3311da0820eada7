//! T5's encoder: norms of the mean square before blocks, no biases, scores that nothing divides, and a bias by buckets of
//! distances that the first layer holds and all share.

use super::super::fields::Fields;
use super::super::names::{NONE, Queries};
use super::super::tensors::Named;
use super::super::{Biases, Blueprint, HeadKind, Names, NormKind, Norms};
use super::{Family, object};
use crate::encoding::{Encoding, T5};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const ENCODER: Names = Names {
    prefix: "transformer.",
    words: "transformer.shared",
    buckets: "transformer.encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    layer: "transformer.encoder.block.",
    queries: Queries::Apart([
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
    ]),
    attended: "layer.0.SelfAttention.o",
    attention_norm: "layer.0.layer_norm",
    gate: "layer.1.DenseReluDense.wi_0",
    up: "layer.1.DenseReluDense.wi_1",
    plain_up: "layer.1.DenseReluDense.wi",
    down: "layer.1.DenseReluDense.wo",
    feed_forward_norm: "layer.1.layer_norm",
    last_norm: "transformer.encoder.final_layer_norm",
    token: "classifier",
    // Copies of the word embeddings; and what writes, in files of which only the encoder is used.
    unused: &["transformer.encoder.embed_tokens.", "transformer.decoder.", "transformer.lm_head."],
    ..NONE
};

/// The classes that are read, with their heads.
const CLASSES: [HeadKind; 2] = [HeadKind::None, HeadKind::TokenClassification];

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::T5;
    let (is_gated, activation) = feed_forward(fields)?;
    let heads = fields.size("num_heads", 8, 1)?;
    let width = fields.size("d_model", 512, 1)?;
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 32_128, 1)?,
        embedding: width,
        width,
        layers: fields.size("num_layers", 6, 0)?,
        heads,
        key_heads: heads,
        head_dim: fields.size("d_kv", 64, 1)?,
        wide: fields.size("d_ff", 2048, 1)?,
        is_gated,
        activation,
        scale: Some(1.0),
        norms: Norms {
            kind: NormKind::Rms,
            epsilon: fields.fraction("layer_norm_epsilon", 1e-6)?,
            at_end: true,
            ..parts.norms
        },
        biases: Biases::all(false),
        encoding: Encoding::T5(T5 {
            buckets: fields.size("relative_attention_num_buckets", 32, 4)?,
            furthest: fields.size("relative_attention_max_distance", 128, 2)?,
            is_scaled: false,
        }),
        longest: fields.size("n_positions", 512, 1)?,
        head: head(fields, weights)?,
        labels: fields.labels()?,
        ..parts
    })
}

/// Whether the feed-forward block is gated, and its activation: `feed_forward_proj` says both, and what files say beside it
/// goes before it.
fn feed_forward(fields: &Fields) -> Result<(bool, Activation)> {
    let form = fields.string("feed_forward_proj", "relu")?;
    let (is_gated, name) = match form.strip_prefix("gated-") {
        // What the class takes "gelu" for, behind a gate alone.
        Some("gelu") => (true, "gelu_new"),
        Some(name) => (true, name),
        None => (false, form),
    };
    if Activation::from_name(name).is_none() {
        let expected = "an activation (relu, gelu, gelu_new, silu), or gated- and one";
        return Err(fields.error("feed_forward_proj", expected));
    }
    Ok((fields.boolean("is_gated_act", is_gated)?, fields.activation("dense_act_fn", name)?))
}

/// The head that `architectures` names; where it names none, the one that the tensors have.
fn head(fields: &Fields, weights: Option<&Weights>) -> Result<HeadKind> {
    let name = match fields.get("architectures") {
        None => None,
        Some(Value::Array(list)) if list.is_empty() => None,
        Some(list) => match list.as_array().and_then(|list| list[0].as_str()) {
            Some(name) => Some(name),
            None => return Err(fields.error("architectures", "a list of names")),
        },
    };
    let Some(name) = name else {
        let source = weights.map(|weights| Named::new(weights, &ENCODER));
        let is_token = source.is_some_and(|source| source.has("classifier.weight"));
        return Ok(if is_token { HeadKind::TokenClassification } else { HeadKind::None });
    };
    CLASSES.into_iter().find(|&kind| Family::T5.class_of(kind) == name).ok_or_else(|| {
        fields.error("architectures", "[\"T5EncoderModel\"] or [\"T5ForTokenClassification\"]")
    })
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let name = blueprint.activation.name();
    let mut all = object(json!({
        "d_kv": blueprint.head_dim,
        "feed_forward_proj": if blueprint.is_gated { format!("gated-{name}") } else { name.into() },
        "dense_act_fn": name,
        "is_gated_act": blueprint.is_gated,
        "layer_norm_epsilon": blueprint.norms.epsilon,
        "dropout_rate": dropout,
        "is_encoder_decoder": false,
        "n_positions": longest,
    }));
    if let Encoding::T5(t5) = &blueprint.encoding {
        all.insert("relative_attention_num_buckets".into(), t5.buckets.into());
        all.insert("relative_attention_max_distance".into(), t5.furthest.into());
    }
    all
}
