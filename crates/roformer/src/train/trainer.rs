//! One step of training, one evaluation.

use super::data::Data;
use super::hand_over;
use super::rows::Rows;
use super::settings::{Goal, Settings};
use super::team::{Heard, Meeting, Team, Terms};
use super::{Learner, Update};
use crate::Device;
use crate::blueprint::Blueprint;
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::graph::{Batch, IGNORE, Parameters, mix};
use crate::network::Network;
use crate::ops::memory::is_available;
use crate::ops::optimizer::AdamW;
use crate::weights::Weights;
use serde_json::Value;
use std::ops::Range;

/// A model in training, with its text. What it is after some steps depends on its settings and its text alone, not on
/// threads, and not on where it was saved and resumed.
pub struct Trainer {
    settings: Settings,
    rows: Rows,
    learner: Learner,
    encoding: Encoding,
    /// The longest text that the model is said to be for.
    longest: usize,
    /// Steps that are done.
    step: u64,
    /// The other processes of the run.
    team: Option<Team>,
}

/// What a step gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stepped {
    /// The mean loss of its batches.
    pub loss: f64,
    /// Its learning rate.
    pub rate: f64,
    /// The norm of all gradients, before clipping.
    pub norm: f64,
}

impl Stepped {
    /// Whether the loss and its gradients were numbers. If not, the step was not taken.
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.norm.is_finite()
    }
}

/// What an evaluation found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// The mean loss of what is kept from training.
    pub loss: f64,
    /// The part of the labels that were right, of a classifier.
    pub accuracy: Option<f64>,
}

impl Trainer {
    /// A model of the settings' sizes with the first weights that the seed gives it, on the CPU.
    pub fn new(settings: &Settings, data: Data) -> Result<Self> {
        Self::new_on(&Device::default(), settings, data)
    }

    /// The same on a device.
    pub fn new_on(device: &Device, settings: &Settings, data: Data) -> Result<Self> {
        settings.check()?;
        let network = hand_over::network(settings, &data)?;
        Self::with_network(device, settings, network, data)
    }

    /// The same of a network that is given.
    pub(super) fn with_network(
        device: &Device,
        settings: &Settings,
        network: Network,
        data: Data,
    ) -> Result<Self> {
        settings.check()?;
        let rows = Rows::new(data, settings)?.starting_with(network.blueprint.start);
        let texts = if settings.goal == Goal::Similarity { 2 } else { 1 };
        let (batch, block) = (settings.batch * texts, settings.block);
        if matches!(device, Device::Cpu(_)) && !is_available(least_bytes(&network.blueprint, batch, block)) {
            return Err(Error::memory("a training step"));
        }
        let longest = block.max(network.blueprint.longest);
        let mut learner = Learner::new(device, &network, [batch, block], longest)?;
        let layout = learner.layout().clone();
        layout.initialise(settings.seed, learner.parameters_mut()?);
        let (settings, encoding) = (settings.clone(), network.blueprint.encoding);
        Ok(Trainer { settings, rows, learner, encoding, longest, step: 0, team: None })
    }

    /// The longest text that the model is said to be for, in the files by which others load it.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Keeps the longest text that a configuration says, where it is longer than a block.
    pub(super) fn keep_longest(&mut self, config: &Value) {
        if self.encoding.has_learned_rows() {
            return;
        }
        let said = config.get("max_position_embeddings").and_then(Value::as_u64).unwrap_or(0);
        self.longest = self.longest.max(usize::try_from(said).unwrap_or(0).min(1 << 20));
    }

    /// Takes the weights of a checkpoint; what the task adds keeps its first numbers.
    pub(super) fn load(&mut self, weights: &Weights) -> Result<()> {
        let (layout, network) = (self.layout().clone(), self.network().clone());
        network.load(weights, &layout, self.learner.parameters_mut()?).map(drop)
    }

    /// Takes a step. Where the loss or its gradient is not finite nothing changes.
    pub fn step(&mut self) -> Result<Stepped> {
        let step = self.step + 1;
        if let Some(team) = &self.team {
            team.call(step)?;
        }
        let Trainer { settings, rows, learner, encoding, team, .. } = self;
        let update = update(settings, step);
        let fill = |part, batch: &mut Batch| fill(settings, rows, encoding, step, part, batch);
        let found = match team {
            Some(team) => learner.step_with(team, &update, settings.accumulate, fill)?,
            None => learner.step(&update, settings.accumulate, fill)?,
        };
        if found.is_finite() {
            self.step = step;
        }
        Ok(Stepped { loss: found.loss, rate: update.rate, norm: found.norm })
    }

    /// What all processes must have alike.
    pub(super) fn terms(&self) -> Terms {
        let hash = |text: String| text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        let entries = self.layout().entries().iter().map(|entry| format!("{} {:?}", entry.name, entry.shape));
        // What a run may change when it is resumed is rank 0's alone.
        let Settings { eval_every, eval_batches, save_every, patience, .. } = Settings::default();
        let settings = Settings { eval_every, eval_batches, save_every, patience, ..self.settings.clone() };
        let settings =
            format!("{} {}", Value::from(settings.to_json()), entries.collect::<Vec<_>>().join("\n"));
        Terms { settings: hash(settings), data: self.data().fingerprint() }
    }

    /// Waits for the other processes of the run, whose rank 0 this is, and gives them what they begin with.
    pub(super) fn gather(&mut self, meeting: Meeting) -> Result<()> {
        let team = meeting.gather(self.terms())?;
        self.learner.enter(&team)?;
        self.team = Some(team);
        Ok(())
    }

    /// Lets the other processes go, with an exit code.
    pub(super) fn dismiss(&mut self, code: u32) {
        if let Some(team) = self.team.take() {
            team.end(code);
        }
    }

    /// Takes part in the run of rank 0 until it ends: its exit code.
    pub(super) fn help(&mut self, team: Team) -> Result<u32> {
        self.learner.enter(&team)?;
        let Trainer { settings, rows, learner, encoding, .. } = self;
        loop {
            match team.hear()? {
                Heard::End(code) => return Ok(code),
                Heard::Moments => team.give(learner.moments())?,
                Heard::Step(step) => {
                    let fill = |part, batch: &mut Batch| fill(settings, rows, encoding, step, part, batch);
                    learner.step_with(&team, &update(settings, step), settings.accumulate, fill)?;
                }
            }
        }
    }

    /// Measures what is kept from training: rows spread evenly over it, always the same. `None` where nothing is kept.
    pub fn evaluate(&mut self) -> Result<Option<Evaluation>> {
        let Settings { batch: size, eval_batches, goal, .. } = self.settings;
        let count = self.rows.kept(eval_batches);
        if count == 0 {
            return Ok(None);
        }
        let (mut sum, mut counted, mut right) = (0.0, 0.0, 0);
        for first in (0..count).step_by(size) {
            let (mut weight, Trainer { settings, rows, learner, encoding, longest, .. }) = (0, &mut *self);
            let loss = learner.evaluate(|batch| {
                let read = rows.evaluation(first, count, batch);
                batch.positions = encoding.spread(settings.block, *longest).unwrap_or_default();
                // A loss is a mean over what counts: texts, or tokens that are scored.
                weight = match goal {
                    Goal::Causal | Goal::Masked | Goal::Sequences => {
                        batch.targets.iter().filter(|&&target| target != IGNORE).count()
                    }
                    Goal::Classification | Goal::Similarity => read,
                };
            })?;
            sum += loss * weight as f64;
            counted += weight as f64;
            right += self.right_labels()?;
        }
        let accuracy = (goal == Goal::Classification).then(|| right as f64 / count as f64);
        Ok(Some(Evaluation { loss: sum / f64::max(counted, 1.0), accuracy }))
    }

    /// How many labels of the last evaluation are right.
    fn right_labels(&mut self) -> Result<usize> {
        let is_classifier = self.settings.goal == Goal::Classification;
        let Some(scores) = self.learner.outline().scores.filter(|_| is_classifier) else { return Ok(0) };
        let best = |row: &[f32]| {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
            best.map_or(IGNORE, |(label, _)| label as u32)
        };
        let said: Vec<u32> = self.learner.value(scores)?.chunks(scores.width).map(best).collect();
        let targets = &self.learner.batch().targets;
        Ok(said.iter().zip(targets).filter(|(said, target)| said == target).count())
    }

    /// Tokens of a step, padding included.
    pub fn tokens_of_a_step(&self) -> f64 {
        let Settings { goal, batch, block, accumulate, .. } = self.settings;
        let texts = if matches!(goal, Goal::Similarity | Goal::Sequences) { 2 } else { 1 };
        (texts * batch * block) as f64 * accumulate as f64
    }

    /// Steps that are done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Brings what a GPU has changed back to the CPU, to be saved.
    pub(super) fn fetch(&mut self) -> Result<()> {
        self.learner.fetch()
    }

    /// All parameters; those of a GPU as of the last evaluation or checkpoint.
    pub fn parameters(&self) -> &[f32] {
        self.learner.parameters()
    }

    /// The names, shapes and places of the parameters.
    pub fn layout(&self) -> &Parameters {
        self.learner.layout()
    }

    /// The model.
    pub fn network(&self) -> &Network {
        &self.learner.outline().network
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The text.
    pub fn data(&self) -> &Data {
        self.rows.data()
    }

    /// Hands over parameters and the optimiser's two moments, tensor by tensor, as [`BUFFERS`] names them. Moments that other
    /// processes have come from there, no more at a time than those of a tensor.
    pub(super) fn hand_over(&self, mut to: impl FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let entries = self.layout().entries();
        entries.iter().try_for_each(|entry| to(&self.parameters()[entry.range.clone()]))?;
        if let Some(team) = &self.team {
            team.call_for_moments()?;
        }
        let (len, mut collected) = (self.layout().len(), Vec::new());
        for own in self.learner.moments() {
            for Range { start, end } in entries.iter().map(|entry| entry.range.clone()) {
                let Some(team) = &self.team else {
                    to(&own[start..end])?;
                    continue;
                };
                collected.resize(end - start, 0.0);
                team.take(len, start, &mut collected, own)?;
                to(&collected)?;
            }
        }
        Ok(())
    }

    /// Goes on from a checkpoint: `read` fills each tensor of each buffer by their names.
    pub(super) fn restore(
        &mut self,
        step: u64,
        mut read: impl FnMut(&str, &str, &[usize], &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        for entry in self.layout().clone().entries() {
            let mut read = |buffer: &str, numbers: &mut [f32]| {
                read(buffer, &entry.name, &entry.shape, &mut numbers[entry.range.clone()])
            };
            read("parameters", self.learner.parameters_mut()?)?;
            let [first, second] = self.learner.moments_mut()?;
            read("first", first)?;
            read("second", second)?;
        }
        self.step = step;
        Ok(())
    }
}

/// What a checkpoint has of each tensor.
pub(super) const BUFFERS: [&str; 3] = ["parameters", "first", "second"];

/// How a step changes the parameters.
fn update(settings: &Settings, step: u64) -> Update {
    let spans = [settings.warmup, settings.steps];
    let rate = settings.schedule.rate(step, spans, [settings.lr, settings.min_lr]);
    let adam = AdamW { beta2: settings.beta2, weight_decay: settings.weight_decay, ..AdamW::default() };
    Update { adam, step, rate, clip: settings.clip }
}

/// Fills batch `part` of a step: by the seed and its number alone.
fn fill(settings: &Settings, rows: &Rows, encoding: &Encoding, step: u64, part: u64, batch: &mut Batch) {
    let number = step.wrapping_sub(1).wrapping_mul(settings.accumulate).wrapping_add(part);
    rows.training(number, batch);
    let drawn = encoding.as_encode::<f32>().positions(settings.block, rows.seed_of_positions(), number);
    batch.positions = drawn.unwrap_or_default();
}

/// Bytes that a step takes at least: asked for before anything is made, since tables are made on the way.
fn least_bytes(blueprint: &Blueprint, batch: usize, length: usize) -> u128 {
    let [batch, length, width, wide, layers, vocabulary] =
        [batch, length, blueprint.width, blueprint.wide, blueprint.layers, blueprint.vocabulary]
            .map(|size| size as u128);
    let values = layers * batch * length * (6 * width + wide);
    let parameters = vocabulary * width + layers * width * (4 * width + 2 * wide);
    let table = length * blueprint.head_dim as u128;
    (2 * values + 4 * parameters + 2 * table) * 4
}

#[cfg(test)]
mod tests;
