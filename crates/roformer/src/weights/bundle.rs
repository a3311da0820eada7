//! Checkpoints of TensorFlow: a table of what each variable is and where it stands, and the numbers in files beside it.
//!
//! ```text
//! NAME.index                  the table: under the empty key how many files there are, under each variable's name its type,
//!                             shape, file, place and checksum
//! NAME.data-00000-of-00001    the numbers
//! ```
//!
//! The table is checked as a whole when it is opened; the numbers of a tensor when they are read.

use super::error::{Error, Result, brief};
use super::proto::{Value, fields};
use super::source::Source;
use super::table;
use super::tensor::{Dtype, Tensor};
use super::{LIMIT, Tensors};
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// The name that releases of BERT and RoFormer give the table.
pub(super) const USUAL: &str = "bert_model.ckpt.index";

const EXTENSION: &str = "index";

/// Ten times what the largest models have.
const MOST_TENSORS: usize = 1 << 20;

/// TensorFlow's own limit is 254.
const MOST_AXES: usize = 254;

/// The version of the format that is read; there is no other.
const VERSION: u64 = 1;

/// Whether a file is a table, or would be if it were not damaged.
pub(super) fn is_table(source: &Source) -> Result<bool> {
    let mark = table::MAGIC.len() as u64;
    let is_named = source.path().extension() == Some(EXTENSION.as_ref());
    Ok(is_named || source.len() >= mark && source.map(source.len() - mark, mark)?[..] == table::MAGIC)
}

/// Whether a file is named as the numbers of a checkpoint are.
pub(super) fn is_data(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    extension.strip_prefix("data-").is_some_and(|number| number.contains("-of-"))
}

/// The table of a checkpoint that is named as TensorFlow names it, without an ending; if there is one.
pub(super) fn named(path: &Path) -> Option<PathBuf> {
    let mut table = path.as_os_str().to_owned();
    table.push(".index");
    Some(PathBuf::from(table)).filter(|table| table.is_file())
}

/// The table in a folder, if there is one: of the usual name, or the only one that has numbers beside it. (Other programs
/// call their files `.index` too.)
pub(super) fn find(folder: &Path) -> Result<Option<PathBuf>> {
    let usual = folder.join(USUAL);
    // A link that leads nowhere counts as there: opening it names the file that is missing.
    if usual.symlink_metadata().is_ok() {
        return Ok(Some(usual));
    }
    let failed = |error| Error::io(folder, "read", error);
    let (mut tables, mut data) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension() == Some(EXTENSION.as_ref()) {
            tables.insert(path);
        } else if is_data(&path) {
            data.insert(path.with_extension(EXTENSION));
        }
    }
    let mut found = tables.intersection(&data);
    let (first, second) = (found.next(), found.next());
    if let (Some(first), Some(second)) = (first, second) {
        let name = |path: &Path| brief(&path.file_name().unwrap_or_default().to_string_lossy());
        let found = format!("several checkpoints, {} and {} among them", name(first), name(second));
        return Err(Error::format(folder, found, format!("one, or {USUAL}; move the others elsewhere")));
    }
    Ok(first.cloned())
}

/// Opens a checkpoint: the files with the numbers, and the tensors in them.
pub(super) fn open(index: &Source) -> Result<(Vec<Source>, Tensors)> {
    let broken = |found: String| Error::format(index.path(), found, AGAIN);
    if index.len() > LIMIT {
        let found = format!("an index of {} bytes", index.len());
        return Err(Error::format(index.path(), found, format!("at most {LIMIT}")));
    }
    let (shards, entries) = read(&index.map(0, index.len())?).map_err(broken)?;
    let mut files = Files { index: index.path(), shards, opened: BTreeMap::new(), files: Vec::new() };
    let (mut tensors, mut ranges) = (Tensors::new(), Vec::new());
    for (name, entry) in &entries {
        let of = |what: String| broken(format!("tensor `{}`: {what}", brief(name)));
        let file = files.number(name, entry.shard)?;
        let room = files.files[file].len();
        let end = entry.start.checked_add(entry.len).filter(|&end| end <= room);
        let Some(end) = end else {
            let (start, len) = (entry.start as i64, entry.len as i64);
            return Err(of(format!("{len} bytes from byte {start} on, in a file of {room}")));
        };
        if end > entry.start {
            ranges.push((file, entry.start, end, name));
        }
        // Texts, such as the description that TensorFlow 2 puts beside the variables, are no weights.
        let Kind::Numbers(dtype) = entry.kind else { continue };
        let size = dtype.size() as u64;
        let mut tensor =
            Tensor::new(dtype, entry.shape.clone(), None, entry.start, 0, entry.len / size).map_err(of)?;
        if tensor.span != entry.len {
            return Err(of(format!("{} elements of {size} bytes in {} bytes", tensor.len(), entry.len)));
        }
        (tensor.file, tensor.checksum) = (file, Some(entry.checksum));
        tensors.insert(name.clone(), tensor);
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let ((file, _, end, first), (next, start, _, second)) = (&pair[0], &pair[1]);
        if file == next && start < end {
            let (first, second) = (brief(first), brief(second));
            return Err(broken(format!("tensors `{first}` and `{second}` in the same place")));
        }
    }
    Ok((files.files, tensors))
}

const AGAIN: &str = "a complete checkpoint of TensorFlow; download it again";

/// The files with the numbers, each opened when a tensor is first found to be in it.
struct Files<'a> {
    index: &'a Path,
    /// How many there are.
    shards: u64,
    opened: BTreeMap<u64, usize>,
    files: Vec<Source>,
}

impl Files<'_> {
    /// Which of the open files is this one.
    fn number(&mut self, tensor: &str, shard: u64) -> Result<usize> {
        let broken = |found: String, expected: &str| Error::format(self.index, found, expected);
        let opened = match self.opened.entry(shard) {
            Slot::Occupied(entry) => return Ok(*entry.get()),
            Slot::Vacant(entry) => entry,
        };
        let tensor = brief(tensor);
        if shard >= self.shards {
            let (shard, shards) = (shard as i64, self.shards);
            return Err(broken(format!("tensor `{tensor}` in file {shard} of {shards}, from 0 on"), AGAIN));
        }
        let Some(stem) =
            self.index.file_stem().filter(|_| self.index.extension() == Some(EXTENSION.as_ref()))
        else {
            return Err(broken("a table of tensors under another name".into(), "one that ends with .index"));
        };
        let mut name = OsString::from(stem);
        name.push(format!(".data-{shard:05}-of-{:05}", self.shards));
        let path = self.index.with_file_name(&name);
        if !path.exists() {
            let found = format!("tensor `{tensor}` in {}, which is not there", name.display());
            return Err(broken(found, "all of its files in the same folder; download the missing one"));
        }
        self.files.push(Source::open(&path)?);
        Ok(*opened.insert(self.files.len() - 1))
    }
}

/// What a variable holds.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Numbers(Dtype),
    Texts,
}

/// What the table says of a variable.
struct Entry {
    kind: Kind,
    shape: Vec<usize>,
    shard: u64,
    start: u64,
    len: u64,
    checksum: u32,
}

/// How many files there are, and the variables in them by name; or what is wrong.
fn read(table: &[u8]) -> Result<(u64, Vec<(String, Entry)>), String> {
    let (mut shards, mut entries, mut has_slices) = (None, Vec::new(), false);
    table::read(table, |key, value| {
        let Some(_) = shards else {
            shards = Some(header(key, value)?);
            return Ok(());
        };
        // The parts of a variable that was cut into several come first, under keys that are no names.
        if key.first() == Some(&0) {
            has_slices = true;
            return Ok(());
        }
        let name =
            str::from_utf8(key).map_err(|_| format!("a name that is not UTF-8, `{}`", table::show(key)))?;
        let entry = entry(value).map_err(|found| format!("tensor `{}`: {found}", brief(name)))?;
        if entries.len() == MOST_TENSORS {
            return Err(format!("more than {MOST_TENSORS} tensors"));
        }
        entries.push((name.to_owned(), entry));
        Ok(())
    })?;
    match shards {
        // Each part is named by an entry that was refused above.
        Some(_) if has_slices => Err("parts of a variable that is not there".into()),
        Some(shards) => Ok((shards, entries)),
        None => Err("an index that says nothing".into()),
    }
}

/// How many files there are, as the entry under the empty key says.
fn header(key: &[u8], value: &[u8]) -> Result<u64, String> {
    let (mut shards, mut is_big, mut oldest) = (0, false, 0);
    let read = fields(value, |field, value| {
        match field {
            1 => shards = value.number()?,
            2 => is_big = value.number()? != 0,
            3 => fields(value.bytes()?, |field, value| {
                if field == 2 {
                    oldest = value.number()?;
                }
                Some(())
            })?,
            _ => {}
        }
        Some(())
    });
    match read {
        Some(()) if key.is_empty() && (1..=i32::MAX as u64).contains(&shards) => {}
        _ => return Err("an index that does not say how many files there are".into()),
    }
    if is_big {
        return Err("numbers with the high byte first".into());
    }
    if oldest > VERSION {
        return Err(format!("version {oldest} of the format, where {VERSION} is the last that is known"));
    }
    Ok(shards)
}

/// What the table says of a variable; or what is wrong with it.
fn entry(value: &[u8]) -> Result<Entry, String> {
    let (mut dtype, mut shape) = (0, Some(Vec::new()));
    let (mut shard, mut start, mut len, mut checksum, mut is_sliced) = (0, 0, 0, 0, false);
    let read = fields(value, |field, value| {
        match (field, value) {
            (1, value) => dtype = value.number()?,
            (2, value) => shape = axes(value.bytes()?)?,
            (3, value) => shard = value.number()?,
            (4, value) => start = value.number()?,
            (5, value) => len = value.number()?,
            (6, Value::Fixed(number)) => checksum = number,
            (6, _) => return None,
            (7, _) => is_sliced = true,
            _ => {}
        }
        Some(())
    });
    if read.is_none() {
        return Err("a description that cannot be read".into());
    }
    if is_sliced {
        return Err("a variable in several parts; in TensorFlow, save it without a partitioner".into());
    }
    let shape = shape.ok_or("a shape that is not known")?;
    Ok(Entry { kind: kind(dtype)?, shape, shard, start, len, checksum })
}

/// The sizes of a shape; `Some(None)` where they are not known.
fn axes(shape: &[u8]) -> Option<Option<Vec<usize>>> {
    let (mut sizes, mut is_known) = (Vec::new(), true);
    fields(shape, |field, value| {
        match field {
            2 => {
                let mut size = 0;
                fields(value.bytes()?, |field, value| {
                    if field == 1 {
                        size = value.number()?;
                    }
                    Some(())
                })?;
                // A negative one stands for any size.
                is_known &= i64::try_from(size).is_ok() && sizes.len() < MOST_AXES;
                if is_known {
                    sizes.push(usize::try_from(size).ok()?);
                }
            }
            3 => is_known &= value.number()? == 0,
            _ => {}
        }
        Some(())
    })?;
    Some(is_known.then_some(sizes))
}

/// The type of a variable, by TensorFlow's number for it.
fn kind(number: u64) -> Result<Kind, String> {
    Ok(Kind::Numbers(match number {
        1 => Dtype::F32,
        2 => Dtype::F64,
        3 => Dtype::I32,
        4 => Dtype::U8,
        5 => Dtype::I16,
        6 => Dtype::I8,
        7 => return Ok(Kind::Texts),
        9 => Dtype::I64,
        10 => Dtype::Bool,
        14 => Dtype::BF16,
        17 => Dtype::U16,
        19 => Dtype::F16,
        22 => Dtype::U32,
        23 => Dtype::U64,
        _ => return Err(format!("numbers of TensorFlow's type {number}, which is not read here")),
    }))
}
