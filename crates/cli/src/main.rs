//! The `roformer` command line: arguments, progress, printing. What it prints is computed by the libraries.

mod bench;
mod error;

use clap::{Parser, Subcommand};
use error::Failure;
use std::process::ExitCode;

/// Rotary position embedding, from the equation to the model.
#[derive(Parser)]
#[command(name = "roformer", version, max_term_width = 100, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
