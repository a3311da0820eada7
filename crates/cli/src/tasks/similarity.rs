//! `roformer similarity`: how alike two texts are.

use super::vectors::VectorOptions;
use super::{pairs, show};
use crate::device::{DeviceOptions, on_device};
use crate::error::Outcome;
use crate::model::Reader;
use crate::text::{self, Fields, Record, Task};
use clap::Args;
use roformer::Pipeline;
use roformer::ops::Backend;
use roformer::pipeline::Embed;
use serde::Serialize;
use std::io::Write;

/// Say how alike two texts are
///
/// The score is the cosine of the texts' vectors, from -1 to 1, or what a folder of sentence-transformers has in its place: their
/// product, or a distance, negative. The vectors are those of `roformer embed`. RoFormer-Sim is trained for this.
///
/// --json prints one object per pair: {"score"}. Fields of JSON Lines: a, b, and optionally id, which comes back with the
/// result. A line of text has the two with a tab between them.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer similarity --model junnyu/roformer_chinese_sim_char_base '今天天气不错' '今天天气很好'\n  \
    roformer similarity --model DIR --input pairs.tsv --json > scores.jsonl"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    vectors: VectorOptions,
    #[command(flatten)]
    options: text::Options,
    /// Two texts, or several pairs of them
    #[arg(value_name = "A B")]
    texts: Vec<String>,
}

const PAIR: Fields = Fields { required: &["a", "b"], optional: &[] };

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { reader, vectors, options, texts, .. } = arguments;
    let source =
        options.open(texts, PAIR, "roformer similarity --model MODEL '今天天气不错' '今天天气很好'")?;
    let (pipeline, embed) = (reader.open(device)?, vectors.embed());
    pipeline.dimensions(&embed)?;
    let mut task = Similarity { pipeline, embed, json: options.json };
    text::run(&options, source, &mut task)?.outcome()
}

struct Similarity<'a, B: Backend> {
    pipeline: Pipeline<B>,
    embed: Embed<'a>,
    json: bool,
}

#[derive(Serialize)]
struct Body {
    score: f32,
}

impl<B: Backend> Task for Similarity<'_, B> {
    type Output = f32;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<f32>> {
        self.pipeline.similarity_all(&pairs(records), self.embed)
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, score: f32) -> Outcome {
        if self.json {
            return Ok(record.write_json(out, Body { score })?);
        }
        let [a, b] = [0, 1].map(|index| show::brief(record.text(index), show::SHORT / 2));
        Ok(writeln!(out, "{score:>7.4}  {}  {}", show::named(&a), show::named(&b))?)
    }
}
