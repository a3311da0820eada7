//! Safetensors out, under the final name only when complete.

use super::error::{Error, Result};
use serde_json::{Map, json};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Numbers turned to bytes at a time: few enough to stay in the CPU's cache.
const PIECE: usize = 16 << 10;

/// Writes tensors as a safetensors file that Hugging Face's libraries read, in the order given.
///
/// The file is written beside `path`, as `path.partial`, and takes its name when all of it is on the disk; a file that was
/// there stays until then. The numbers go out piece by piece, without a second copy of them.
pub fn save<'a, N: Into<String>, S: Into<Vec<usize>>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (N, S, &'a [f32])>,
) -> Result<()> {
    let (mut named, mut slices) = (Vec::new(), Vec::new());
    for (name, shape, slice) in tensors {
        let (name, shape) = (name.into(), shape.into());
        if count(&shape) != Some(slice.len()) {
            return Err(Error::Length { tensor: name, found: slice.len(), shape });
        }
        named.push((name, shape));
        slices.push(slice);
    }
    save_with(path, named, |to| slices.iter().try_for_each(|slice| to.add(slice)))
}

/// The same with numbers that come when they are written: `numbers` adds those of all tensors, in the order given.
pub(crate) fn save_with<E: From<Error>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (String, Vec<usize>)>,
    numbers: impl FnOnce(&mut Partial) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let path = path.as_ref();
    let (header, missing) = header(tensors)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let failed = |error| Error::io(path, "write", error);
    let write = || {
        let file = File::create(&partial).map_err(failed)?;
        let mut to = Partial { path, file, bytes: Vec::with_capacity(PIECE * size_of::<f32>()), missing };
        to.file.write_all(&header).map_err(failed)?;
        numbers(&mut to)?;
        to.end()?;
        fs::rename(&partial, path).map_err(failed)?;
        Ok(())
    };
    let written = write();
    match written {
        Ok(()) => sync_folder(path),
        // Half a file is of no use. If it cannot be removed, the error that matters is still the first.
        Err(_) => drop(fs::remove_file(&partial)),
    }
    written
}

/// The header, and how many numbers follow it.
fn header(tensors: impl IntoIterator<Item = (String, Vec<usize>)>) -> Result<(Vec<u8>, usize)> {
    let mut entries = Map::new();
    entries.insert("__metadata__".into(), json!({"format": "pt"}));
    let mut all = 0_usize;
    for (name, shape) in tensors {
        let Some(end) = count(&shape).and_then(|count| all.checked_add(count)) else {
            return Err(Error::Length { tensor: name, found: 0, shape });
        };
        if entries.contains_key(&name) {
            let metadata = name == "__metadata__";
            let reason = if metadata { "the format keeps this name for itself" } else { "it is there twice" };
            return Err(Error::Name { tensor: name, reason });
        }
        let offsets = [all, end].map(|numbers| numbers as u64 * size_of::<f32>() as u64);
        entries.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}));
        all = end;
    }
    let mut json = serde_json::Value::Object(entries).to_string().into_bytes();
    // Spaces, so that the numbers begin at a multiple of eight and can be used where they are mapped.
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json);
    Ok((header, all))
}

/// The numbers of a tensor of this shape.
fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))
}

/// A file that is being written.
pub(crate) struct Partial<'a> {
    path: &'a Path,
    file: File,
    /// Numbers turned to bytes.
    bytes: Vec<u8>,
    /// Numbers that the header promises and that have not come.
    missing: usize,
}

impl Partial<'_> {
    /// Adds the next numbers.
    pub fn add(&mut self, numbers: &[f32]) -> Result<()> {
        self.missing = self.missing.checked_sub(numbers.len()).ok_or_else(|| self.wrong())?;
        for piece in numbers.chunks(PIECE) {
            self.bytes.clear();
            self.bytes.extend(piece.iter().flat_map(|number| number.to_le_bytes()));
            self.file.write_all(&self.bytes).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Ends the file, which is then on the disk.
    fn end(self) -> Result<()> {
        if self.missing > 0 {
            return Err(self.wrong());
        }
        self.file.sync_all().map_err(|error| self.failed(error))
    }

    fn wrong(&self) -> Error {
        self.failed(io::Error::other("numbers of tensors and their shapes differ"))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(self.path, "write", error)
    }
}

/// Makes the new name last through a power cut, where the system can. The file is whole either way.
fn sync_folder(path: &Path) {
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    #[cfg(not(unix))]
    let _ = path;
}
