//! The loop: steps, evaluations, checkpoints, and where it can be left.

use super::data::{Data, Request};
use super::hand_over::{self, Start};
use super::metrics::Metrics;
use super::settings::Settings;
use super::store::{Best, Progress, Store};
use super::team::{Guest, Meeting, Place};
use super::trainer::{Evaluation, Trainer};
use crate::Device;
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Steps from one line of metrics to the next.
const LOG_EVERY: u64 = 10;

/// What happens in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A step has been taken.
    Step {
        /// Its number, from 1 on.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Tokens trained on per second, since the last line of metrics.
        tokens_s: f64,
    },
    /// The model has been evaluated.
    Evaluation {
        /// After which step.
        step: u64,
        /// The loss of the step.
        loss: f64,
        /// What was found on the text that is kept from training.
        found: Evaluation,
        /// Whether no evaluation was better: the model has been saved as the best.
        is_best: bool,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// All steps are done.
    Finished,
    /// So many evaluations gave nothing better that it ended early.
    Early,
    /// It was told to stop, and saved where it was.
    Stopped,
    /// The loss or its gradient was not a number. Nothing was saved since the last checkpoint.
    Diverged {
        /// The step that could not be taken.
        step: u64,
        /// Its loss.
        loss: f64,
    },
}

/// A run of training, with its folder.
pub struct Run {
    store: Store,
    trainer: Trainer,
    metrics: Metrics,
    progress: Progress,
    /// The step of the checkpoint on the disk.
    saved: u64,
    /// The last evaluation.
    last: Option<Best>,
}

impl Run {
    /// Begins a run in a new or empty folder. What it begins with is saved at once, so that it can be resumed from then on;
    /// if it cannot begin, nothing is left. `on` sees how many bytes of text have been read.
    pub fn begin(
        folder: impl AsRef<Path>,
        settings: &Settings,
        start: &Start,
        request: &Request,
        on: impl FnMut(u64),
    ) -> Result<Self> {
        Self::begin_on(&Device::default(), folder, settings, start, request, on)
    }

    /// The same on a device.
    pub fn begin_on(
        device: &Device,
        folder: impl AsRef<Path>,
        settings: &Settings,
        start: &Start,
        request: &Request,
        on: impl FnMut(u64),
    ) -> Result<Self> {
        settings.check()?;
        let store = Store::create(folder.as_ref())?;
        match Self::begin_in(device, &store, settings, start, request, on) {
            Ok((trainer, progress, metrics)) => {
                Ok(Run { store, trainer, metrics, progress, saved: 0, last: None })
            }
            Err(error) => {
                store.abandon();
                Err(error)
            }
        }
    }

    fn begin_in(
        device: &Device,
        store: &Store,
        settings: &Settings,
        start: &Start,
        request: &Request,
        on: impl FnMut(u64),
    ) -> Result<(Trainer, Progress, Metrics)> {
        let given = start.read(settings)?;
        let request = given.complete(request);
        let data = Data::read(&request, settings.goal, settings.layout(), Some(&store.path("")), on)?;
        let trainer = given.trainer(device, settings, data)?;
        let files = absolute(&request.files).chain(absolute(&request.kept)).collect();
        let progress = Progress { step: 0, seconds: 0.0, best: None, files };
        store.save_state(&trainer, &progress)?;
        let metrics = Metrics::open(store.path("metrics.jsonl"), 0)?;
        Ok((trainer, progress, metrics))
    }

    /// Goes on with a run, to the same bits that it would have come to without a break. `given` are settings that the caller
    /// insists on: those that decide the result must be the run's own.
    pub fn resume(folder: impl AsRef<Path>, given: &Map<String, Value>) -> Result<Self> {
        Self::resume_on(&Device::default(), folder, given)
    }

    /// The same on a device. Bits are the same where the device is the one that the run was begun on.
    pub fn resume_on(device: &Device, folder: impl AsRef<Path>, given: &Map<String, Value>) -> Result<Self> {
        let store = Store::open(folder.as_ref())?;
        let (progress, settings, config) = store.progress()?;
        let settings = settings.resumed_with(given)?;
        let data = Data::open(&store.path("data"), &store.path("tokenizer"))?;
        let network = hand_over::read(config.to_string().as_bytes(), &settings, &data)?;
        let mut trainer = Trainer::with_network(device, &settings, network, data)?;
        trainer.keep_longest(&config);
        store.restore(&progress, &mut trainer)?;
        let metrics = Metrics::open(store.path("metrics.jsonl"), progress.step)?;
        let saved = progress.step;
        Ok(Run { store, trainer, metrics, progress, saved, last: None })
    }

    /// Waits for the other processes of the run, of which this is rank 0; each step's batches are then shared among all.
    pub fn gather(&mut self, meeting: Meeting) -> Result<()> {
        self.trainer.gather(meeting)
    }

    /// Lets the other processes go, with the exit code that they are to end with. Otherwise they end with 1.
    pub fn dismiss(&mut self, code: u32) {
        self.trainer.dismiss(code);
    }

    /// Trains to the end, or until `on` breaks; then the step is saved and the run can be resumed.
    pub fn go(&mut self, mut on: impl FnMut(Event) -> ControlFlow<()>) -> Result<End> {
        let settings = self.trainer.settings().clone();
        let tokens = self.trainer.tokens_of_a_step();
        // Time and steps since the last line of metrics.
        let (mut seconds, mut steps, mut tokens_s) = (0.0, 0.0, 0.0);
        if self.is_out_of_patience(&settings) {
            return Ok(End::Early);
        }
        while self.trainer.steps() < settings.steps {
            let start = Instant::now();
            let stepped = self.trainer.step()?;
            let step = self.trainer.steps();
            if !stepped.is_finite() {
                return Ok(End::Diverged { step: step + 1, loss: stepped.loss });
            }
            let taken = start.elapsed().as_secs_f64();
            self.progress.seconds += taken;
            self.progress.step = step;
            (seconds, steps) = (seconds + taken, steps + 1.0);
            let is_last = step == settings.steps;
            let is_logged = step.is_multiple_of(LOG_EVERY) || is_last || step == 1;
            if is_logged || tokens_s == 0.0 {
                tokens_s = tokens * steps / f64::max(seconds, 1e-9);
            }
            if is_logged {
                (seconds, steps) = (0.0, 0.0);
                self.metrics.add(&json!({
                    "step": step, "loss": stepped.loss, "lr": stepped.rate, "tokens_s": tokens_s.round(),
                    "seconds": (self.progress.seconds * 1e3).round() / 1e3,
                }))?;
            }
            let mut flow = on(Event::Step { step, loss: stepped.loss, tokens_s });
            let is_due = step.is_multiple_of(settings.eval_every) || is_last;
            let mut is_early = false;
            if is_due && let Some((found, is_best)) = self.evaluate()? {
                if !found.loss.is_finite() {
                    return Ok(End::Diverged { step, loss: found.loss });
                }
                let told = on(Event::Evaluation { step, loss: stepped.loss, found, is_best });
                flow = if told.is_break() { told } else { flow };
                is_early = !is_last && self.is_out_of_patience(&settings);
            }
            if step.is_multiple_of(settings.save_every) || is_last || is_early || flow.is_break() {
                self.save()?;
            }
            if is_early {
                return Ok(End::Early);
            }
            if flow.is_break() && !is_last {
                return Ok(End::Stopped);
            }
        }
        Ok(End::Finished)
    }

    /// Evaluates the model, and keeps it if none was better: its loss, and whether none was. `None` where there is no text to
    /// evaluate it on.
    fn evaluate(&mut self) -> Result<Option<(Evaluation, bool)>> {
        let Some(found) = self.trainer.evaluate()? else { return Ok(None) };
        let Evaluation { loss, accuracy } = found;
        if !loss.is_finite() {
            return Ok(Some((found, false)));
        }
        let step = self.trainer.steps();
        let is_best = self.progress.best.is_none_or(|best| loss < best.loss);
        let mut line = json!({"step": step, "validation_loss": loss});
        if let Some(accuracy) = accuracy {
            line["accuracy"] = json!(accuracy);
        }
        self.metrics.add(&line)?;
        self.last = Some(Best { step, loss });
        if is_best {
            self.trainer.fetch()?;
            self.store.save_model("best", &self.trainer)?;
            self.progress.best = self.last;
        }
        Ok(Some((found, is_best)))
    }

    /// Whether the best evaluation is so long ago that no better one is waited for.
    fn is_out_of_patience(&self, settings: &Settings) -> bool {
        let waited = self.progress.best.map_or(0, |best| self.progress.step - best.step);
        settings.patience > 0 && waited >= settings.patience.saturating_mul(settings.eval_every)
    }

    fn save(&mut self) -> Result<()> {
        self.trainer.fetch()?;
        self.store.save_model("last", &self.trainer)?;
        self.metrics.sync()?;
        self.store.save_state(&self.trainer, &self.progress)?;
        self.saved = self.progress.step;
        Ok(())
    }

    /// A file of the run's folder: `metrics.jsonl` has the losses of its steps.
    pub fn path(&self, name: &str) -> PathBuf {
        self.store.path(name)
    }

    /// The model and its text.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// The step of the checkpoint that is on the disk.
    pub fn saved(&self) -> u64 {
        self.saved
    }

    /// Seconds of training, those before a break included.
    pub fn seconds(&self) -> f64 {
        self.progress.seconds
    }

    /// The best evaluation so far.
    pub fn best(&self) -> Option<Best> {
        self.progress.best
    }

    /// The last evaluation, if there was one since the run was begun or resumed.
    pub fn last(&self) -> Option<Best> {
        self.last
    }

    /// The files that it was begun with.
    pub fn files(&self) -> &[PathBuf] {
        &self.progress.files
    }
}

/// Computes gradients for a run that rank 0 holds, until it ends; returns the exit code that rank 0 gave. `words` are what this
/// process was started with: those of all processes must be the same. `met` is called when rank 0 has been found.
pub fn help(place: &Place, words: &[String], folder: impl AsRef<Path>, met: impl FnOnce()) -> Result<u32> {
    let guest = Guest::come(place, words, met)?;
    match open_beside(folder.as_ref()) {
        Ok(mut trainer) => {
            let team = guest.enter(trainer.terms())?;
            trainer.help(team)
        }
        Err(error) => {
            guest.refuse(&error);
            Err(error)
        }
    }
}

/// The model and the text of a run that another process holds.
fn open_beside(folder: &Path) -> Result<Trainer> {
    let store = Store::beside(folder);
    let unseen = |error: Error| match error {
        Error::Io { path, source } => Error::File {
            path,
            reason: format!("{source}; expected the folder of the run, where every rank sees it"),
        },
        other => other,
    };
    let (_, settings, config) = store.progress().map_err(unseen)?;
    let data = Data::open(&store.path("data"), &store.path("tokenizer"))?;
    let network = hand_over::read(config.to_string().as_bytes(), &settings, &data)?;
    Trainer::with_network(&Device::default(), &settings, network, data)
}

/// Paths that mean the same wherever they are read.
fn absolute(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    paths.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
}
