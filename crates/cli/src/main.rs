//! The `roformer` command line: arguments, progress, printing. What it prints is computed by the libraries.

mod bench;
mod error;
mod input;
mod inspect;

use clap::{Parser, Subcommand};

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
    Inspect(inspect::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
