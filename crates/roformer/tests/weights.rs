//! Weights files: what is read from each kind, and that nothing a file can contain does harm.
//!
//! The files are made here, byte by byte, so that each test shows what it changes in them. Those in `golden/roformer` were
//! written by transformers itself.

use half::{bf16, f16};
use proptest::prelude::*;
use roformer::weights::{Dtype, Error, Weights, save};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

// ---- The files ----

/// A folder of its own for a test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("weights-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn open(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<Weights, Error> {
        Weights::open(self.put(name, bytes))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is said of a file that must not open.
#[track_caller]
fn refused(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let error = Folder::new().open(name, bytes).expect_err("must be refused");
    let message = error.to_string();
    assert!(message.contains(name), "does not name the file: {message}");
    message
}

/// Asserts that a message has all of some words.
#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

/// All numbers of a tensor, as f32.
fn read(weights: &Weights, name: &str) -> Vec<f32> {
    let tensor = weights.get(name).unwrap_or_else(|| panic!("no {name}"));
    let mut out = vec![f32::NAN; tensor.len()];
    weights.read_f32(name, tensor.shape(), &mut out).unwrap();
    out
}

fn le(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// Two tensors in one small file.
fn small_safetensors() -> Vec<u8> {
    let header = json!({
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "F16", "shape": [2], "data_offsets": [24, 28]},
    });
    let b = [f16::from_f32(0.5), f16::from_f32(-2.0)].map(f16::to_le_bytes).concat();
    safetensors(&header.to_string(), &[le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), b].concat())
}

/// A tensor as a pickle describes it.
#[derive(Clone)]
struct Pickled<'a> {
    name: &'a str,
    storage: &'a str,
    key: &'a str,
    len: i64,
    offset: i64,
    shape: &'a [i64],
    strides: &'a [i64],
    /// Of the storage; the old layout always says which, or none.
    part: Option<Option<(i64, i64)>>,
}

const PICKLED: Pickled<'_> = Pickled {
    name: "a",
    storage: "FloatStorage",
    key: "0",
    len: 6,
    offset: 0,
    shape: &[2, 3],
    strides: &[3, 1],
    part: None,
};

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn int(number: i64) -> Vec<u8> {
    [&[0x8a, 8], &number.to_le_bytes()[..]].concat()
}

fn tuple(numbers: &[i64]) -> Vec<u8> {
    let items = numbers.iter().flat_map(|&number| int(number)).collect();
    [b"(".to_vec(), items, b"t".to_vec()].concat()
}

fn tensor(t: &Pickled<'_>) -> Vec<u8> {
    let part = match t.part {
        None => vec![],
        Some(None) => b"N".to_vec(),
        Some(Some((start, len))) => [b"(", &text("v")[..], &int(start), &int(len), b"t"].concat(),
    };
    let storage = format!("ctorch\n{}\n", t.storage).into_bytes();
    let id = [b"(", &text("storage")[..], &storage, &text(t.key), &text("cpu"), &int(t.len), &part, b"tQ"];
    let rest =
        [int(t.offset), tuple(t.shape), tuple(t.strides), b"\x89ccollections\nOrderedDict\n)RtR".to_vec()];
    [b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(), id.concat(), rest.concat()].concat()
}

/// A pickle of an OrderedDict of tensors. What `extra` holds is one more member: a name and a value.
fn pickle(tensors: &[Pickled<'_>], extra: &[u8]) -> Vec<u8> {
    let members = tensors.iter().flat_map(|t| [text(t.name), tensor(t)].concat()).collect();
    [b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec(), members, extra.to_vec(), b"u.".to_vec()].concat()
}

/// Ways in which a zip file can differ from what torch.save writes, or lie.
#[derive(Default, Clone)]
struct Zip {
    method: u16,
    flags: u16,
    /// Added to the sizes in the list.
    more: u32,
    /// Where the list says that entries begin.
    header: Option<u32>,
    /// Sizes and place in 64 bits, in the list.
    wide: Option<[u64; 3]>,
    /// Ends with the zip64 part, as torch.save writes: where that is said to be, where the list is said to be.
    end: Option<(Option<u64>, Option<u64>)>,
    /// In the end: the list, its number.
    list: Option<u32>,
    count: Option<u16>,
    comment: Vec<u8>,
}

impl Zip {
    fn write(&self, entries: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut out, mut list) = (Vec::new(), Vec::new());
        for &(name, data) in entries {
            let header = self.header.unwrap_or(out.len() as u32);
            let size = data.len() as u32;
            // Padding, which torch.save uses to align the numbers.
            let extra = b"FB\x03\x00ZZZ";
            let common = |size: u32, extra: u16| {
                let mut bytes = vec![20, 0];
                bytes.extend([self.flags, self.method, 0, 0].map(u16::to_le_bytes).concat());
                bytes.extend([0, size, size].map(u32::to_le_bytes).concat());
                bytes.extend([name.len() as u16, extra].map(u16::to_le_bytes).concat());
                bytes
            };
            out.extend(
                [b"PK\x03\x04", &common(size, extra.len() as u16)[..], name.as_bytes(), extra, data].concat(),
            );
            let wide =
                self.wide.map(|wide| [&[1, 0, 24, 0], &wide.map(u64::to_le_bytes).concat()[..]].concat());
            let (size, header) =
                if wide.is_some() { (u32::MAX, u32::MAX) } else { (size + self.more, header) };
            let wide = wide.unwrap_or_default();
            list.extend([b"PK\x01\x02\x14\x00", &common(size, wide.len() as u16)[..], &[0; 10]].concat());
            list.extend([&header.to_le_bytes(), name.as_bytes(), &wide].concat());
        }
        let (at, len, count) = (out.len() as u64, list.len() as u64, entries.len() as u64);
        out.extend(list);
        let end = out.len() as u64;
        if let Some((record, list)) = self.end {
            out.extend([b"PK\x06\x06", &44_u64.to_le_bytes()[..], &[45, 0, 45, 0], &[0; 8]].concat());
            out.extend([count, count, len, list.unwrap_or(at)].map(u64::to_le_bytes).concat());
            out.extend(
                [b"PK\x06\x07", &[0; 4], &record.unwrap_or(end).to_le_bytes()[..], &[1, 0, 0, 0]].concat(),
            );
        }
        let (at, count) = if self.end.is_some() { (u32::MAX, u16::MAX) } else { (at as u32, count as u16) };
        let count = self.count.unwrap_or(count);
        out.extend([b"PK\x05\x06", &[0; 4][..], &[count, count].map(u16::to_le_bytes).concat()].concat());
        out.extend([len as u32, self.list.unwrap_or(at)].map(u32::to_le_bytes).concat());
        out.extend((self.comment.len() as u16).to_le_bytes());
        out.extend(&self.comment);
        out
    }
}

/// A file of torch.save with these storages under the keys 0, 1 and so on.
fn zip(pickle: &[u8], storages: &[&[u8]]) -> Vec<u8> {
    let keys: Vec<_> = (0..storages.len()).map(|key| format!("archive/data/{key}")).collect();
    let mut entries = vec![("archive/data.pkl", pickle), ("archive/byteorder", b"little")];
    entries.extend(keys.iter().map(String::as_str).zip(storages.iter().copied()));
    entries.push(("archive/version", b"3\n"));
    Zip::default().write(&entries)
}

fn small_zip() -> Vec<u8> {
    let turned = Pickled { name: "turned", shape: &[3, 2], strides: &[1, 3], ..PICKLED };
    zip(&pickle(&[PICKLED, turned], b""), &[&le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])])
}

/// A file of torch.save as it was before PyTorch 1.6.
fn legacy(state: &[u8], storages: &[(&str, u64, &[u8])]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let system = [b"\x80\x02}q\x00(", &text("little_endian")[..], b"\x88u."].concat();
    let keys = storages.iter().flat_map(|(key, ..)| text(key)).collect();
    let keys = [b"\x80\x02](".to_vec(), keys, b"e.".to_vec()].concat();
    let data =
        storages.iter().flat_map(|(_, len, data)| [&len.to_le_bytes(), *data].concat()).collect::<Vec<_>>();
    [magic, &b"\x80\x02M\xe9\x03."[..], &system, state, &keys, &data].concat()
}

fn small_legacy() -> Vec<u8> {
    let a = Pickled { part: Some(None), ..PICKLED };
    let part =
        Pickled { name: "part", shape: &[2], strides: &[1], part: Some(Some((3, 3))), offset: 1, ..PICKLED };
    legacy(&pickle(&[a, part], b""), &[("0", 6, &le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))])
}

fn index(map: Value) -> String {
    json!({"metadata": {"total_size": 28}, "weight_map": map}).to_string()
}

// ---- What is read ----

#[test]
fn what_is_saved_is_read_back_bit_by_bit() {
    let folder = Folder::new();
    let path = folder.0.join("model.safetensors");
    let a = [1.0, -0.0, f32::INFINITY, f32::MIN_POSITIVE / 2.0, f32::from_bits(0x7fc0_1234), 1e-3];
    let long: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    let tensors = [
        ("b", vec![2, 3], &a[..]),
        ("a\"\n", vec![], &a[..1]),
        ("none", vec![0, 7], &[]),
        ("long", vec![100_000], &long),
    ];
    fs::write(&path, "what was there before").unwrap();
    save(&path, tensors.clone()).unwrap();

    let weights = Weights::open(&folder.0).unwrap();
    assert_eq!(weights.path(), path);
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a\"\n", "b", "long", "none"]);
    assert_eq!((weights.len(), weights.is_empty()), (4, false));
    for (name, shape, data) in &tensors {
        let tensor = weights.get(name).unwrap();
        assert_eq!((tensor.shape(), tensor.dtype(), tensor.len()), (&shape[..], Dtype::F32, data.len()));
        assert_eq!(tensor.is_empty(), data.is_empty());
        assert_eq!(le(&read(&weights, name)), le(data));
    }
    // Nothing but the file is left, and the format's own library reads it.
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    let bytes = fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header % 8, 0);
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("b").unwrap().data(), le(&a));
}

#[test]
fn saving_refuses_what_could_not_be_read_back() {
    let folder = Folder::new();
    let path = folder.0.join("model.safetensors");
    let one = &[1.0_f32][..];
    let refuse = |tensors: Vec<(&str, Vec<usize>, &[f32])>| save(&path, tensors).unwrap_err().to_string();
    says(&refuse(vec![("a", vec![1], one), ("a", vec![1], one)]), &["`a`", "twice"]);
    says(&refuse(vec![("__metadata__", vec![1], one)]), &["__metadata__", "keeps this name"]);
    says(&refuse(vec![("a", vec![2], one)]), &["`a`", "1 elements", "[2]"]);
    says(&refuse(vec![("a", vec![usize::MAX, 2], one)]), &["`a`", "1 elements"]);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    let missing = folder.0.join("no such folder").join("model.safetensors");
    says(
        &save(&missing, [("a", vec![1], one)]).unwrap_err().to_string(),
        &["cannot write", "no such folder"],
    );
}

#[test]
fn saving_over_a_folder_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.0.join("model.safetensors");
    fs::create_dir_all(path.join("in it")).unwrap();
    save(&path, [("a", vec![1], &[1.0_f32][..])]).unwrap_err();
    assert!(!folder.0.join("model.safetensors.partial").exists());
}

#[test]
fn every_float_type_is_converted() {
    let values = [0.0, -1.5, 65504.0, 2.0_f32.powi(-24), f32::NAN, f32::NEG_INFINITY];
    let bytes = [
        values.map(|x| f64::from(x).to_le_bytes().to_vec()).concat(),
        le(&values),
        values.map(|x| f16::from_f32(x).to_le_bytes().to_vec()).concat(),
        values.map(|x| bf16::from_f32(x).to_le_bytes().to_vec()).concat(),
    ];
    let mut end = 0;
    let mut header = serde_json::Map::new();
    for (name, bytes) in ["F64", "F32", "F16", "BF16"].iter().zip(&bytes) {
        let start = end;
        end += bytes.len();
        header.insert(name.to_string(), json!({"dtype": name, "shape": [6], "data_offsets": [start, end]}));
    }
    let folder = Folder::new();
    let weights =
        folder.open("x.safetensors", safetensors(&json!(header).to_string(), &bytes.concat())).unwrap();
    for name in ["F64", "F32", "F16", "BF16"] {
        let mut wide = [0.0_f64; 6];
        weights.read(name, &[6], &mut wide).unwrap();
        for ((narrow, wide), value) in read(&weights, name).into_iter().zip(wide).zip(values) {
            let value = if name == "BF16" { bf16::from_f32(value).to_f32() } else { value };
            assert!(narrow == value || narrow.is_nan() && value.is_nan(), "{name}: {narrow} for {value}");
            assert!(
                wide == f64::from(value) || wide.is_nan() && value.is_nan(),
                "{name}: {wide} for {value}"
            );
        }
    }
}

#[test]
fn f64_keeps_its_digits_or_is_rounded_once() {
    let third: f64 = 1.0 / 3.0;
    let bytes = safetensors(r#"{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}"#, &third.to_le_bytes());
    let folder = Folder::new();
    let weights = folder.open("a.safetensors", bytes).unwrap();
    let mut wide = [0.0];
    weights.read::<f64>("a", &[], &mut wide).unwrap();
    assert_eq!((wide[0], read(&weights, "a")[0]), (third, third as f32));
}

#[test]
fn integers_are_reported_and_not_converted() {
    for dtype in ["I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"] {
        let size = match dtype.trim_start_matches(['I', 'U']) {
            "64" => 8,
            "32" => 4,
            "16" => 2,
            _ => 1,
        };
        let header = json!({"x": {"dtype": dtype, "shape": [3], "data_offsets": [0, 3 * size]}}).to_string();
        let folder = Folder::new();
        let weights = folder.open("i.safetensors", safetensors(&header, &vec![1; 3 * size])).unwrap();
        let found = weights.get("x").unwrap().dtype();
        assert_eq!((found.to_string().to_uppercase().as_str(), found.size()), (dtype, size));
        let message = weights.read_f32("x", &[3], &mut [0.0; 3]).unwrap_err().to_string();
        says(&message, &["i.safetensors", "`x`", &found.to_string(), "expected F32"]);
    }
}

#[test]
fn asking_for_the_wrong_thing_says_what_is_there() {
    let folder = Folder::new();
    let weights = folder.open("m.safetensors", small_safetensors()).unwrap();
    let mut out = [0.0; 6];
    let message = |result: Result<(), Error>| result.unwrap_err().to_string();
    says(&message(weights.read_f32("a", &[3, 2], &mut out)), &["m.safetensors", "`a`", "[2, 3]", "[3, 2]"]);
    says(&message(weights.read_f32("a", &[2, 3], &mut out[..5])), &["`a`", "5 elements", "[2, 3]"]);
    let prefixed = message(weights.read_f32("roformer.a", &[2, 3], &mut out));
    says(&prefixed, &["no tensor `roformer.a`", "did you mean `a`?"]);
    says(&message(weights.read_f32("c", &[2, 3], &mut out)), &["no tensor `c`", "the 2 there", "`a`, `b`"]);
    says(&message(weights.read_f32("", &[], &mut out)), &["no tensor ``"]);
    assert!(weights.get("c").is_none());
}

#[test]
fn pickled_tensors_are_read_in_both_layouts() {
    let folder = Folder::new();
    let new = folder.open("new.bin", small_zip()).unwrap();
    assert_eq!(new.names().collect::<Vec<_>>(), ["a", "turned"]);
    assert_eq!(read(&new, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(read(&new, "turned"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let old = folder.open("old.bin", small_legacy()).unwrap();
    assert_eq!(old.names().collect::<Vec<_>>(), ["a", "part"]);
    assert_eq!(read(&old, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(read(&old, "part"), [5.0, 6.0]);
}

#[test]
fn strides_of_every_kind() {
    let numbers: Vec<f32> = (0..24).map(|i| i as f32).collect();
    type Case<'a> = (&'a [i64], &'a [i64], i64, &'a [f32]);
    let cases: [Case<'_>; 8] = [
        (&[2, 3], &[12, 4], 1, &[1.0, 5.0, 9.0, 13.0, 17.0, 21.0]),
        (&[2, 2, 2], &[1, 4, 12], 0, &[0.0, 12.0, 4.0, 16.0, 1.0, 13.0, 5.0, 17.0]),
        (&[3], &[0], 7, &[7.0, 7.0, 7.0]),
        (&[2, 2], &[0, 1], 22, &[22.0, 23.0, 22.0, 23.0]),
        (&[], &[], 23, &[23.0]),
        (&[1, 2, 1], &[i64::MAX, 5, i64::MAX], 3, &[3.0, 8.0]),
        (&[1], &[i64::MAX], 0, &[0.0]),
        (&[3, 0], &[i64::MAX, i64::MAX], 24, &[]),
    ];
    for (shape, strides, offset, expected) in cases {
        let t = Pickled { len: 24, shape, strides, offset, ..PICKLED };
        let folder = Folder::new();
        let weights = folder.open("s.bin", zip(&pickle(&[t], b""), &[&le(&numbers)])).unwrap();
        assert_eq!(read(&weights, "a"), expected, "{shape:?} {strides:?}");
    }
}

#[test]
fn pickles_of_other_forms() {
    let data = le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let t = tensor(&PICKLED);
    let state = pickle(&[PICKLED], b"");
    let state = &state[2..state.len() - 1];
    let attributes = [&text("_metadata")[..], b"ccollections\nOrderedDict\n)R"].concat();
    let short = |text: &str| [&[0x8c, text.len() as u8], text.as_bytes()].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "under state_dict",
            [b"\x80\x02}(", &text("epoch")[..], b"K\x03", &text("state_dict"), state, b"u."].concat(),
        ),
        ("under model", [b"\x80\x02}", &text("model")[..], state, b"s."].concat()),
        ("with attributes", [&b"\x80\x02"[..], state, b"}", &attributes, b"sb."].concat()),
        ("a parameter", {
            let rebuild = b"ctorch._utils\n_rebuild_parameter\n(";
            [b"\x80\x02}", &text("a")[..], rebuild, &t, b"\x88ccollections\nOrderedDict\n)RtRs."].concat()
        }),
        ("from Python 2", [b"\x80\x02ccollections\nOrderedDict\n](](U\x01a", &t[..], b"ee\x85R."].concat()),
        ("protocol 0", [b"(dS'a'\n", &t[..], b"sS'pi'\nF3.14\nsS'n'\nL12L\nsV on\nI01\ns."].concat()),
        ("protocol 4", {
            let dict = [short("collections"), short("OrderedDict"), b"\x93\x94)R\x94".to_vec()].concat();
            [b"\x80\x04\x95\0\0\0\0\0\0\0\0", &dict[..], &short("a"), &t, b"s."].concat()
        }),
        ("other values", {
            let values = b"N\x88G\0\0\0\0\0\0\0\0J\xff\xff\xff\xff\x8a\0C\x01xM\x01\x02)\x85\x86]}";
            [b"\x80\x02}(", &text("a")[..], &t, &text("more"), b"(", values, b"20tu."].concat()
        }),
        ("a size", {
            let shape = tuple(&[2, 3]);
            let at = t.windows(shape.len()).position(|part| part == shape).unwrap();
            let sized = [&t[..at], b"ctorch\nSize\n", &shape, b"\x85R", &t[at + shape.len()..]].concat();
            [b"\x80\x02}", &text("a")[..], &sized, b"s."].concat()
        }),
    ];
    for (what, pickle) in cases {
        let folder = Folder::new();
        let weights = folder.open("p.bin", zip(&pickle, &[&data]));
        let weights = weights.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(weights.names().collect::<Vec<_>>(), ["a"], "{what}");
        assert_eq!(read(&weights, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{what}");
    }
}

#[test]
fn storages_of_every_type() {
    let types = [
        ("DoubleStorage", Dtype::F64),
        ("FloatStorage", Dtype::F32),
        ("HalfStorage", Dtype::F16),
        ("BFloat16Storage", Dtype::BF16),
        ("LongStorage", Dtype::I64),
        ("IntStorage", Dtype::I32),
        ("ShortStorage", Dtype::I16),
        ("CharStorage", Dtype::I8),
        ("ByteStorage", Dtype::U8),
        ("BoolStorage", Dtype::Bool),
    ];
    for (storage, dtype) in types {
        let t = Pickled { storage, ..PICKLED };
        let bytes = zip(&pickle(&[t], b""), &[&vec![0; 6 * dtype.size()]]);
        assert_eq!(Folder::new().open("t.bin", bytes).unwrap().get("a").unwrap().dtype(), dtype);
    }
}

#[test]
fn zip_files_with_a_zip64_end_and_a_comment() {
    let pickle = pickle(&[PICKLED], b"");
    let entries: [(&str, &[u8]); 2] = [("m/data.pkl", &pickle), ("m/data/0", &le(&[0.5; 6]))];
    let comment = b"PK\x05\x06 is how an end begins".to_vec();
    let zip = Zip { end: Some((None, None)), comment, ..Zip::default() };
    let folder = Folder::new();
    assert_eq!(read(&folder.open("z.bin", zip.write(&entries)).unwrap(), "a"), [0.5; 6]);
}

#[test]
fn a_folder_is_searched_in_order() {
    let folder = Folder::new();
    let map = index(json!({"a": "model-00001-of-00002.safetensors", "b": "rest.bin"}));
    let one = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let rest = Pickled { name: "b", ..PICKLED };
    folder.put("model-00001-of-00002.safetensors", safetensors(one, &le(&[1.5])));
    folder.put("rest.bin", zip(&pickle(&[rest, PICKLED], b""), &[&le(&[2.5; 6])]));
    let opened = || Weights::open(&folder.0).map(|weights| weights.path().file_name().unwrap().to_owned());

    let names = [
        ("pytorch_model.bin.index.json", map.clone().into_bytes()),
        ("pytorch_model.bin", small_zip()),
        ("model.safetensors.index.json", map.into_bytes()),
        ("model.safetensors", small_safetensors()),
    ];
    let message = opened().unwrap_err().to_string();
    says(&message, &names.each_ref().map(|(name, _)| *name));
    for (name, bytes) in names {
        folder.put(name, bytes);
        assert_eq!(opened().unwrap(), name);
    }
    // Each tensor from the file that the index gives, whatever else those hold.
    let weights = Weights::open(folder.0.join("model.safetensors.index.json")).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((read(&weights, "a"), read(&weights, "b")), (vec![1.5], vec![2.5; 6]));
}

/// The tensors of a RoFormer for masked language modelling. The last two are tied to others; safetensors has those once.
fn roformer_shapes(config: &Value) -> Vec<(String, Vec<usize>)> {
    let size = |key: &str| config[key].as_u64().unwrap() as usize;
    let (hidden, embedding) = (size("hidden_size"), size("embedding_size"));
    let (inner, vocab) = (size("intermediate_size"), size("vocab_size"));
    let head = hidden / size("num_attention_heads");
    let mut pairs: Vec<(String, Vec<usize>)> = vec![
        ("roformer.embeddings.LayerNorm".into(), vec![embedding]),
        ("cls.predictions.transform.dense".into(), vec![embedding, hidden]),
        ("cls.predictions.transform.LayerNorm".into(), vec![embedding]),
    ];
    for layer in 0..size("num_hidden_layers") {
        let layer = format!("roformer.encoder.layer.{layer}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            pairs.push((format!("{layer}.attention.{part}"), vec![hidden, hidden]));
        }
        pairs.push((format!("{layer}.attention.output.LayerNorm"), vec![hidden]));
        pairs.push((format!("{layer}.intermediate.dense"), vec![inner, hidden]));
        pairs.push((format!("{layer}.output.dense"), vec![hidden, inner]));
        pairs.push((format!("{layer}.output.LayerNorm"), vec![hidden]));
    }
    let mut all: Vec<_> = pairs
        .into_iter()
        .flat_map(|(name, shape)| {
            [(format!("{name}.bias"), vec![shape[0]]), (format!("{name}.weight"), shape)]
        })
        .collect();
    all.push(("roformer.embeddings.word_embeddings.weight".into(), vec![vocab, embedding]));
    let types = size("type_vocab_size");
    all.push(("roformer.embeddings.token_type_embeddings.weight".into(), vec![types, embedding]));
    let positions = size("max_position_embeddings");
    all.push(("roformer.encoder.embed_positions.weight".into(), vec![positions, head]));
    all.push(("cls.predictions.bias".into(), vec![vocab]));
    all.push(("cls.predictions.decoder.weight".into(), vec![vocab, embedding]));
    all.push(("cls.predictions.decoder.bias".into(), vec![vocab]));
    all
}

#[test]
fn files_that_transformers_wrote() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/roformer");
    let exact = Weights::open(golden.join("tiny-safetensors")).unwrap();
    for name in ["tiny-safetensors", "tiny-sharded", "tiny-bin", "tiny-legacy-bin", "tiny-bin-f16"] {
        let folder = golden.join(name);
        let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        let weights = Weights::open(&folder).unwrap();
        let mut expected = roformer_shapes(&config);
        if !name.contains("bin") {
            expected.truncate(expected.len() - 2);
        }
        assert_eq!(weights.len(), expected.len(), "{name}");
        for (tensor, shape) in expected {
            let found = weights.get(&tensor).unwrap_or_else(|| panic!("{name}: no {tensor}"));
            assert_eq!(found.shape(), shape, "{name}: {tensor}");
            let half = found.dtype() == Dtype::F16;
            assert_eq!(half, name == "tiny-bin-f16", "{name}: {tensor}");
            let tied = match tensor.as_str() {
                "cls.predictions.decoder.weight" => "roformer.embeddings.word_embeddings.weight",
                "cls.predictions.decoder.bias" => "cls.predictions.bias",
                other => other,
            };
            let round = |x: f32| if half { f16::from_f32(x).to_f32() } else { x };
            let theirs: Vec<f32> = read(&exact, tied).into_iter().map(round).collect();
            assert!(read(&weights, &tensor) == theirs, "{name}: {tensor} differs");
        }
    }
}

// ---- What is refused ----

#[test]
fn files_of_no_known_kind() {
    says(&refused("x.bin", b""), &["0 bytes", "expected safetensors"]);
    says(&refused("x.bin", b"hello, world"), &["12 bytes", "68, 65", "expected safetensors"]);
    says(
        &refused("x.bin", b"version https://git-lfs.github.com/spec/v1\n"),
        &["Git LFS pointer", "git lfs pull"],
    );
    says(&refused("x.bin", b"\x80\x02}."), &["torch.save did not write"]);
    says(&refused("x.bin", b"\x80\x02cposix\nsystem\n."), &["wants to call posix.system", "nothing was run"]);
    says(&refused("x.safetensors", safetensors("{}", b"")), &["no tensor at all"]);
    let missing = Weights::open("no/such/place").unwrap_err();
    assert!(matches!(missing, Error::Io { kind: std::io::ErrorKind::NotFound, .. }), "{missing}");
    says(&missing.to_string(), &["cannot open no/such/place"]);
}

#[test]
fn safetensors_headers_that_lie() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let header = format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        refused("a.safetensors", safetensors(&header, &[0; 8]))
    };
    says(&one("F32", "[3]", "[0,8]"), &["tensor `a`", "[3]"]);
    says(&one("F32", "[1]", "[0,8]"), &["tensor `a`", "1 elements of 4 bytes in 8"]);
    says(&one("F32", "[2]", "[0,7]"), &["tensor `a`"]);
    says(&one("F32", "[2]", "[4,12]"), &["bytes 4 to 12 of 8", "within the file"]);
    says(&one("F32", "[2]", "[8,0]"), &["bytes 8 to 0"]);
    says(&one("F32", "[2]", "[18446744073709551608,18446744073709551615]"), &["within the file"]);
    says(&one("F32", "[4294967296,4294967296,2]", "[0,8]"), &["more elements than can be counted"]);
    says(&one("F32", "[0,18446744073709551615,2]", "[0,0]"), &["more elements than can be counted"]);
    says(&one("F64", "[2305843009213693952]", "[0,0]"), &["reaches past"]);
    says(&one("F32", "[-2]", "[0,8]"), &["shape is [-2]", "a list of sizes"]);
    says(&one("F32", "[2.0]", "[0,8]"), &["shape is [2.0]"]);
    says(&one("F32", "[99999999999999999999]", "[0,8]"), &["a list of sizes"]);
    says(&one("F32", "[2]", "[0,8,8]"), &["data_offsets is [0,8,8]"]);
    says(&one("F32", "[2]", "null"), &["data_offsets is null"]);
    says(&one("F8_E4M3", "[8]", "[0,8]"), &["dtype is", "F8_E4M3", "F32, F16, BF16"]);
    says(&one("F32", "[1]", "[0,4]"), &["8 bytes of data, of which the tensors take 4"]);
    says(&one("F32", "[1]", "[4,8]"), &["leave a gap"]);

    let refuse = |header: &str| refused("a.safetensors", safetensors(header, &[0; 8]));
    let member = |name: &str, offsets: &str| {
        format!(r#""{name}":{{"dtype":"F32","shape":[1],"data_offsets":{offsets}}}"#)
    };
    let two = |first: &str, second: &str| format!("{{{first},{second}}}");
    says(&refuse(&two(&member("a", "[0,4]"), &member("b", "[0,4]"))), &["overlap"]);
    says(&refuse(&two(&member("a", "[0,4]"), &member("a", "[4,8]"))), &["names something twice"]);
    says(&refuse(&two(&member("a", "[0,4]"), &member("\\u0061", "[4,8]"))), &["names something twice"]);
    says(
        &refuse(r#"{"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}"#),
        &["names something twice"],
    );
    says(&refuse("[]"), &["not a JSON object"]);
    says(&refuse("{"), &["not JSON"]);
    says(&refuse(&"[".repeat(100_000)), &["not JSON"]);
    says(&refuse(r#"{"a":3}"#), &["dtype is null"]);
    // Colons and quotes within names are only names.
    let odd = safetensors(&two(&member("a:\\\":\\\\", "[0,4]"), &member("b", "[4,8]")), &[0; 8]);
    assert_eq!(Folder::new().open("a.safetensors", odd).unwrap().len(), 2);
}

#[test]
fn safetensors_header_lengths_that_lie() {
    for length in [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 40, small_safetensors().len() as u64 - 7] {
        let mut bytes = small_safetensors();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        says(&refused("a.safetensors", &bytes), &[&format!("a header of {length} bytes in a file of")]);
        refused("a.bin", &bytes);
    }
    // As long as it says, but longer than any header is. The file takes no room on the disk.
    let folder = Folder::new();
    let path = folder.put("a.safetensors", ((1_u64 << 30) - 8).to_le_bytes());
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    says(
        &Weights::open(&path).unwrap_err().to_string(),
        &["a header of 1073741816 bytes", "at most 67108864"],
    );
}

#[test]
fn pickles_that_want_to_call_something() {
    let data = le(&[0.0; 6]);
    let both = |state: &[u8], words: &[&str]| {
        says(&refused("a.bin", zip(state, &[&data])), words);
        says(&refused("a.bin", legacy(state, &[("0", 6, &data)])), words);
    };
    let with = |value: &[u8]| pickle(&[PICKLED], &[&text("x")[..], value].concat());
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("torch.storage", "_load_from_bytes"),
        ("torch", "load"),
        ("torch", "FloatStorage.__init__"),
        ("collections", "OrderedDict.fromkeys"),
        ("", ""),
    ] {
        let words = [&format!("wants to call {module}.{name};")[..], "nothing was run", "a.bin"];
        let argument = text("echo");
        both(&with(&[format!("c{module}\n{name}\n").as_bytes(), &argument, b"\x85R"].concat()), &words);
        both(&with(&[&text(module)[..], &text(name), b"\x93", &argument, b"\x85R"].concat()), &words);
        both(&with(&[b"(", &argument[..], format!("i{module}\n{name}\n").as_bytes()].concat()), &words);
        // Named and never called is no better.
        both(&with(format!("c{module}\n{name}\n").as_bytes()), &words);
    }
    // A name that would spoil a terminal.
    both(&with(b"c\x1b[2J\nx\n"), &["\\u{1b}[2J.x"]);
    // What is allowed, used otherwise.
    both(&with(b"ccollections\nOrderedDict\nK\x01R"), &["OrderedDict", "arguments it does not take"]);
    both(&with(b"ccollections\nOrderedDict\n]K\x01a\x85R"), &["OrderedDict", "arguments it does not take"]);
    both(&with(b"ctorch\nFloatStorage\n)R"), &["arguments it does not take"]);
    both(&with(b"ctorch._utils\n_rebuild_tensor_v2\n)R"), &["arguments it does not take"]);
    both(&with(b"ctorch._utils\n_rebuild_parameter\nN\x88N\x87R"), &["arguments it does not take"]);
    both(&with(b"ctorch\nSize\nN\x85R"), &["arguments it does not take"]);
    both(&with(b"N)R"), &["not a function"]);
    both(&with(b"N}b"), &["sets attributes"]);
    both(&with(b"(ccollections\nOrderedDict\no"), &["instruction 0x6f"]);
    both(&with(b"\x82\x01"), &["instruction 0x82"]);
    both(&with(b"Pid\n"), &["instruction 0x50"]);
    both(&with(b"NQ"), &["not a storage"]);
    let module = [b"(", &text("module")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), b"K\x06tQ"];
    both(&with(&module.concat()), &["not a storage"]);
}

#[test]
fn pickles_that_break_the_machine() {
    let refuse = |body: &[u8]| refused("a.bin", zip(&[b"\x80\x02", body].concat(), &[]));
    says(&refuse(b"."), &["more values than it made"]);
    says(&refuse(b""), &["ends within"]);
    says(&refuse(b"\x80\x06"), &["protocol 6"]);
    says(&refuse(b"t"), &["closes what it never opened"]);
    says(&refuse(b"}}(0."), &["more values than it made"]);
    says(&refuse(b"N(0t."), &["more values than it made"]);
    says(&refuse(b"h\x05."), &["recalls value 5"]);
    says(&refuse(b"gx\n."), &["under no number"]);
    says(&refuse(b"NNa."), &["a list where there is none"]);
    says(&refuse(b"NNNs."), &["a dictionary where there is none"]);
    says(&refuse(b"}(Nu."), &["a dictionary where there is none"]);
    says(&refuse(b"NN\x93."), &["without a name"]);
    says(&refuse(b"S'a\n."), &["out of quotes"]);
    says(&refuse(b"S'\n."), &["out of quotes"]);
    says(&refuse(b"S'\\x41'\n."), &["escapes"]);
    says(&refuse(b"U\x01\xff."), &["not UTF-8"]);
    says(&refuse(b"cos"), &["line without end"]);
    says(&refuse(b"N."), &["without named tensors"]);
    says(&refuse(b"]."), &["without named tensors"]);
    says(&refuse(b"}."), &["without named tensors"]);
    // Lengths beyond the file, beyond memory, beyond what text has.
    says(&refuse(b"X\xff\xff\xff\xff."), &["ends within its 4294967295 bytes"]);
    says(&refuse(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), &["ends within"]);
    says(&refuse(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."), &["ends within"]);
    says(&refuse(b"\x8b\xff\xff\xff\xff."), &["ends within"]);
    let long = "x".repeat((1 << 20) + 1);
    says(&refuse(&[&text(&long)[..], b"."].concat()), &["a text of 1048577 bytes"]);
    says(&refuse(&[b"c", long.as_bytes(), b"\nx\n."].concat()), &["line without end"]);
    // Too much of everything.
    says(&refuse(&b"(".repeat(100_000)), &["nested deeper"]);
    says(&refuse(&b"N".repeat(100_000)), &["stacks more than"]);
    says(&refuse(&b"]0".repeat(1 << 22)), &["objects"]);
    says(&refuse(&[b"N".to_vec(), b"\x94".repeat(1 << 23)].concat()), &["remembers more than"]);
    says(&refuse(&b"N0".repeat(1 << 23)), &["steps"]);
}

#[test]
fn deep_and_wide_structures_cost_nothing() {
    let started = Instant::now();
    let data = le(&[0.0; 6]);
    let with = |value: &[u8]| zip(&pickle(&[PICKLED], &[&text("x")[..], value].concat()), &[&data]);
    // A tuple in a tuple, half a million deep.
    let deep = [b")".to_vec(), b"\x85".repeat(500_000)].concat();
    assert_eq!(Folder::new().open("deep.bin", with(&deep)).unwrap().len(), 1);
    // Each list holds the one before it ten times: ten to the power of a thousand elements.
    let level = |level: u32| {
        let last = [b"j".to_vec(), (level - 1).to_le_bytes().to_vec()].concat();
        [b"0](".to_vec(), last.repeat(10), b"er".to_vec(), level.to_le_bytes().to_vec()].concat()
    };
    let bomb = [b"]r\0\0\0\0".to_vec(), (1..1000).flat_map(level).collect()].concat();
    assert_eq!(Folder::new().open("bomb.bin", with(&bomb)).unwrap().len(), 1);
    // A list that holds itself, and the highest number to remember it by.
    let own = b"]r\xff\xff\xff\xffj\xff\xff\xff\xffa";
    assert_eq!(Folder::new().open("self.bin", with(own)).unwrap().len(), 1);
    // A tensor with more elements than there is memory, all of them the same one.
    let huge = Pickled { shape: &[1 << 40], strides: &[0], ..PICKLED };
    let weights = Folder::new().open("huge.bin", zip(&pickle(&[huge], b""), &[&data])).unwrap();
    assert_eq!(weights.get("a").unwrap().len(), 1 << 40);
    says(&weights.read_f32("a", &[1 << 40], &mut [0.0]).unwrap_err().to_string(), &["1 elements"]);
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
}

#[test]
fn pickled_tensors_that_lie() {
    let data = le(&[0.0; 6]);
    let refuse = |t: Pickled<'_>| {
        let old = Pickled { part: t.part.or(Some(None)), ..t.clone() };
        let old = refused("a.bin", legacy(&pickle(&[old], b""), &[("0", t.len as u64, &data)]));
        let new = refused("a.bin", zip(&pickle(&[t], b""), &[&data]));
        [old, new].join(" | ")
    };
    says(&refuse(Pickled { shape: &[7], strides: &[1], ..PICKLED }), &["[7]", "past the 6 elements"]);
    says(&refuse(Pickled { shape: &[2, 3], strides: &[4, 1], ..PICKLED }), &["past the 6 elements"]);
    says(&refuse(Pickled { offset: 1, ..PICKLED }), &["from element 1 on"]);
    says(&refuse(Pickled { offset: i64::MAX, ..PICKLED }), &["past the 6 elements"]);
    says(&refuse(Pickled { offset: -1, ..PICKLED }), &["arguments it does not take"]);
    says(&refuse(Pickled { strides: &[-3, 1], ..PICKLED }), &["arguments it does not take"]);
    says(&refuse(Pickled { strides: &[i64::MAX, i64::MAX], ..PICKLED }), &["past the 6 elements"]);
    says(&refuse(Pickled { strides: &[1], ..PICKLED }), &["[2, 3]", "strides [1]"]);
    says(&refuse(Pickled { shape: &[i64::MAX, 3], ..PICKLED }), &["more elements than can be counted"]);
    let longer = refuse(Pickled { len: 7, ..PICKLED });
    says(&longer, &["of 7 F32 numbers", "cut short", "entry `archive/data/0` of 24 bytes"]);
    says(&refuse(Pickled { len: i64::MAX, ..PICKLED }), &["cut short"]);
    says(&refuse(Pickled { len: -6, ..PICKLED }), &["not a storage"]);
    says(&refuse(Pickled { storage: "DoubleStorage", ..PICKLED }), &["F64"]);
    says(&refuse(Pickled { storage: "ComplexFloatStorage", ..PICKLED }), &["torch.ComplexFloatStorage"]);
    says(&refuse(Pickled { part: Some(Some((3, 4))), ..PICKLED }), &["not a storage"]);
    says(&refuse(Pickled { part: Some(Some((i64::MAX, i64::MAX))), ..PICKLED }), &["not a storage"]);
    says(&refuse(Pickled { key: "1", ..PICKLED }), &["no entry `archive/data/1`", "no tensor has"]);
    says(&refuse(Pickled { key: "../../version", ..PICKLED }), &["no entry"]);

    says(&refused("a.bin", zip(&pickle(&[PICKLED, PICKLED], b""), &[&data])), &["tensor `a`", "twice"]);
    let other = Pickled { name: "b", len: 5, ..PICKLED };
    let both = legacy(&pickle(&[PICKLED, other], b""), &[("0", 6, &data)]);
    says(&refused("a.bin", both), &["both storage `0` of 6"]);
    says(&refused("a.bin", legacy(&pickle(&[PICKLED], b""), &[("0", 5, &data)])), &["another length"]);
    says(&refused("a.bin", legacy(&pickle(&[PICKLED], b""), &[])), &["no numbers for storage `0`"]);
    let named = [b"K\x01", &tensor(&PICKLED)[..]].concat();
    says(&refused("a.bin", zip(&pickle(&[], &named), &[&data])), &["not text"]);
}

#[test]
fn zip_files_that_lie() {
    let pickle = pickle(&[PICKLED], b"");
    let data = le(&[0.0; 6]);
    let entries: [(&str, &[u8]); 2] = [("m/data.pkl", &pickle), ("m/data/0", &data)];
    let refuse = |zip: Zip| refused("z.bin", zip.write(&entries));
    says(&refuse(Zip { method: 8, ..Zip::default() }), &["`m/data.pkl` compressed", "torch.save"]);
    says(&refuse(Zip { flags: 1, ..Zip::default() }), &["encrypted"]);
    says(&refuse(Zip { more: 1 << 20, ..Zip::default() }), &["ends outside the file"]);
    says(&refuse(Zip { more: 1, ..Zip::default() }), &["m/data/0"]);
    says(&refuse(Zip { header: Some(u32::MAX - 1), ..Zip::default() }), &["begins outside the file"]);
    says(&refuse(Zip { header: Some(1), ..Zip::default() }), &["not where the list says"]);
    says(&refuse(Zip { list: Some(u32::MAX - 1), ..Zip::default() }), &["outside the file"]);
    says(&refuse(Zip { list: Some(0), ..Zip::default() }), &["ends early"]);
    says(&refuse(Zip { count: Some(1), ..Zip::default() }), &["more entries than it counts"]);
    says(&refuse(Zip { count: Some(3), ..Zip::default() }), &["ends early"]);
    says(&refuse(Zip { count: Some(0xffff), ..Zip::default() }), &["ends early"]);
    // The 64-bit parts.
    let wide = |wide| Zip { wide: Some(wide), ..Zip::default() };
    says(&refuse(wide([u64::MAX, u64::MAX, 0])), &["ends outside the file"]);
    says(&refuse(wide([1 << 63, 1 << 63, 0])), &["ends outside the file"]);
    says(&refuse(wide([4, 4, u64::MAX])), &["begins outside the file"]);
    says(&refuse(wide([4, 5, 0])), &["compressed"]);
    let end = |record, list| Zip { end: Some((record, list)), ..Zip::default() };
    says(&refuse(end(Some(u64::MAX), None)), &["zip64 end at byte 18446744073709551615, outside"]);
    says(&refuse(end(Some(0), None)), &["no zip64 end at byte 0"]);
    says(&refuse(end(None, Some(u64::MAX))), &["outside the file"]);
    says(&refuse(end(None, Some(1 << 62))), &["outside the file"]);
    says(&refuse(Zip { list: Some(7), ..end(None, None) }), &["contradict"]);
    says(&refuse(Zip { count: Some(7), ..end(None, None) }), &["contradict"]);

    // An entry that stands where another does, and one that is longer than its name.
    let there = Zip { header: Some(0), ..Zip::default() };
    let pickle_123 = self::pickle(&[Pickled { key: "123", ..PICKLED }], b"");
    let bytes = there.write(&[("m/data.pkl", &pickle_123), ("m/data/123", &data)]);
    says(&refused("z.bin", bytes), &["`m/data/123` is not where the list says"]);
    let mut bytes = Zip::default().write(&entries);
    bytes[26] += 1;
    bytes[28] -= 1;
    says(&refused("z.bin", bytes), &["`m/data.pkl` is not where the list says"]);

    let write = |entries: &[(&str, &[u8])]| refused("z.bin", Zip::default().write(entries));
    says(&write(&[("a/model.safetensors", b"")]), &["without one NAME/data.pkl", "unpack it"]);
    says(&write(&[]), &["without one NAME/data.pkl"]);
    says(&write(&[("m/data.pkl", &pickle), ("n/data.pkl", &pickle)]), &["without one NAME/data.pkl"]);
    says(&write(&[("m/data.pkl", &pickle), ("m/data.pkl", &pickle)]), &["`m/data.pkl` twice"]);
    says(&write(&[("m/data.pkl", &pickle)]), &["no entry `m/data/0`"]);
    says(
        &write(&[("m/data.pkl", &pickle), ("m/data/0", &data[1..])]),
        &["of 23 bytes for storage `0` of 6 F32"],
    );
    says(&write(&[entries[0], entries[1], ("m/byteorder", b"big")]), &["high byte first"]);
}

#[test]
fn old_files_that_lie() {
    let bytes = small_legacy();
    let change = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        refused("a.bin", [&bytes[..at], to, &bytes[at + from.len()..]].concat())
    };
    says(&change(b"M\xe9\x03.", b"M\xe8\x03."), &["1000", "not 1001"]);
    says(&change(b"little_endian\x88", b"little_endian\x89"), &["high byte first"]);
    let keys = b"\x80\x02](X\x01\0\0\x000e.";
    says(&change(keys, b"\x80\x02](X\x01\0\0\x001e."), &["no tensor has"]);
    says(&change(keys, b"\x80\x02](K\x00e."), &["no tensor has"]);
    says(&change(keys, b"\x80\x02N."), &["no numbers for"]);
}

#[test]
fn indexes_that_lie() {
    let folder = Folder::new();
    folder.put("a.safetensors", small_safetensors());
    folder.put("other.index.json", index(json!({"a": "a.safetensors"})));
    let own = "model.safetensors.index.json";
    let refuse = |json: &str| {
        let message = folder.open(own, json).unwrap_err().to_string();
        assert!(message.contains(".json"), "{message}");
        message
    };
    let paths =
        ["../x", "..", ".", "", "/etc/passwd", "sub/x", "..\\x", "C:x", "x/", "./a.safetensors", "a\0"];
    for path in paths {
        let message = refuse(&index(json!({"a": path})));
        says(&message, &["tensor `a`", "in the same folder, without any path"]);
    }
    says(
        &refuse(&index(json!({"a": "model-00002.bin"}))),
        &["tensor `a` in model-00002.bin, which is not there"],
    );
    says(
        &refuse(&index(json!({"z": "a.safetensors"}))),
        &["tensor `z` in a.safetensors, which does not hold it"],
    );
    says(&refuse(&index(json!({"a": "other.index.json"}))), &["cannot list another index"]);
    says(&refuse(&index(json!({"a": own}))), &["cannot list another index"]);
    says(&refuse(&index(json!({"a": 3}))), &["tensor `a` in 3"]);
    says(&refuse(&index(json!(["a"]))), &["without a `weight_map`"]);
    says(&refuse(&index(json!({}))), &["no tensor at all"]);
    says(&refuse(r#"{"hidden_size": 768}"#), &["without a `weight_map`"]);
    says(
        &refuse(r#"{"weight_map": {"a": "a.safetensors", "a": "b.safetensors"}}"#),
        &["names something twice"],
    );
    says(&refuse(r#"{"weight_map": "#), &["not JSON"]);
    folder.put("a.safetensors", &small_safetensors()[..100]);
    let message = folder.open(own, index(json!({"a": "a.safetensors"}))).unwrap_err().to_string();
    says(&message, &["a.safetensors", "header"]);
}

#[test]
fn a_file_cut_after_it_was_opened() {
    let folder = Folder::new();
    let path = folder.put("a.safetensors", small_safetensors());
    let weights = Weights::open(&path).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    says(&weights.read_f32("a", &[2, 3], &mut [0.0; 6]).unwrap_err().to_string(), &["100 bytes, too few"]);
}

/// The small files, and the name each needs.
fn small_files() -> [(&'static str, Vec<u8>); 4] {
    let map = index(json!({"a": "part.safetensors", "b": "part.safetensors"}));
    [
        ("a.safetensors", small_safetensors()),
        ("new.bin", small_zip()),
        ("old.bin", small_legacy()),
        ("model.safetensors.index.json", map.into_bytes()),
    ]
}

#[test]
fn truncation_at_every_byte() {
    let folder = Folder::new();
    folder.put("part.safetensors", small_safetensors());
    for (name, bytes) in small_files() {
        folder.open(name, &bytes).unwrap_or_else(|error| panic!("whole: {error}"));
        for len in 0..bytes.len() {
            let result = folder.open(name, &bytes[..len]);
            assert!(result.is_err(), "{name} opens with {len} of {} bytes", bytes.len());
        }
    }
}

/// Opens a file and reads whatever it has. Nothing is asked of the result but that there is one, soon.
fn survive(folder: &Folder, name: &str, bytes: &[u8]) {
    let started = Instant::now();
    match folder.open(name, bytes) {
        Err(error) => assert!(error.to_string().len() < 2000),
        Ok(weights) => {
            for name in weights.names() {
                let tensor = weights.get(name).unwrap();
                if tensor.len() <= 1 << 16 {
                    let _ = weights.read_f32(name, tensor.shape(), &mut vec![0.0; tensor.len()]);
                    let _ = weights.read(name, tensor.shape(), &mut vec![0.0_f64; tensor.len()]);
                }
            }
        }
    }
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
}

#[test]
fn every_byte_changed_alone() {
    let folder = Folder::new();
    folder.put("part.safetensors", small_safetensors());
    for (name, bytes) in small_files() {
        for at in 0..bytes.len() {
            for value in [0, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80, b'.', b'('] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                survive(&folder, name, &bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files_never_panic(
        which in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..12),
    ) {
        let (name, mut bytes) = small_files()[which].clone();
        for (at, value, how) in changes {
            let at = at.index(bytes.len() + 1);
            match how {
                0 => bytes.insert(at, value),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                // A piece of the file once more.
                2 => {
                    let piece = bytes[at..bytes.len().min(at + usize::from(value))].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ if at < bytes.len() => bytes[at] = value,
                _ => {}
            }
        }
        let folder = Folder::new();
        folder.put("part.safetensors", small_safetensors());
        survive(&folder, name, &bytes);
    }

    #[test]
    fn any_bytes_as_a_pickle_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = Folder::new();
        survive(&folder, "a.bin", &zip(&bytes, &[]));
        survive(&folder, "a.bin", &legacy(&bytes, &[]));
        survive(&folder, "a.bin", &bytes);
        survive(&folder, "a.safetensors", &bytes);
    }
}
