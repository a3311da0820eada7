//! Commands on texts: where the texts come from, and how results go out, in order and in bounded memory.
//!
//! A command flattens [`Options`] into its arguments, says which [`Fields`] its records have, and implements [`Task`].
//! [`Options::open`] gives the [`Source`] of records, [`run()`] takes them through the task window by window.

mod lines;
mod output;
mod progress;
mod record;
mod run;
mod source;
#[cfg(test)]
mod tests;

pub use output::Rows;
pub use record::{Fields, Record, Refusal};
pub use run::{Task, run};

use clap::Args;
use std::path::PathBuf;

/// What all commands on texts have in common.
#[derive(Args, Default)]
pub struct Options {
    /// Read from a file, one text per line, or JSON Lines if its name ends in .jsonl or .ndjson (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// The input is JSON Lines, whatever its name
    #[arg(long)]
    pub jsonl: bool,
    /// Print JSON Lines, one object per text
    #[arg(long)]
    pub json: bool,
    /// Go on after a text that cannot be used; the exit code is still 2
    #[arg(long)]
    pub keep_going: bool,
}
