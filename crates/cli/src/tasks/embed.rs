//! `roformer embed`: the vectors of texts.

use super::vectors::VectorOptions;
use super::{ONE, show, texts};
use crate::device::{DeviceOptions, on_device};
use crate::error::Outcome;
use crate::model::Reader;
use crate::text::{self, Record, Refusal, Rows, Task};
use clap::{Args, ValueEnum};
use roformer::Pipeline;
use roformer::ops::Backend;
use roformer::pipeline::{Embed, Pooling};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Turn texts into vectors
///
/// A folder of sentence-transformers says itself how: its pooling, its Dense and Normalize modules, its prompts and the longest
/// text are used as that library uses them. What is given here goes before. --dimensions cuts vectors after the folder's own
/// modules; --normalize comes last.
///
/// With --output the vectors become the rows of one matrix, written as they come: f32, `embeddings` in a safetensors file.
/// With --keep-going the row of a text that cannot be used is NaN, so that rows stay where their texts are.
///
/// --json prints one object per text: {"embedding": [...]}; together with --output, one object for the file: {"output", "shape"}.
/// Fields of JSON Lines: text, and optionally id, which comes back with the result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer embed --model junnyu/roformer_chinese_sim_char_base --json '今天天气不错'\n  \
    roformer embed --model DIR --pooling cls --normalize --input texts.txt --output vectors.npy\n  \
    roformer embed --model DIR --prompt-name query 'how do I get to the airport?'"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    device: DeviceOptions,
    /// How the vectors of a text's tokens become one [default: what the model's folder says, else pooler if the model has one,
    /// else mean]
    #[arg(long, value_name = "HOW")]
    pooling: Option<How>,
    #[command(flatten)]
    vectors: VectorOptions,
    /// Scale vectors to length 1
    #[arg(long)]
    normalize: bool,
    /// Write a matrix to a file that ends in .npy or .safetensors
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: text::Options,
    /// Texts
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

/// The library's poolings, by name.
#[derive(Clone, Copy, ValueEnum)]
pub enum How {
    /// The vector of the first token, [CLS]
    Cls,
    /// The mean over all tokens
    Mean,
    /// The largest of all tokens, number by number
    Max,
    /// The sum over all tokens, divided by the square root of how many they are
    MeanSqrt,
    /// The mean over all tokens, each counted as often as its place says, from one on
    Weighted,
    /// The vector of the last token
    #[value(alias = "last-token")]
    Last,
    /// The model's own pooler, which RoFormer-Sim has
    Pooler,
}

impl From<How> for Pooling {
    fn from(how: How) -> Self {
        match how {
            How::Cls => Pooling::Cls,
            How::Mean => Pooling::Mean,
            How::Max => Pooling::Max,
            How::MeanSqrt => Pooling::MeanSqrt,
            How::Weighted => Pooling::Weighted,
            How::Last => Pooling::Last,
            How::Pooler => Pooling::Pooler,
        }
    }
}

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { reader, pooling, vectors, normalize, output, options, texts, .. } = arguments;
    let source = options.open(texts, ONE, "roformer embed --model MODEL '今天天气不错'")?;
    let pipeline = reader.open(device)?;
    let embed = Embed { pooling: pooling.map(Pooling::from), normalize, ..vectors.embed() };
    // What is wrong with the options is wrong for every text: said once, and before a file is made.
    let width = pipeline.dimensions(&embed)?;
    let rows = output.as_deref().map(|path| Rows::create(path, width)).transpose()?;
    let mut task = Embedding { pipeline, embed, rows, json: options.json };
    let tally = text::run(&options, source, &mut task)?;
    super::warn_of_unknown(&task.pipeline);
    if let (Some(rows), Some(path)) = (task.rows, output) {
        let (count, width) = rows.finish()?;
        let (mut out, path) = (std::io::stdout().lock(), path.display().to_string());
        match options.json {
            true => writeln!(out, "{}", serde_json::json!({ "output": path, "shape": [count, width] }))?,
            false => writeln!(out, "{count} vectors of {width} numbers as F32 in {path}")?,
        }
    }
    tally.outcome()
}

struct Embedding<'a, B: Backend> {
    pipeline: Pipeline<B>,
    embed: Embed<'a>,
    /// The file, if vectors go there.
    rows: Option<Rows>,
    json: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    embedding: &'a [f32],
}

/// How many numbers of a vector are shown to people.
const SHOWN: usize = 5;

impl<B: Backend> Task for Embedding<'_, B> {
    type Output = Vec<f32>;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<Vec<f32>>> {
        self.pipeline.embed_all(&texts(records), self.embed)
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, vector: Vec<f32>) -> Outcome {
        if let Some(rows) = &mut self.rows {
            return rows.push(&vector);
        }
        if self.json {
            return Ok(record.write_json(out, Body { embedding: &vector })?);
        }
        let norm = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let first: Vec<String> = vector.iter().take(SHOWN).map(|x| format!("{x:>8.4}")).collect();
        let (first, more) = (first.join(" "), if vector.len() > SHOWN { " …" } else { "" });
        let text = show::brief(record.text(0), show::SHORT / 2);
        Ok(writeln!(out, "[{}]  norm {norm:.4}  {first}{more}  {}", vector.len(), show::named(&text))?)
    }

    fn refused(&mut self, out: &mut dyn Write, refusal: &Refusal, json: bool) -> Outcome {
        if let Some(rows) = &mut self.rows {
            rows.push_nan()?;
        }
        if json {
            refusal.write_json(out)?;
        }
        Ok(())
    }

    fn is_silent(&self) -> bool {
        self.rows.is_some()
    }
}
