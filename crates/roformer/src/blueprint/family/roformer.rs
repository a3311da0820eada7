//! RoFormer, RoFormerV2 and RoFormer-Sim, as transformers and RoFormer_pytorch save them.

use super::super::fields::Fields;
use super::super::names::{NONE, Queries};
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, Dims, Direction, HeadKind, Names, NormKind, NormPlace, Norms, Output, Summary,
    SummaryOf,
};
use super::{Family, dims_fields, head, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::ops::Activation;
use crate::weights::Weights;
use rope::Rope;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    prefix: "roformer.",
    words: "roformer.embeddings.word_embeddings",
    types: "roformer.embeddings.token_type_embeddings",
    embedding_norm: "roformer.embeddings.LayerNorm",
    project: "roformer.embeddings_project",
    layer: "roformer.encoder.layer.",
    queries: Queries::Apart(["attention.self.query", "attention.self.key", "attention.self.value"]),
    attended: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    cross: [
        "crossattention.self.query",
        "crossattention.self.key",
        "crossattention.self.value",
        "crossattention.output.dense",
        "crossattention.output.LayerNorm",
    ],
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
    pooler: "roformer.pooler.dense",
    transform: ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"],
    output: "cls.predictions.decoder",
    output_bias: "cls.predictions.decoder.bias",
    tied_bias: "cls.predictions.bias",
    text: ["classifier.dense", "classifier.out_proj"],
    token: "classifier",
    question: "qa_outputs",
    choice: ["sequence_summary.summary", "classifier"],
    ..NONE
};

/// Positions that transformers' RoFormer makes a table for; its own default.
const POSITIONS: usize = 1536;

/// The heads it comes with.
const HEADS: [HeadKind; 7] = [
    HeadKind::None,
    HeadKind::MaskedLm,
    HeadKind::CausalLm,
    HeadKind::SequenceClassification,
    HeadKind::TokenClassification,
    HeadKind::QuestionAnswering,
    HeadKind::MultipleChoice,
];

impl Blueprint {
    /// A RoFormer of these sizes, four times as wide inside, that reads both ways.
    pub fn roformer(dims: Dims) -> Result<Blueprint> {
        read(&Fields(&dims_fields(dims, 4 * dims.width)), None)
    }
}

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let width = fields.size("hidden_size", 768, 1)?;
    let heads = fields.size("num_attention_heads", 12, 1)?;
    if !width.is_multiple_of(heads) {
        return Err(fields.error("hidden_size", format!("an even number for each of the {heads} heads")));
    }
    let is_decoder = fields.boolean("is_decoder", false)?;
    let kind = match fields.string("norm_type", "layer_norm")? {
        "layer_norm" => NormKind::Layer,
        // RoFormer_pytorch takes any other name for the norm without parameters; here it must be a norm's.
        name if name.contains("norm") => NormKind::Bare,
        _ => return Err(fields.error("norm_type", "layer_norm, or rms_norm for RoFormerV2")),
    };
    let pooler = pooler(fields, weights, is_decoder)?;
    let direction = match (is_decoder, pooler) {
        // RoFormer-Sim reads a text whole and continues it, whatever its file says.
        (_, Some(Activation::Identity)) => Direction::Prefix,
        (true, _) => Direction::Causal,
        (false, _) => Direction::Both,
    };
    let has_plain_output = kind == NormKind::Bare;
    let activation = fields.activation("hidden_act", "gelu")?;
    let named = head(fields, Family::RoFormer, &HEADS)?;
    let found = || weights.map_or(HeadKind::None, |weights| head_of(weights, has_plain_output));
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 50_000, 1)?,
        types: fields.size("type_vocab_size", 2, 1)?,
        embedding: fields.size("embedding_size", width, 1)?,
        width,
        layers: fields.size("num_hidden_layers", 12, 0)?,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide: fields.size("intermediate_size", 3072, 1)?,
        activation,
        norms: Norms {
            kind,
            place: NormPlace::After,
            epsilon: fields.fraction("layer_norm_eps", 1e-12)?,
            of_embeddings: true,
            at_end: false,
            skips_first: false,
        },
        biases: Biases::all(fields.boolean("use_bias", true)?),
        direction,
        has_cross_attention: fields.boolean("add_cross_attention", false)? && is_decoder,
        encoding: Encoding::Rotary(Rotary {
            values: fields.boolean("rotary_value", false)?,
            ..Rotary::default()
        }),
        longest: fields.positions(POSITIONS),
        output: Output {
            is_tied: fields.boolean("tie_word_embeddings", true)?,
            transform: (!has_plain_output).then_some(activation),
            has_bias: !has_plain_output,
            transform_has_bias: true,
            transforms_all: false,
            cap: None,
        },
        pooler,
        head: named.unwrap_or_else(found),
        labels: fields.labels()?,
        summary: summary(fields)?,
        ..Blueprint::without_parts(Family::RoFormer)
    })
}

/// The activation of the pooler, where there is one. A file says it only where this project wrote it; else the tensors do.
fn pooler(fields: &Fields, weights: Option<&Weights>, is_decoder: bool) -> Result<Option<Activation>> {
    // Linear in RoFormer-Sim, whose files leave it out; tanh where a decoder leaves it out.
    let activation = fields.activation("pooler_activation", if is_decoder { "tanh" } else { "linear" })?;
    let has_tensors =
        weights.is_some_and(|weights| Named::new(weights, &NAMES).has(&format!("{}.weight", NAMES.pooler)));
    let is_said = fields.boolean("add_pooling_layer", false)?;
    Ok((has_tensors || is_said).then_some(activation))
}

/// The head that a file's tensors are for.
fn head_of(weights: &Weights, has_plain_output: bool) -> HeadKind {
    let source = Named::new(weights, &NAMES);
    let has = |name: &str| source.has(name);
    match () {
        () if has(NAMES.tied_bias) => HeadKind::MaskedLm,
        () if has("classifier.out_proj.weight") => HeadKind::SequenceClassification,
        () if has("qa_outputs.weight") => HeadKind::QuestionAnswering,
        () if has("classifier.weight") => HeadKind::TokenClassification,
        // RoFormerV2's output is the word embeddings alone; a bare encoder's have no prefix.
        () if has_plain_output && !source.is_bare() => HeadKind::MaskedLm,
        () => HeadKind::None,
    }
}

/// What a multiple-choice head reads.
fn summary(fields: &Fields) -> Result<Summary> {
    Ok(Summary {
        of: match fields.string("summary_type", "last")? {
            "last" => SummaryOf::Last,
            "first" => SummaryOf::First,
            "mean" => SummaryOf::Mean,
            _ => return Err(fields.error("summary_type", "last, first or mean")),
        },
        has_projection: fields.boolean("summary_use_proj", false)?,
        activation: fields.activation("summary_activation", "linear")?,
    })
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let is_own = blueprint.has_own_encoding();
    let values = is_own && matches!(&blueprint.encoding, Encoding::Rotary(Rotary { values: true, .. }));
    let mut all = object(json!({
        "is_decoder": blueprint.is_causal(),
        "embedding_size": blueprint.embedding,
        "hidden_act": blueprint.activation.name(),
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "layer_norm_eps": blueprint.norms.epsilon,
        "type_vocab_size": blueprint.types,
        "rotary_value": values,
        "max_position_embeddings": if is_own { longest.max(POSITIONS) } else { longest },
    }));
    // Fields of RoFormerV2 and RoFormer-Sim, which transformers does not know.
    if blueprint.norms.kind == NormKind::Bare {
        all.insert("norm_type".into(), "rms_norm".into());
    }
    if !blueprint.biases.wide {
        all.insert("use_bias".into(), false.into());
    }
    if let Some(activation) = blueprint.pooler {
        all.extend(object(json!({"add_pooling_layer": true, "pooler_activation": activation.name()})));
    }
    all
}

/// The table that transformers' RoFormer keeps with its weights, a row per position: sines, then cosines. It makes one
/// itself where there is none, but says so in a way that sounds like a loss.
pub(crate) fn positions_table(blueprint: &Blueprint, longest: usize) -> Result<(Vec<usize>, Vec<f32>)> {
    let (rows, dim) = (longest.max(POSITIONS), blueprint.head_dim);
    let table = Rope::builder(dim).build()?.table::<f32>(0..rows as i64, None)?;
    let (sines, cosines) = (table.sin().chunks(dim / 2), table.cos().chunks(dim / 2));
    let numbers = sines.zip(cosines).flat_map(|(sines, cosines)| sines.iter().chain(cosines)).copied();
    Ok((vec![rows, dim], numbers.collect()))
}
