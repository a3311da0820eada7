//! `roformer classify`: the labels of texts, or of their tokens.

use super::show::{self, Characters};
use super::texts;
use crate::device::{DeviceOptions, on_device};
use crate::error::Outcome;
use crate::model::Reader;
use crate::text::{self, Fields, Record, Task};
use clap::Args;
use roformer::model::HeadKind;
use roformer::ops::Backend;
use roformer::pipeline::{Label, Span, TokenLabel, spans};
use roformer::{Error, Pipeline};
use serde::Serialize;
use std::io::Write;

/// Label texts, or their tokens
///
/// A model that classifies texts (RoFormerForSequenceClassification) gives each text a label with its probability. One that
/// classifies tokens (RoFormerForTokenClassification), for example as names and places, gives the parts of each text that
/// have a label other than O.
///
/// --json prints one object per text: {"labels": [{"label", "score"}, ...]}, the likeliest first, or {"tokens": [{"text",
/// "label", "score", "start", "end"}, ...]} with all tokens, whose `start` and `end` count characters. Fields of JSON Lines:
/// text, and optionally pair, a second text for models that were trained on two, and id, which comes back with the result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer classify --model DIR '这部电影很好看。' '服务员的态度很差。'\n  \
    roformer classify --model DIR --input reviews.txt --json > labels.jsonl"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    device: DeviceOptions,
    /// How many labels of each text are shown [default: 1, with --json all]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,
    #[command(flatten)]
    options: text::Options,
    /// Texts
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

const FIELDS: Fields = Fields { required: &["text"], optional: &["pair"] };

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { reader, top_k, options, texts, .. } = arguments;
    let source = options.open(texts, FIELDS, "roformer classify --model MODEL '这部电影很好看。'")?;
    let pipeline = reader.open(device)?;
    let blueprint = pipeline.model().blueprint();
    let labels = (0..blueprint.classes()).map(|label| blueprint.labels.name(label));
    let widest = labels.map(|label| show::width(&label)).max().unwrap_or(0);
    let all = if options.json { usize::MAX } else { 1 };
    let top_k = top_k.map_or(all, |k| k as usize);
    let mut task = Classify { pipeline, top_k, widest, json: options.json, is_first: true };
    let tally = text::run(&options, source, &mut task)?;
    super::warn_of_unknown(&task.pipeline);
    tally.outcome()
}

struct Classify<B: Backend> {
    pipeline: Pipeline<B>,
    top_k: usize,
    /// The columns of the widest label.
    widest: usize,
    json: bool,
    /// Whether nothing has been printed: there is an empty line between the parts of two texts.
    is_first: bool,
}

/// What a model of either kind gives a text.
enum Labelled {
    Labels(Vec<Label>),
    Tokens(Vec<TokenLabel>),
}

impl<B: Backend> Task for Classify<B> {
    type Output = Labelled;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<Labelled>> {
        if self.pipeline.model().head() == HeadKind::TokenClassification {
            let found = self.pipeline.classify_tokens_all(&texts(records)).into_iter().zip(records);
            let alone = |record: &Record| match record.get(1) {
                None => Ok(()),
                Some(_) => Err(Error::Input {
                    name: "the pair",
                    value: "given to a model that labels tokens".into(),
                    expected: "a text alone".into(),
                }),
            };
            return found.map(|(found, record)| alone(record).and(found.map(Labelled::Tokens))).collect();
        }
        let alone: Vec<&str> =
            records.iter().filter(|record| record.get(1).is_none()).map(|record| record.text(0)).collect();
        let paired: Vec<(&str, &str)> =
            records.iter().filter_map(|record| Some((record.text(0), record.get(1)?))).collect();
        let mut alone = self.pipeline.classify_all(&alone).into_iter();
        let mut paired = self.pipeline.classify_pairs(&paired).into_iter();
        // Each takes the next of its kind: the order of the records again.
        let next = |record: &Record| if record.get(1).is_some() { paired.next() } else { alone.next() };
        records.iter().filter_map(next).map(|found| found.map(Labelled::Labels)).collect()
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, found: Labelled) -> Outcome {
        match found {
            Labelled::Labels(mut labels) => {
                labels.truncate(self.top_k);
                self.print_labels(out, record, &labels)
            }
            Labelled::Tokens(tokens) => self.print_tokens(out, record, &tokens),
        }
    }
}

impl<B: Backend> Classify<B> {
    fn print_labels(&self, out: &mut dyn Write, record: &Record, labels: &[Label]) -> Outcome {
        if self.json {
            let labels =
                labels.iter().map(|Label { label, score }| Scored { label, score: *score }).collect();
            return Ok(record.write_json(out, Labels { labels })?);
        }
        for Label { label, score } in labels {
            write!(out, "{}  {score:.4}  ", show::pad(label, self.widest))?;
        }
        let text = [record.get(0), record.get(1)].into_iter().flatten().collect::<Vec<_>>().join(" | ");
        Ok(writeln!(out, "{}", show::named(&show::brief(&text, show::SHORT)))?)
    }

    fn print_tokens<'a>(
        &mut self,
        out: &mut dyn Write,
        record: &'a Record,
        tokens: &'a [TokenLabel],
    ) -> Outcome {
        let text = record.text(0);
        if self.json {
            let mut characters = Characters::new(text);
            let token = |TokenLabel { label, score, start, end }: &'a TokenLabel| Token {
                text: text.get(*start..*end).unwrap_or_default(),
                label,
                score: *score,
                start: characters.at(*start),
                end: characters.at(*end),
            };
            let tokens = tokens.iter().map(token).collect();
            return Ok(record.write_json(out, Tokens { tokens })?);
        }
        if !std::mem::take(&mut self.is_first) {
            writeln!(out)?;
        }
        writeln!(out, "{}", show::named(&show::brief(text, show::SHORT)))?;
        let spans = spans(text, tokens);
        let parts: Vec<String> = spans.iter().map(|span| show::brief(span.text, show::SHORT)).collect();
        let widest = parts.iter().map(|part| show::width(part)).max().unwrap_or(0);
        for (Span { label, score, .. }, part) in spans.iter().zip(&parts) {
            writeln!(out, "  {score:.4}  {}  {label}", show::pad(part, widest))?;
        }
        if spans.is_empty() {
            writeln!(out, "  nothing has a label")?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Labels<'a> {
    labels: Vec<Scored<'a>>,
}

#[derive(Serialize)]
struct Scored<'a> {
    label: &'a str,
    score: f32,
}

#[derive(Serialize)]
struct Tokens<'a> {
    tokens: Vec<Token<'a>>,
}

#[derive(Serialize)]
struct Token<'a> {
    text: &'a str,
    label: &'a str,
    score: f32,
    start: usize,
    end: usize,
}
