//! `roformer inspect`: what a configuration's rotary embedding does, in words or as JSON.

mod page;

use crate::error::{Failure, Outcome};
use crate::input;
use clap::Args;
use rope::{HfConfig, HfLayer, HfOptions, Pairing};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Say what the rotary embedding of a Hugging Face config.json does
///
/// Shows the rule, what it does to each band of frequencies, which pairs never complete a turn within the trained
/// length and where precision gives out. With --context, what the common rules would do at that length, and the
/// settings to paste for transformers, vLLM and llama.cpp.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer inspect model/config.json\n  \
    roformer inspect config.json --context 131072\n  cat config.json | roformer inspect - --json")]
pub struct Arguments {
    /// A config.json, a folder that holds one, or - for standard input
    config: PathBuf,
    /// Look at sequences of this many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    context: Option<u64>,
    /// Which features form a pair, instead of what follows from model_type: interleaved, half or interleaved_to_half
    #[arg(long, value_name = "P")]
    pairing: Option<Pairing>,
    /// Pass over this key of the rope dictionary although no rule reads it (may be repeated)
    #[arg(long, value_name = "KEY")]
    allow_unknown: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Outcome {
    let bytes = input::config(&arguments.config)?;
    let options = HfOptions {
        pairing: arguments.pairing,
        allow_unknown: arguments.allow_unknown,
        ..HfOptions::default()
    };
    let name = match arguments.config.as_os_str() == "-" {
        true => "standard input".to_string(),
        false => arguments.config.display().to_string(),
    };
    let config =
        HfConfig::read(&bytes, &options).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", as_json(&config, arguments.context))?;
    } else {
        page::print(&mut out, &config, arguments.context)?;
    }
    Ok(())
}

/// The stable interface: one object, or one a layer type.
fn as_json(config: &HfConfig, context: Option<u64>) -> Value {
    match &config.layers[..] {
        [layer @ HfLayer { layer_type: None, .. }] => layer_json(config, layer, context),
        layers => {
            let entry = |layer: &HfLayer| {
                (layer.layer_type.clone().unwrap_or_default(), layer_json(config, layer, context))
            };
            json!({ "layer_types": layers.iter().map(entry).collect::<Map<_, _>>() })
        }
    }
}

fn layer_json(config: &HfConfig, layer: &HfLayer, context: Option<u64>) -> Value {
    let Some(rope) = &layer.rope else { return Value::Null };
    let frequencies = rope.frequencies(context);
    json!({
        "rope_type": layer.rope_type,
        "base": rope.base(),
        "head_dim": rope.head_dim(),
        "rotary_dim": rope.rotary_dim(),
        "pairing": config.pairing.map(Pairing::name),
        "attention_factor": frequencies.attention_factor(),
        "inv_freq": frequencies.inv_freq(),
        "max_position_embeddings": config.max_position_embeddings,
        "warnings": config.warnings,
    })
}
