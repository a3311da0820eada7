//! An index that spreads a model's tensors over several files, as Hugging Face writes for large models: `weight_map` gives
//! each tensor the name of a file in the same folder.

use super::error::{Error, Result, brief};
use super::source::Source;
use super::{LIMIT, Tensors, kind, read_single, safetensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Component, Path};

/// Opens every file that an index lists. What those hold beyond the index is left out.
pub(super) fn open(index: &Source) -> Result<(Vec<Source>, Tensors)> {
    let broken = |found: String, expected: &str| Error::format(index.path(), found, expected);
    if index.len() > LIMIT {
        return Err(broken(format!("an index of {} bytes", index.len()), &format!("at most {LIMIT}")));
    }
    let json = index.map(0, index.len())?;
    let members = safetensors::object(&json)
        .map_err(|error| broken(format!("an index that {error}"), "a JSON object; download it again"))?;
    let Some(Value::Object(map)) = members.get("weight_map") else {
        let expected = "an index with a `weight_map`, or a file of weights; pass the folder of the model";
        return Err(broken("JSON without a `weight_map` object".into(), expected));
    };

    let folder = index.path().parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    let mut opened: BTreeMap<&str, (usize, Tensors)> = BTreeMap::new();
    let mut tensors = Tensors::new();
    for (name, file) in map {
        let shown = brief(name);
        let Some(file) = file.as_str().filter(|file| is_plain(file)) else {
            let found = format!("tensor `{shown}` in {}", brief(&file.to_string()));
            return Err(broken(found, "the name of a file in the same folder, without any path"));
        };
        let (number, held) = match opened.entry(file) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let path = folder.join(file);
                if !path.exists() {
                    let found = format!("tensor `{shown}` in {}, which is not there", brief(file));
                    return Err(broken(
                        found,
                        "all of its files in the same folder; download the missing one",
                    ));
                }
                let source = Source::open(&path)?;
                let held = read_single(&source, kind(&source)?)?;
                files.push(source);
                entry.insert((files.len() - 1, held))
            }
        };
        let Some(mut tensor) = held.remove(name) else {
            let found = format!("tensor `{shown}` in {}, which does not hold it", brief(file));
            return Err(broken(found, "an index of these very files; download all of them again"));
        };
        tensor.file = *number;
        tensors.insert(name.clone(), tensor);
    }
    Ok((files, tensors))
}

/// Whether a name stays in its folder, on any system.
pub(crate) fn is_plain(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !file.contains(['/', '\\', ':', '\0'])
}
