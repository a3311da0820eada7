//! `roformer train`: a language model from text files.

mod show;

use crate::error::Failure;
use clap::{Args, ValueEnum};
use roformer::train::{End, Run, Settings};
use serde::Serialize;
use serde_json::{Map, Value};
use show::Show;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Train a language model on text files
///
/// A causal language model of characters: every character of the text is a token. The last part of the text is kept from
/// training, and the model is evaluated on it as it goes. All of the text is held in memory, four bytes a character.
///
/// DIR/best and DIR/last are models that generate, forward, info and transformers load; DIR/metrics.jsonl has a line for
/// every tenth step and every evaluation. A run can be stopped with Ctrl-C or killed at any moment: --resume goes on from the
/// last checkpoint, and ends with the same bits as a run without a break, on any number of threads.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer train --data play.txt --out model\n  roformer train --out model --resume\n  \
    roformer generate --model model/best 'ROMEO:'"
)]
pub struct Arguments {
    /// What the model learns
    #[arg(long, value_enum, default_value_t = Task::Causal)]
    task: Task,
    /// UTF-8 text files, taken as one text in this order
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "resume")]
    data: Vec<PathBuf>,
    /// The folder for models and checkpoints: a new or an empty one, or with --resume that of a run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with the run in DIR; its settings and files are known and need not be given
    #[arg(long)]
    resume: bool,
    /// Threads to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    given: Given,
}

/// What a model learns.
#[derive(Clone, Copy, ValueEnum)]
enum Task {
    /// The next character.
    Causal,
}

/// The settings that were given. Those that were not are the library's, or those of the run that is resumed.
#[derive(Args, Serialize)]
struct Given {
    /// The form of the model, roformer or llama [default: roformer]
    #[arg(long, value_name = "FORM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
    /// The position encoding; only rotary can be loaded by other commands and by transformers [default: rotary]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    /// Layers [default: 4]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<u64>,
    /// Width of the model [default: 128]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u64>,
    /// Attention heads, a divisor of the width [default: 4]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    heads: Option<u64>,
    /// Characters that the model sees at once [default: 64]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    /// Blocks of a batch [default: 12]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u64>,
    /// Batches of a step, whose gradients are summed [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    accumulate: Option<u64>,
    /// Steps in all [default: 2000]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    /// The highest learning rate [default: 1e-3]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    lr: Option<f64>,
    /// The lowest learning rate, at the end [default: a tenth of the highest]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    min_lr: Option<f64>,
    /// Steps over which the learning rate rises [default: 100]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<u64>,
    /// How it falls from there: cosine, linear, inverse-sqrt or constant [default: cosine]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// AdamW's weight decay, on matrices [default: 0.1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    weight_decay: Option<f64>,
    /// The chance that a number is dropped [default: 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<f64>,
    /// The largest norm of the gradient, 0 for any [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    clip: Option<f64>,
    /// AdamW's second beta [default: 0.99]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    beta2: Option<f64>,
    /// The seed of weights, batches and dropout [default: 1]
    #[arg(long, value_name = "S")]
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Steps from one evaluation to the next [default: 250]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_every: Option<u64>,
    /// Batches of an evaluation, spread evenly over the text that is kept for it [default: 20]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_batches: Option<u64>,
    /// Steps from one checkpoint to the next [default: 250]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    save_every: Option<u64>,
    /// The part of the text, from its end, that is kept from training [default: 0.1]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
}

/// Runs the command. Its exit code is 0, or 130 where it was told to stop.
pub fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Task::Causal = arguments.task;
    let threads = arguments.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::Other(format!("no threads: {error}")))?;
    pool.install(|| train(&arguments))
}

fn train(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Arguments { data, out, resume, .. } = arguments;
    let given = settings(&arguments.given)?;
    let mut run = match resume {
        true => Run::resume(out, &given, data)?,
        false => Run::begin(out, &Settings::default().with(&given)?, data)?,
    };
    let is_stopped = stopper()?;
    let mut show = Show::new(&run, out);
    let end = run.go(|event| {
        show.event(event);
        match is_stopped.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    // What was given was right: what goes wrong now is a full disk or the like.
    let end = end.map_err(|error| Failure::Other(error.to_string()));
    show.finish();
    match end? {
        End::Finished => {
            show.result(&run)?;
            Ok(ExitCode::SUCCESS)
        }
        End::Stopped => {
            show.stopped(&run);
            Ok(ExitCode::from(130))
        }
        End::Diverged { step, loss } => Err(Failure::Other(format!(
            "the loss or its gradient is not a number at step {step} (loss {loss}); the checkpoint of step {} is kept in {}; \
             begin anew in another folder with a lower --lr or a longer --warmup",
            run.saved(),
            out.display()
        ))),
    }
}

/// What was given, by name.
fn settings(given: &Given) -> Result<Map<String, Value>, Failure> {
    match serde_json::to_value(given) {
        Ok(Value::Object(map)) => Ok(map),
        _ => Err(Failure::Other("the settings cannot be read; this is a bug: report it".into())),
    }
}

/// A flag that Ctrl-C sets. A second one ends the program at once: what is on the disk is whole at any moment.
fn stopper() -> Result<&'static AtomicBool, Failure> {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let handler = ctrlc::set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    handler.map_err(|error| Failure::Other(format!("Ctrl-C cannot be caught: {error}")))?;
    Ok(&STOPPED)
}
