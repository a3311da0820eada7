//! `metrics.jsonl`: a line for every step that is logged, and one for every evaluation.

use crate::error::Result;
use crate::files::{failed, write};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file, open at its end.
pub(super) struct Metrics {
    path: PathBuf,
    file: File,
}

impl Metrics {
    /// The file with the lines of steps up to this one, and of no later ones: those will be written again.
    pub fn open(path: PathBuf, step: u64) -> Result<Self> {
        let kept = kept(&path, step)?;
        write(&path, &kept)?;
        let file = File::options().append(true).open(&path);
        let file = file.map_err(|error| failed(&path, error))?;
        Ok(Metrics { path, file })
    }

    /// Adds a line, in one write: after a kill the last line alone may be cut.
    pub fn add(&mut self, line: &Value) -> Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| failed(&self.path, error))
    }

    /// Makes sure that the lines are on the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed(&self.path, error))
    }
}

fn kept(path: &Path, step: u64) -> Result<Vec<u8>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(path, error)),
    };
    let is_kept = |line: &&[u8]| {
        let value: Option<Value> = serde_json::from_slice(line).ok();
        value.and_then(|value| value.get("step")?.as_u64()).is_some_and(|of| of <= step)
    };
    Ok(bytes.split_inclusive(|&byte| byte == b'\n').filter(is_kept).flatten().copied().collect())
}
