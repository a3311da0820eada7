//! `roformer convert`: weights of any format that is read here, as one safetensors file.

mod cost;
mod pairing;
mod write;

use crate::error::{Failure, Outcome, unwritten};
use crate::input;
use clap::{Args, ValueEnum};
pub use cost::{Cost, read};
use pairing::Change;
use roformer::blueprint::{Blueprint, Family, QUANTISED, Role};
use roformer::ops::Precision;
use roformer::weights::{PAIRING_KEY, Weights, recorded_pairing};
use roformer::{files, tokenizer};
use rope::Pairing;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use write::Form;

/// Write weights as model.safetensors
///
/// Reads safetensors, PyTorch's .bin and TensorFlow's checkpoints, in one file or several, and writes DST/model.safetensors;
/// with a folder, its config.json and the files of its tokenizer too. All numbers become f32, whatever they were: exactly,
/// except for f64, which is rounded. With --dtype bf16 matrices are rounded to 16 bits; with int8 those of the layers to 8, with
/// a scale for each row, and other matrices to 16. Vectors and tables of segments and positions stay f32. What that costs is said: the cosine between vectors of texts
/// made with the rounded model and with the one before. Position tables are left out, because they follow from the configuration, and so are
/// second copies of tied tensors.
///
/// A checkpoint of TensorFlow is read as RoFormer and BERT were released: bert_model.ckpt.index with its data and a
/// bert_config.json, from which the config.json is made. Names become those of transformers, and what an optimizer keeps is
/// left out.
///
/// With --pairing the projections of queries and keys are permuted for implementations that rotate other features
/// together; scores stay what they were. The file says so in its metadata ("rope_pairing"), and converting it again with
/// the other pairing gives the first bits back. Other programs do not read that entry: they must be told the pairing.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer convert junnyu/roformer_chinese_base converted\n  \
    roformer convert pytorch_model.bin converted\n  \
    roformer convert chinese_roformer-char_L-12_H-768_A-12 converted\n  roformer convert DIR half --pairing half\n  \
    roformer convert DIR small --dtype int8 --input texts.txt")]
pub struct Arguments {
    /// A folder with weights and a config.json, a file of weights, or a name on the hub
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The folder to write to; it is created if it does not exist
    #[arg(value_name = "DST")]
    target: PathBuf,
    /// Which features of a head the result is to rotate together: half or interleaved [default: as they are]
    #[arg(long, value_name = "P", value_parser = ["half", "interleaved"])]
    pairing: Option<String>,
    /// What matrices are written in
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// With --dtype: a file with a text per line to compare the models on [default: texts of random tokens]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
    Int8,
}

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { source, target, pairing, dtype, input, force } = arguments;
    if let (Dtype::F32, Some(input)) = (dtype, &input) {
        let message = format!("--input is {}; expected none: nothing is rounded", input.display());
        return Err(Failure::Input(message));
    }
    // TensorFlow names a checkpoint without an ending.
    let mut table = source.clone().into_os_string();
    table.push(".index");
    let is_there = source.exists() || Path::new(&table).exists();
    let source = if is_there { source } else { crate::model::find(&source.to_string_lossy(), None)? };
    let is_folder = source.is_dir();
    let weights = Weights::of_model(&source)?;
    // Beside the weights: a file alone says neither what is tied nor how wide a head is.
    let beside = weights.path().with_file_name("config.json");
    let config = input::config_beside(weights.path())?;
    let blueprint = config.as_deref().map(|bytes| Blueprint::read(bytes, Some(&weights)));
    if dtype != Dtype::F32 && !(is_folder && matches!(blueprint, Some(Ok(_)))) {
        let why = match blueprint {
            Some(Err(error)) => error.to_string(),
            _ => "the source is no folder with a config.json".into(),
        };
        return Err(Failure::Input(format!("--dtype rounds what a model multiplies with, and {why}")));
    }
    let blueprint = blueprint.and_then(Result::ok);
    // Before anything is written.
    let texts = input.map(|file| read(&source, &file)).transpose()?;
    let known = blueprint.clone().filter(|blueprint| blueprint.family == Family::RoFormer);
    let own = recorded_pairing(weights.path());
    let change = match pairing.as_deref().map(str::parse::<Pairing>).transpose()? {
        Some(to) => Some(Change::new(config.as_deref(), &beside, own, to)?),
        None => None,
    };
    // What is left out must be what it seems to be: a table of other positions is another model.
    // (A file that says it was permuted was checked when it was.)
    if let (Some(config), None) = (&known, own) {
        config.check_weights(&weights)?;
    }
    let names: Vec<&str> =
        weights.names().filter(|name| !is_left_out(name, &weights, known.as_ref())).collect();
    if let Some(change) = &change {
        change.check(&weights, &names)?;
    }
    let forms = names.iter().map(|&name| (name, form(dtype, name, &weights, blueprint.as_ref())));
    let forms: Vec<(&str, Form)> = forms.collect();

    if target.exists() && !target.is_dir() {
        return Err(Failure::Input(format!("{} is a file; expected a folder to write to", target.display())));
    }
    let file = target.join("model.safetensors");
    if file.symlink_metadata().is_ok() && !force {
        let message = format!("{} exists already; give --force to replace it", file.display());
        return Err(Failure::Input(message));
    }
    // What goes along with the weights of a folder, as it is.
    let mut copies = if is_folder { tokenizer::kept(&source)? } else { Vec::new() };
    let config = match config.map(|config| plain(&config)) {
        Some(config) if dtype == Dtype::Int8 => Some(quantised(&config)?),
        config => config.map(String::into_bytes),
    };
    copies.extend(config.filter(|_| is_folder).map(|config| ("config.json".into(), config)));
    let is_same = |path: &Path, bytes: &[u8]| matches!(files::read(path, bytes.len() as u64), Ok(Some(there)) if there == *bytes);
    for (name, bytes) in copies.iter().filter(|_| !force) {
        let copy = target.join(name);
        if copy.symlink_metadata().is_ok() && !is_same(&copy, bytes) {
            let message = format!("{} exists and differs; give --force to replace it", copy.display());
            return Err(Failure::Input(message));
        }
    }
    fs::create_dir_all(&target).map_err(|error| unwritten(&target, &error))?;

    let mut metadata = json!({ "format": "pt" });
    let result = match &change {
        // The model's own pairing needs no mention.
        Some(change) => Some(change.to).filter(|to| *to != change.model),
        None => own,
    };
    if let Some(pairing) = result {
        metadata[PAIRING_KEY] = pairing.name().into();
    }
    write::whole(&file, |partial| write::tensors(partial, &metadata, &weights, &forms, change.as_ref()))?;
    for (name, bytes) in &copies {
        let copy = target.join(name);
        write::whole(&copy, |partial| fs::write(partial, bytes).map_err(|error| unwritten(&copy, &error)))?;
    }

    let mut left = match weights.len() - names.len() {
        0 => String::new(),
        left => format!("; {left} left out: position tables and tied copies"),
    };
    if !weights.left_out().is_empty() {
        left += &format!("; {} left out: {}", weights.left_out().len(), crate::info::OF_TRAINING);
    }
    let mut out = crate::terminal::stdout();
    let count = |form: Form| forms.iter().filter(|(_, own)| *own == form).count();
    let counts = [(Form::F32, "F32"), (Form::Bf16, "BF16"), (Form::Int8, "I8")]
        .map(|(form, name)| (count(form), name));
    let counts: Vec<String> = (counts.iter().filter(|(count, _)| *count > 0))
        .map(|(count, name)| format!("{count} tensors as {name}"))
        .collect();
    writeln!(out, "{} in {}{left}", counts.join(", "), file.display())?;
    if let (Some(pairing), Some(change)) = (result, &change) {
        writeln!(
            out,
            "note: queries and keys are now for implementations that rotate in the pairing {pairing}; \
             the model's own is {}",
            change.model
        )?;
    }
    let precision = match dtype {
        Dtype::F32 => return Ok(()),
        Dtype::Bf16 => Precision::Bf16,
        Dtype::Int8 => Precision::Int8,
    };
    // Permuted, the models are of two kinds.
    if change.is_none() {
        writeln!(out, "{}", Cost::measure((&source, &target), precision, texts)?)?;
    }
    Ok(())
}

/// The form that a tensor is written in.
fn form(dtype: Dtype, name: &str, weights: &Weights, blueprint: Option<&Blueprint>) -> Form {
    let role = blueprint.map(|blueprint| blueprint.role(weights, name));
    match (dtype, role) {
        (Dtype::Int8, Some(Role::Rows)) => Form::Int8,
        (Dtype::Int8 | Dtype::Bf16, Some(Role::Rows | Role::Matrix)) => Form::Bf16,
        _ => Form::F32,
    }
}

/// The line of a config.json that says so. Programs that know nothing of it refuse the weights, and do not take whole numbers for them.
fn line() -> String {
    format!("\n  \"quantization_config\": {{\"quant_method\": \"{QUANTISED}\"}},")
}

/// A config.json with that line.
fn quantised(config: &str) -> Result<Vec<u8>, Failure> {
    match config.split_once('{') {
        Some((before, after)) if !config.contains("\"quantization_config\"") => {
            Ok(format!("{before}{{{}{after}", line()).into_bytes())
        }
        _ => Err(Failure::Input(
            "config.json has a quantization_config; expected a model that has none".into(),
        )),
    }
}

/// A config.json without that line.
fn plain(config: &[u8]) -> String {
    String::from_utf8_lossy(config).replacen(&line(), "", 1)
}

/// Whether a tensor is one that every reader makes again, or a second copy of another.
pub fn is_left_out(name: &str, weights: &Weights, blueprint: Option<&Blueprint>) -> bool {
    let derived = ["rotary_emb.inv_freq", "position_ids"].iter().any(|end| name.ends_with(end));
    // Other models have a table of this name that was learned.
    let table = name.ends_with("encoder.embed_positions.weight");
    let is_roformer = blueprint.is_some_and(|blueprint| blueprint.family == Family::RoFormer);
    let table = table && (is_roformer || name.starts_with("roformer."));
    // Where only one of the two is there it is no copy.
    let first = match name {
        "cls.predictions.decoder.weight" => Some("roformer.embeddings.word_embeddings.weight"),
        "cls.predictions.decoder.bias" => Some("cls.predictions.bias"),
        _ => None,
    };
    let tied = blueprint.is_some_and(|blueprint| blueprint.output.is_tied)
        && first.is_some_and(|first| weights.get(first).is_some());
    derived || table || tied
}
