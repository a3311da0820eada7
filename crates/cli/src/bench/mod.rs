//! `roformer bench`: timings that anyone can run.

mod model;
mod rope;

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
}

/// Runs a benchmark.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Rope(arguments) => rope::run(arguments),
        What::Model(arguments) => model::run(arguments),
    }
}

/// Runs something on a pool of this many threads, or of as many as there are cores.
fn on_threads(threads: Option<u16>, run: impl FnOnce() -> Outcome + Send) -> Outcome {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.map_or(0, usize::from)).build();
    pool.map_err(|error| Failure::Other(format!("no threads: {error}")))?.install(run)
}
