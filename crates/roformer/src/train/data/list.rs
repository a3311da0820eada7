//! Numbers in order, four or twelve bytes each: in memory, or in a file that is mapped, so that text of any size takes little
//! memory.

use crate::error::{Error, Result};
use crate::files::failed;
use crate::ops::memory::is_available;
use crate::weights::map_file;
use memmap2::Mmap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Bytes that are complete.
pub(super) enum Bytes {
    Held(Vec<u8>),
    Mapped(Mmap),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Held(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }
}

impl Bytes {
    /// The bytes of a file; those of an empty file are none.
    pub fn map(path: &Path) -> Result<Self> {
        let map = map_file(path)?;
        Ok(map.map_or(Bytes::Held(Vec::new()), Bytes::Mapped))
    }
}

/// Bytes in the making.
pub(super) enum Writer {
    Held(Vec<u8>),
    File { path: PathBuf, file: BufWriter<File> },
}

impl Writer {
    /// In memory.
    pub fn held() -> Self {
        Writer::Held(Vec::new())
    }

    /// In a file.
    pub fn file(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|error| failed(&path, error))?;
        Ok(Writer::File { path, file: BufWriter::with_capacity(1 << 18, file) })
    }

    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Writer::Held(held) => {
                if held.capacity() - held.len() < bytes.len() {
                    let more = bytes.len().max(held.len());
                    let is_too_much = !is_available((held.len() + more) as u128);
                    if is_too_much || held.try_reserve_exact(more).is_err() {
                        return Err(Error::memory("the text, all of which is kept"));
                    }
                }
                held.extend_from_slice(bytes);
                Ok(())
            }
            Writer::File { path, file } => file.write_all(bytes).map_err(|error| failed(path, error)),
        }
    }

    pub fn finish(self) -> Result<Bytes> {
        match self {
            Writer::Held(bytes) => Ok(Bytes::Held(bytes)),
            Writer::File { path, file } => {
                let file = file.into_inner().map_err(|error| failed(&path, error.into_error()))?;
                file.sync_all().map_err(|error| failed(&path, error))?;
                Bytes::map(&path)
            }
        }
    }
}

/// Reads the number of four bytes at a place.
pub(super) fn number(bytes: &[u8], index: usize) -> u32 {
    let four = bytes.get(4 * index..4 * index + 4).and_then(|four| four.try_into().ok());
    u32::from_le_bytes(four.unwrap_or_default())
}
