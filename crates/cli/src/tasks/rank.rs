//! `roformer rank`: the documents nearest to a query.

use super::vectors::VectorOptions;
use super::{ONE, show, texts};
use crate::device::{DeviceOptions, on_device};
use crate::error::{Failure, Outcome};
use crate::model::Reader;
use crate::text::{self, Record, Task};
use clap::Args;
use roformer::Pipeline;
use roformer::ops::Backend;
use roformer::pipeline::Query;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io::{BufWriter, Write};

/// Find the documents nearest to a query
///
/// Documents are the texts after the query, or the lines of --input. The best come first, with the numbers of their lines;
/// where scores are equal, the earlier document comes first. However many documents there are, only the best are kept in
/// memory. The score is that of `roformer similarity`; where a folder of sentence-transformers has prompts for queries and for
/// documents, they are put before them. --prompt and --prompt-name are about the query alone.
///
/// A cross-encoder, which is a classifier with a single label, reads the query with each document, and its score is what it says
/// of the two.
///
/// --json prints one object per document: {"line", "score", "text"}. Fields of JSON Lines: text, and optionally id, which comes
/// back with the result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer rank --model junnyu/roformer_chinese_sim_char_base '苹果多少钱' --input questions.txt\n  \
    roformer rank --model DIR '苹果多少钱' '香蕉怎么卖' '去机场怎么走' --top-k 1"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    device: DeviceOptions,
    /// How many documents are printed
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    top_k: u32,
    #[command(flatten)]
    vectors: VectorOptions,
    #[command(flatten)]
    options: text::Options,
    /// The text to look for
    #[arg(value_name = "QUERY")]
    query: String,
    /// Documents
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { reader, top_k, vectors, options, query, texts, .. } = arguments;
    let source = options.open(texts, ONE, "roformer rank --model MODEL QUERY '香蕉怎么卖' '去机场怎么走'")?;
    let pipeline = reader.open(device)?;
    let query = pipeline.query(&query, vectors.embed()).map_err(|error| match Failure::from(error) {
        Failure::Input(message) => Failure::Input(format!("the query: {message}")),
        other => other,
    })?;
    let mut task = Rank { pipeline, query, top_k: top_k as usize, best: BinaryHeap::new() };
    let tally = text::run(&options, source, &mut task)?;

    let best = task.best.into_sorted_vec();
    let mut out = BufWriter::new(crate::terminal::stdout());
    let digits = best.iter().map(|document| document.line).max().unwrap_or(0).to_string().len();
    let place = if options.input.is_some() { "line" } else { "text" };
    for document in &best {
        match options.json {
            true => {
                serde_json::to_writer(&mut out, document).map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
            false => {
                let Document { line, score, text, .. } = document;
                let text = show::brief(text, show::SHORT);
                writeln!(out, "{score:>7.4}  {place} {line:>digits$}  {}", show::named(&text))?;
            }
        }
    }
    out.flush()?;
    tally.outcome()
}

struct Rank<'a, B: Backend> {
    pipeline: Pipeline<B>,
    query: Query<'a>,
    top_k: usize,
    /// The best so far, the worst of them on top.
    best: BinaryHeap<Document>,
}

/// A document that may be among the best. The nearer is less, so that it is sorted first; of equal ones the earlier.
#[derive(Serialize)]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    line: u64,
    score: f32,
    text: String,
}

impl Ord for Document {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.line.cmp(&other.line))
    }
}

impl PartialOrd for Document {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Document {}

impl<B: Backend> Task for Rank<'_, B> {
    type Output = f32;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<f32>> {
        self.pipeline.nearness(&self.query, &texts(records))
    }

    fn print(&mut self, _: &mut dyn Write, record: &Record, score: f32) -> Outcome {
        // Lines only grow: one that is equal to the worst comes after it.
        let is_full = self.best.len() >= self.top_k;
        if is_full && self.best.peek().is_some_and(|worst| score.total_cmp(&worst.score).is_le()) {
            return Ok(());
        }
        if is_full {
            self.best.pop();
        }
        let (id, text) = (record.id.clone(), record.text(0).to_string());
        self.best.push(Document { id, line: record.line, score, text });
        Ok(())
    }

    fn is_silent(&self) -> bool {
        true
    }
}
