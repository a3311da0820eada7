//! ModernBERT: norms before blocks, a gate, no biases; two rotary embeddings, one for layers that see all tokens and one for
//! layers that see a window.

use super::super::fields::Fields;
use super::super::names::{NONE, Queries};
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, HeadKind, Judged, Local, Names, NormKind, NormPlace, Norms, Output, Summary,
    SummaryOf, rope,
};
use super::{ENCODER_HEADS, FULL, Family, SLIDING, head, layer_types, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "model.",
    words: "model.embeddings.tok_embeddings",
    embedding_norm: "model.embeddings.norm",
    layer: "model.layers.",
    queries: Queries::Joined("attn.Wqkv"),
    attended: "attn.Wo",
    attention_norm: "attn_norm",
    gate: "mlp.Wi",
    up: "mlp.Wi",
    down: "mlp.Wo",
    feed_forward_norm: "mlp_norm",
    last_norm: "model.final_norm",
    transform: ["head.dense", "head.norm"],
    output: "decoder",
    output_bias: "decoder.bias",
    tied_bias: "decoder.bias",
    text: ["", "classifier"],
    token: "classifier",
    question: "classifier",
    choice: ["", "classifier"],
    ..NONE
};

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::ModernBert;
    let width = fields.size("hidden_size", 768, 1)?;
    let heads = fields.size("num_attention_heads", 12, 1)?;
    if !width.is_multiple_of(heads) {
        return Err(fields.error("hidden_size", format!("a multiple of the {heads} heads")));
    }
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let found = || match () {
        () if has("decoder.bias") || has("decoder.weight") => HeadKind::MaskedLm,
        () if has("classifier.weight") => HeadKind::SequenceClassification,
        () if has("head.dense.weight") => HeadKind::MaskedLm,
        () => HeadKind::None,
    };
    let layers = fields.size("num_hidden_layers", 22, 0)?;
    let every = fields.size("global_attn_every_n_layers", 3, 1)?;
    let are_local = layer_types::read(fields, layers, SLIDING)?;
    let are_local = are_local.unwrap_or_else(|| (0..layers).map(|layer| layer % every != 0).collect());
    let [global, local] = rope::read_both(fields, family, [width, heads])?.map(|rope| Rotary::of(&rope));
    let judged = match fields.string("classifier_pooling", "cls")? {
        "cls" => Judged::Token,
        "mean" => Judged::Mean,
        _ => return Err(fields.error("classifier_pooling", "cls or mean")),
    };
    let attention_bias = fields.boolean("attention_bias", false)?;
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 50_368, 1)?,
        embedding: width,
        width,
        layers,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide: fields.size("intermediate_size", 1152, 1)?,
        is_gated: true,
        activation: fields.activation("hidden_activation", "gelu")?,
        norms: Norms {
            kind: match fields.boolean("norm_bias", false)? {
                true => NormKind::Layer,
                false => NormKind::LayerWeight,
            },
            place: NormPlace::Before,
            epsilon: fields.fraction("norm_eps", 1e-5)?,
            of_embeddings: true,
            at_end: true,
            skips_first: true,
        },
        biases: Biases {
            queries: attention_bias,
            output: attention_bias,
            wide: fields.boolean("mlp_bias", false)?,
        },
        encoding: Encoding::Rotary(global),
        local: Some(Local {
            layers: are_local,
            // The file says how many tokens the window has in all.
            window: Some(fields.size("local_attention", 128, 0)? / 2 + 1),
            chunk: None,
            encoding: Some(Encoding::Rotary(local)),
        }),
        longest: fields.positions(8192),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", true)?,
            transform: Some(fields.activation("classifier_activation", "gelu")?),
            transform_has_bias: fields.boolean("classifier_bias", false)?,
            transforms_all: true,
            has_bias: fields.boolean("decoder_bias", true)?,
            cap: None,
        },
        head: head(fields, family, &ENCODER_HEADS)?.unwrap_or_else(found),
        judged,
        labels: fields.labels()?,
        summary: Summary {
            of: if judged == Judged::Mean { SummaryOf::MeanReal } else { SummaryOf::FirstReal },
            has_projection: false,
            activation: Activation::Identity,
        },
        ends: Vec::new(),
        ..Blueprint::without_parts(family)
    })
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let window = blueprint.local.as_ref().and_then(|local| local.window).unwrap_or(1);
    let mut all = object(json!({
        "hidden_activation": blueprint.activation.name(),
        "norm_eps": blueprint.norms.epsilon,
        "norm_bias": blueprint.norms.kind == NormKind::Layer,
        "attention_bias": blueprint.biases.queries,
        "mlp_bias": blueprint.biases.wide,
        "local_attention": 2 * (window - 1),
        "classifier_activation": blueprint.output.transform.unwrap_or(Activation::Gelu).name(),
        "classifier_bias": blueprint.output.transform_has_bias,
        "classifier_pooling": if blueprint.judged == Judged::Mean { "mean" } else { "cls" },
        "decoder_bias": blueprint.output.has_bias,
        "attention_dropout": dropout,
        "embedding_dropout": dropout,
        "mlp_dropout": dropout,
        "max_position_embeddings": longest,
        "cls_token_id": null,
        "sep_token_id": null,
    }));
    all.extend(layer_types::write(blueprint, SLIDING));
    if let (Encoding::Rotary(global), Some(Encoding::Rotary(local))) =
        (&blueprint.encoding, blueprint.local.as_ref().and_then(|local| local.encoding.as_ref()))
    {
        let of = |rotary: &Rotary| rope::parameters(blueprint.family, rotary, blueprint.head_dim);
        all.insert("rope_parameters".into(), json!({FULL: of(global), SLIDING: of(local)}));
    }
    all
}
