//! One model, trained: what its batches are, and how its loss fell.

use super::checkpoint::{Checkpoint, Way};
use super::results::CurvePoint;
use super::size::Size;
use super::tasks::{Draws, Example, PAD, Part, Task};
use super::training::Training;
use roformer::Device;
use roformer::Result;
use roformer::blueprint::{Blueprint, Dims, Features, Mixing};
use roformer::encoding::Encoding;
use roformer::graph::{Batch, IGNORE, Init, Parameters};
use roformer::network::{Laid, Network, Task as Goal};
use roformer::train::{Learner, Update};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Features of a head, where nothing else is said.
pub const HEAD_DIM: usize = 32;

/// The loss of a model whose numbers have run away: no other is as high, and JSON has no infinity.
pub(super) const HOPELESS: f64 = 65535.0;

/// The points of a training curve.
const POINTS: u64 = 50;

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// To choose the size of a task's models.
    Pilot,
    /// To choose a learning rate.
    Search,
    /// To choose parameters of an encoding.
    Sweep,
    /// To be compared.
    Run,
    /// To be compared: the baseline once more, with the batches in the opposite order.
    Again,
}

/// All that decides a run, beside the program and the user's text, whose fingerprint is here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What it is for.
    pub purpose: Purpose,
    /// The task.
    pub task: String,
    /// How many symbols it has, where they are not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<usize>,
    /// The fingerprint of its data, in hexadecimal.
    pub data: String,
    /// The encoding, such as `rotary:base=500`.
    pub encoding: String,
    /// A number for its file, in hexadecimal, where it comes from one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Whether attention is linear.
    pub is_linear: bool,
    /// The feature maps of linear attention.
    #[serde(default, skip_serializing_if = "is_default")]
    pub features: Features,
    /// Width.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads, where they have not the usual 32 features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<usize>,
    /// Texts of a step.
    pub batch: usize,
    /// The longest length that is trained on.
    pub train_length: usize,
    /// The lengths that are tested.
    pub test_lengths: Vec<usize>,
    /// Examples of each length that are tested.
    pub examples: usize,
    /// Steps of training.
    pub steps: u64,
    /// The highest learning rate.
    pub rate: f64,
    /// How it is trained.
    #[serde(default, skip_serializing_if = "Training::is_usual")]
    pub training: Training,
    /// The seed of the first weights, the batches and the tests.
    pub seed: u64,
    /// What it is trained on, where that is not the CPU: other devices round otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
}

impl Settings {
    /// The same with models of this size.
    pub fn of(self, size: Size) -> Self {
        Settings { width: size.width(), layers: size.layers(), heads: Self::heads_of(size), ..self }
    }

    /// The heads of models of this size as settings have them.
    pub(super) fn heads_of(size: Size) -> Option<usize> {
        (!size.has_usual_heads()).then_some(size.heads())
    }

    /// The model, with this encoding.
    pub fn network(&self, task: &dyn Task, encoding: &Encoding) -> Network {
        let (vocabulary, width, layers) = (task.vocabulary(), self.width, self.layers);
        let heads = self.heads.unwrap_or(width / HEAD_DIM);
        let digits: Vec<u32> = task.digits().collect();
        let blueprint = Blueprint {
            encoding: encoding.clone().with_digits(&digits),
            mixing: match self.is_linear {
                true => Mixing::Linear(self.features.form(width / heads)),
                false => Mixing::Softmax,
            },
            ..Blueprint::plain(Dims { vocabulary, width, layers, heads })
        };
        Network { blueprint, dropout: self.training.dropout, task: Goal::Language }
    }

    /// Tokens of the longest text that the model will see: the rows of learned tables.
    pub fn longest(&self, task: &dyn Task) -> usize {
        let lengths = self.test_lengths.iter().copied().chain([self.train_length]);
        lengths.map(|length| task.tokens(length)).max().unwrap_or(1)
    }

    /// Floating-point operations of a training step: its matrix products, three times those of the forward pass. Tables of
    /// an encoding are left out.
    pub fn flops(&self, task: &dyn Task) -> f64 {
        3.0 * self.batch as f64 * self.flops_of_text(task, self.train_length)
    }

    /// Those of one text of this length on its way forward.
    pub(super) fn flops_of_text(&self, task: &dyn Task, length: usize) -> f64 {
        let [tokens, width, layers] = [task.tokens(length), self.width, self.layers].map(|n| n as f64);
        let weights = layers * 12.0 * width * width + task.vocabulary() as f64 * width;
        tokens * (2.0 * weights + layers * 4.0 * tokens * width)
    }
}

/// What a model is after training.
pub struct Trained {
    /// The model.
    pub network: Network,
    /// The names and places of its parameters.
    pub layout: Parameters,
    /// Its parameters.
    pub parameters: Vec<f32>,
    /// The loss as it fell.
    pub curve: Vec<CurvePoint>,
}

impl Trained {
    /// The model laid out for batches `[batch, tokens]`, with what it learned. A network that differs in rules without
    /// parameters may take its place.
    pub fn lay_out(
        &self,
        network: &Network,
        batch: usize,
        tokens: usize,
        longest: usize,
    ) -> Result<Laid<f32>> {
        let mut laid = network.build::<f32>(batch, tokens, longest)?;
        give(&self.layout, &self.parameters, &mut laid.graph);
        Ok(laid)
    }
}

/// Gives every parameter of a graph the numbers of the one with its name.
pub(super) fn give(layout: &Parameters, numbers: &[f32], graph: &mut roformer::graph::Graph<f32>) {
    for entry in graph.layout().clone().entries() {
        if let Some(known) = layout.find(&entry.name) {
            graph.parameters_mut()[entry.range.clone()].copy_from_slice(&numbers[known.range()]);
        }
    }
}

/// Trains a model on a device. `on_step` is asked before each step whether to go on; `None` where it was not.
pub fn train(
    device: &Device,
    settings: &Settings,
    task: &dyn Task,
    encoding: &Encoding,
    mut on_step: impl FnMut() -> bool,
) -> Result<Option<Trained>> {
    train_from(None, device, settings, task, encoding, |_| on_step())
}

/// The same from where a checkpoint is, which is kept as it goes and taken away at the end. `on_steps` is told how many steps are
/// done that it was not told of.
pub(super) fn train_from(
    mut checkpoint: Option<Checkpoint>,
    device: &Device,
    settings: &Settings,
    task: &dyn Task,
    encoding: &Encoding,
    mut on_steps: impl FnMut(u64) -> bool,
) -> Result<Option<Trained>> {
    let network = settings.network(task, encoding);
    let tokens = task.tokens(settings.train_length);
    let Settings { steps, seed, training, .. } = *settings;
    let parts = training.parts;
    let texts = settings.batch / parts as usize;
    let mut learner = Learner::new(device, &network, [texts, tokens], settings.longest(task))?;
    let layout = learner.layout().clone();
    initialise(&layout, settings, learner.parameters_mut()?);

    let mut way = match &checkpoint {
        Some(checkpoint) => checkpoint.restore(&mut learner)?,
        None => Way::default(),
    };
    let mut is_going = on_steps(way.step);
    let every = steps.div_ceil(POINTS).max(1);
    while way.step < steps {
        let step = way.step;
        if let Some(checkpoint) = &mut checkpoint
            && step > 0
            && (!is_going || checkpoint.is_due())
        {
            checkpoint.keep(&mut learner, &way)?;
        }
        if !is_going {
            return Ok(None);
        }
        let rate = training.rate(step + 1, steps, settings.rate);
        let update = Update { adam: training.adam(), step: step + 1, rate, clip: training.clip };
        let found = learner.step(&update, parts, |part, given| {
            // Parts of a step have chances of their own.
            let number = step * parts + part;
            let length = one_length(settings, task, step);
            let positions = positions(encoding, task, length, tokens)
                .or_else(|| encoding.as_encode::<f32>().positions(tokens, seed, number))
                .unwrap_or_default();
            let rows = texts as u64 * part..texts as u64 * (part + 1);
            let read = batch(settings, task, step, rows);
            *given = Batch { positions, seed, step: number, is_training: true, ..read };
        })?;
        // A step that is not a number is not taken: a rate that is too high shows in the curve, and nothing else breaks.
        if found.is_finite() {
            (way.sum, way.count) = (way.sum + found.loss, way.count + 1.0);
        }
        way.step += 1;
        if way.step.is_multiple_of(every) || way.step == steps {
            let before = way.curve.last().map_or(HOPELESS, |point: &CurvePoint| point.loss);
            let loss = if way.count > 0.0 { way.sum / way.count } else { before };
            way.curve.push(CurvePoint { step: way.step, loss });
            (way.sum, way.count) = (0.0, 0.0);
        }
        is_going = on_steps(1);
    }
    learner.fetch()?;
    let parameters = learner.parameters().to_vec();
    Ok(Some(Trained { network, layout, parameters, curve: way.curve }))
}

/// First weights by the seed. The standard deviation 0.02 is that of models of the width 768; a narrower one learns faster
/// with that of its own width.
fn initialise(layout: &Parameters, settings: &Settings, parameters: &mut [f32]) {
    layout.initialise(settings.seed, parameters);
    let scale = (768.0 / settings.width as f32).sqrt();
    for entry in layout.entries().iter().filter(|entry| matches!(entry.init, Init::Normal(_))) {
        parameters[entry.range.clone()].iter_mut().for_each(|number| *number *= scale);
    }
}

/// The length of all examples of a step, where they stand in a grid; the longest of training otherwise.
fn one_length(settings: &Settings, task: &dyn Task, step: u64) -> usize {
    match task.places(settings.train_length) {
        Some(_) => {
            let key = [name_key(task), settings.seed, LENGTH, batch_number(settings, step)];
            task.draw_length(settings.train_length, &mut Draws::new(&key))
        }
        None => settings.train_length,
    }
}

/// Where the tokens of texts of this length stand, filled up to `tokens`, for an encoding that goes by rows and columns; `None` for others,
/// and where a task has none.
pub(super) fn positions(
    encoding: &Encoding,
    task: &dyn Task,
    length: usize,
    tokens: usize,
) -> Option<Vec<u32>> {
    let (side, places) = (encoding.side()?, task.places(length)?);
    let mut positions: Vec<u32> =
        places.into_iter().map(|[row, column]| (row * side + column) as u32).collect();
    positions.resize(tokens, 0);
    Some(positions)
}

/// Which batch a step takes.
fn batch_number(settings: &Settings, step: u64) -> u64 {
    // The same batches in the opposite order: all else is the same, so what differs is chance.
    if settings.purpose == Purpose::Again { settings.steps - 1 - step } else { step }
}

/// Rows of the batch of a step: by task, seed and step alone, whatever the encoding.
fn batch(settings: &Settings, task: &dyn Task, step: u64, rows: Range<u64>) -> Batch {
    let number = batch_number(settings, step);
    let of_one_length = task.places(settings.train_length).map(|_| one_length(settings, task, step));
    let examples: Vec<Example> = rows
        .map(|row| {
            let mut draws = Draws::new(&[name_key(task), settings.seed, TRAIN, number, row]);
            if let Some(pool) = settings.training.pool {
                // One of so many, which are the same whatever the seed.
                let which = draws.below(pool) as u64;
                draws = Draws::new(&[name_key(task), TRAIN, which]);
            }
            let length = of_one_length.unwrap_or_else(|| task.draw_length(settings.train_length, &mut draws));
            task.example(length, Part::Train, &mut draws)
        })
        .collect();
    join(&examples, task.tokens(settings.train_length))
}

/// Makes the chance of training another than that of tests.
const TRAIN: u64 = 0x0074_7261_696e;

/// Makes the chance of lengths another than that of examples.
const LENGTH: u64 = 0x006c_656e_6774_6820;

/// A task's name as a number.
pub(super) fn name_key(task: &dyn Task) -> u64 {
    task.name().bytes().fold(0, |key, byte| roformer::graph::mix(key ^ u64::from(byte)))
}

/// Examples as a batch, filled up to `tokens` each.
pub(super) fn join(examples: &[Example], tokens: usize) -> Batch {
    let row = |list: &[u32], fill: u32| {
        let mut row = list.to_vec();
        row.resize(tokens, fill);
        row
    };
    Batch {
        ids: examples.iter().flat_map(|example| row(&example.ids, PAD)).collect(),
        targets: examples.iter().flat_map(|example| row(&example.targets, IGNORE)).collect(),
        ..Batch::default()
    }
}

/// Whether features are the usual ones, which settings do not mention.
fn is_default(features: &Features) -> bool {
    *features == Features::default()
}
