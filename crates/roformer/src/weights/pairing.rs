//! How a safetensors file says that its projections were permuted for another pairing than the model's own.

use rope::Pairing;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The key of a file's metadata for it.
pub const PAIRING_KEY: &str = "rope_pairing";

/// The pairing that a safetensors file's metadata gives, if any. What is wrong with a file is said where its tensors are
/// read.
pub fn recorded_pairing(path: &Path) -> Option<Pairing> {
    // Asked before opening: a pipe would wait for a writer.
    let mut file =
        fs::metadata(path).ok().filter(fs::Metadata::is_file).and_then(|_| File::open(path).ok())?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let mut header = Vec::new();
    // More than any header has; other kinds of file begin with larger numbers.
    let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= super::LIMIT)?;
    file.take(length).read_to_end(&mut header).ok()?;
    let header: Value = serde_json::from_slice(&header).ok()?;
    header["__metadata__"][PAIRING_KEY].as_str()?.parse().ok()
}
