//! The loop: steps, evaluations, checkpoints, and where it can be left.

use super::corpus::Corpus;
use super::metrics::Metrics;
use super::settings::Settings;
use super::store::{Best, Progress, Store, broken};
use super::trainer::Trainer;
use crate::error::Result;
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
        /// Tokens trained on in a second, since the last line of metrics.
        tokens_s: f64,
    },
    /// The model has been evaluated.
    Evaluation {
        /// After which step.
        step: u64,
        /// The loss of the step.
        loss: f64,
        /// The loss of the text that is kept from training.
        validation_loss: f64,
        /// Whether no evaluation was better: the model has been saved as the best.
        is_best: bool,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// All steps are done.
    Finished,
    /// It was told to stop, and saved where it was.
    Stopped,
    /// The loss or its gradient was no number. Nothing was saved since the last checkpoint.
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
    /// Begins a run in a new or empty folder, on UTF-8 text files. What it begins with is saved at once, so that it can be
    /// resumed from then on.
    pub fn begin(folder: impl AsRef<Path>, settings: &Settings, data: &[impl AsRef<Path>]) -> Result<Self> {
        let corpus = Corpus::read(data)?;
        let fingerprint = corpus.fingerprint();
        let trainer = Trainer::new(settings, corpus)?;
        let progress = Progress { step: 0, seconds: 0.0, best: None, data: absolute(data), fingerprint };
        let store = Store::create(folder.as_ref())?;
        store.save_state(&trainer, &progress)?;
        let metrics = Metrics::open(store.path("metrics.jsonl"), 0)?;
        Ok(Run { store, trainer, metrics, progress, saved: 0, last: None })
    }

    /// Goes on with a run, to the same bits that it would have come to without a break. `given` are settings that the caller
    /// insists on: those that decide the result must be the run's own. `data` are its files, where they have moved.
    pub fn resume(
        folder: impl AsRef<Path>,
        given: &Map<String, Value>,
        data: &[impl AsRef<Path>],
    ) -> Result<Self> {
        let store = Store::open(folder.as_ref())?;
        let (mut progress, settings) = store.progress()?;
        let settings = settings.resumed_with(given)?;
        if !data.is_empty() {
            progress.data = absolute(data);
        }
        let corpus = Corpus::read(&progress.data)?;
        if corpus.fingerprint() != progress.fingerprint {
            let reason =
                "the run was begun on another text; expected the same files, unchanged and in the same order";
            return Err(broken(folder.as_ref(), reason));
        }
        let mut trainer = Trainer::new(&settings, corpus)?;
        store.restore(&progress, &mut trainer)?;
        let metrics = Metrics::open(store.path("metrics.jsonl"), progress.step)?;
        let saved = progress.step;
        Ok(Run { store, trainer, metrics, progress, saved, last: None })
    }

    /// Trains to the end, or until `on` breaks; then the step is saved and the run can be resumed.
    pub fn go(&mut self, mut on: impl FnMut(Event) -> ControlFlow<()>) -> Result<End> {
        let settings = self.trainer.settings().clone();
        let tokens = (settings.batch * settings.block) as f64 * settings.accumulate as f64;
        // Time and steps since the last line of metrics.
        let (mut seconds, mut steps, mut tokens_s) = (0.0, 0.0, 0.0);
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
            if is_due && let Some((validation_loss, is_best)) = self.evaluate()? {
                if !validation_loss.is_finite() {
                    return Ok(End::Diverged { step, loss: validation_loss });
                }
                let told = on(Event::Evaluation { step, loss: stepped.loss, validation_loss, is_best });
                flow = if told.is_break() { told } else { flow };
            }
            if step.is_multiple_of(settings.save_every) || is_last || flow.is_break() {
                self.save()?;
            }
            if flow.is_break() && !is_last {
                return Ok(End::Stopped);
            }
        }
        Ok(End::Finished)
    }

    /// Evaluates the model, and keeps it if none was better: its loss, and whether none was. `None` where there is no text to
    /// evaluate it on.
    fn evaluate(&mut self) -> Result<Option<(f64, bool)>> {
        let Some(loss) = self.trainer.evaluate()? else { return Ok(None) };
        if !loss.is_finite() {
            return Ok(Some((loss, false)));
        }
        let step = self.trainer.steps();
        let is_best = self.progress.best.is_none_or(|best| loss < best.loss);
        self.metrics.add(&json!({"step": step, "validation_loss": loss}))?;
        self.last = Some(Best { step, loss });
        if is_best {
            self.store.save_model("best", &self.trainer)?;
            self.progress.best = self.last;
        }
        Ok(Some((loss, is_best)))
    }

    fn save(&mut self) -> Result<()> {
        self.store.save_model("last", &self.trainer)?;
        self.metrics.sync()?;
        self.store.save_state(&self.trainer, &self.progress)?;
        self.saved = self.progress.step;
        Ok(())
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

    /// The files that it trains on.
    pub fn data(&self) -> &[PathBuf] {
        &self.progress.data
    }
}

/// Paths that mean the same wherever a run is resumed from.
fn absolute(paths: &[impl AsRef<Path>]) -> Vec<PathBuf> {
    let one = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
    paths.iter().map(|path| one(path.as_ref())).collect()
}
