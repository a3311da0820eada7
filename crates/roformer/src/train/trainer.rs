//! One step of training, one evaluation.

use super::corpus::Corpus;
use super::hand_over;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::graph::{Batch, IGNORE, Parameters};
use crate::network::{Laid, Network};
use crate::ops::Memory;
use crate::ops::memory::is_available;
use crate::ops::optimizer::{AdamW, State, clip_coefficient, global_norm};
use std::ops::Range;

/// A model in training, with its text. What it is after some steps depends on its settings and its text alone, not on
/// threads, and not on where it was saved and resumed.
pub struct Trainer {
    settings: Settings,
    corpus: Corpus,
    /// What is trained on, and what is not.
    parts: [Range<usize>; 2],
    laid: Laid<f32>,
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

impl Trainer {
    /// A model with the first weights that the seed gives it.
    pub fn new(settings: &Settings, corpus: Corpus) -> Result<Self> {
        settings.check()?;
        let parts = corpus.split(settings.validation, settings.block)?;
        let network = hand_over::network(settings, corpus.characters().tokens())?;
        let (batch, block) = (settings.batch, settings.block);
        if !is_available(least_bytes(&network, batch, block)) {
            return Err(Error::Memory { what: "a training step" });
        }
        let mut laid = network.build::<f32>(batch, block, block)?;
        let layout = laid.graph.layout().clone();
        layout.initialise(settings.seed, laid.graph.parameters_mut());
        let moments = || Memory::zeros(layout.len()).ok_or(Error::Memory { what: "the optimizer" });
        // Tables of an encoding mean what they say at any size: decay would pull frequencies to 0.
        let decays = |name: &str| !name.starts_with("position.");
        let entries = layout.entries().iter();
        let ranges =
            entries.map(|entry| (entry.range.clone(), entry.is_matrix() && decays(&entry.name))).collect();
        Ok(Trainer {
            settings: settings.clone(),
            corpus,
            parts,
            laid,
            first: moments()?,
            second: moments()?,
            ranges,
            step: 0,
        })
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
            let batch = self.batch(self.step.wrapping_mul(parts).wrapping_add(part));
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

    /// The mean loss of the text that is kept from training: of blocks spread evenly over it, always the same. `None`
    /// where no text is kept.
    pub fn evaluate(&mut self) -> Result<Option<f64>> {
        let Settings { batch, block, eval_batches, .. } = self.settings;
        let kept = self.parts[1].clone();
        if kept.is_empty() {
            return Ok(None);
        }
        // The last token is only ever a target.
        let blocks = (kept.len() - 1) / block;
        let count = blocks.min((eval_batches as usize).saturating_mul(batch));
        let start =
            |index: usize| kept.start + (index as u128 * blocks as u128 / count as u128) as usize * block;
        let mut sum = 0.0;
        for first in (0..count).step_by(batch) {
            let rows = batch.min(count - first);
            // Rows beyond the last block repeat it and count for nothing.
            let starts: Vec<usize> = (0..batch).map(|row| start(first + row.min(rows - 1))).collect();
            let mut given = self.at(&starts);
            given.targets[rows * block..].fill(IGNORE);
            given.positions = self.positions(self.settings.seed ^ KEPT, first as u64);
            self.laid.set(given)?;
            sum += self.laid.graph.forward() * rows as f64;
        }
        Ok(Some(sum / count as f64))
    }

    /// A batch to train on, by its number alone.
    fn batch(&self, number: u64) -> Batch {
        let Settings { batch, block, seed, .. } = self.settings;
        let starts: Vec<usize> =
            (0..batch as u64).map(|row| Corpus::place(&self.parts[0], block, seed, number, row)).collect();
        let positions = self.positions(seed, number);
        Batch { positions, seed, step: number, is_training: true, ..self.at(&starts) }
    }

    /// The blocks that begin here, each token's target the next.
    fn at(&self, starts: &[usize]) -> Batch {
        let ids = self.corpus.ids();
        let read = |shift: usize| {
            let block = self.settings.block;
            starts.iter().flat_map(|start| &ids[start + shift..start + shift + block]).copied().collect()
        };
        Batch { ids: read(0), targets: read(1), ..Batch::default() }
    }

    fn positions(&self, seed: u64, number: u64) -> Vec<u32> {
        let encoding = &self.laid.network().encoding;
        encoding.as_encode::<f32>().positions(self.settings.block, seed, number).unwrap_or_default()
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
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
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

/// Makes the chance of an evaluation another than that of training.
const KEPT: u64 = 0x6576_616c;

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
