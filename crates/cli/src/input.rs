//! Reading what the user names: a file, a folder with a `config.json` or a `bert_config.json`, or standard input.

use crate::error::Failure;
use roformer::blueprint::Blueprint;
use rope::config::MAX_CONFIG_BYTES;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The bytes of a configuration, `-` for standard input. No more is read than a configuration may have.
pub fn config(path: &Path) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") {
        return limited(std::io::stdin().lock(), "standard input");
    }
    // Without a config.json it has a bert_config.json, or nothing: then what was meant is said.
    if path.is_dir() && path.join("config.json").symlink_metadata().is_err() {
        return Ok(Blueprint::config_of(path)?);
    }
    let path: PathBuf = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
    let name = path.display().to_string();
    // Asked before opening: a pipe without a writer would wait for ever. (Standard input may be one.)
    let metadata = std::fs::metadata(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::Input(format!("{name}: no such file; expected the configuration of a model"))
        }
        _ => Failure::Input(format!("{name}: {error}")),
    })?;
    if cfg!(unix) && !metadata.is_file() && !name.starts_with("/dev/") {
        return Err(Failure::Input(format!("{name} is not a file; expected a Hugging Face config.json")));
    }
    let file = std::fs::File::open(&path).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    limited(file, &name)
}

/// The configuration beside a file of weights, if there is one.
pub fn config_beside(weights: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let path = weights.with_file_name("config.json");
    let folder = weights.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match () {
        () if path.exists() => config(&path).map(Some),
        () if has_older(folder) => Ok(Some(Blueprint::config_of(folder)?)),
        () => Ok(None),
    }
}

/// Whether a folder has a `bert_config.json`, and no `config.json`.
fn has_older(folder: &Path) -> bool {
    folder.join("config.json").symlink_metadata().is_err() && folder.join("bert_config.json").exists()
}

fn limited(reader: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_CONFIG_BYTES as u64 + 1;
    reader.take(limit).read_to_end(&mut bytes).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    match bytes.len() {
        0 => Err(Failure::Input(format!("{name} is empty; expected a Hugging Face config.json"))),
        len if len as u64 == limit => Err(Failure::Input(format!(
            "{name} has more than {MAX_CONFIG_BYTES} bytes; a config.json has fewer"
        ))),
        _ => Ok(bytes),
    }
}
