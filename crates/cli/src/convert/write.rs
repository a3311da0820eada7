//! The file: one tensor in memory at a time, under its final name only when complete.

use super::pairing::Change;
use crate::error::{Failure, Outcome, unwritten};
use roformer::weights::Weights;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the tensors in the order of their names, each read when its turn comes.
pub fn tensors(
    path: &Path,
    metadata: &Value,
    weights: &Weights,
    names: &[&str],
    change: Option<&Change>,
) -> Outcome {
    let mut header = Map::from_iter([("__metadata__".to_string(), metadata.clone())]);
    let mut end: u64 = 0;
    for &name in names {
        let Some(tensor) = weights.get(name) else { continue };
        let start = end;
        end = (tensor.len() as u64)
            .checked_mul(size_of::<f32>() as u64)
            .and_then(|bytes| end.checked_add(bytes))
            .ok_or_else(|| Failure::Input("the tensors have more bytes than can be counted".into()))?;
        if name == "__metadata__" {
            return Err(Failure::Input(
                "a tensor is named `__metadata__`, which safetensors keeps for itself".into(),
            ));
        }
        let entry = json!({ "dtype": "F32", "shape": tensor.shape(), "data_offsets": [start, end] });
        header.insert(name.into(), entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    // Spaces, so that the numbers begin at a multiple of eight, as the format asks.
    header.resize(header.len().next_multiple_of(8), b' ');

    let failed = |error: std::io::Error| unwritten(path, &error);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(&header).map_err(failed)?;
    for &name in names {
        let Some(tensor) = weights.get(name) else { continue };
        let mut numbers = zeros(tensor.len())?;
        weights.read_f32(name, tensor.shape(), &mut numbers)?;
        if let Some(change) = change.filter(|change| change.concerns(name)) {
            numbers = change.apply(tensor.shape(), &numbers)?;
        }
        for number in numbers {
            file.write_all(&number.to_le_bytes()).map_err(failed)?;
        }
    }
    file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)
}

/// Zeros, or word that there is no memory for them: a file may say that a tensor is of any size.
pub fn zeros(len: usize) -> Result<Vec<f32>, Failure> {
    let mut numbers = Vec::new();
    let reserved = numbers.try_reserve_exact(len);
    reserved.map_err(|_| Failure::Other(format!("not enough memory for a tensor of {len} numbers")))?;
    numbers.resize(len, 0.0);
    Ok(numbers)
}

/// Lets a file be written beside its name, and renames it: it is there whole or not at all.
pub fn whole(path: &Path, write: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    let partial = Path::new(&name);
    let outcome =
        write(partial).and_then(|()| fs::rename(partial, path).map_err(|error| unwritten(path, &error)));
    if outcome.is_err() {
        // What is left is of no use; that it may not be there is no second failure.
        let _ = fs::remove_file(partial);
    }
    outcome
}
