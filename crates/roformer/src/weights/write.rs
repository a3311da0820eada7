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
    let path = path.as_ref();
    let (header, slices) = header(tensors)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = write(&partial, &header, &slices).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // Half a file is of no use. If it cannot be removed, the error that matters is still the first.
        let _ = fs::remove_file(&partial);
    }
    written.map_err(|error| Error::io(path, "write", error))?;
    sync_folder(path);
    Ok(())
}

/// The header, and the slices in the order it gives.
fn header<'a, N: Into<String>, S: Into<Vec<usize>>>(
    tensors: impl IntoIterator<Item = (N, S, &'a [f32])>,
) -> Result<(Vec<u8>, Vec<&'a [f32]>)> {
    let mut entries = Map::new();
    entries.insert("__metadata__".into(), json!({"format": "pt"}));
    let mut slices = Vec::new();
    let mut end = 0;
    for (name, shape, slice) in tensors {
        let (name, shape) = (name.into(), shape.into());
        if shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size)) != Some(slice.len()) {
            return Err(Error::Length { tensor: name, found: slice.len(), shape });
        }
        if entries.contains_key(&name) {
            let metadata = name == "__metadata__";
            let reason = if metadata { "the format keeps this name for itself" } else { "it is there twice" };
            return Err(Error::Name { tensor: name, reason });
        }
        let start = end;
        end += size_of_val(slice) as u64;
        entries.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]}));
        slices.push(slice);
    }
    let mut json = serde_json::Value::Object(entries).to_string().into_bytes();
    // Spaces, so that the numbers begin at a multiple of eight and can be used where they are mapped.
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json);
    Ok((header, slices))
}

fn write(path: &Path, header: &[u8], slices: &[&[f32]]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(header)?;
    let mut bytes = Vec::with_capacity(PIECE * size_of::<f32>());
    for piece in slices.iter().flat_map(|slice| slice.chunks(PIECE)) {
        bytes.clear();
        bytes.extend(piece.iter().flat_map(|number| number.to_le_bytes()));
        file.write_all(&bytes)?;
    }
    file.sync_all()
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
