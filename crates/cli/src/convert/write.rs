//! The file: one tensor in memory at a time, under its final name only when complete.

use super::pairing::Change;
use crate::error::{Failure, Outcome, unwritten};
use half::bf16;
use roformer::ops::narrow::quantise;
use roformer::weights::{SCALE, Weights};
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// The type that a tensor is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    F32,
    /// Rounded to 16 bits.
    Bf16,
    /// Rounded to 8 bits, with the scales of its rows in a tensor of their own.
    Int8,
}

impl Form {
    /// What safetensors calls it.
    fn name(self) -> &'static str {
        match self {
            Form::F32 => "F32",
            Form::Bf16 => "BF16",
            Form::Int8 => "I8",
        }
    }

    /// The bytes of a number.
    fn size(self) -> u64 {
        match self {
            Form::F32 => 4,
            Form::Bf16 => 2,
            Form::Int8 => 1,
        }
    }
}

/// Writes the tensors in the order of their names, each read when its turn comes, in the form that it is to have.
pub fn tensors(
    path: &Path,
    metadata: &Value,
    weights: &Weights,
    names: &[(&str, Form)],
    change: Option<&Change>,
) -> Outcome {
    let mut header = Map::from_iter([("__metadata__".to_string(), metadata.clone())]);
    let mut end: u64 = 0;
    let mut enter = |name: String, form: Form, shape: &[usize]| {
        let start = end;
        let numbers = shape.iter().try_fold(1, |product: u64, &size| product.checked_mul(size as u64));
        end = numbers
            .and_then(|numbers| numbers.checked_mul(form.size()))
            .and_then(|bytes| end.checked_add(bytes))
            .ok_or_else(|| Failure::Input("the tensors have more bytes than can be counted".into()))?;
        let entry = json!({ "dtype": form.name(), "shape": shape, "data_offsets": [start, end] });
        match header.insert(name, entry) {
            None => Ok(()),
            Some(_) => Err(Failure::Input(
                "a tensor is named `__metadata__`, which safetensors keeps for itself, or as the scales of another".into(),
            )),
        }
    };
    for &(name, form) in names {
        let Some(tensor) = weights.get(name) else { continue };
        enter(name.into(), form, tensor.shape())?;
        if form == Form::Int8 {
            enter(format!("{name}{SCALE}"), Form::F32, &tensor.shape()[..1])?;
        }
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    // Spaces, so that the numbers begin at a multiple of eight, as the format asks.
    header.resize(header.len().next_multiple_of(8), b' ');

    let failed = |error: std::io::Error| unwritten(path, &error);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(&header).map_err(failed)?;
    for &(name, form) in names {
        let Some(tensor) = weights.get(name) else { continue };
        let mut numbers = zeros(tensor.len())?;
        weights.read_f32(name, tensor.shape(), &mut numbers)?;
        if let Some(change) = change.filter(|change| change.concerns(name)) {
            numbers = change.apply(tensor.shape(), &numbers)?;
        }
        put(&mut file, form, tensor.shape(), &numbers).map_err(failed)?;
    }
    file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)
}

/// Writes the numbers of a tensor; those of 8 bits with their scales behind them.
fn put(file: &mut impl Write, form: Form, shape: &[usize], numbers: &[f32]) -> std::io::Result<()> {
    match form {
        Form::F32 => numbers.iter().try_for_each(|number| file.write_all(&number.to_le_bytes())),
        Form::Bf16 => {
            numbers.iter().try_for_each(|&number| file.write_all(&bf16::from_f32(number).to_le_bytes()))
        }
        Form::Int8 => {
            let width = shape.iter().skip(1).product::<usize>();
            let (mut row, mut scales) = (vec![0; width], Vec::new());
            for numbers in numbers.chunks_exact(width.max(1)) {
                scales.push(quantise(numbers, &mut row));
                row.iter().try_for_each(|number| file.write_all(&number.to_le_bytes()))?;
            }
            scales.iter().try_for_each(|scale| file.write_all(&scale.to_le_bytes()))
        }
    }
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
