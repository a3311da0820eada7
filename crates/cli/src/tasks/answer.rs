//! `roformer answer`: the part of a text that answers a question.

use super::pairs;
use super::show::{self, Characters};
use crate::device::{DeviceOptions, on_device};
use crate::error::Outcome;
use crate::model::Reader;
use crate::text::{self, Fields, Record, Task};
use clap::Args;
use roformer::Pipeline;
use roformer::ops::Backend;
use roformer::pipeline::Answer;
use serde::Serialize;
use std::io::Write;

/// Find the part of a context that answers a question
///
/// The model is one that answers questions (RoFormerForQuestionAnswering). There always is an answer, right or wrong; its
/// score says how sure the model is.
///
/// --json prints one object per question: {"answer", "score", "start", "end"}. `start` and `end` count the characters of the
/// context. Fields of JSON Lines: question, context, and optionally id, which comes back with the result. A line of text has
/// the two with a tab between them.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer answer --model DIR '小明住在哪里？' '小明住在北京。他喜欢喝茶。'\n  \
    roformer answer --model DIR --input questions.jsonl --json > answers.jsonl"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    options: text::Options,
    /// A question and the text that holds the answer, or several pairs of them
    #[arg(value_name = "QUESTION CONTEXT")]
    texts: Vec<String>,
}

const QUESTION: Fields = Fields { required: &["question", "context"], optional: &[] };

pub fn run(arguments: Arguments) -> Outcome {
    on_device!(arguments.device.find()?, |device| run_on(device, arguments))
}

fn run_on<B: Backend>(device: B, arguments: Arguments) -> Outcome {
    let Arguments { reader, options, texts, .. } = arguments;
    let example = "roformer answer --model MODEL '小明住在哪里？' '小明住在北京。'";
    let source = options.open(texts, QUESTION, example)?;
    let mut task = Answers { pipeline: reader.open(device)?, json: options.json };
    text::run(&options, source, &mut task)?.outcome()
}

struct Answers<B: Backend> {
    pipeline: Pipeline<B>,
    json: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    answer: &'a str,
    score: f32,
    start: usize,
    end: usize,
}

impl<B: Backend> Task for Answers<B> {
    type Output = Answer;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<Answer>> {
        self.pipeline.answer_all(&pairs(records))
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, answer: Answer) -> Outcome {
        let Answer { score, text, start, end } = answer;
        if self.json {
            let mut characters = Characters::new(record.text(1));
            let [start, end] = [start, end].map(|byte| characters.at(byte));
            return Ok(record.write_json(out, Body { answer: &text, score, start, end })?);
        }
        let (question, text) = (show::brief(record.text(0), show::SHORT), show::brief(&text, show::SHORT));
        Ok(writeln!(out, "{score:.4}  {}  {question}", show::named(&text))?)
    }
}
