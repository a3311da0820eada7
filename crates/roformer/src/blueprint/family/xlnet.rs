//! XLNet as it is fine-tuned: a text is read both ways at once, without memories of earlier ones and without the second
//! stream of its pre-training. Scores have Transformer-XL's encoding and a term by whether two tokens are of one segment.
//! Tensors of attention have an axis for heads.

use super::super::fields::Fields;
use super::super::names::{NONE, Queries};
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, HeadKind, Judged, Names, NormKind, NormPlace, Norms, Output, Summary, SummaryOf,
};
use super::{ENCODER_HEADS, Family, head, object};
use crate::encoding::{Encoding, XlNet};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "transformer.",
    words: "transformer.word_embedding",
    // What stands for a token to be predicted in the second stream.
    carried: "transformer.mask_emb",
    layer: "transformer.layer.",
    queries: Queries::Bare(["rel_attn.q", "rel_attn.k", "rel_attn.v"]),
    attended: "rel_attn.o",
    attention_norm: "rel_attn.layer_norm",
    segments: ["rel_attn.r_s_bias", "rel_attn.seg_embed"],
    up: "ff.layer_1",
    down: "ff.layer_2",
    feed_forward_norm: "ff.layer_norm",
    output: "lm_loss",
    output_bias: "lm_loss.bias",
    tied_bias: "lm_loss.bias",
    text: ["sequence_summary.summary", "logits_proj"],
    token: "classifier",
    question: "qa_outputs",
    choice: ["sequence_summary.summary", "logits_proj"],
    encoding: &[
        ("position.xlnet.#.relative.weight", "transformer.layer.#.rel_attn.r"),
        ("position.xlnet.#.content", "transformer.layer.#.rel_attn.r_w_bias"),
        ("position.xlnet.#.position", "transformer.layer.#.rel_attn.r_r_bias"),
    ],
    by_heads: [
        &["rel_attn.q", "rel_attn.k", "rel_attn.v"],
        &["rel_attn.r"],
        &["rel_attn.o", "rel_attn.r_w_bias", "rel_attn.r_r_bias", "rel_attn.r_s_bias", "rel_attn.seg_embed"],
    ],
    ..NONE
};

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::XlNet;
    let width = fields.size("d_model", 1024, 1)?;
    let heads = fields.size("n_head", 16, 1)?;
    if !width.is_multiple_of(heads) || !width.is_multiple_of(2) {
        let expected = format!("a multiple of the {heads} heads, and of 2: codes are sines and cosines");
        return Err(fields.error("d_model", expected));
    }
    refuse(fields, width / heads)?;
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let found = || match () {
        () if has("lm_loss.bias") => HeadKind::MaskedLm,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () if has("logits_proj.weight") => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () => HeadKind::None,
    };
    let head = head(fields, family, &ENCODER_HEADS)?.unwrap_or_else(found);
    let (judged, summary) = summary(fields, head)?;
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 32_000, 1)?,
        embedding: width,
        width,
        layers: fields.size("n_layer", 24, 1)?,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide: fields.size("d_inner", 4096, 1)?,
        activation: fields.activation("ff_activation", "gelu")?,
        norms: Norms {
            kind: NormKind::Layer,
            place: NormPlace::After,
            epsilon: fields.fraction("layer_norm_eps", 1e-12)?,
            of_embeddings: false,
            at_end: false,
            skips_first: false,
        },
        biases: Biases { wide: true, ..Biases::all(false) },
        has_segment_scores: true,
        encoding: Encoding::XlNet(XlNet { clamp: clamp(fields)? }),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", true)?,
            has_bias: true,
            ..Blueprint::without_parts(family).output
        },
        head,
        judged,
        labels: fields.labels()?,
        summary,
        ..Blueprint::without_parts(family)
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields, head_dim: usize) -> Result<()> {
    if fields.size("d_head", head_dim, 1)? != head_dim {
        return Err(fields.error("d_head", format!("{head_dim}, which follows from d_model and n_head")));
    }
    if fields.string("attn_type", "bi")? != "bi" {
        return Err(fields.error("attn_type", "bi: a text is read both ways"));
    }
    // How much of earlier texts could be remembered: every text is read as the first, so it changes nothing.
    fields.size("mem_len", 0, 0)?;
    if fields.boolean("bi_data", false)? {
        return Err(fields.error("bi_data", "false: no text of a batch is read backwards"));
    }
    if !fields.boolean("untie_r", true)? {
        return Err(fields.error("untie_r", "true: each layer has biases of its own"));
    }
    let class = fields.get("architectures").and_then(|list| list.get(0));
    if class.is_some_and(|class| class == "XLNetForQuestionAnswering") {
        let expected =
            "XLNetForQuestionAnsweringSimple: ends that are scored for each start are not supported";
        return Err(fields.error("architectures", expected));
    }
    Ok(())
}

/// From which distance on all are the same: none where the file has no number of at least 1.
fn clamp(fields: &Fields) -> Result<Option<usize>> {
    match fields.get("clamp_len").and_then(Value::as_i64) {
        Some(..=0) => Ok(None),
        _ => fields.size("clamp_len", 0, 1).map(|size| Some(size).filter(|&size| size > 0)),
    }
}

/// What the heads of texts and of multiple choice read: `summary_type`, `summary_use_proj` and `summary_activation`.
fn summary(fields: &Fields, head: HeadKind) -> Result<(Judged, Summary)> {
    let (judged, of) = match fields.string("summary_type", "last")? {
        // No token is named: the class then takes the last.
        "last" | "cls_index" => (Judged::Last, SummaryOf::Last),
        "first" => (Judged::Token, SummaryOf::First),
        "mean" => (Judged::Mean, SummaryOf::Mean),
        _ => return Err(fields.error("summary_type", "last, first, mean or cls_index")),
    };
    let has_projection = fields.boolean("summary_use_proj", true)?;
    if !has_projection && head == HeadKind::SequenceClassification {
        return Err(fields.error("summary_use_proj", "true, where texts are judged"));
    }
    let is_plain = fields.0.get("summary_activation").is_some_and(|given| given.is_null() || given == "");
    let activation = match is_plain {
        true => Activation::Identity,
        false => fields.activation("summary_activation", "tanh")?,
    };
    Ok((judged, Summary { of, has_projection, activation }))
}

pub(super) fn write(blueprint: &Blueprint, dropout: f64) -> Map<String, Value> {
    let clamp = match &blueprint.encoding {
        Encoding::XlNet(own) => own.clamp,
        _ => None,
    };
    let summary = match blueprint.judged {
        Judged::Token => "first",
        Judged::Mean | Judged::MeanOfFirst => "mean",
        Judged::Last => "last",
    };
    object(json!({
        "d_head": blueprint.head_dim,
        "ff_activation": blueprint.activation.name(),
        "layer_norm_eps": blueprint.norms.epsilon,
        "dropout": dropout,
        "attn_type": "bi",
        "mem_len": null,
        "bi_data": false,
        "untie_r": true,
        "clamp_len": clamp.map_or(json!(-1), |clamp| clamp.into()),
        "summary_type": summary,
        "summary_use_proj": blueprint.summary.has_projection,
        "summary_activation": blueprint.summary.activation.name(),
        "summary_last_dropout": dropout,
    }))
}
