//! Files: read whole if they are files at all, and written so that they are whole or not there.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The error of a file that cannot be used.
pub fn broken(path: &Path, reason: impl Into<String>) -> Error {
    Error::File { path: path.to_owned(), reason: reason.into() }
}

/// The bytes of a file of a model's folder, or `None` where there is no such file. Anyone can have made the folder: what is
/// not a regular file, or has more than `limit` bytes, is refused.
pub fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    // Asked before opening: a pipe would wait for a writer.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // A link that leads nowhere is an error: its file is missing.
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(failed(path, error)),
    };
    if !metadata.is_file() {
        return Err(broken(path, "not a regular file; expected a file of the model, download it again"));
    }
    let too_long = || broken(path, format!("more than {limit} bytes; expected at most as many"));
    if metadata.len() > limit {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(path, error))?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(Some(bytes)) }
}

/// The error of a file that the system did not read or write.
pub fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}

/// What to say of an error of a write that there was no room for; `None` for any other.
pub fn no_room(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::StorageFull => Some("the disk is full; free some space, or write to another disk"),
        ErrorKind::QuotaExceeded => {
            Some("the quota of the disk is used up; free some space, or write to another disk")
        }
        ErrorKind::FileTooLarge => {
            Some("larger than a file may be here; raise the limit (ulimit -f), or write to another disk")
        }
        _ => None,
    }
}

/// Writes a file beside its place, and gives it its name when it is on the disk.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // Half a file is of no use. If it cannot be removed, the error that matters is still the first.
        let _ = fs::remove_file(&partial);
    }
    written.map_err(|error| failed(path, error))?;
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        // Makes the new name last through a power cut. The file is whole either way.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}
