//! `roformer conform`: cases for an implementation of rotary embedding in any language, and the verdict on its answers.

use crate::error::{Failure, Outcome};
use crate::input;
use crate::model;
use clap::{Args, Subcommand};
use rope_conformance::{Case, Report, folder, full, judge, mistakes, of_config, small, tagged};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Check somebody's rotary embedding: write cases, judge the answers, name the mistake
///
/// `conform cases DIR` writes cases.json, inputs.safetensors and expected.safetensors. The implementation under test turns
/// the inputs and writes answers.safetensors beside them, with tensors CASE.DTYPE.q and CASE.DTYPE.k for the cases and types
/// that it can do. `conform judge DIR` then says of every answer whether it is right, and to which precision; and of wrong
/// ones, which known mistake gives just that.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer conform cases kit\n  roformer conform cases kit --tag yarn --tag half\n  \
    roformer conform cases kit --config Qwen/Qwen2.5-7B\n  roformer conform judge kit --page report.html\n  \
    roformer conform mistakes"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write the cases to a folder
    Cases {
        /// The folder, made if it is missing
        folder: PathBuf,
        /// Only cases with this tag (may be repeated: all of them)
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// The full set: cases of 187 configurations beside the small set, 20 megabytes
        #[arg(long, conflicts_with = "config")]
        full: bool,
        /// Cases of this config.json (or a folder, or a model on the hub) in place of the small set
        #[arg(long, value_name = "CONFIG", conflicts_with = "tags")]
        config: Option<PathBuf>,
    },
    /// Judge the answers in a folder
    Judge {
        /// The folder, with cases.json and answers.safetensors
        folder: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// Write the report as one page to this file as well
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
    },
    /// List the mistakes that are known
    Mistakes,
}

pub fn run(arguments: Arguments) -> Outcome {
    match arguments.action {
        Action::Cases { folder, tags, full, config } => {
            write(&folder, &cases(&tags, full, config.as_deref())?)
        }
        Action::Judge { folder, json, page } => {
            let (cases, answers) = folder::read(&folder)?;
            let report = judge(&cases, &answers)?;
            if let Some(path) = page {
                let title = format!("Rotary embedding: {}", folder.display());
                roformer::files::write(&path, report.to_page(&title).as_bytes())?;
            }
            say(&report, json)
        }
        Action::Mistakes => {
            let mut out = std::io::stdout().lock();
            for mistake in mistakes::all() {
                writeln!(
                    out,
                    "{}\n  the implementation {}\n  do: {}",
                    mistake.name, mistake.does, mistake.cure
                )?;
            }
            Ok(())
        }
    }
}

fn cases(tags: &[String], is_full: bool, config: Option<&Path>) -> Result<Vec<Case>, Failure> {
    let Some(config) = config else {
        return Ok(tagged(if is_full { full() } else { small() }, tags)?);
    };
    let bytes = input::config(&model::find_config(config)?)?;
    let fail = |error: String| Failure::Input(format!("{}: {error}", config.display()));
    let value = rope::config::parse(&bytes).map_err(|error| fail(error.to_string()))?;
    of_config("config", &value).map_err(|error| fail(error.to_string()))
}

fn write(folder: &Path, cases: &[Case]) -> Outcome {
    let files = folder::files(cases)?;
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::Other(format!("{}: {error}", folder.display())))?;
    for (name, bytes) in [
        (folder::INPUTS, files.inputs.as_slice()),
        (folder::EXPECTED, files.expected.as_slice()),
        // Last: a folder that has it has everything.
        (folder::CASES, files.cases.as_bytes()),
    ] {
        roformer::files::write(&folder.join(name), bytes)?;
    }
    let (count, folder) = (cases.len(), folder.display());
    writeln!(
        std::io::stdout(),
        "{count} cases written to {folder}; the answers go to {folder}/{}",
        folder::ANSWERS
    )?;
    Ok(())
}

/// Prints the report. A wrong answer is a failure, so that a build stops at it.
fn say(report: &Report, json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", report.to_json())?,
        false => write!(out, "{report}")?,
    }
    out.flush()?;
    match report.is_right() {
        true => Ok(()),
        false => Err(Failure::Other(match report.right + report.wrong {
            0 => "no case was answered".into(),
            all => format!("{} of {all} answers are wrong", report.wrong),
        })),
    }
}
