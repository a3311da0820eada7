//! `roformer inspect`: what a configuration's rotary embedding does, in words or as JSON.

pub mod page;

use crate::error::{Failure, Outcome};
use crate::input;
use crate::language::LanguageOption;
use crate::model;
use clap::Args;
use roformer::inspect::Report;
use rope::{HfConfig, HfOptions, Pairing};
use std::io::Write;
use std::path::PathBuf;

/// Say what the rotary embedding of a Hugging Face config.json does
///
/// Shows the rule, what it does to each band of frequencies, which pairs never complete a turn within the trained
/// length and where precision gives out. With --context, what the common rules would do at that length, and the
/// settings to paste for transformers, vLLM and llama.cpp.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer inspect model/config.json\n  \
    roformer inspect config.json --context 131072\n  roformer inspect Qwen/Qwen2.5-7B --json\n  roformer inspect config.json --lang zh\n  cat config.json | roformer inspect - --json")]
pub struct Arguments {
    /// A config.json, a folder that holds one, the name of a model on the hub, or - for standard input
    config: PathBuf,
    /// Look at sequences of this many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    context: Option<u64>,
    /// Which features form a pair, instead of what follows from model_type: interleaved, half or interleaved_to_half
    #[arg(long, value_name = "P")]
    pairing: Option<Pairing>,
    /// Ignore this key of the rope dictionary, which no rule reads (may be repeated)
    #[arg(long, value_name = "KEY")]
    allow_unknown: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    language: LanguageOption,
}

/// The library's message, with the flag where there is one to give.
fn flagged(error: &rope::Error) -> String {
    match error {
        rope::Error::UnknownKey { key, .. } => format!("{error} (--allow-unknown {key})"),
        other => other.to_string(),
    }
}

pub fn run(arguments: Arguments) -> Outcome {
    let path = model::find_config(&arguments.config)?;
    let bytes = input::config(&path)?;
    let options = HfOptions {
        pairing: arguments.pairing,
        allow_unknown: arguments.allow_unknown,
        ..HfOptions::default()
    };
    let name = match arguments.config.as_os_str() == "-" {
        true => "standard input".to_string(),
        false => arguments.config.display().to_string(),
    };
    let config = HfConfig::read(&bytes, &options)
        .map_err(|error| Failure::Input(format!("{name}: {}", flagged(&error))))?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", roformer::inspect::object(&config, arguments.context))?;
    } else {
        let language = arguments.language.language();
        let report = Report::in_language(language, &config, arguments.context);
        page::print(&mut out, &report, language)?;
    }
    Ok(())
}
