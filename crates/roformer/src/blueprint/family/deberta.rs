//! DeBERTa-v2 and v3: BERT's layers with DeBERTa's encoding, embeddings that are normed after their projection, a pooler
//! before classifiers, and in the largest models of v2 a convolution beside the first layer.

use super::super::fields::Fields;
use super::super::names::{NONE, POSITIONS, Queries};
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, Convolution, HeadKind, Names, NormKind, NormPlace, Norms, Output, Summary, SummaryOf,
};
use super::{ENCODER_HEADS, Family, head, object};
use crate::encoding::{Deberta, DebertaTerms, Encoding, Learned, Merge, NoPositions, Projections};
use crate::error::Result;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "deberta.",
    words: "deberta.embeddings.word_embeddings",
    types: "deberta.embeddings.token_type_embeddings",
    embedding_norm: "deberta.embeddings.LayerNorm",
    project: "deberta.embeddings.embed_proj",
    layer: "deberta.encoder.layer.",
    queries: Queries::Apart([
        "attention.self.query_proj",
        "attention.self.key_proj",
        "attention.self.value_proj",
    ]),
    attended: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
    convolution: ["deberta.encoder.conv.conv", "deberta.encoder.conv.LayerNorm"],
    transform: ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"],
    output: "cls.predictions.decoder",
    output_bias: "cls.predictions.decoder.bias",
    tied_bias: "cls.predictions.bias",
    text: ["pooler.dense", "classifier"],
    token: "classifier",
    question: "qa_outputs",
    choice: ["pooler.dense", "classifier"],
    encoding: &[
        (POSITIONS, "deberta.embeddings.position_embeddings.weight"),
        ("position.deberta.weight", "deberta.encoder.rel_embeddings.weight"),
        ("position.deberta.norm.weight", "deberta.encoder.LayerNorm.weight"),
        ("position.deberta.norm.bias", "deberta.encoder.LayerNorm.bias"),
        ("position.deberta.#.key.weight", "deberta.encoder.layer.#.attention.self.pos_key_proj.weight"),
        ("position.deberta.#.key.bias", "deberta.encoder.layer.#.attention.self.pos_key_proj.bias"),
        ("position.deberta.#.query.weight", "deberta.encoder.layer.#.attention.self.pos_query_proj.weight"),
        ("position.deberta.#.query.bias", "deberta.encoder.layer.#.attention.self.pos_query_proj.bias"),
    ],
    // With `"legacy": false` the same head has other names.
    others: &[
        ("cls.predictions.transform.dense.weight", "lm_predictions.lm_head.dense.weight"),
        ("cls.predictions.transform.dense.bias", "lm_predictions.lm_head.dense.bias"),
        ("cls.predictions.transform.LayerNorm.weight", "lm_predictions.lm_head.LayerNorm.weight"),
        ("cls.predictions.transform.LayerNorm.bias", "lm_predictions.lm_head.LayerNorm.bias"),
        (BIAS, NEW_BIAS),
    ],
    // Heads of pre-training; the table and its norm, where no term reads it.
    unused: &[
        "lm_predictions.",
        "mask_predictions.",
        "deberta.encoder.rel_embeddings.",
        "deberta.encoder.LayerNorm.",
    ],
    ..NONE
};

/// The bias of a language model's output, in both forms of its head.
const BIAS: &str = "cls.predictions.bias";
const NEW_BIAS: &str = "lm_predictions.lm_head.bias";

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::DebertaV2;
    let width = fields.size("hidden_size", 1536, 1)?;
    let heads = fields.size("num_attention_heads", 24, 1)?;
    if !width.is_multiple_of(heads) {
        return Err(fields.error("hidden_size", format!("a multiple of the {heads} heads")));
    }
    refuse(fields, [width, width / heads])?;
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let has = |name: &str| source.as_ref().is_some_and(|source| source.has(name));
    let found = || match () {
        () if has(BIAS) => HeadKind::MaskedLm,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () if has("pooler.dense.weight") => HeadKind::SequenceClassification,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        () => HeadKind::None,
    };
    let head = head(fields, family, &ENCODER_HEADS)?.unwrap_or_else(found);
    let embedding = fields.size("embedding_size", width, 1)?;
    let is_legacy = fields.boolean("legacy", true)?;
    if !is_legacy && embedding != width && head == HeadKind::MaskedLm {
        return Err(fields.error("legacy", "true, where embeddings are narrower or wider than the model"));
    }
    // The other head scores by the word embeddings, whatever else is said; and the file may have it unsaid.
    let is_new = !is_legacy || has(NEW_BIAS) && weights.is_none_or(|weights| weights.get(BIAS).is_none());
    let longest = fields.size("max_position_embeddings", 512, 1)?;
    let epsilon = fields.fraction("layer_norm_eps", 1e-7)?;
    let is_relative = fields.boolean("relative_attention", false)?;
    if !is_relative && has("deberta.encoder.rel_embeddings.weight") {
        let expected = "true: the weights have vectors of relative positions";
        return Err(fields.error("relative_attention", expected));
    }
    let (terms, is_absolute) = (terms(fields)?, fields.boolean("position_biased_input", true)?);
    let encoding = match terms.filter(|_| is_relative) {
        Some(terms) => {
            let (reach, furthest) = reach(fields, longest)?;
            let projections = match fields.boolean("share_att_key", false)? {
                true => Projections::Shared,
                false => Projections::Biased,
            };
            let norm = is_normed(fields)?.then_some(epsilon);
            if norm.is_none() && has("deberta.encoder.LayerNorm.weight") {
                let expected = "layer_norm: the weights have a norm of the relative positions";
                return Err(fields.error("norm_rel_ebd", expected));
            }
            let is_mirrored = false;
            Encoding::Deberta(Deberta { reach, furthest, terms, is_mirrored, projections, norm, is_absolute })
        }
        None if is_absolute => Encoding::Learned(Learned { merge: Merge::Add, offset: 0 }),
        None => Encoding::None(NoPositions),
    };
    let activation = fields.activation("hidden_act", "gelu")?;
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 128_100, 1)?,
        types: fields.size("type_vocab_size", 0, 0)?,
        embedding,
        projects_first: true,
        width,
        layers: fields.size("num_hidden_layers", 24, 1)?,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide: fields.size("intermediate_size", 6144, 1)?,
        activation,
        // Scores are divided by what the terms ask for even where nothing is relative.
        scale: terms.filter(|_| !is_relative).map(|terms| scale(terms, width / heads)),
        norms: Norms {
            kind: NormKind::Layer,
            place: NormPlace::After,
            epsilon,
            of_embeddings: true,
            at_end: false,
            skips_first: false,
        },
        biases: Biases::all(true),
        encoding,
        codes_first: true,
        longest,
        convolution: convolution(fields)?,
        output: Output {
            is_tied: is_new || fields.boolean("tie_word_embeddings", true)?,
            transform: Some(activation),
            transform_has_bias: true,
            transforms_all: false,
            has_bias: true,
            cap: None,
        },
        head,
        labels: fields.labels()?,
        summary: Summary {
            of: SummaryOf::First,
            has_projection: true,
            activation: fields.activation("pooler_hidden_act", "gelu")?,
        },
        ..Blueprint::without_parts(family)
    })
}

/// Refuses what the model's class would do and this one does not.
fn refuse(fields: &Fields, [width, head_dim]: [usize; 2]) -> Result<()> {
    for (field, usual) in [("attention_head_size", head_dim), ("pooler_hidden_size", width)] {
        if fields.size(field, usual, 1)? != usual {
            return Err(fields.error(field, format!("{usual}, which follows from hidden_size")));
        }
    }
    Ok(())
}

/// The convolution beside the first layer.
fn convolution(fields: &Fields) -> Result<Option<Convolution>> {
    let kernel = fields.size("conv_kernel_size", 0, 0)?;
    if kernel == 0 {
        return Ok(None);
    }
    if kernel.is_multiple_of(2) {
        return Err(fields.error("conv_kernel_size", "an odd number, or 0 for no convolution"));
    }
    if fields.size("conv_groups", 1, 1)? != 1 {
        return Err(fields.error("conv_groups", "1: convolutions of groups of features are not supported"));
    }
    Ok(Some(Convolution { kernel, activation: fields.activation("conv_act", "tanh")? }))
}

/// Which terms `pos_att_type` names: a list, or names with `|` between them.
fn terms(fields: &Fields) -> Result<Option<DebertaTerms>> {
    let names: Option<Vec<String>> = match fields.get("pos_att_type") {
        None => Some(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|name| name.as_str().map(String::from)).collect(),
        Some(Value::String(names)) => {
            Some(names.to_lowercase().split('|').map(|name| name.trim().to_string()).collect())
        }
        Some(_) => None,
    };
    let known = |name: &String| ["c2p", "p2c"].contains(&name.as_str());
    let Some(names) = names.filter(|names| names.iter().all(known)) else {
        return Err(fields.error("pos_att_type", "a list of c2p and p2c"));
    };
    let has = |name: &str| names.iter().any(|own| own == name);
    Ok(match (has("c2p"), has("p2c")) {
        (true, true) => Some(DebertaTerms::Both),
        (true, false) => Some(DebertaTerms::Queries),
        (false, true) => Some(DebertaTerms::Keys),
        (false, false) => None,
    })
}

/// What scores are multiplied by.
fn scale(terms: DebertaTerms, head_dim: usize) -> f64 {
    let count = if terms == DebertaTerms::Both { 3.0 } else { 2.0 };
    (count * head_dim as f64).sqrt().recip()
}

/// Half of the rows of the table, and the furthest distance where far ones share rows.
fn reach(fields: &Fields, longest: usize) -> Result<(usize, Option<usize>)> {
    // Less than 1 is not given.
    let given = |field: &str| match fields.get(field).and_then(Value::as_i64) {
        Some(..=0) => Ok(None),
        _ => fields.size(field, 0, 1).map(|size| Some(size).filter(|&size| size > 0)),
    };
    let furthest = given("max_relative_positions")?.unwrap_or(longest);
    let Some(buckets) = given("position_buckets")? else { return Ok((furthest, None)) };
    if buckets < 2 || furthest <= buckets / 2 + 1 {
        let expected =
            format!("at least 2, and half of it less than the {furthest} relative positions by more than 1");
        return Err(fields.error("position_buckets", expected));
    }
    Ok((buckets, Some(furthest)))
}

/// Whether the table is normed.
fn is_normed(fields: &Fields) -> Result<bool> {
    let names = fields.string("norm_rel_ebd", "none")?.to_lowercase();
    let mut is_normed = false;
    for name in names.split('|').map(str::trim) {
        match name {
            "layer_norm" => is_normed = true,
            "none" => {}
            _ => return Err(fields.error("norm_rel_ebd", "none or layer_norm")),
        }
    }
    Ok(is_normed)
}

impl Deberta {
    /// Whether it is the encoding of transformers' class, in a model whose norms have this ε.
    pub(super) fn is_released(&self, epsilon: f64) -> bool {
        !self.is_mirrored
            && self.projections != Projections::Own
            && self.norm.is_none_or(|own| own == epsilon)
    }
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let relative = match &blueprint.encoding {
        Encoding::Deberta(own) => Some(own),
        _ => None,
    };
    let named = |terms: DebertaTerms| match terms {
        DebertaTerms::Both => json!(["c2p", "p2c"]),
        DebertaTerms::Queries => json!(["c2p"]),
        DebertaTerms::Keys => json!(["p2c"]),
    };
    // Where nothing is relative, the terms are those that give the factor of scores.
    let is_scaled_by = |terms: &DebertaTerms| blueprint.scale == Some(scale(*terms, blueprint.head_dim));
    let unread = [DebertaTerms::Both, DebertaTerms::Queries].into_iter().find(is_scaled_by);
    let mut all = object(json!({
        "hidden_act": blueprint.activation.name(),
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "layer_norm_eps": blueprint.norms.epsilon,
        "type_vocab_size": blueprint.types,
        "max_position_embeddings": longest,
        "embedding_size": blueprint.embedding,
        "pooler_hidden_act": blueprint.summary.activation.name(),
        "pooler_hidden_size": blueprint.width,
        "pooler_dropout": dropout,
        "legacy": true,
        "relative_attention": relative.is_some(),
        "pos_att_type": relative.map(|own| own.terms).or(unread).map_or(json!([]), named),
        "position_biased_input":
            relative.map_or(matches!(blueprint.encoding, Encoding::Learned(_)), |own| own.is_absolute),
    }));
    if let Some(own) = blueprint.convolution {
        all.insert("conv_kernel_size".into(), own.kernel.into());
        all.insert("conv_act".into(), own.activation.name().into());
    }
    if let Some(own) = relative {
        all.extend(object(json!({
            "share_att_key": own.projections == Projections::Shared,
            "norm_rel_ebd": if own.norm.is_some() { "layer_norm" } else { "none" },
            "position_buckets": own.furthest.map_or(json!(-1), |_| own.reach.into()),
            "max_relative_positions": own.furthest.unwrap_or(own.reach),
        })));
    }
    all
}
