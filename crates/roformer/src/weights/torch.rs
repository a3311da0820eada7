//! The two layouts that torch.save has written. Both are a pickle of the state dict and, apart from it, the numbers.
//!
//! ```text
//! since PyTorch 1.6   a zip file:  NAME/data.pkl, and NAME/data/KEY for each storage
//! before              pickles one after another: a magic number, a version, facts about the system, the state dict, the
//!                     list of keys; then for each key a length in eight bytes and the numbers
//! ```

use super::error::{Error, Result, brief};
use super::pickle::{self, Pickle, Storage, Value};
use super::source::Source;
use super::tensor::Tensor;
use super::zip::Archive;
use super::{LIMIT, Tensors};
use std::collections::BTreeMap;

/// The magic number 0x1950a86a20f9469cfc6c, as a pickle writes it.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Where the pickle of the magic number ends, if a file begins with one. Compared as bytes: the number is the only one in
/// the file that 64 bits cannot hold, and a few bytes of version come before it.
pub(super) fn legacy_magic(head: &[u8]) -> Option<usize> {
    let at =
        head.windows(MAGIC.len() + 1).take(16).position(|bytes| bytes[..10] == MAGIC && bytes[10] == b'.')?;
    (head[0] == 0x80).then_some(at + MAGIC.len() + 1)
}

/// A file of PyTorch 1.6 or later.
pub(super) fn read_zip(source: &Source) -> Result<Tensors> {
    let archive = Archive::read(source)?;
    let folder = |name: &'_ str| {
        name.strip_suffix("/data.pkl").filter(|folder| !folder.contains('/')).map(String::from)
    };
    let mut folders = archive.names().filter_map(folder);
    let (Some(folder), None) = (folders.next(), folders.next()) else {
        return Err(Error::format(
            source.path(),
            "a zip file without one NAME/data.pkl",
            "a file of torch.save; if it is a packed folder, unpack it and pass the folder",
        ));
    };
    // `find` of a name that was just listed.
    let (start, len) = archive.find(&format!("{folder}/data.pkl"))?.unwrap_or_default();
    let bytes = source.map(start, limited(source, len)?)?;
    let pickle = pickle::read(&bytes, source.path())?;
    if let Some((start, len)) = archive.find(&format!("{folder}/byteorder"))? {
        let order = source.map(start, len.min(16))?;
        little_endian(source, *order == *b"little")?;
    }
    tensors(source, &pickle, |storage| {
        let name = format!("{folder}/data/{}", storage.key);
        let Some((start, len)) = archive.find(&name)? else {
            return Err(broken(source, format!("no entry `{}`, which a tensor stands in", brief(&name))));
        };
        if byte_len(storage) != Some(len) {
            return Err(broken(
                source,
                format!("entry `{}` of {len} bytes for {}", brief(&name), describe(storage)),
            ));
        }
        Ok(start)
    })
}

/// A file of PyTorch before 1.6, whose first pickle ends at `at`.
pub(super) fn read_legacy(source: &Source, mut at: usize) -> Result<Tensors> {
    // Where the pickles end is known only after reading them. What is mapped and not looked at costs nothing.
    let bytes = source.map(0, source.len().min(LIMIT))?;
    let mut next = || {
        let pickle = pickle::read(bytes.get(at..).unwrap_or_default(), source.path())?;
        at += pickle.len;
        Ok(pickle)
    };
    let version: Pickle<'_> = next()?;
    if !matches!(version.root, Value::Int(1001)) {
        return Err(broken(
            source,
            format!("version {:?} of torch.save's old layout, not 1001", version.root),
        ));
    }
    let system: Pickle<'_> = next()?;
    let little = system.dict(system.root).unwrap_or_default().iter().find_map(|&(key, value)| {
        (system.text(key) == Some("little_endian")).then_some(matches!(value, Value::Bool(true)))
    });
    little_endian(source, little.unwrap_or(true))?;
    let state: Pickle<'_> = next()?;
    let keys: Pickle<'_> = next()?;

    let mut known: BTreeMap<&str, &Storage> = BTreeMap::new();
    for storage in state.storages() {
        let first = known.entry(&storage.key).or_insert(storage);
        if (first.dtype, first.len) != (storage.dtype, storage.len) {
            return Err(broken(source, format!("both {} and {}", describe(first), describe(storage))));
        }
    }
    let mut starts = BTreeMap::new();
    let mut at = at as u64;
    for &key in keys.list(keys.root).unwrap_or_default() {
        let storage = keys.text(key).and_then(|key| known.get(key));
        let Some(storage) = storage else {
            return Err(broken(source, "a storage that no tensor has".into()));
        };
        let len = source.map(at, 8)?;
        at += 8;
        if len[..] != storage.len.to_le_bytes() {
            return Err(broken(source, format!("another length before {}", describe(storage))));
        }
        let end = byte_len(storage).and_then(|len| at.checked_add(len)).filter(|&end| end <= source.len());
        let Some(end) = end else {
            return Err(broken(source, format!("{} cut short", describe(storage))));
        };
        starts.insert(storage.key.as_str(), at);
        at = end;
    }
    tensors(source, &state, |storage| {
        let start = starts.get(storage.key.as_str()).copied();
        start.ok_or_else(|| broken(source, format!("no numbers for {}", describe(storage))))
    })
}

/// The error for a pickle on its own. If it wants to call something, that is what there is to say of it.
pub(super) fn not_saved(source: &Source) -> Result<Error> {
    let bytes = source.map(0, source.len().min(LIMIT))?;
    pickle::read(&bytes, source.path())?;
    Ok(Error::format(
        source.path(),
        "a pickle that torch.save did not write",
        "a file of torch.save or safetensors",
    ))
}

/// The tensors of a state dict, given where each storage begins.
fn tensors(source: &Source, pickle: &Pickle<'_>, place: impl Fn(&Storage) -> Result<u64>) -> Result<Tensors> {
    let mut tensors = Tensors::new();
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for &(key, value) in state_dict(pickle).ok_or_else(|| {
        let expected = "the state_dict of a model; in Python: torch.save(model.state_dict(), path)";
        Error::format(source.path(), "a pickle of something without named tensors", expected)
    })? {
        // Whatever is no tensor, such as a step count, is no weight either.
        let Some((view, storage)) = pickle.tensor(value) else {
            continue;
        };
        let Some(name) = pickle.text(key) else {
            return Err(broken(source, "a tensor whose name is not text".into()));
        };
        let start = match places.get(storage.key.as_str()) {
            Some(&start) => start,
            None => place(storage)?,
        };
        places.insert(&storage.key, start);
        let of = |what: String| broken(source, format!("tensor `{}`: {what}", brief(name)));
        let (shape, strides) = (view.shape.clone(), view.strides.clone());
        let (part, room) = storage.part;
        let base = part.checked_mul(storage.dtype.size() as u64).and_then(|part| start.checked_add(part));
        let base = base.ok_or_else(|| of("begins outside the file".into()))?;
        let tensor = Tensor::new(storage.dtype, shape, Some(strides), base, view.offset, room).map_err(of)?;
        if tensors.insert(name.to_owned(), tensor).is_some() {
            return Err(of("there twice".into()));
        }
    }
    Ok(tensors)
}

/// The dictionary that holds the tensors: the pickle's own, or the one under `state_dict` or `model` in it, which is where
/// training scripts put it.
fn state_dict<'p>(pickle: &'p Pickle<'_>) -> Option<&'p [(Value, Value)]> {
    let holds = |dict: &[(Value, Value)]| dict.iter().any(|&(_, value)| pickle.tensor(value).is_some());
    let outer = pickle.dict(pickle.root)?;
    if holds(outer) {
        return Some(outer);
    }
    ["state_dict", "model"].iter().find_map(|name| {
        let &(_, inner) = outer.iter().find(|&&(key, _)| pickle.text(key) == Some(name))?;
        pickle.dict(inner).filter(|inner| holds(inner))
    })
}

fn byte_len(storage: &Storage) -> Option<u64> {
    storage.len.checked_mul(storage.dtype.size() as u64)
}

fn describe(storage: &Storage) -> String {
    format!("storage `{}` of {} {} numbers", brief(&storage.key), storage.len, storage.dtype)
}

fn limited(source: &Source, len: u64) -> Result<u64> {
    if len > LIMIT {
        let expected = format!("at most {LIMIT}; save the model's state_dict() alone");
        return Err(Error::format(source.path(), format!("a pickle of {len} bytes"), expected));
    }
    Ok(len)
}

fn little_endian(source: &Source, is_little: bool) -> Result<()> {
    if !is_little {
        let expected = "numbers with the low byte first; save it again on such a machine";
        return Err(Error::format(source.path(), "numbers with the high byte first", expected));
    }
    Ok(())
}

fn broken(source: &Source, found: String) -> Error {
    Error::format(source.path(), found, "a complete file of torch.save; download it again")
}
