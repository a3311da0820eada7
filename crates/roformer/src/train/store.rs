//! The folder of a run. Every file is written beside its place and takes its name when it is on the disk.
//!
//! ```text
//! state.json               which step is the last complete one, with what it takes to go on: the commit
//! state-250.safetensors    parameters and moments after that step; state.json names it
//! last/, best/             models: config.json, model.safetensors and the tokenizer's files
//! data/, tokenizer/        the text as tokens, and what made them
//! metrics.jsonl            what happened
//! curves.svg               the same, drawn, where that was asked for
//! lock                     held while a run is at work
//! ```
//!
//! A checkpoint is written in this order: the model, the state under a name of its own, state.json; then the older state
//! goes. Killed anywhere in between, state.json still names a state that is whole, and what is ahead of it is written again
//! with the same bytes.

use super::hand_over;
use super::settings::Settings;
use super::trainer::{BUFFERS, Trainer};
use crate::error::Result;
use crate::files::{broken, failed, write};
use crate::weights::{self, Weights};
use serde_json::{Map, Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The version of state.json.
const FORMAT: u64 = 2;

/// The most that is read of state.json, which has a few hundred bytes and the names of files.
const LIMIT: u64 = 16 << 20;

/// What a run has before its first state.
const OWN: [&str; 3] = ["lock", "data", "tokenizer"];

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// After which step.
    pub step: u64,
    /// Its loss.
    pub loss: f64,
}

/// What a run is saved with beside its numbers.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub step: u64,
    pub seconds: f64,
    pub best: Option<Best>,
    /// The files that were read: for people, since their tokens are in the folder.
    pub files: Vec<PathBuf>,
}

/// The folder of a run, held by it alone.
pub(super) struct Store {
    folder: PathBuf,
    /// Released when the process ends, however it does. A process that helps another's run has none.
    _lock: Option<File>,
}

impl Store {
    /// A folder for a new run.
    pub fn create(folder: &Path) -> Result<Self> {
        let failed = |error: io::Error| failed(folder, error);
        fs::create_dir_all(folder).map_err(failed)?;
        Self::check_no_run(folder)?;
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            // What a run leaves that was killed before its first state was whole.
            let is_left =
                OWN.contains(&&*name) || name.starts_with("state-0.") || name == "state.json.partial";
            if !is_left {
                let name = weights::brief(&name);
                let reason = format!("not empty, it has `{name}`; expected a new or empty folder");
                return Err(broken(folder, reason));
            }
        }
        let store = Self::lock(folder)?;
        // Once more, now that nobody else can begin one.
        Self::check_no_run(folder)?;
        Ok(store)
    }

    /// Takes away what was made of a run that cannot begin. What cannot be taken away stays, and is written over next time.
    pub fn abandon(self) {
        for name in OWN {
            let path = self.path(name);
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        // Only if nothing else is in it.
        let _ = fs::remove_dir(&self.folder);
    }

    fn check_no_run(folder: &Path) -> Result<()> {
        match folder.join("state.json").exists() {
            true => {
                let reason = "holds a run already; resume it, or name another folder for a new one";
                Err(broken(folder, reason))
            }
            false => Ok(()),
        }
    }

    /// The folder of a run that is to be resumed.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.join("state.json").is_file() {
            let reason = "it has no state.json, so there is nothing to resume; expected the folder of a run that was begun";
            return Err(broken(folder, reason));
        }
        Self::lock(folder)
    }

    /// The folder of a run that another process holds, to read.
    pub fn beside(folder: &Path) -> Self {
        Store { folder: folder.into(), _lock: None }
    }

    fn lock(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.map_err(|error| failed(&path, error))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                Err(broken(folder, "another run is at work there; wait for its end, or use another folder"))
            }
            // Some file systems have no locks: then nothing stands guard.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Store { folder: folder.into(), _lock: Some(lock) }),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a model's folder. It is whole from the first time on: only its weights ever change.
    pub fn save_model(&self, name: &str, trainer: &Trainer) -> Result<()> {
        let folder = self.path(name);
        let weights = folder.join("model.safetensors");
        if !weights.exists() {
            fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
            let config = hand_over::config(trainer)?;
            write(&folder.join("config.json"), format!("{config:#}\n").as_bytes())?;
            for (name, bytes) in &trainer.data().vocabulary().files {
                write(&folder.join(name), bytes)?;
            }
        }
        let tensors = trainer.network().tensors(trainer.layout(), trainer.parameters(), trainer.longest())?;
        let tensors =
            tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone(), &tensor.numbers[..]));
        Ok(weights::save(weights, tensors)?)
    }

    /// Writes a state, and then the name of it: from then on it is the one that is resumed.
    pub fn save_state(&self, trainer: &Trainer, progress: &Progress) -> Result<()> {
        let name = format!("state-{}.safetensors", progress.step);
        let named = BUFFERS.iter().flat_map(|buffer| {
            let entries = trainer.layout().entries().iter();
            entries.map(move |entry| (format!("{buffer}.{}", entry.name), entry.shape.clone()))
        });
        weights::save_with(self.path(&name), named, |to| trainer.hand_over(|numbers| Ok(to.add(numbers)?)))?;
        let best = progress.best.map(|best| json!({"step": best.step, "validation_loss": best.loss}));
        let files: Vec<_> = progress.files.iter().map(|path| path.to_string_lossy()).collect();
        let state = json!({
            "format": FORMAT,
            "step": progress.step,
            "state": name,
            "seconds": progress.seconds,
            "best": best,
            "files": files,
            "settings": trainer.settings().to_json(),
            "network": hand_over::config(trainer)?,
        });
        write(&self.path("state.json"), format!("{state:#}\n").as_bytes())?;
        self.remove_other_states(&name);
        Ok(())
    }

    /// Older states, and what a kill left of one. It is not a failure if they stay.
    fn remove_other_states(&self, current: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| *name != current) else { continue };
            let step = name.strip_prefix("state-").and_then(|name| {
                name.strip_suffix(".safetensors").or_else(|| name.strip_suffix(".safetensors.partial"))
            });
            if step.is_some_and(|step| step.parse::<u64>().is_ok()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// What state.json says, with the settings of the run and the configuration of its model.
    pub fn progress(&self) -> Result<(Progress, Settings, Value)> {
        let path = self.path("state.json");
        let wrong =
            |what: &str| broken(&path, format!("no {what} that can be read; expected the state of a run"));
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
        read.map_err(|error| failed(&path, error))?;
        let state: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| wrong("JSON object"))?;
        if state.get("format").and_then(Value::as_u64) != Some(FORMAT) {
            return Err(wrong("`format` 2"));
        }
        let whole = |name: &str| state.get(name).and_then(Value::as_u64).ok_or_else(|| wrong(name));
        let files = state.get("files").and_then(Value::as_array).ok_or_else(|| wrong("files"))?;
        let network = state.get("network").cloned().ok_or_else(|| wrong("network"))?;
        let best = state.get("best").and_then(|best| {
            Some(Best { step: best.get("step")?.as_u64()?, loss: best.get("validation_loss")?.as_f64()? })
        });
        let settings = state.get("settings").and_then(Value::as_object).ok_or_else(|| wrong("settings"))?;
        let settings = Settings::default().with(settings)?;
        let progress = Progress {
            step: whole("step")?,
            seconds: state.get("seconds").and_then(Value::as_f64).ok_or_else(|| wrong("seconds"))?,
            best,
            files: files.iter().filter_map(Value::as_str).map(PathBuf::from).collect(),
        };
        if progress.step > settings.steps {
            return Err(wrong("step within the run"));
        }
        Ok((progress, settings, network))
    }

    /// Puts a trainer where the state left it.
    pub fn restore(&self, progress: &Progress, trainer: &mut Trainer) -> Result<()> {
        // By its step and not by what state.json calls it: a name from a file could lead anywhere.
        let weights = Weights::open(self.path(&format!("state-{}.safetensors", progress.step)))?;
        trainer.restore(progress.step, |buffer, name, shape, out| {
            Ok(weights.read_f32(&format!("{buffer}.{name}"), shape, out)?)
        })
    }
}
