//! `roformer bench`: timings that anyone can run.

mod attention;
mod generate;
mod model;
mod rope;
mod serve;
mod timing;
mod train;

use crate::error::{Failure, Outcome};
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
    Model(model::Arguments),
    Train(train::Arguments),
    Generate(generate::Arguments),
    Attention(attention::Arguments),
    Serve(serve::Arguments),
}

/// Runs a benchmark.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Rope(arguments) => rope::run(arguments),
        What::Model(arguments) => model::run(arguments),
        What::Train(arguments) => train::run(arguments),
        What::Generate(arguments) => generate::run(arguments),
        What::Attention(arguments) => attention::run(arguments),
        What::Serve(arguments) => serve::run(arguments),
    }
}

/// What every benchmark takes.
#[derive(Args)]
struct Options {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Threads to use [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Options {
    /// Runs a benchmark on its threads, and tells it whether to print JSON.
    fn run(&self, benchmark: impl FnOnce(bool) -> Outcome + Send) -> Outcome {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.map_or(0, usize::from)).build();
        let pool = pool.map_err(|error| Failure::Other(format!("no threads: {error}")))?;
        pool.install(|| benchmark(self.json))
    }
}

/// Runs a benchmark that reports line by line, and prints each as it comes. Nothing more is printed once printing failed.
fn each<S, E: std::fmt::Display>(
    benchmark: impl FnOnce(&mut dyn FnMut(S)) -> Result<(), E>,
    mut print: impl FnMut(&S) -> std::io::Result<()>,
) -> Outcome {
    let mut outcome: Outcome = Ok(());
    let mut report = |line: S| {
        if outcome.is_ok() {
            outcome = print(&line).map_err(Failure::from);
        }
    };
    benchmark(&mut report).map_err(|error| Failure::Other(error.to_string()))?;
    outcome
}
