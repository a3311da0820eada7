//! A comparison that several machines make: each a shard, in a folder of its own, and their runs put together at the end.
//!
//! The folder of a shard is that of a comparison without results, with `shard.json` beside its plan: which shard it is and,
//! when it is finished, each of its runs with a digest of its file. Shards are put together only where all of them are there,
//! of one plan and one version, and every file is as its machine wrote it: what is put together is then what one machine
//! would have written.

use super::plan::Plan;
use super::results::Timings;
use super::run::Settings;
use super::store::{Store, check_plan, name, read, read_bytes};
use roformer::files::{broken, write};
use roformer::graph::mix;
use roformer::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The file that says which shard a folder holds.
const SHARD: &str = "shard.json";

/// The most shards.
const MOST: usize = 10_000;

/// One part of a comparison: `3/7` is the third of seven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: usize,
    count: usize,
}

impl Shard {
    /// Which it is, from 1 on.
    pub fn number(self) -> usize {
        self.number
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, count)| {
            Some(Shard { number: number.parse().ok()?, count: count.parse().ok()? })
        });
        let is_right =
            |shard: &Shard| (1..=MOST).contains(&shard.count) && (1..=shard.count).contains(&shard.number);
        let expected = || format!("expected I/N with I from 1 to N and N at most {MOST}, such as 3/7");
        parsed.filter(is_right).ok_or_else(expected)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.count)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

/// What `shard.json` holds.
#[derive(Serialize, Deserialize)]
struct Record {
    shard: Shard,
    /// The files of its runs with their digests, when all are finished.
    runs: Option<BTreeMap<String, String>>,
}

impl Store {
    /// Says which shard the folder is for. One that is another's is refused.
    pub fn begin_shard(&self, shard: Shard) -> Result<()> {
        let path = self.folder().join(SHARD);
        // What cannot be read is written anew: the runs are what has cost time, and they stay.
        match read::<Record>(&path) {
            Ok(record) if record.shard != shard => {
                let reason =
                    format!("holds shard {}; expected another folder for shard {shard}", record.shard);
                Err(broken(self.folder(), reason))
            }
            _ => self.write(SHARD, &Record { shard, runs: None }),
        }
    }

    /// Says that a shard is finished, by its runs.
    pub(super) fn finish_shard(&self, shard: Shard, runs: &[Settings]) -> Result<()> {
        let digest = |settings: &Settings| {
            let name = name(settings);
            Ok((name.clone(), digest(&read_bytes(&self.folder().join(name))?)))
        };
        let runs = runs.iter().map(digest).collect::<Result<_>>()?;
        self.write(SHARD, &Record { shard, runs: Some(runs) })
    }
}

/// The shards of one comparison, all of them, checked.
pub struct Shards {
    /// Every run's file, and the folder that it is taken from.
    runs: BTreeMap<String, (PathBuf, String)>,
    count: usize,
    repeated: usize,
    timings: Timings,
}

impl Shards {
    /// Checks the folders of all shards of a plan. Refused are shards of another plan or version, those that are not finished
    /// or missing, those of another number of shards, and runs that differ from folder to folder.
    pub fn read(plan: &Plan, folders: &[PathBuf]) -> Result<Self> {
        let mut found: BTreeMap<Shard, &Path> = BTreeMap::new();
        let mut runs: BTreeMap<String, (PathBuf, String)> = BTreeMap::new();
        let (mut repeated, mut timings) = (0, Timings::default());
        for folder in folders {
            check_plan(folder, plan)?;
            let record: Record = read(&folder.join(SHARD))?;
            let Some(listed) = record.runs else {
                let reason = format!(
                    "shard {} is not finished; expected finished shards: give its command again",
                    record.shard
                );
                return Err(broken(folder, reason));
            };
            if let Some((other, place)) =
                found.iter().next().filter(|(other, _)| other.count != record.shard.count)
            {
                let reason = format!(
                    "shard {}, but {} holds shard {other}; expected shards of one number",
                    record.shard,
                    place.display()
                );
                return Err(broken(folder, reason));
            }
            // A shard that was made twice is the same twice; its times count once.
            if found.insert(record.shard, folder).is_none() {
                let own = Store::at(folder).timings();
                timings.seconds += own.seconds;
                timings.threads = timings.threads.max(own.threads);
                timings.runs.extend(own.runs);
            }
            for (name, digest) in listed {
                match runs.get(&name) {
                    Some((other, known)) if *known != digest => return Err(differ(folder, other, &name)),
                    Some(_) => repeated += 1,
                    None => drop(runs.insert(name, (folder.clone(), digest))),
                }
            }
        }
        let count = found.keys().next().map_or(0, |shard| shard.count);
        let missing: Vec<String> = (1..=count)
            .map(|number| Shard { number, count })
            .filter(|shard| !found.contains_key(shard))
            .map(|shard| shard.to_string())
            .collect();
        match &missing[..] {
            [] => Ok(Shards { runs, count, repeated, timings }),
            [one] => {
                Err(Error::input("the list of shards", format!("without {one}"), format!("all {count}")))
            }
            [first, .., last] => {
                let value = format!("without {} of them, {first} to {last}", missing.len());
                Err(Error::input("the list of shards", value, format!("all {count}")))
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Files of runs that more than one folder holds, the same in each. Shards that have seeds of the same encoding and task
    /// each choose its learning rate.
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// The threads of the machine that had most.
    pub(super) fn threads(&self) -> usize {
        self.timings.threads
    }

    /// Copies every run to the folder of a comparison, with the times of all.
    pub(super) fn copy_to(&self, store: &Store) -> Result<()> {
        for (name, (folder, known)) in &self.runs {
            let path = folder.join(name);
            let bytes = read_bytes(&path)?;
            // The name is from a file: it could lead anywhere.
            let is_plain = name.strip_prefix("runs/").is_some_and(|name| !name.contains(['/', '\\']));
            if !is_plain || digest(&bytes) != *known {
                let reason =
                    "damaged: not as its shard wrote it; remove it and give the shard's command again";
                return Err(broken(&path, reason));
            }
            let to = store.folder().join(name);
            if read_bytes(&to).ok().as_ref() != Some(&bytes) {
                write(&to, &bytes)?;
            }
        }
        store.keep_timings(&self.timings)
    }
}

/// The error of a run that two shards made otherwise.
fn differ(folder: &Path, other: &Path, name: &str) -> Error {
    let reason = format!(
        "differs from that of {}; expected the same bytes from every machine: remove both and repeat these shards on one",
        other.display()
    );
    broken(&folder.join(name), reason)
}

/// A number that is another for other bytes, in hexadecimal: tells what a disk or a copy has damaged, not what somebody forged.
fn digest(bytes: &[u8]) -> String {
    let digest = bytes.iter().fold(mix(bytes.len() as u64), |digest, &byte| mix(digest ^ u64::from(byte)));
    format!("{digest:016x}")
}
