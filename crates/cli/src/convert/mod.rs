//! `roformer convert`: weights of any format that is read here, as one safetensors file.

mod pairing;
mod write;

use crate::error::{Failure, Outcome, unwritten};
use crate::input;
use clap::Args;
use pairing::Change;
use roformer::blueprint::{Blueprint, Family};
use roformer::weights::{PAIRING_KEY, Weights, recorded_pairing};
use roformer::{files, tokenizer};
use rope::Pairing;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write weights as model.safetensors, in f32
///
/// Reads safetensors, PyTorch's .bin and TensorFlow's checkpoints, in one file or several, and writes DST/model.safetensors;
/// with a folder, its config.json and the files of its tokenizer too. All numbers become f32, whatever they were: exactly,
/// except for f64, which is rounded. Position tables are left out, because they follow from the configuration, and so are
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
    roformer convert chinese_roformer-char_L-12_H-768_A-12 converted\n  roformer convert DIR half --pairing half")]
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
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { source, target, pairing, force } = arguments;
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
    let known = config.as_deref().and_then(|bytes| Blueprint::read(bytes, Some(&weights)).ok());
    let known = known.filter(|blueprint| blueprint.family == Family::RoFormer);
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
    write::whole(&file, |partial| write::tensors(partial, &metadata, &weights, &names, change.as_ref()))?;
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
    writeln!(out, "{} tensors as F32 in {}{left}", names.len(), file.display())?;
    if let (Some(pairing), Some(change)) = (result, &change) {
        writeln!(
            out,
            "note: queries and keys are now for implementations that rotate in the pairing {pairing}; \
             the model's own is {}",
            change.model
        )?;
    }
    Ok(())
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
