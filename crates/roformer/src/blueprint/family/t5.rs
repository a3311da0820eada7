//! T5: norms of the mean square before blocks, no biases, scores that nothing divides, and a bias by buckets of distances that
//! the first layer holds and all share. An encoder alone, or with a decoder that attends to what it gives.

use super::super::fields::Fields;
use super::super::names::{BUCKETS, NONE, Queries};
use super::super::tensors::Named;
use super::super::{Biases, Blueprint, Direction, HeadKind, Labels, Names, NormKind, Norms, Output};
use super::{Family, object};
use crate::encoding::{Encoding, T5};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const ENCODER: Names = Names {
    prefix: "transformer.",
    words: "transformer.shared",
    encoding: &[(
        BUCKETS,
        "transformer.encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    )],
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

pub(super) const DECODER: Names = Names {
    encoding: &[(
        BUCKETS,
        "transformer.decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    )],
    layer: "transformer.decoder.block.",
    cross: [
        "layer.1.EncDecAttention.q",
        "layer.1.EncDecAttention.k",
        "layer.1.EncDecAttention.v",
        "layer.1.EncDecAttention.o",
        "layer.1.layer_norm",
    ],
    gate: "layer.2.DenseReluDense.wi_0",
    up: "layer.2.DenseReluDense.wi_1",
    plain_up: "layer.2.DenseReluDense.wi",
    down: "layer.2.DenseReluDense.wo",
    feed_forward_norm: "layer.2.layer_norm",
    last_norm: "transformer.decoder.final_layer_norm",
    output: "transformer.lm_head",
    // Copies of the word embeddings, a bias that the class passes over, and the output where the model has no head.
    unused: &[
        "transformer.encoder.embed_tokens.",
        "transformer.decoder.embed_tokens.",
        "transformer.decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.",
        "transformer.lm_head.",
    ],
    ..ENCODER
};

/// The classes that are read, with their heads; `T5WithLMHeadModel` is what the one before it was called at first.
const CLASSES: [(&str, Family, HeadKind); 5] = [
    ("T5EncoderModel", Family::T5, HeadKind::None),
    ("T5ForTokenClassification", Family::T5, HeadKind::TokenClassification),
    ("T5ForConditionalGeneration", Family::T5Decoder, HeadKind::CausalLm),
    ("T5WithLMHeadModel", Family::T5Decoder, HeadKind::CausalLm),
    ("T5Model", Family::T5Decoder, HeadKind::None),
];

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let (family, head) = class(fields, weights)?;
    let encoder = encoder(fields, if family == Family::T5 { head } else { HeadKind::None })?;
    if family == Family::T5 {
        // The class would run such an encoder as a decoder, and attend to nothing.
        return match fields.boolean("is_decoder", false)? {
            true => Err(fields.error("is_decoder", "false, for an encoder alone")),
            false => Ok(encoder),
        };
    }
    // Older files say by one field whether the output is that of the embeddings and whether it is scaled; newer ones say the
    // second apart, and the tensors say the first.
    let is_tied = fields.boolean("tie_word_embeddings", true)?;
    let is_scaled = fields.boolean("scale_decoder_outputs", is_tied)?;
    let has_output = weights.map(|weights| Named::new(weights, &DECODER).has("transformer.lm_head.weight"));
    let ends = fields.token_ids("eos_token_id")?;
    let start = fields.token_ids("decoder_start_token_id")?;
    let padding = fields.token_ids("pad_token_id")?;
    Ok(Blueprint {
        family,
        layers: fields.size("num_decoder_layers", encoder.layers, 0)?,
        direction: Direction::Causal,
        has_cross_attention: true,
        output: Output { is_tied: has_output.map_or(is_tied, |has| !has), ..encoder.output },
        output_scale: if is_scaled { (encoder.width as f64).powf(-0.5) } else { 1.0 },
        head,
        ends: if fields.0.contains_key("eos_token_id") { ends } else { vec![1] },
        // T5 begins with the padding token where its file names none.
        start: start.first().or(padding.first()).copied().unwrap_or(0),
        encoder: Some(Box::new(Blueprint { labels: Labels::default(), ..encoder.clone() })),
        ..encoder
    })
}

fn encoder(fields: &Fields, head: HeadKind) -> Result<Blueprint> {
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
        head,
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

/// The encoder or the decoder that `architectures` names, and the head; where it names none, those that the tensors have.
fn class(fields: &Fields, weights: Option<&Weights>) -> Result<(Family, HeadKind)> {
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
        let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
        let writes = match &source {
            None => fields.boolean("is_encoder_decoder", true)?,
            Some(source) => source.has("transformer.decoder.final_layer_norm.weight"),
        };
        return Ok(match () {
            () if writes => (Family::T5Decoder, HeadKind::CausalLm),
            () if has("classifier.weight") => (Family::T5, HeadKind::TokenClassification),
            () => (Family::T5, HeadKind::None),
        });
    };
    let found = CLASSES.into_iter().find(|(class, ..)| *class == name);
    found.map(|(_, family, head)| (family, head)).ok_or_else(|| {
        let known = CLASSES.map(|(class, ..)| format!("[\"{class}\"]")).join(", ");
        fields.error("architectures", format!("one of {known}"))
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
        "is_encoder_decoder": blueprint.encoder.is_some(),
        "n_positions": longest,
    }));
    if let Some(encoder) = &blueprint.encoder {
        all.extend(object(json!({
            "num_layers": encoder.layers,
            "scale_decoder_outputs": blueprint.output_scale != 1.0,
            "decoder_start_token_id": blueprint.start,
        })));
    }
    if let Encoding::T5(t5) = &blueprint.encoding {
        all.insert("relative_attention_num_buckets".into(), t5.buckets.into());
        all.insert("relative_attention_max_distance".into(), t5.furthest.into());
    }
    all
}
