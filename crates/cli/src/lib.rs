//! The `roformer` command line: arguments, progress, printing. What it prints is computed by the libraries.
//!
//! A library, so that the program and the Python package are the same command: each calls [`run`].

#![deny(unsafe_code)]

mod bench;
mod compare;
mod conform;
mod convert;
mod device;
mod error;
mod explore;
mod forward;
mod info;
mod input;
mod inspect;
mod language;
pub mod library;
mod long;
mod model;
mod plot;
mod rotate;
mod serve;
mod tasks;
mod terminal;
mod text;
mod train;

pub use inspect::page;

use clap::{Parser, Subcommand};
use error::Failure;
use tasks::{answer, classify, embed, fill_mask, generate, rank, similarity, tokenize};

use std::ffi::OsString;
use std::io::Write;

/// Rotary position embedding, from the equation to the model
#[derive(Parser)]
#[command(name = "roformer", version, max_term_width = 100, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compare(compare::Arguments),
    Conform(conform::Arguments),
    Explore(explore::Arguments),
    Inspect(inspect::Arguments),
    Plot(plot::Arguments),
    Rotate(rotate::Arguments),
    Info(info::Arguments),
    Forward(forward::Arguments),
    Convert(convert::Arguments),
    Tokenize(tokenize::Arguments),
    FillMask(fill_mask::Arguments),
    Embed(embed::Arguments),
    Similarity(similarity::Arguments),
    Rank(rank::Arguments),
    Classify(classify::Arguments),
    Answer(answer::Arguments),
    Generate(generate::Arguments),
    Serve(Box<serve::Arguments>),
    Train(Box<train::Arguments>),
    Bench(bench::Arguments),
}

/// Runs the command that these arguments name, the first being the program's own name. Returns the exit code: 0, 2 for bad
/// input, 1 for what else goes wrong, 130 for what was told to stop.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    long::let_writes_fail();
    let code = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => match rope::Instructions::limit() {
            Ok(_) => call(arguments.command),
            Err(error) => Failure::Input(error.to_string()).report(),
        },
        Err(error) => usage(error),
    };
    // Where this is a library, nobody else does it at the end of the program. A reader that has gone misses nothing.
    let _ = std::io::stdout().flush();
    code
}

fn call(command: Command) -> u8 {
    let outcome = match command {
        Command::Conform(arguments) => conform::run(arguments),
        Command::Explore(arguments) => explore::run(arguments),
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Plot(arguments) => plot::run(arguments),
        Command::Rotate(arguments) => rotate::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Forward(arguments) => forward::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Tokenize(arguments) => tokenize::run(arguments),
        Command::FillMask(arguments) => fill_mask::run(arguments),
        Command::Embed(arguments) => embed::run(arguments),
        Command::Similarity(arguments) => similarity::run(arguments),
        Command::Rank(arguments) => rank::run(arguments),
        Command::Classify(arguments) => classify::run(arguments),
        Command::Answer(arguments) => answer::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Serve(arguments) => serve::run(*arguments),
        // The two commands that have another way to end: they can be told to stop, and resumed.
        Command::Train(arguments) => match train::run(*arguments) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Compare(arguments) => match compare::run(arguments) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Bench(arguments) => bench::run(arguments),
    };
    match outcome {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}

/// Help and version as they are; what is wrong with the arguments in one line.
fn usage(error: clap::Error) -> u8 {
    if !error.use_stderr() {
        // A reader that has gone needs no help.
        let _ = error.print();
        return 0;
    }
    Failure::Input(format!("{} (try --help)", complaint(&error))).report()
}

/// What is wrong with the arguments.
fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    message.trim_end().trim_end_matches("For more information, try '--help'.").trim_end().to_string()
}
