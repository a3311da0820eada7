//! A file, and the parts of it that are mapped into memory.

use super::error::{Error, Result};
use memmap2::{Mmap, MmapOptions};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// An open file of known length.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source> {
        let failed = |error| Error::io(path, "open", error);
        // Asked before opening: a pipe would wait for a writer.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Error::format(
                path,
                "something that is not a file",
                "a file of weights; check the path",
            ));
        }
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        Ok(Source { path: path.to_owned(), file, len })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Maps `len` bytes from `start` on, until the result is dropped.
    pub(super) fn map(&self, start: u64, len: u64) -> Result<Mmap> {
        let failed = |error| Error::io(&self.path, "read", error);
        // Asked anew each time: the file may have been cut since it was opened, and reading a mapping past the end of its
        // file ends the process.
        let end = self.file.metadata().map_err(failed)?.len();
        let bytes = match (start.checked_add(len), usize::try_from(len)) {
            (Some(last), Ok(bytes)) if last <= end => bytes,
            _ => {
                return Err(Error::format(
                    &self.path,
                    format!("{end} bytes, too few for {len} bytes from byte {start} on"),
                    "a complete file; download it again",
                ));
            }
        };
        // SAFETY: only bytes are read through the mapping, and every value of a byte is accepted. Were another program to
        // write to the file meanwhile, the numbers would change, which no reader of a file can rule out.
        unsafe { MmapOptions::new().offset(start).len(bytes).map(&self.file) }.map_err(failed)
    }
}

/// A whole file, mapped; `None` where it is empty.
pub(crate) fn map_file(path: &Path) -> Result<Option<Mmap>> {
    let source = Source::open(path)?;
    if source.len == 0 { Ok(None) } else { source.map(0, source.len).map(Some) }
}
