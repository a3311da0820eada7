//! The tensors of a safetensors file: read, rotated, written under the final name only when complete, and never over the file
//! that they were read from unless that was asked for.

use super::{Arguments, every_axis};
use crate::error::{Failure, Outcome};
use half::{bf16, f16};
use rope::{Element, Positions, Precision, Rope, ViewMut};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Larger files are not read into memory.
const MAX_BYTES: u64 = 16 << 30;

pub fn run(arguments: &Arguments, input: &Path, output: &Path) -> Outcome {
    let fail = |error: String| Failure::Input(format!("{}: {error}", input.display()));
    let first: i64 = arguments.positions.trim().parse().map_err(|_| {
        Failure::Input(format!(
            "--positions is `{}`; for tensors, expected the first token's",
            arguments.positions
        ))
    })?;
    if !arguments.overwrite && is_same(input, output) {
        return Err(Failure::Input(format!(
            "{} is the input itself and would be lost; name another file, or give --overwrite to replace it",
            output.display()
        )));
    }
    let length = std::fs::metadata(input).map_err(|error| fail(error.to_string()))?.len();
    if length > MAX_BYTES {
        return Err(fail(format!("has {length} bytes; expected at most {MAX_BYTES}")));
    }
    let bytes = std::fs::read(input).map_err(|error| fail(error.to_string()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| fail(error.to_string()))?;
    if let Some(missing) = arguments.tensor.iter().find(|name| file.tensor(name).is_err()) {
        return Err(fail(format!("no tensor `{missing}`; it has {}", file.names().join(", "))));
    }
    let mut rotated = BTreeMap::new();
    for (name, tensor) in file.iter() {
        if arguments.tensor.is_empty() || arguments.tensor.iter().any(|wanted| wanted == name) {
            let data = match tensor.dtype() {
                Dtype::F32 => rotate::<f32>(arguments, &tensor, first),
                Dtype::F64 => rotate::<f64>(arguments, &tensor, first),
                Dtype::F16 => rotate::<f16>(arguments, &tensor, first),
                Dtype::BF16 => rotate::<bf16>(arguments, &tensor, first),
                other => {
                    Err(Failure::Input(format!("its type is {other:?}; expected F32, F64, F16 or BF16")))
                }
            };
            let data = data.map_err(|failure| match failure {
                Failure::Input(message) => fail(format!("tensor `{name}`: {message}")),
                other => other,
            })?;
            rotated.insert(name.to_string(), data);
        }
    }
    let views: Result<BTreeMap<_, _>, _> = file
        .iter()
        .map(|(name, tensor)| {
            let data = rotated.get(name).map_or(tensor.data(), Vec::as_slice);
            TensorView::new(tensor.dtype(), tensor.shape().to_vec(), data)
                .map(|view| (name.to_string(), view))
        })
        .collect();
    let bytes = views.and_then(|views| safetensors::serialize(&views, None));
    let bytes = bytes.map_err(|error| Failure::Other(error.to_string()))?;
    roformer::files::write(output, &bytes).map_err(|error| Failure::Other(error.to_string()))?;
    let (done, all) = (rotated.len(), file.len());
    writeln!(std::io::stdout(), "{done} of {all} tensors rotated, written to {}", output.display())?;
    Ok(())
}

/// A number type that files hold in little-endian bytes.
trait Stored: Element {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! stored {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            fn read(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                <$type>::from_le_bytes(array)
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
stored!(f32, f64, f16, bf16);

/// The bytes of a tensor after the rotation.
fn rotate<T: Stored>(arguments: &Arguments, tensor: &TensorView, first: i64) -> Result<Vec<u8>, Failure> {
    let shape = tensor.shape();
    let [outer @ .., before, last, features] = shape else {
        return Err(Failure::Input(format!("its shape is {shape:?}; expected at least [.., .., features]")));
    };
    let batch = outer.iter().product();
    let rope: Rope = arguments.rope(*features)?;
    if rope.head_dim() != *features {
        let message = format!("its shape is {shape:?}; expected a last axis of {} features", rope.head_dim());
        return Err(Failure::Input(message));
    }
    let mut data: Vec<T> = tensor.data().chunks_exact(size_of::<T>()).map(T::read).collect();
    let (length, mut view) = match arguments.order.as_str() {
        "blhd" => (*before, ViewMut::blhd(&mut data, [batch, *before, *last, *features])?),
        _ => (*last, ViewMut::bhld(&mut data, [batch, *before, *last, *features])?),
    };
    let end =
        first.checked_add(length as i64).ok_or_else(|| Failure::Input("--positions is too large".into()))?;
    turn(arguments, &rope, first..end, &mut view)?;
    let mut bytes = vec![0; tensor.data().len()];
    for (value, bytes) in data.into_iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
        value.write(bytes);
    }
    Ok(bytes)
}

fn turn<T: Element>(
    arguments: &Arguments,
    rope: &Rope,
    positions: std::ops::Range<i64>,
    view: &mut ViewMut<T>,
) -> Result<(), Failure>
where
    T::Table: Precision,
{
    let listed: Vec<f64> = positions.map(|position| position as f64).collect();
    let table = rope.table_of::<T::Table>(&every_axis(rope, &listed), arguments.sequence_length)?;
    Ok(table.at(Positions::Rows)?.rotate(arguments.turn(), view)?)
}

/// Whether two paths lead to one file: spelled in another way, through a link, or as two names of it.
fn is_same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) {
        use std::os::unix::fs::MetadataExt;
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
