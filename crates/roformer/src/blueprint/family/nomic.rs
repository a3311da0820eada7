//! NomicBERT: BERT's layers with a gate, without biases, and rotary embedding. Tensors have the names of its first release,
//! under which transformers saves them.

use super::super::fields::Fields;
use super::super::names::{NONE, Queries};
use super::super::tensors::Named;
use super::super::{Biases, Blueprint, HeadKind, Names, NormKind, NormPlace, Norms, Output, rope};
use super::{Family, head, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "nomic_bert.",
    words: "nomic_bert.embeddings.word_embeddings",
    types: "nomic_bert.embeddings.token_type_embeddings",
    embedding_norm: "nomic_bert.emb_ln",
    layer: "nomic_bert.encoder.layers.",
    queries: Queries::Joined("attn.Wqkv"),
    attended: "attn.out_proj",
    attention_norm: "norm1",
    gate: "mlp.fc12",
    up: "mlp.fc11",
    down: "mlp.fc2",
    feed_forward_norm: "norm2",
    pooler: "nomic_bert.pooler.dense",
    transform: ["cls.predictions.transform.dense", "cls.predictions.transform.layer_norm"],
    output: "cls.predictions.decoder",
    output_bias: "cls.predictions.decoder.bias",
    tied_bias: "cls.predictions.bias",
    text: ["nomic_bert.pooler.dense", "classifier"],
    text_activation: Some(Activation::Tanh),
    token: "classifier",
    unused: &["nomic_bert.pooler."],
    ..NONE
};

/// The heads it comes with.
const HEADS: [HeadKind; 4] =
    [HeadKind::None, HeadKind::MaskedLm, HeadKind::SequenceClassification, HeadKind::TokenClassification];

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::NomicBert;
    let width = fields.size("hidden_size", 768, 1)?;
    let heads = fields.size("num_attention_heads", 12, 1)?;
    fields.size("head_dim", 1, 1)?;
    if fields.get("head_dim").is_none() && !width.is_multiple_of(heads) {
        return Err(fields.error("hidden_size", format!("a multiple of the {heads} heads, or a head_dim")));
    }
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let has_pooler = has(&format!("{}.weight", NAMES.pooler));
    let found = || match () {
        () if has(NAMES.tied_bias) => HeadKind::MaskedLm,
        () if has("classifier.weight") && has_pooler => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () => HeadKind::None,
    };
    let head = head(fields, family, &HEADS)?.unwrap_or_else(found);
    let rope = rope::read(fields, family, [width, heads])?;
    let activation = fields.activation("hidden_act", "silu")?;
    let has_pooler = has_pooler || fields.boolean("add_pooling_layer", false)?;
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 30_528, 1)?,
        types: fields.size("type_vocab_size", 2, 1)?,
        embedding: width,
        width,
        layers: fields.size("num_hidden_layers", 12, 0)?,
        heads,
        key_heads: heads,
        head_dim: rope.head_dim(),
        wide: fields.size("intermediate_size", 3072, 1)?,
        is_gated: true,
        activation,
        norms: Norms {
            kind: NormKind::Layer,
            place: NormPlace::After,
            epsilon: fields.fraction("layer_norm_eps", 1e-12)?,
            of_embeddings: true,
            ..parts.norms
        },
        biases: Biases::all(false),
        encoding: Encoding::Rotary(Rotary::of(&rope)),
        longest: fields.positions(2048),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", true)?,
            transform: Some(activation),
            has_bias: true,
            ..parts.output
        },
        pooler: (has_pooler && head == HeadKind::None).then_some(Activation::Tanh),
        head,
        labels: fields.labels()?,
        ..parts
    })
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let mut all = object(json!({
        "hidden_act": blueprint.activation.name(),
        "head_dim": blueprint.head_dim,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "layer_norm_eps": blueprint.norms.epsilon,
        "type_vocab_size": blueprint.types,
        "max_position_embeddings": longest,
    }));
    if let Encoding::Rotary(rotary) = &blueprint.encoding {
        all.insert("rope_parameters".into(), rope::parameters(blueprint.family, rotary, blueprint.head_dim));
    }
    // A field that this project reads, and transformers does not know.
    if blueprint.pooler.is_some() {
        all.insert("add_pooling_layer".into(), true.into());
    }
    all
}
