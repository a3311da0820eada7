//! The header of a safetensors file: eight bytes of length, JSON that says where each tensor stands, then the numbers.
//!
//! As strict as the format's own library: the numbers follow each other without gap or overlap and end with the file. So a
//! file that was cut short or put together wrongly is refused here, not met later as wrong weights.

use super::error::{Error, Result, brief};
use super::source::Source;
use super::tensor::{Dtype, Tensor};
use super::{LIMIT, Tensors};
use serde_json::{Map, Value};

/// The length that the first eight bytes of a file state.
pub(super) fn header_len(head: &[u8]) -> Option<u64> {
    head.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Reads the header and checks all of it.
pub(super) fn read(source: &Source) -> Result<Tensors> {
    let broken = |found: String, expected: &str| Error::format(source.path(), found, expected);
    let again = "a complete safetensors file; download it again";
    let head = source.map(0, source.len().min(8))?;
    let Some(header) = header_len(&head).filter(|&header| header <= source.len() - 8) else {
        let found = match header_len(&head) {
            Some(header) => format!("a header of {header} bytes in a file of {}", source.len()),
            None => format!("a file of {} bytes", source.len()),
        };
        return Err(broken(found, again));
    };
    if header > LIMIT {
        return Err(broken(format!("a header of {header} bytes"), &format!("at most {LIMIT}")));
    }
    let json = source.map(8, header)?;
    let entries = object(&json).map_err(|error| broken(format!("a header that {error}"), again))?;

    let data = 8 + header;
    let room = source.len() - data;
    let mut tensors = Tensors::new();
    let mut ranges = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        if name == "__metadata__" {
            continue;
        }
        let of = |what: String| format!("tensor `{}`: {what}", brief(&name));
        let (dtype, shape, (start, end)) =
            fields(&entry).map_err(|(found, expected)| broken(of(found), expected))?;
        if start > end || end > room {
            let found = of(format!("bytes {start} to {end} of {room}"));
            return Err(broken(found, "a place within the file; download it again"));
        }
        let size = dtype.size() as u64;
        let tensor = Tensor::new(dtype, shape, None, data + start, 0, (end - start) / size)
            .map_err(|found| broken(of(found), again))?;
        if tensor.span != end - start {
            let found = of(format!(
                "{} elements of {size} bytes in {} bytes, {start} to {end}",
                tensor.len(),
                end - start
            ));
            return Err(broken(found, "a place of the tensor's size; download it again"));
        }
        ranges.push((start, end));
        tensors.insert(name, tensor);
    }
    ranges.sort_unstable();
    let mut reached = 0;
    for (start, end) in ranges {
        if start != reached {
            let what = if start < reached { "overlap" } else { "leave a gap" };
            return Err(broken(format!("tensors that {what} at byte {start} of the data"), again));
        }
        reached = end;
    }
    if reached != room {
        return Err(broken(format!("{room} bytes of data, of which the tensors take {reached}"), again));
    }
    Ok(tensors)
}

/// The type, shape and place that the header gives a tensor; or what is wrong, and what was expected.
#[allow(clippy::type_complexity)]
fn fields(entry: &Value) -> Result<(Dtype, Vec<usize>, (u64, u64)), (String, &'static str)> {
    let field = |key: &str| entry.get(key).unwrap_or(&Value::Null);
    let found = |key: &str| format!("{key} is {}", brief(&field(key).to_string()));
    let dtype = field("dtype").as_str().and_then(dtype).ok_or_else(|| {
        let expected =
            "one of F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL; save it as one of these";
        (found("dtype"), expected)
    })?;
    let sizes = |key: &str| field(key).as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>();
    let shape =
        sizes("shape").and_then(|shape| shape.into_iter().map(|size| usize::try_from(size).ok()).collect());
    let shape = shape.ok_or_else(|| (found("shape"), "a list of sizes; download it again"))?;
    match sizes("data_offsets").as_deref() {
        Some(&[start, end]) => Ok((dtype, shape, (start, end))),
        _ => Err((found("data_offsets"), "where it starts and ends; download it again")),
    }
}

fn dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "F64" => Dtype::F64,
        "F32" => Dtype::F32,
        "F16" => Dtype::F16,
        "BF16" => Dtype::BF16,
        "I64" => Dtype::I64,
        "I32" => Dtype::I32,
        "I16" => Dtype::I16,
        "I8" => Dtype::I8,
        "U64" => Dtype::U64,
        "U32" => Dtype::U32,
        "U16" => Dtype::U16,
        "U8" => Dtype::U8,
        "BOOL" => Dtype::Bool,
        _ => return None,
    })
}

/// A JSON object that says nothing twice; or what it does instead.
///
/// The parser keeps the last of two members of the same name without a word. In valid JSON each member has one colon
/// outside of strings, so more colons than members kept means that some name was there twice.
pub(super) fn object(json: &[u8]) -> Result<Map<String, Value>, String> {
    let value: Value = serde_json::from_slice(json).map_err(|error| format!("is not JSON ({error})"))?;
    let (mut colons, mut inside, mut escaped) = (0, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => colons += 1,
            _ => {}
        }
    }
    if colons != members(&value) {
        return Err("names something twice".into());
    }
    match value {
        Value::Object(map) => Ok(map),
        _ => Err("is not a JSON object".into()),
    }
}

/// The members of all objects within a value. Its depth is at most the 128 that the parser allows.
fn members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Object(map) => map.len() + map.values().map(members).sum::<usize>(),
        _ => 0,
    }
}
