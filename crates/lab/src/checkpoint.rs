//! How far a run has come that is under way, kept every few minutes and when it is told to stop: a model that takes hours is not
//! begun again. It goes on to the bits of a run without a break, since all that the steps to come depend on is kept as it is.
//!
//! ```text
//! under-way/copy.none.seed-1.json            after which step, and the loss so far: the commit
//! under-way/copy.none.seed-1.250.safetensors parameters and moments after that step
//! ```
//!
//! The numbers are written first, then the file that names them, then those of before go.

use super::results::CurvePoint;
use super::store::read;
use roformer::files::{failed, write};
use roformer::train::Learner;
use roformer::weights::{Weights, save};
use roformer::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much may be lost where a machine fails.
const OFTEN: Duration = Duration::from_secs(300);

/// The three buffers of a run.
const BUFFERS: [&str; 3] = ["parameters", "first", "second"];

/// How far a run has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Way {
    /// Steps that are done.
    pub step: u64,
    /// The loss as it fell.
    pub curve: Vec<CurvePoint>,
    /// The sum of the losses since the last point of the curve, and how many they are.
    pub sum: f64,
    pub count: f64,
}

/// The file that names a checkpoint.
#[derive(Serialize, Deserialize)]
struct Record {
    /// The hash of the settings of its run and the version.
    hash: String,
    way: Way,
}

/// Where a run keeps how far it has come.
pub(super) struct Checkpoint {
    folder: PathBuf,
    name: String,
    hash: String,
    last: Instant,
    /// The step whose numbers are kept.
    kept: Option<u64>,
}

impl Checkpoint {
    /// In this folder, for the run of this name, whose settings have this hash.
    pub fn new(folder: PathBuf, name: String, hash: String) -> Self {
        let mut checkpoint = Checkpoint { folder, name, hash, last: Instant::now(), kept: None };
        checkpoint.kept = checkpoint.record().map(|record| record.way.step);
        checkpoint
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    fn numbers(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{}.{step}.safetensors", self.name))
    }

    /// What is there of this run; of another, or spoilt, it is nothing.
    fn record(&self) -> Option<Record> {
        let record: Record = read(&self.path()).ok()?;
        (record.hash == self.hash).then_some(record)
    }

    /// Gives a learner the numbers that are kept and says how far they are; the beginning where there are none that fit.
    pub fn restore(&self, learner: &mut Learner) -> Result<Way> {
        let Some(Record { way, .. }) = self.record() else { return Ok(Way::default()) };
        let Ok(weights) = Weights::open(self.numbers(way.step)) else { return Ok(Way::default()) };
        let len = learner.layout().len();
        let fits = |name: &&str| weights.get(name).is_some_and(|tensor| tensor.shape() == [len]);
        if !BUFFERS.iter().all(fits) {
            return Ok(Way::default());
        }
        let read =
            |name: &str, numbers: &mut [f32]| Ok::<_, Error>(weights.read_f32(name, &[len], numbers)?);
        read(BUFFERS[0], learner.parameters_mut()?)?;
        let [first, second] = learner.moments_mut()?;
        read(BUFFERS[1], first)?;
        read(BUFFERS[2], second)?;
        Ok(way)
    }

    /// Whether it is time to keep.
    pub fn is_due(&self) -> bool {
        self.last.elapsed() >= OFTEN
    }

    /// Keeps how far it has come.
    pub fn keep(&mut self, learner: &mut Learner, way: &Way) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|error| failed(&self.folder, error))?;
        learner.fetch()?;
        let [first, second] = learner.moments();
        let buffers = BUFFERS.into_iter().zip([learner.parameters(), first, second]);
        save(self.numbers(way.step), buffers.map(|(name, numbers)| (name, [numbers.len()], numbers)))?;
        let record = Record { hash: self.hash.clone(), way: way.clone() };
        let text = serde_json::to_string(&record).map_err(|_| Error::memory("a checkpoint"))?;
        write(&self.path(), text.as_bytes())?;
        let before = self.kept.replace(way.step).filter(|step| *step != way.step);
        before.into_iter().for_each(|step| drop(fs::remove_file(self.numbers(step))));
        self.last = Instant::now();
        Ok(())
    }

    /// Takes it away: the run is finished and has a file of its own. What cannot be taken away does no harm.
    pub fn remove(folder: &Path, name: &str) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let file = entry.file_name();
            let of_this = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('.'));
            let is_its = of_this.is_some_and(|rest| {
                rest == "json" || rest.split('.').next().is_some_and(|step| step.parse::<u64>().is_ok())
            });
            if is_its {
                let _ = fs::remove_file(entry.path());
            }
        }
        // Only if nothing else is in it.
        let _ = fs::remove_dir(folder);
    }
}
