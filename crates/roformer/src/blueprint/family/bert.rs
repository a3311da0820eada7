//! BERT and those that have its layers: RoBERTa, XLM-RoBERTa and CamemBERT. Positions are learned; RoBERTa's count from two
//! on, and only tokens that are not padding.

use super::super::fields::Fields;
use super::super::names::{NONE, POSITIONS, Queries};
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, HeadKind, Names, NormKind, NormPlace, Norms, Output, Summary, SummaryOf,
};
use super::{ENCODER_HEADS, Family, head, object};
use crate::encoding::{Encoding, Learned, Merge};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const BERT: Names = Names {
    prefix: "bert.",
    words: "bert.embeddings.word_embeddings",
    types: "bert.embeddings.token_type_embeddings",
    encoding: &[(POSITIONS, "bert.embeddings.position_embeddings.weight")],
    embedding_norm: "bert.embeddings.LayerNorm",
    layer: "bert.encoder.layer.",
    pooler: "bert.pooler.dense",
    transform: ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"],
    output: "cls.predictions.decoder",
    output_bias: "cls.predictions.decoder.bias",
    tied_bias: "cls.predictions.bias",
    text: ["bert.pooler.dense", "classifier"],
    choice: ["bert.pooler.dense", "classifier"],
    // Checkpoints of pre-training carry the other head along.
    unused: &["bert.pooler.", "cls.seq_relationship."],
    ..LAYERS
};

pub(super) const ROBERTA: Names = Names {
    prefix: "roberta.",
    words: "roberta.embeddings.word_embeddings",
    types: "roberta.embeddings.token_type_embeddings",
    encoding: &[(POSITIONS, "roberta.embeddings.position_embeddings.weight")],
    embedding_norm: "roberta.embeddings.LayerNorm",
    layer: "roberta.encoder.layer.",
    pooler: "roberta.pooler.dense",
    transform: ["lm_head.dense", "lm_head.layer_norm"],
    output: "lm_head.decoder",
    output_bias: "lm_head.decoder.bias",
    tied_bias: "lm_head.bias",
    text: ["classifier.dense", "classifier.out_proj"],
    choice: ["roberta.pooler.dense", "classifier"],
    unused: &["roberta.pooler."],
    ..LAYERS
};

/// What both call the parts of a layer, and heads.
const LAYERS: Names = Names {
    queries: Queries::Apart(["attention.self.query", "attention.self.key", "attention.self.value"]),
    attended: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
    text_activation: Some(Activation::Tanh),
    token: "classifier",
    question: "qa_outputs",
    ..NONE
};

pub(super) fn read(fields: &Fields, family: Family, weights: Option<&Weights>) -> Result<Blueprint> {
    let names = family.names();
    refuse(fields)?;
    let width = fields.size("hidden_size", 768, 1)?;
    let heads = fields.size("num_attention_heads", 12, 1)?;
    if !width.is_multiple_of(heads) {
        return Err(fields.error("hidden_size", format!("a multiple of the {heads} heads")));
    }
    let source = weights.map(|weights| Named::new(weights, names));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let has_pooler = has(&format!("{}.weight", names.pooler));
    let found = || match () {
        () if has(names.tied_bias) => HeadKind::MaskedLm,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () if has("classifier.out_proj.weight") => HeadKind::SequenceClassification,
        () if has("classifier.weight") && has_pooler => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () => HeadKind::None,
    };
    let head = head(fields, family, &ENCODER_HEADS)?.unwrap_or_else(found);
    let padding = padding(fields, family)?;
    let offset = padding.map_or(0, |padding| padding as usize + 1);
    let activation = fields.activation("hidden_act", "gelu")?;
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", if family == Family::Roberta { 50_265 } else { 30_522 }, 1)?,
        types: fields.size("type_vocab_size", 2, 1)?,
        embedding: width,
        width,
        layers: fields.size("num_hidden_layers", 12, 0)?,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide: fields.size("intermediate_size", 3072, 1)?,
        activation,
        norms: Norms {
            kind: NormKind::Layer,
            place: NormPlace::After,
            epsilon: fields.fraction("layer_norm_eps", 1e-12)?,
            of_embeddings: true,
            at_end: false,
            skips_first: false,
        },
        biases: Biases::all(true),
        encoding: Encoding::Learned(Learned { merge: Merge::Add, offset }),
        codes_first: true,
        padding,
        longest: fields.positions(512).saturating_sub(offset),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", true)?,
            // RoBERTa's is GELU whatever the layers have.
            transform: Some(if family == Family::Bert { activation } else { Activation::Gelu }),
            has_bias: true,
            transform_has_bias: true,
            transforms_all: false,
            cap: None,
        },
        pooler: pooler(fields, head, has_pooler)?,
        head,
        labels: fields.labels()?,
        summary: Summary { of: SummaryOf::First, has_projection: true, activation: Activation::Tanh },
        ..Blueprint::without_parts(family)
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields) -> Result<()> {
    if fields.boolean("is_decoder", false)? {
        return Err(fields.error("is_decoder", "false: these models are read both ways here"));
    }
    match fields.string("position_embedding_type", "absolute")? {
        "absolute" => Ok(()),
        _ => Err(fields.error("position_embedding_type", "absolute: learned positions")),
    }
}

/// The padding token, where positions do not count it.
fn padding(fields: &Fields, family: Family) -> Result<Option<u32>> {
    if family == Family::Bert {
        return Ok(None);
    }
    let padding = fields.size("pad_token_id", 1, 0)?;
    let most = fields.positions(512);
    if padding + 1 >= most {
        let expected =
            format!("less than {}: positions count from the token after it", most.saturating_sub(1));
        return Err(fields.error("pad_token_id", expected));
    }
    Ok(Some(padding as u32))
}

/// The pooler, where it is not a part of the head.
fn pooler(fields: &Fields, head: HeadKind, has_tensors: bool) -> Result<Option<Activation>> {
    let is_there = has_tensors || fields.boolean("add_pooling_layer", false)?;
    Ok((is_there && head == HeadKind::None).then_some(Activation::Tanh))
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let offset = match &blueprint.encoding {
        Encoding::Learned(learned) => learned.offset,
        _ => 0,
    };
    let mut all = object(json!({
        "hidden_act": blueprint.activation.name(),
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "layer_norm_eps": blueprint.norms.epsilon,
        "type_vocab_size": blueprint.types,
        "max_position_embeddings": longest + offset,
    }));
    // Fields that this project reads, and transformers does not know.
    if blueprint.pooler.is_some() {
        all.insert("add_pooling_layer".into(), true.into());
    }
    all
}
