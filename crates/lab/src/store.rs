//! The folder of a comparison. Every file is written beside its place and takes its name when it is whole.
//!
//! ```text
//! plan.json       what was asked for, and the hash of it; another plan is refused
//! under-way/      how far those have come that are not finished
//! runs/*.json     one file a finished run, with its settings and their hash: reused where they fit
//! timings.json    how long they took: the one file that differs from time to time
//! results.json    what came of them all
//! shard.json      in the folder of a part of a comparison: which one, and the runs of it when they are finished
//! ```

use super::checkpoint::Checkpoint;
use super::measure::Swapped;
use super::plan::{Plan, hash};
use super::results::{self, Results, RunResult, Timings};
use super::run::{Purpose, Settings};
use roformer::files::{broken, failed, write};
use roformer::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The most that is read of any file: results with a thousand runs have a few megabytes.
const LIMIT: u64 = 256 << 20;

/// What was asked for.
const PLAN: &str = "plan.json";

/// The folder of those that are not finished.
const UNDER_WAY: &str = "under-way";

/// What came of it.
const RESULTS: &str = "results.json";

/// The name of the input in the error that [`Store::create`] gives for a folder that holds another comparison.
pub const OTHER_FOLDER: &str = "the folder of the comparison";

/// A finished run: what its file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The version of the program.
    pub version: String,
    /// The hash of the settings and the version.
    pub hash: String,
    /// All that decided it.
    pub settings: Settings,
    /// What came of it.
    pub result: RunResult,
    /// What it reached with other rules for its frequencies.
    pub swaps: Vec<Swapped>,
}

impl Finished {
    /// A run that has just been finished.
    pub fn new(settings: &Settings, result: RunResult, swaps: Vec<Swapped>) -> Self {
        let version = env!("CARGO_PKG_VERSION").into();
        Finished { version, hash: hash(settings), settings: settings.clone(), result, swaps }
    }
}

/// What `plan.json` holds.
#[derive(Serialize)]
struct Planned {
    version: &'static str,
    hash: String,
    asked: BTreeMap<String, String>,
    plan: results::Plan,
}

/// What is read of it: files of earlier versions have no `asked`.
#[derive(Deserialize)]
struct Before {
    hash: String,
    #[serde(default)]
    asked: BTreeMap<String, String>,
}

impl Before {
    /// In what its plan is another, in words; `None` where it is the same.
    fn differs(&self, plan: &Plan) -> Option<String> {
        (self.hash != plan.hash()).then(|| differences(&self.asked, &plan.asked()))
    }
}

/// The most differences that are listed.
const MOST: usize = 4;

/// The folder of a comparison.
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// A folder for a comparison, new or with finished runs of the same plan in it. One that holds another comparison is
    /// refused, with what differs.
    pub fn create(folder: &Path, plan: &Plan) -> Result<Self> {
        Self::check(folder, plan)?;
        Self::replace(folder, plan)
    }

    /// The same, whatever the folder holds: what is there of another comparison is written over. Runs that fit are kept.
    pub fn replace(folder: &Path, plan: &Plan) -> Result<Self> {
        let store = Store { folder: folder.into() };
        let runs = folder.join("runs");
        fs::create_dir_all(&runs).map_err(|error| failed(&runs, error))?;
        let (hash, asked) = (plan.hash(), plan.asked());
        store
            .write(PLAN, &Planned { version: env!("CARGO_PKG_VERSION"), hash, asked, plan: plan.shown() })?;
        Ok(store)
    }

    /// Refuses a folder that holds the comparison of another plan.
    fn check(folder: &Path, plan: &Plan) -> Result<()> {
        let is_there = [PLAN, RESULTS].into_iter().find(|name| folder.join(name).exists());
        let Some(name) = is_there else { return Ok(()) };
        let differs = match read::<Before>(&folder.join(PLAN)).map(|before| before.differs(plan)) {
            Ok(None) => return Ok(()),
            Ok(Some(differs)) => differs,
            Err(_) => format!("{name} is there, and no {PLAN} that can be read"),
        };
        let value = format!("{}, which holds another comparison: {differs}", folder.display());
        Err(Error::input(OTHER_FOLDER, value, "another folder, or that what is there may be replaced"))
    }

    /// A folder as it is, to read.
    pub(super) fn at(folder: &Path) -> Self {
        Store { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A run that was finished before with the same settings and version. Whatever else is there is written over.
    pub fn finished(&self, settings: &Settings) -> Option<Finished> {
        let found: Finished = read(&self.folder.join(name(settings))).ok()?;
        (found.settings == *settings && found.hash == hash(settings)).then_some(found)
    }

    /// Keeps a finished run; how far it had come before goes.
    pub fn keep(&self, finished: &Finished) -> Result<()> {
        let name = name(&finished.settings);
        self.write(&name, finished)?;
        Checkpoint::remove(&self.folder.join(UNDER_WAY), plain(&name));
        Ok(())
    }

    /// Where a run keeps how far it has come.
    pub(super) fn checkpoint(&self, settings: &Settings) -> Checkpoint {
        let name = name(settings);
        Checkpoint::new(self.folder.join(UNDER_WAY), plain(&name).into(), hash(settings))
    }

    /// The error of a run that is not there and is not to be made.
    pub(super) fn missing(&self, settings: &Settings) -> Error {
        let reason =
            "not among the runs of the shards, or of other settings; expected a run of each in the plan";
        broken(&self.folder.join(name(settings)), reason)
    }

    /// The times of what is in the folder already; none where they cannot be read, since nothing depends on them.
    pub fn timings(&self) -> Timings {
        read(&self.folder.join("timings.json")).unwrap_or_default()
    }

    /// Keeps times.
    pub fn keep_timings(&self, timings: &Timings) -> Result<()> {
        self.write("timings.json", timings)
    }

    /// Keeps results.
    pub fn keep_results(&self, results: &Results) -> Result<()> {
        self.write(RESULTS, results)
    }

    pub(super) fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.folder.join(name);
        let text =
            serde_json::to_string_pretty(value).map_err(|error| broken(&path, error.to_string()))? + "\n";
        write(&path, text.as_bytes())
    }
}

/// Refuses a folder whose plan is another or cannot be read.
pub(super) fn check_plan(folder: &Path, plan: &Plan) -> Result<()> {
    match read::<Before>(&folder.join(PLAN))?.differs(plan) {
        Some(differs) => Err(broken(
            folder,
            format!("a shard of another comparison: {differs}; expected shards of one, and its settings"),
        )),
        None => Ok(()),
    }
}

/// The results and times of a comparison that is finished.
pub fn replay(folder: &Path) -> Result<(Results, Timings)> {
    let results = read(&folder.join(RESULTS))?;
    Ok((results, Store::at(folder).timings()))
}

/// In what two plans differ, in words; of tasks that only one has, that they differ.
fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> String {
    let both = now.iter().filter_map(|(name, now)| Some((name, before.get(name)?, now)));
    let differing = both.filter(|(_, before, now)| before != now);
    let all: Vec<String> =
        differing.map(|(name, before, now)| format!("{name} {before} there, {now} here")).collect();
    match all.len() {
        0 => "its settings or its version are others".into(),
        count if count > MOST => format!("{}; and {} more", all[..MOST].join("; "), count - MOST),
        _ => all.join("; "),
    }
}

/// The name of a run without its folder and what its file ends with.
fn plain(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".json").unwrap_or(file)
}

/// The file of a run, by what it is of. Its settings decide whether it fits.
pub(super) fn name(settings: &Settings) -> String {
    let Settings { task, encoding, rate, seed, layers, width, .. } = settings;
    // As file systems everywhere have it.
    let encoding: String =
        encoding.chars().map(|char| if matches!(char, ':' | '|') { '_' } else { char }).collect();
    match settings.purpose {
        Purpose::Pilot => format!("runs/pilot.{task}.{layers}x{width}.rate-{rate}.json"),
        Purpose::Search => format!("runs/search.{task}.{encoding}.rate-{rate}.json"),
        Purpose::Sweep => format!("runs/sweep.{task}.{encoding}.seed-{seed}.json"),
        Purpose::Run => format!("runs/{task}.{encoding}.seed-{seed}.json"),
        Purpose::Again => format!("runs/{task}.{encoding}.seed-{seed}.again.json"),
    }
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = read_bytes(path)?;
    let wrong = |error| broken(path, format!("cannot be read: {error}; expected what a comparison wrote"));
    serde_json::from_slice(&bytes).map_err(wrong)
}

/// The bytes of a file of a comparison.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => broken(path, "not there; expected the folder of a finished comparison"),
        _ => failed(path, error),
    };
    let mut bytes = Vec::new();
    File::open(path).map_err(unreadable)?.take(LIMIT).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
