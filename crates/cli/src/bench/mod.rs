//! `roformer bench`: timings that anyone can run.

mod rope;

use crate::error::Outcome;
use clap::{Args, Subcommand};

/// Time what this program does, beside the floor that the memory sets
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Rope(rope::Arguments),
}

/// Runs a benchmark.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Rope(arguments) => rope::run(arguments),
    }
}
