//! `roformer generate`: what follows a text, or other texts that say the same.

use super::{ONE, show};
use crate::device::{DeviceOptions, on_device};
use crate::error::Outcome;
use crate::model::ModelOptions;
use crate::text::{self, Record, Task};
use clap::Args;
use roformer::ops::Backend;
use roformer::pipeline::{Generate, Paraphrase};
use roformer::tokenizer::Kind;
use roformer::{Pipeline, Result};
use serde::Serialize;
use std::io::{self, Write};

/// Continue texts, or say them in other words
///
/// A causal language model (RoFormerForCausalLM) continues each text; the text is printed with what follows, as it comes.
/// RoFormer-Sim writes another text that says the same; with --paraphrase it lists several, the nearest to the text first.
/// A model with an encoder (T5ForConditionalGeneration) reads the text and writes what it was trained to; only that is printed.
///
/// Tokens are drawn at random, from the seed alone: the same command prints the same text on the same device. At temperature 0
/// the likeliest token is always taken.
///
/// --json prints one object per text: {"text"}, which has only what is new; with --paraphrase {"paraphrases": [{"text",
/// "score"}, ...]}, where the score is that of `roformer similarity`. Without --paraphrase texts of as many tokens are then
/// continued together, with the same results in less time. Fields of JSON Lines: text, and optionally id, which comes back with
/// the result.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer generate --model DIR --temperature 0 '今天天气'\n  \
    roformer generate --model junnyu/roformer_chinese_sim_char_base --paraphrase 5 '广州和深圳哪个好？'")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    device: DeviceOptions,
    /// Tokens to generate at most
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tokens: u32,
    /// Below 1 likely tokens become likelier, above 1 unlikely ones do; at 0 the likeliest is always taken
    #[arg(long, value_name = "T", default_value_t = 1.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Draw from the fewest tokens whose probabilities sum to P
    #[arg(long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true)]
    top_p: f32,
    /// Draw from the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,
    /// The same seed gives the same text
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// List up to N different texts that say the same, with their scores (RoFormer-Sim)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    paraphrase: Option<u16>,
    #[command(flatten)]
    options: text::Options,
    /// Texts
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { model, options, texts, .. } = &arguments;
    let source = options.open(texts.clone(), ONE, "roformer generate --model MODEL '今天天气'")?;
    let pipeline = model.open(device)?;
    let how = Generate {
        max_tokens: arguments.max_tokens as usize,
        temperature: arguments.temperature,
        top_k: arguments.top_k as usize,
        top_p: arguments.top_p,
        seed: arguments.seed,
    };
    let paraphrase = arguments.paraphrase.map(usize::from);
    let mut task = Generation { pipeline, how, paraphrase, json: options.json, is_first: true };
    text::run(options, source, &mut task)?.outcome()
}

/// Texts whose results may wait for each other. Enough that many are of equal length, and run together.
const TOGETHER: usize = 64;

struct Generation<B: Backend> {
    pipeline: Pipeline<B>,
    how: Generate,
    paraphrase: Option<usize>,
    json: bool,
    /// Whether nothing has been printed: there is an empty line between two lists.
    is_first: bool,
}

enum Generated {
    Text(String),
    /// On stdout already, or why not.
    Streamed(io::Result<()>),
    Paraphrases(Vec<Paraphrase>),
}

impl<B: Backend> Task for Generation<B> {
    type Output = Generated;

    fn work(&mut self, records: &[Record]) -> Vec<Result<Generated>> {
        if self.json && self.paraphrase.is_none() {
            let texts: Vec<&str> = records.iter().map(|record| record.text(0)).collect();
            let texts = self.pipeline.generate_all(&texts, &self.how).into_iter();
            return texts.map(|text| text.map(Generated::Text)).collect();
        }
        records.iter().map(|record| self.generate(record.text(0))).collect()
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, generated: Generated) -> Outcome {
        match generated {
            Generated::Text(text) => record.write_json(out, Text { text: &text })?,
            Generated::Streamed(outcome) => outcome?,
            Generated::Paraphrases(texts) if self.json => {
                let scored = |Paraphrase { text, score }| Scored { text, score };
                let paraphrases = texts.into_iter().map(scored).collect();
                record.write_json(out, Paraphrases { paraphrases })?;
            }
            Generated::Paraphrases(texts) => {
                if !std::mem::take(&mut self.is_first) {
                    writeln!(out)?;
                }
                for Paraphrase { text, score } in &texts {
                    writeln!(out, "{score:>7.4}  {}", show::brief(text, usize::MAX))?;
                }
                if texts.is_empty() {
                    writeln!(out, "no other text was found; try a higher --temperature or --top-p")?;
                }
            }
        }
        Ok(())
    }

    fn at_once(&self) -> usize {
        if self.json && self.paraphrase.is_none() { TOGETHER } else { 1 }
    }
}

impl<B: Backend> Generation<B> {
    fn generate(&self, text: &str) -> Result<Generated> {
        if let Some(count) = self.paraphrase {
            return self.pipeline.paraphrase(text, count, &self.how).map(Generated::Paraphrases);
        }
        // Written here and not in `print`: each piece is seen when it comes.
        let mut out = crate::terminal::stdout();
        let blueprint = self.pipeline.model().blueprint();
        let goes_on = !blueprint.is_unilm() && blueprint.encoder.is_none();
        let mut before = if goes_on { text } else { "" };
        // Tokens of a file's own tokenizer bring their spaces along.
        let drops_spaces = self.pipeline.tokenizer().kind() != Kind::File;
        let mut outcome = Ok(());
        let mut write = |piece: &str, is_last: bool| {
            // The text comes with the first piece: when it cannot be used there is none.
            let gap = if drops_spaces && needs_space(before, piece) { " " } else { "" };
            let end = if is_last { "\n" } else { "" };
            if outcome.is_ok() {
                outcome = write!(out, "{before}{gap}{piece}{end}").and_then(|()| out.flush());
            }
            before = "";
        };
        self.pipeline.generate(text, &self.how, |piece| write(piece, false))?;
        write("", true);
        Ok(Generated::Streamed(outcome))
    }
}

/// Whether what follows a text is another word: the tokens of one are joined, but where they begin nobody sees the other.
fn needs_space(before: &str, after: &str) -> bool {
    let is_latin = |c: char| c.is_alphanumeric() && (c as u32) < 0x2E80;
    before.ends_with(is_latin) && after.starts_with(is_latin)
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Paraphrases {
    paraphrases: Vec<Scored>,
}

#[derive(Serialize)]
struct Scored {
    text: String,
    score: f32,
}
