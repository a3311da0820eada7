//! `roformer info`: what a model's folder holds, from its config.json and the headers of its weights. No weight is read.

mod page;
mod sentence;

use crate::convert::{Cost, is_left_out, read};
use crate::error::{Failure, Outcome};
use crate::input;
use crate::model;
use clap::{Args, ValueEnum};
use roformer::blueprint::{Blueprint, Family, HeadKind, Mixing, Nearest};
use roformer::encoding::{Encoding, Rotary};
use roformer::ops::Precision;
use roformer::sentence::Recipe;
use roformer::weights::recorded_pairing;
use roformer::weights::{self, Weights};
use rope::{HfConfig, HfLayer, HfOptions, Pairing};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Say what a model's folder holds
///
/// Its head and sizes, its rotary embedding, and the number, types and bytes of its parameters: the tensors that the model
/// uses, without position tables and second copies of tied tensors. For models other than RoFormer, what config.json and
/// the weights say. Of a folder of sentence-transformers, what is done with a text: pooling and the modules after it, prompts,
/// how vectors are compared, and the longest text.
///
/// With --dtype it also loads the model, and says what that type costs: the cosine between vectors of texts made with it and in f32.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer info junnyu/roformer_chinese_base\n  roformer info DIR --json\n  roformer info DIR --dtype int8 --input texts.txt"
)]
pub struct Arguments {
    /// A folder with a config.json and, if there are any, weights; or a name on the hub
    #[arg(value_name = "MODEL")]
    model: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Say what this type costs on the CPU
    #[arg(long, value_enum)]
    dtype: Option<Narrow>,
    /// With --dtype: a file with a text per line to compare on [default: texts of random tokens]
    #[arg(long, value_name = "FILE", requires = "dtype")]
    input: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Narrow {
    Bf16,
    Int8,
}

pub fn run(arguments: Arguments) -> Outcome {
    let folder = model::find(&arguments.model, None)?;
    let mut facts = facts(&folder)?;
    if let Some(dtype) = arguments.dtype {
        let precision = match dtype {
            Narrow::Bf16 => Precision::Bf16,
            Narrow::Int8 => Precision::Int8,
        };
        let texts = arguments.input.map(|file| read(&folder, &file)).transpose()?;
        let cost = Cost::measure((&folder, &folder), precision, texts)?;
        facts.insert("cost".into(), cost.json());
    }
    let facts = Value::Object(facts);
    let mut out = crate::terminal::stdout();
    match arguments.json {
        true => writeln!(out, "{facts}")?,
        false => page::print(&mut out, &facts)?,
    }
    Ok(())
}

/// What is left out of a checkpoint of TensorFlow.
pub const OF_TRAINING: &str = "an optimizer's numbers, step counts, the head for the next text";

/// The fields of a configuration that are reported, under their own names.
const FIELDS: [&str; 19] = [
    "model_type",
    "num_hidden_layers",
    "num_encoder_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "hidden_act",
    "vocab_size",
    "embedding_size",
    "type_vocab_size",
    "max_position_embeddings",
    "rotary_value",
    "is_decoder",
    "add_cross_attention",
    "tie_word_embeddings",
    "position_encoding",
    "attention",
];

/// The stable interface: one object, with null for what is not known.
fn facts(folder: &Path) -> Result<Map<String, Value>, Failure> {
    let mut warnings = Vec::new();
    let recipe = Recipe::read(folder).unwrap_or_else(|error| {
        warnings.push(format!("cannot be run here: {error}"));
        Recipe { transformer: folder.to_owned(), ..Recipe::default() }
    });
    let folder = &recipe.transformer;
    let bytes = input::config(folder)?;
    let fail =
        |message: String| Failure::Input(format!("{}: {message}", folder.join("config.json").display()));
    let config: Value = rope::config::parse(&bytes).map_err(|error| fail(error.to_string()))?;
    if !config.is_object() {
        return Err(fail("not a JSON object".into()));
    }
    let weights = match Weights::of_model(folder) {
        Ok(weights) => Some(weights),
        Err(error @ weights::Error::NoWeights { .. }) => {
            warnings.push(error.to_string());
            None
        }
        Err(error) => return Err(error.into()),
    };
    let permuted = weights.as_ref().and_then(|weights| recorded_pairing(weights.path()));
    if let Some(pairing) = permuted {
        warnings.push(format!("queries and keys have been permuted for the pairing {pairing}"));
    }
    let blueprint = Blueprint::read(&bytes, weights.as_ref());
    let checked = match (&blueprint, &weights) {
        (Ok(blueprint), Some(weights)) => blueprint.check_weights(weights).err(),
        _ => None,
    };
    for error in blueprint.as_ref().err().into_iter().chain(&checked) {
        warnings.push(format!("cannot be run here: {error}"));
    }
    let is_unknown = blueprint
        .as_ref()
        .is_err_and(|error| matches!(error, roformer::Error::Config { field, .. } if field == "model_type"));
    if let (true, Some(weights)) = (is_unknown, &weights) {
        warnings.extend(Nearest::find(&bytes, weights).map(|nearest| nearest.to_string()));
    }
    let blueprint = blueprint.ok();
    if let Some(blueprint) = &blueprint {
        warnings.extend(blueprint.unknown_keys(&bytes)?.map(|unknown| unknown.to_string()));
    }

    let read = HfConfig::read(&bytes, &HfOptions::default());
    // A model that does more than text has the sizes of its text part in an object of their own.
    let section = read.as_ref().ok().and_then(|read| read.section.as_deref());
    let section = section.map_or(&config, |path| path.split('.').fold(&config, |value, key| &value[key]));
    let mut facts: Map<String, Value> =
        FIELDS.iter().map(|&field| (field.to_string(), section[field].clone())).collect();
    facts.insert("architecture".into(), config["architectures"][0].clone());
    facts.insert("head".into(), Value::Null);
    facts.insert("positions".into(), Value::Null);
    if let Some(blueprint) = &blueprint {
        facts.extend(sizes(blueprint));
        // XLNet's file says nothing of it.
        facts.insert("positions".into(), json!(Some(blueprint.longest).filter(|&longest| longest > 1)));
        for (field, value) in
            [("hidden_act", blueprint.activation.name()), ("model_type", blueprint.family.model_type())]
        {
            if facts[field].is_null() {
                facts.insert(field.into(), value.into());
            }
        }
        if config["architectures"][0].is_string() || weights.is_some() {
            facts.insert("head".into(), head_name(blueprint.head).into());
        }
    }
    let is_rotary = |blueprint: &Blueprint| matches!(blueprint.encoding, Encoding::Rotary(_));
    let rope = match (&blueprint, read) {
        (Some(blueprint), _) if !is_rotary(blueprint) => Value::Null,
        (Some(blueprint), _) if blueprint.family == Family::RoFormer => {
            rope_facts(None, permuted.or(Some(Pairing::Interleaved)), 10_000.0, [blueprint.head_dim; 2])
        }
        (_, Ok(read)) => {
            warnings.extend(read.warnings.iter().cloned());
            if read.encoding != rope::config::Encoding::Rotary {
                warnings.push(format!("not a rotary model; its positions are {}", read.encoding));
            }
            ropes(&read, permuted)
        }
        (_, Err(error)) => {
            warnings.push(format!("its rotary embedding cannot be read: {error}"));
            Value::Null
        }
    };
    if facts["head_dim"].is_null() {
        facts.insert("head_dim".into(), rope["head_dim"].clone());
    }
    facts.insert("rope".into(), rope);
    let width = blueprint.as_ref().map(|blueprint| blueprint.width);
    facts.insert("sentence_transformers".into(), sentence::facts(&recipe, width));
    facts.extend(parameters(weights.as_ref(), blueprint.as_ref()));
    facts.insert("warnings".into(), warnings.into());
    Ok(facts)
}

fn head_name(head: HeadKind) -> &'static str {
    match head {
        HeadKind::None => "none",
        HeadKind::MaskedLm => "masked_lm",
        HeadKind::CausalLm => "causal_lm",
        HeadKind::SequenceClassification => "sequence_classification",
        HeadKind::TokenClassification => "token_classification",
        HeadKind::QuestionAnswering => "question_answering",
        HeadKind::MultipleChoice => "multiple_choice",
    }
}

/// What a configuration says, with the defaults of what it leaves out.
fn sizes(blueprint: &Blueprint) -> Map<String, Value> {
    let mut all = vec![
        ("num_hidden_layers", json!(blueprint.layers)),
        ("hidden_size", json!(blueprint.width)),
        ("num_attention_heads", json!(blueprint.heads)),
        ("head_dim", json!(blueprint.head_dim)),
        ("intermediate_size", json!(blueprint.wide)),
        ("vocab_size", json!(blueprint.vocabulary)),
        ("is_decoder", json!(blueprint.is_causal())),
        ("tie_word_embeddings", json!(blueprint.output.is_tied)),
        ("position_encoding", json!(blueprint.encoding.name())),
        ("attention", json!(if blueprint.mixing == Mixing::Softmax { "softmax" } else { "linear" })),
    ];
    let values = matches!(blueprint.encoding, Encoding::Rotary(Rotary { values: true, .. }));
    match blueprint.family {
        Family::RoFormer => all.extend([
            ("embedding_size", json!(blueprint.embedding)),
            ("type_vocab_size", json!(blueprint.types)),
            ("rotary_value", json!(values)),
            ("add_cross_attention", json!(blueprint.has_cross_attention)),
        ]),
        // Segments are compared, and may be any numbers.
        Family::XlNet => {}
        family if family.is_encoder() => all.push(("type_vocab_size", json!(blueprint.types))),
        _ => all.push(("num_key_value_heads", json!(blueprint.key_heads))),
    }
    if let Some(encoder) = &blueprint.encoder {
        all.push(("num_encoder_layers", json!(encoder.layers)));
        all.push(("add_cross_attention", json!(true)));
    }
    all.into_iter().map(|(field, value)| (field.to_string(), value)).collect()
}

/// The rotary embedding of another model: one object, one per layer type, or null.
fn ropes(config: &HfConfig, permuted: Option<Pairing>) -> Value {
    let one = |layer: &HfLayer| match &layer.rope {
        Some(rope) => {
            let dims = [rope.head_dim(), rope.rotary_dim()];
            rope_facts(layer.rope_type.as_deref(), permuted.or(config.pairing), rope.base(), dims)
        }
        None => Value::Null,
    };
    match &config.layers[..] {
        [layer @ HfLayer { layer_type: None, .. }] => one(layer),
        layers => {
            let entry = |layer: &HfLayer| (layer.layer_type.clone().unwrap_or_default(), one(layer));
            json!({ "layer_types": layers.iter().map(entry).collect::<Map<_, _>>() })
        }
    }
}

fn rope_facts(rule: Option<&str>, pairing: Option<Pairing>, base: f64, dims: [usize; 2]) -> Value {
    json!({
        "rope_type": rule.unwrap_or("default"),
        "pairing": pairing.map(Pairing::name),
        "base": base,
        "head_dim": dims[0],
        "rotary_dim": dims[1],
    })
}

/// What the weights hold.
fn parameters(weights: Option<&Weights>, blueprint: Option<&Blueprint>) -> Map<String, Value> {
    let (mut used, mut count, mut bytes): (usize, u64, u64) = (0, 0, 0);
    let mut dtypes: BTreeMap<String, usize> = BTreeMap::new();
    // A language model whose output is not tied has a bias there, and this one is left over.
    let untied = blueprint.is_some_and(|blueprint| !blueprint.output.is_tied);
    let tensors = weights.iter().flat_map(|&weights| {
        weights.names().filter(move |name| {
            !(is_left_out(name, weights, blueprint) || untied && *name == "cls.predictions.bias")
        })
    });
    for tensor in tensors.filter_map(|name| weights.and_then(|weights| weights.get(name))) {
        let len = tensor.len() as u64;
        used += 1;
        count = count.saturating_add(len);
        bytes = bytes.saturating_add(len.saturating_mul(tensor.dtype().size() as u64));
        *dtypes.entry(tensor.dtype().to_string()).or_default() += 1;
    }
    let some = |value: Value| if weights.is_some() { value } else { Value::Null };
    Map::from_iter(
        [
            ("format", json!(weights.map(|weights| format(weights.path())))),
            ("tensors", json!(weights.map(Weights::len))),
            ("left_out", json!(weights.map(|weights| weights.left_out().len()))),
            ("used_tensors", some(json!(used))),
            ("parameters", some(json!(count))),
            ("dtypes", some(json!(dtypes))),
            ("bytes", some(json!(bytes))),
        ]
        .map(|(field, value)| (field.to_string(), value)),
    )
}

/// The kind of file. In a folder weights are found by their names, so these tell.
fn format(path: &Path) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if name.ends_with(".index") {
        return "tensorflow";
    }
    match (name.contains(".bin"), name.ends_with(".index.json")) {
        (false, false) => "safetensors",
        (false, true) => "sharded safetensors",
        (true, false) => "bin",
        (true, true) => "sharded bin",
    }
}
