//! MPT: norms of mean and variance before blocks, no biases at all, and ALiBi.

use super::super::fields::Fields;
use super::super::names::Queries;
use super::super::tensors::Named;
use super::super::{Biases, Blueprint, Direction, HeadKind, Names, NormKind, Norms, Output};
use super::gpt::{DECODER, HEADS};
use super::{Family, head, object};
use crate::encoding::{Alibi, Encoding};
use crate::error::Result;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "transformer.",
    words: "transformer.wte",
    layer: "transformer.blocks.",
    queries: Queries::Joined("attn.Wqkv"),
    attended: "attn.out_proj",
    attention_norm: "norm_1",
    up: "ffn.up_proj",
    down: "ffn.down_proj",
    feed_forward_norm: "norm_2",
    last_norm: "transformer.norm_f",
    ..DECODER
};

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::Mpt;
    let width = fields.size("d_model", 2048, 1)?;
    let heads = fields.size("n_heads", 16, 1)?;
    if !width.is_multiple_of(heads) {
        return Err(fields.error("d_model", format!("a multiple of the {heads} heads")));
    }
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let found = || match () {
        () if source.as_ref().is_some_and(Named::is_bare) => HeadKind::None,
        () if has("score.weight") => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () => HeadKind::CausalLm,
    };
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 50_368, 1)?,
        embedding: width,
        width,
        layers: fields.size("n_layers", 24, 0)?,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        // The class takes this whatever `expansion_ratio` says.
        wide: 4 * width,
        scale: scale(fields)?,
        norms: Norms {
            kind: NormKind::LayerWeight,
            epsilon: fields.fraction("layer_norm_epsilon", 1e-5)?,
            at_end: true,
            ..parts.norms
        },
        biases: Biases::all(false),
        direction: Direction::Causal,
        encoding: Encoding::Alibi(Alibi),
        longest: fields.size("max_seq_len", 2048, 1)?,
        output: Output { is_tied: fields.boolean("tie_word_embeddings", true)?, ..parts.output },
        head: head(fields, family, &HEADS)?.unwrap_or_else(found),
        labels: fields.labels()?,
        ends: fields.token_ids("eos_token_id")?,
        ..parts
    })
}

/// What scores are multiplied by, where the file says it; what it says of attention besides must be usual.
fn scale(fields: &Fields) -> Result<Option<f64>> {
    let settings = match fields.get("attn_config") {
        None => return Ok(None),
        Some(Value::Object(settings)) => Fields(settings),
        Some(_) => return Err(fields.error("attn_config", "an object")),
    };
    if settings.get("clip_qkv").is_some_and(|clip| clip.as_f64() != Some(0.0)) {
        return Err(settings.error("clip_qkv", "null: queries, keys and values are not clipped"));
    }
    if settings.get("alibi_bias_max").is_some_and(|most| most.as_f64() != Some(8.0)) {
        return Err(settings.error("alibi_bias_max", "8, as ALiBi has it"));
    }
    match settings.get("softmax_scale") {
        None => Ok(None),
        Some(scale) => match scale.as_f64().filter(|scale| scale.is_finite()) {
            Some(scale) => Ok(Some(scale)),
            None => Err(settings.error("softmax_scale", "a number")),
        },
    }
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    object(json!({
        "layer_norm_epsilon": blueprint.norms.epsilon,
        "max_seq_len": longest,
        "expansion_ratio": 4,
        "no_bias": true,
        "resid_pdrop": dropout,
        "emb_pdrop": dropout,
        "attn_config": {"alibi": true, "softmax_scale": blueprint.scale},
    }))
}
