//! One step of training, one evaluation.

use super::data::Data;
use super::hand_over;
use super::rows::Rows;
use super::settings::{Goal, Settings};
use crate::error::{Error, Result};
use crate::graph::{Batch, IGNORE, Parameters};
use crate::network::{Laid, Network};
use crate::ops::Memory;
use crate::ops::memory::is_available;
use crate::ops::optimizer::{AdamW, State, clip_coefficient, global_norm};
use crate::weights::Weights;
use serde_json::Value;
use std::ops::Range;

/// A model in training, with its text. What it is after some steps depends on its settings and its text alone, not on
/// threads, and not on where it was saved and resumed.
pub struct Trainer {
    settings: Settings,
    rows: Rows,
    laid: Laid<f32>,
    /// The longest text that the model is said to be for.
    longest: usize,
    first: Memory<f32>,
    second: Memory<f32>,
    /// The tensors, and whether they decay.
    ranges: Vec<(Range<usize>, bool)>,
    /// Steps that are done.
    step: u64,
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
    /// A model of the settings' sizes with the first weights that the seed gives it.
    pub fn new(settings: &Settings, data: Data) -> Result<Self> {
        settings.check()?;
        let network = hand_over::network(settings, &data)?;
        Self::with_network(settings, network, data)
    }

    /// The same of a network that is given.
    pub(super) fn with_network(settings: &Settings, network: Network, data: Data) -> Result<Self> {
        settings.check()?;
        let rows = Rows::new(data, settings)?;
        let texts = if settings.goal == Goal::Similarity { 2 } else { 1 };
        let (batch, block) = (settings.batch * texts, settings.block);
        if !is_available(least_bytes(&network, batch, block)) {
            return Err(Error::Memory { what: "a training step" });
        }
        let mut laid = network.build::<f32>(batch, block, block)?;
        let layout = laid.graph.layout().clone();
        layout.initialise(settings.seed, laid.graph.parameters_mut());
        let moments = || Memory::zeros(layout.len()).ok_or(Error::Memory { what: "the optimizer" });
        let ranges = layout.decaying();
        let (first, second) = (moments()?, moments()?);
        let settings = settings.clone();
        Ok(Trainer { settings, rows, laid, longest: block, first, second, ranges, step: 0 })
    }

    /// The longest text that the model is said to be for, in the files by which others load it.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Keeps the longest text that a configuration says, where it is longer than a block.
    pub(super) fn keep_longest(&mut self, config: &Value) {
        let said = config.get("max_position_embeddings").and_then(Value::as_u64).unwrap_or(0);
        self.longest = self.longest.max(usize::try_from(said).unwrap_or(0).min(1 << 20));
    }

    /// Takes the weights of a checkpoint; what the task adds keeps its first numbers.
    pub(super) fn load(&mut self, weights: &Weights) -> Result<()> {
        let layout = self.laid.graph.layout().clone();
        let network = self.laid.network().clone();
        network.load(weights, &layout, self.laid.graph.parameters_mut()).map(drop)
    }

    /// Takes a step. Where the loss or its gradient is not finite nothing changes.
    pub fn step(&mut self) -> Result<Stepped> {
        let settings = &self.settings;
        let spans = [settings.warmup, settings.steps];
        let rate = settings.schedule.rate(self.step + 1, spans, [settings.lr, settings.min_lr]);
        let adam = AdamW { beta2: settings.beta2, weight_decay: settings.weight_decay, ..AdamW::default() };
        let (clip, parts) = (settings.clip, settings.accumulate);
        self.laid.graph.clear();
        let mut loss = 0.0;
        for part in 0..parts {
            let number = self.step.wrapping_mul(parts).wrapping_add(part);
            // The batch before is written over: a step allocates nothing.
            let mut batch = std::mem::take(self.laid.graph.batch());
            self.rows.training(number, &mut batch);
            self.draw_positions(number, &mut batch);
            self.laid.set(batch)?;
            loss += self.laid.graph.step(1.0 / parts as f64);
        }
        let (parameters, gradients) = self.laid.graph.both_mut();
        let stepped = Stepped { loss: loss / parts as f64, rate, norm: global_norm(gradients) };
        if !stepped.is_finite() {
            return Ok(stepped);
        }
        let clip = if clip > 0.0 { clip_coefficient(stepped.norm, clip) } else { 1.0 };
        let mut state = State { parameters, gradients, first: &mut self.first, second: &mut self.second };
        adam.apply(&adam.at(self.step + 1, rate, clip), &mut state, &self.ranges);
        self.step += 1;
        Ok(stepped)
    }

    /// Measures what is kept from training: rows spread evenly over it, always the same. `None` where nothing is kept.
    pub fn evaluate(&mut self) -> Result<Option<Evaluation>> {
        let Settings { batch: size, eval_batches, .. } = self.settings;
        let count = self.rows.kept(eval_batches);
        if count == 0 {
            return Ok(None);
        }
        let (mut sum, mut counted, mut right) = (0.0, 0.0, 0);
        for first in (0..count).step_by(size) {
            let mut batch = std::mem::take(self.laid.graph.batch());
            let rows = self.rows.evaluation(first, count, &mut batch);
            self.draw_positions(first as u64, &mut batch);
            // A loss is a mean over what counts: texts, or tokens that are scored.
            let weight = match self.settings.goal {
                Goal::Causal | Goal::Masked => {
                    batch.targets.iter().filter(|&&target| target != IGNORE).count()
                }
                Goal::Classification | Goal::Similarity => rows,
            };
            self.laid.set(batch)?;
            sum += self.laid.graph.forward() * weight as f64;
            counted += weight as f64;
            right += self.right_labels();
        }
        let accuracy = (self.settings.goal == Goal::Classification).then(|| right as f64 / count as f64);
        Ok(Some(Evaluation { loss: sum / f64::max(counted, 1.0), accuracy }))
    }

    /// How many labels of the last forward pass are right.
    fn right_labels(&mut self) -> usize {
        let Some(scores) = self.laid.scores.filter(|_| self.settings.goal == Goal::Classification) else {
            return 0;
        };
        let targets = std::mem::take(&mut self.laid.graph.batch().targets);
        let rows = self.laid.graph.value(scores).chunks(scores.width);
        let best = |row: &[f32]| {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
            best.map_or(IGNORE, |(label, _)| label as u32)
        };
        let right = rows.zip(&targets).filter(|(row, target)| best(row) == **target).count();
        self.laid.graph.batch().targets = targets;
        right
    }

    /// Positions, where the encoding draws them anew for every batch.
    fn draw_positions(&self, number: u64, batch: &mut Batch) {
        let encoding = self.laid.network().encoding.as_encode::<f32>();
        let seed = self.rows.seed_of_positions(batch.is_training);
        batch.positions = encoding.positions(self.settings.block, seed, number).unwrap_or_default();
    }

    /// Tokens of a step, padding included.
    pub fn tokens_of_a_step(&self) -> f64 {
        let Settings { goal, batch, block, accumulate, .. } = self.settings;
        let texts = if goal == Goal::Similarity { 2 } else { 1 };
        (texts * batch * block) as f64 * accumulate as f64
    }

    /// Steps that are done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// All parameters.
    pub fn parameters(&self) -> &[f32] {
        self.laid.graph.parameters()
    }

    /// The names, shapes and places of the parameters.
    pub fn layout(&self) -> &Parameters {
        self.laid.graph.layout()
    }

    /// The model.
    pub fn network(&self) -> &Network {
        self.laid.network()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The text.
    pub fn data(&self) -> &Data {
        self.rows.data()
    }

    /// Parameters and the optimizer's two moments, under the names of a checkpoint.
    pub(super) fn buffers(&self) -> [(&'static str, &[f32]); 3] {
        [("parameters", self.parameters()), ("first", &self.first), ("second", &self.second)]
    }

    /// Goes on from a checkpoint: `read` fills each tensor of each buffer by their names.
    pub(super) fn restore(
        &mut self,
        step: u64,
        mut read: impl FnMut(&str, &str, &[usize], &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        for entry in self.laid.graph.layout().clone().entries() {
            let parameters = self.laid.graph.parameters_mut();
            let buffers =
                [("parameters", parameters), ("first", &mut self.first), ("second", &mut self.second)];
            for (buffer, numbers) in buffers {
                read(buffer, &entry.name, &entry.shape, &mut numbers[entry.range.clone()])?;
            }
        }
        self.step = step;
        Ok(())
    }
}

/// Bytes that a step takes at least: asked for before anything is made, since tables are made on the way.
fn least_bytes(network: &Network, batch: usize, length: usize) -> u128 {
    let [batch, length, width, wide, layers, vocabulary] =
        [batch, length, network.width, network.wide, network.layers, network.vocabulary]
            .map(|size| size as u128);
    let values = layers * batch * length * (6 * width + wide);
    let parameters = vocabulary * width + layers * width * (4 * width + 2 * wide);
    let table = length * network.head_dim as u128;
    (2 * values + 4 * parameters + 2 * table) * 4
}
