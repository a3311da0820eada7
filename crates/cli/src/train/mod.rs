//! `roformer train`: a model from text.

mod show;

use crate::device::DeviceOptions;
use crate::error::Failure;
use crate::long::{Waiting, say, stopper};
use clap::Args;
use lab::chart::curves_of;
use roformer::encoding::Encoding;
use roformer::files::write;
use roformer::train::{Choice, End, Event, Meeting, Place, Request, Run, Settings, Start};
use roformer::{Device, Error};
use serde::Serialize;
use serde_json::{Map, Value};
use show::{Reading, Show};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Train a model on text
///
/// Five tasks. causal: the next token, from text files or JSON Lines with "text". masked: hidden words, from the same.
/// classification: the label of a text or of a pair, from JSON Lines with "text", "label" and perhaps "pair", or from a
/// folder that has a folder of texts for each label. similarity: vectors of sentences, from JSON Lines with "a", "b" and
/// perhaps "score", a cosine; without scores each pair is told apart from the others of its batch. sequences: to write one text of
/// another, from JSON Lines with "source" and "target", with a T5 that --from or --config names.
///
/// A tenth of the text is kept from training, and the model is evaluated on it as it goes. DIR/best and DIR/last are models
/// that the other commands and transformers load; DIR/metrics.jsonl has a line for every tenth step and every evaluation. A
/// run can be stopped with Ctrl-C or killed at any moment: --resume goes on from the last checkpoint, and ends with the same
/// bits as a run without a break, on any number of threads. A run may be resumed on another device, but then the bits differ.
///
/// Started by torchrun, mpirun or srun as several processes, on one machine or on many, a run shares the --accumulate batches of
/// each step among them, on CPUs, and ends with the bits of one process. All must see DIR; a process that is lost ends the run,
/// and --resume goes on with any number.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer train --data play.txt --out model\n  roformer train --out model --resume\n  \
    roformer train --task masked --tokenizer wordpiece --data texts/ --out model\n  \
    roformer train --data play.txt --out model --device cuda --dtype bf16\n  \
    mpirun -n 4 roformer train --data play.txt --out model --accumulate 4\n  \
    roformer train --task classification --from model/best --data reviews.jsonl --out classifier\n  \
    roformer generate --model model/best 'ROMEO:'"
)]
pub struct Arguments {
    /// Files and folders to train on: UTF-8 text (.txt and others), JSON Lines (.jsonl)
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "resume", conflicts_with = "resume")]
    data: Vec<PathBuf>,
    /// Files and folders to evaluate on; without them a part of the data is kept for that
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["resume", "validation"])]
    eval_data: Vec<PathBuf>,
    /// The folder for models and checkpoints: a new or an empty one, or with --resume that of a run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with the run in DIR; its settings and its text are known and need not be given
    #[arg(long)]
    resume: bool,
    /// Begin with the weights, sizes and tokenizer of a model: a folder, or a name on the hub
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["resume", "config", "form", "layers", "width", "heads"])]
    from: Option<String>,
    /// Begin with the sizes of a config.json and random weights
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "form", "encoding", "layers", "width", "heads"])]
    config: Option<PathBuf>,
    /// characters, wordpiece (made from the data), or a folder with a tokenizer, a tokenizer.json or a vocab.txt
    /// [default: the model's with --from, else characters]
    #[arg(long, value_name = "TOKENIZER", conflicts_with = "resume")]
    tokenizer: Option<String>,
    /// Tokens of a wordpiece vocabulary
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    vocab_size: u32,
    /// Draw the curves of the run into DIR/curves.svg at its end
    #[arg(long)]
    plot: bool,
    /// Threads to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    given: Given,
}

impl Arguments {
    /// Refuses what several processes cannot do, before anything is written.
    fn prepare_for(&mut self, place: &Place) -> Result<(), Failure> {
        if !self.device.take_cpu() {
            return Err(Failure::Input(format!(
                "--device is cuda with {} processes; expected cpu: several processes train on CPUs alone",
                place.world
            )));
        }
        match self.resume {
            // The run knows its batches.
            true => Ok(()),
            false => check_batches(
                &Settings::default().with(&settings(&self.given)?).map_err(flagged)?,
                place.world,
            ),
        }
    }
}

/// Refuses more processes than a step has batches.
fn check_batches(settings: &Settings, processes: usize) -> Result<(), Failure> {
    let accumulate = settings.accumulate;
    match (accumulate as usize) < processes {
        true => Err(Failure::Input(format!(
            "--accumulate is {accumulate}; expected at least {processes}, the number of processes: each takes whole batches of a step"
        ))),
        false => Ok(()),
    }
}

/// The settings that were given. Those that were not are the library's, or those of the run that is resumed.
#[derive(Args, Serialize)]
struct Given {
    /// What the model learns: causal, masked, classification, similarity or sequences [default: causal]
    #[arg(long, value_name = "TASK")]
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// Rows of a batch of text: packed (blocks of all texts, one after the other) or padded (each text, or each line of a
    /// text file, by itself) [default: packed]
    #[arg(long, value_name = "LAYOUT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<String>,
    /// The part of the words that is hidden from a masked model [default: 0.15]
    #[arg(long, value_name = "PART", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<f64>,
    /// The form of the model, roformer or llama [default: roformer]
    #[arg(long, value_name = "FORM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
    /// The position encoding, perhaps with settings, as compare takes them (rotary:base=500); all other commands run it, while
    /// transformers loads rotary alone, and with --form llama also another base, fraction or dim of it; with --from it can only be
    /// hierarchical, which stretches n learned positions to n², or of a model with rotary embedding none, which drops positions, or
    /// extend [default: rotary]
    #[arg(long, value_name = "ENCODING")]
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    /// The attention: softmax or linear [default: softmax]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<String>,
    /// The feature maps of linear attention: elu, softmax or favor [default: elu]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<String>,
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
    /// Tokens that the model sees at once; longer texts are cut [default: 64]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    /// Rows of a batch: blocks, texts or pairs [default: 12]
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
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    lr: Option<f64>,
    /// The lowest learning rate, at the end [default: a tenth of the highest]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    min_lr: Option<f64>,
    /// Steps over which the learning rate rises [default: 100]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<u64>,
    /// How the learning rate falls after that: cosine, linear, inverse-sqrt or constant [default: cosine]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// AdamW's weight decay, on matrices [default: 0.1]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    weight_decay: Option<f64>,
    /// Dropout: the chance that a number is dropped [default: 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<f64>,
    /// The largest norm of the gradient, 0 for any [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    clip: Option<f64>,
    /// AdamW's second beta [default: 0.99]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number)]
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
    /// End the run after so many evaluations without a better one, 0 for never [default: 0]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    patience: Option<u64>,
    /// The part of the text that is kept from training [default: 0.1]
    #[arg(long, value_name = "PART", allow_negative_numbers = true, value_parser = number)]
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
}

/// A number as JSON has them: without infinities, and without what is not a number.
fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number")?;
    number.is_finite().then_some(number).ok_or_else(|| "expected a finite number".into())
}

/// Runs the command. Its exit code is 0, or 130 where it was told to stop.
pub fn run(mut arguments: Arguments) -> Result<u8, Failure> {
    let Some(place) = Place::of_environment()? else {
        return pool(&arguments, 1)?.install(|| train(&arguments, None));
    };
    arguments.prepare_for(&place)?;
    pool(&arguments, place.local)?.install(|| match place.rank {
        0 => train(&arguments, Some(&place)),
        _ => help(&arguments, &place),
    })
}

/// What all processes of a run must have been started with: threads are each one's own.
fn words() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(at) = words.iter().position(|word| word == "--threads" || word.starts_with("--threads=")) {
        let count = if words[at] == "--threads" { 2 } else { 1 };
        words.drain(at..words.len().min(at + count));
    }
    words
}

/// Computes gradients for the run of rank 0.
fn help(arguments: &Arguments, place: &Place) -> Result<u8, Failure> {
    let at = format!("{}:{}", place.address, place.port);
    let waiting = Waiting::begin(format!("rank {}: waiting for rank 0 at {at}", place.rank));
    // From now on whoever stops all processes stops rank 0, which saves and lets the others go. Until then nobody would.
    let mut caught = Ok(());
    let met = || {
        drop(waiting);
        caught = stopper().map(drop);
    };
    let code = roformer::train::help(place, &words(), &arguments.out, met)?;
    caught?;
    Ok(code as u8)
}

/// The threads to train on, where so many processes share the machine.
pub fn pool(arguments: &Arguments, processes: usize) -> Result<rayon::ThreadPool, Failure> {
    let share = || match processes {
        1 => 0,
        _ => (std::thread::available_parallelism().map_or(1, usize::from) / processes).max(1),
    };
    let threads = arguments.threads.map_or_else(share, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Failure::Other(format!("no threads: {error}")))
}

fn train(arguments: &Arguments, place: Option<&Place>) -> Result<u8, Failure> {
    let meet = |place: &Place| {
        let others = place.world - 1;
        let at = format!("{}:{}", place.address, place.port);
        let _waiting = Waiting::begin(format!("waiting for the other processes, {others} in all, at {at}"));
        Meeting::open(place, &words())
    };
    let meeting = place.map(meet).transpose()?;
    // Until all are there Ctrl-C ends this process at once: nothing has been written that could be half.
    let is_stopped = stopper()?;
    let mut reading = Reading::new();
    let begun = begin(arguments, |bytes| reading.show(bytes));
    reading.finish();
    let (device, mut run) = begun?;
    if let Some(warning) = run.trainer().data().unknown().warning() {
        say(&format!("warning: {warning}"));
    }
    let world = place.map_or(1, |place| place.world);
    if let Some(meeting) = meeting {
        check_batches(run.trainer().settings(), world)?;
        run.gather(meeting)?;
    }
    let mut show = Show::new(&run, &arguments.out, &device, world);
    let end = go(arguments, &mut run, |event| {
        show.event(event);
        match is_stopped.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    show.finish();
    if let Ok(end) = &end {
        run.dismiss(if *end == End::Stopped { 130 } else { 0 });
    }
    let end = end.map_err(|failure| match failure {
        Failure::Other(message) if world > 1 && message.contains(" was lost") => Failure::Other(format!(
            "{message}; the checkpoint of step {} is kept: go on with --out {} --resume on any number of processes",
            run.saved(),
            arguments.out.display()
        )),
        other => other,
    })?;
    if arguments.plot {
        show.plotted(&run.path(CURVES));
    }
    match end {
        End::Stopped => {
            show.stopped(&run);
            Ok(130)
        }
        end => {
            show.result(&run, end == End::Early)?;
            Ok(0)
        }
    }
}

/// The file of the curves.
const CURVES: &str = "curves.svg";

/// The run that is asked for, begun or resumed. `on` sees how many bytes of text have been read.
pub fn begin(arguments: &Arguments, on: impl FnMut(u64)) -> Result<(Device, Run), Failure> {
    let Arguments { out, resume, .. } = arguments;
    let given = settings(&arguments.given)?;
    let device = arguments.device.find_to_train()?;
    let run = match resume {
        true => Run::resume_on(&device, out, &given),
        false => {
            let settings = Settings::default().with(&given).map_err(flagged)?;
            Run::begin_on(&device, out, &settings, &start(arguments)?, &request(arguments), on)
        }
    };
    Ok((device, run.map_err(flagged)?))
}

/// Trains to the end, or until `on` breaks, and draws the curves where they are asked for. A run that diverged is a failure.
pub fn go(
    arguments: &Arguments,
    run: &mut Run,
    on: impl FnMut(Event) -> ControlFlow<()>,
) -> Result<End, Failure> {
    // What was given was right: what goes wrong now is a full disk or the like.
    let other = |error: Error| Failure::Other(error.to_string());
    let end = run.go(on).map_err(other)?;
    if arguments.plot {
        let path = run.path(CURVES);
        let drawn = curves_of(&run.path("metrics.jsonl")).and_then(|svg| write(&path, svg.as_bytes()));
        drawn.map_err(other)?;
    }
    match end {
        End::Diverged { step, loss } => Err(Failure::Other(format!(
            "the loss or its gradient is not a number at step {step} (loss {loss}); the checkpoint of step {} is kept in {}; \
             begin anew in another folder with a lower --lr or a longer --warmup",
            run.saved(),
            arguments.out.display()
        ))),
        end => Ok(end),
    }
}

/// Where the model begins.
fn start(arguments: &Arguments) -> Result<Start, Failure> {
    Ok(match (&arguments.from, &arguments.config) {
        (Some(model), _) => {
            let encoding = arguments.given.encoding.as_deref().map(Encoding::parse).transpose();
            let encoding = encoding.map_err(flagged)?;
            let folder = roformer::hub::find(model, &Default::default())?;
            match encoding {
                Some(encoding) => Start::Encoded(folder, Box::new(encoding)),
                None => Start::Checkpoint(folder),
            }
        }
        (_, Some(path)) => Start::Config(path.clone()),
        _ => Start::Scratch,
    })
}

/// What is read.
fn request(arguments: &Arguments) -> Request {
    let tokenizer = arguments.tokenizer.as_deref().map(|name| match name {
        "characters" => Choice::Characters,
        "wordpiece" => Choice::WordPiece(arguments.vocab_size as usize),
        path => Choice::Given(path.into()),
    });
    let (files, kept) = (arguments.data.clone(), arguments.eval_data.clone());
    Request { files, kept, tokenizer, ..Request::default() }
}

/// An error that names the flag where the library names the setting.
fn flagged(error: Error) -> Failure {
    match error {
        Error::Input { name, value, expected } if name_is_setting(name) => {
            Failure::Input(format!("--{} is {value}; expected {expected}", name.replace('_', "-")))
        }
        other => other.into(),
    }
}

fn name_is_setting(name: &str) -> bool {
    Settings::default().to_json().contains_key(name)
}

/// What was given, by name.
fn settings(given: &Given) -> Result<Map<String, Value>, Failure> {
    match serde_json::to_value(given) {
        Ok(Value::Object(map)) => Ok(map),
        _ => Err(Failure::Other("the settings cannot be read; this is a bug: report it".into())),
    }
}
