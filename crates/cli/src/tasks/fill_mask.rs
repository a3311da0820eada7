//! `roformer fill-mask`: the likeliest tokens behind a mask.

use super::{ONE, show, texts};
use crate::device::{DeviceOptions, on_device};
use crate::error::Outcome;
use crate::model::Reader;
use crate::text::{self, Record, Task};
use clap::Args;
use roformer::Pipeline;
use roformer::ops::Backend;
use roformer::pipeline::Guess;
use serde::Serialize;
use std::io::Write;

/// Say which tokens may stand behind the mask of a text
///
/// Each text has the mask once, written as the model's vocabulary has it: [MASK]. The model is a masked language model.
///
/// --json prints one object per text: {"guesses": [{"token", "id", "score", "text"}, ...]}, the likeliest first. `score` is the
/// probability, `text` the text with the token in place of the mask. Fields of JSON Lines: text, and optionally id, which
/// comes back with the result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer fill-mask --model junnyu/roformer_chinese_base '今天[MASK]很好，我想去公园玩。'\n  \
    roformer fill-mask --model DIR --input texts.txt --top-k 1 --json > guesses.jsonl"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    device: DeviceOptions,
    /// How many tokens of each text are shown
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    top_k: u32,
    #[command(flatten)]
    options: text::Options,
    /// Texts, each with one mask
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { reader, top_k, options, texts, .. } = arguments;
    let source = options.open(texts, ONE, "roformer fill-mask --model MODEL '今天[MASK]很好'")?;
    let pipeline = reader.open(device)?;
    let mut task = FillMask { pipeline, top_k: top_k as usize, json: options.json, is_first: true };
    text::run(&options, source, &mut task)?.outcome()
}

struct FillMask<B: Backend> {
    pipeline: Pipeline<B>,
    top_k: usize,
    json: bool,
    /// Whether nothing has been printed: there is an empty line between two texts.
    is_first: bool,
}

impl<B: Backend> Task for FillMask<B> {
    type Output = Vec<Guess>;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<Vec<Guess>>> {
        self.pipeline.fill_mask_all(&texts(records), self.top_k)
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, guesses: Vec<Guess>) -> Outcome {
        if self.json {
            let guesses = guesses.iter().map(Named::new).collect();
            return Ok(record.write_json(out, Body { guesses })?);
        }
        if !std::mem::take(&mut self.is_first) {
            writeln!(out)?;
        }
        let widest = guesses.iter().map(|guess| show::width(&guess.token)).max().unwrap_or(0);
        for Guess { score, token, text, .. } in &guesses {
            writeln!(out, "{score:.4}  {}  {}", show::pad(token, widest), show::brief(text, show::SHORT))?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Body<'a> {
    guesses: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    token: &'a str,
    id: u32,
    score: f32,
    text: &'a str,
}

impl<'a> Named<'a> {
    fn new(guess: &'a Guess) -> Self {
        let Guess { score, id, token, text } = guess;
        Named { token, id: *id, score: *score, text }
    }
}
