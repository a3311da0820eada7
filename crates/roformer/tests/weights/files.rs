//! Files of every kind, made byte by byte.

pub use super::folder::Folder;
use half::f16;
use roformer::weights::{Error, Weights};
use serde_json::{Value, json};

impl Folder {
    pub fn open(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<Weights, Error> {
        Weights::open(self.put(name, bytes))
    }
}

/// What is said of a file that must not open.
#[track_caller]
pub fn refused(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let error = Folder::new().open(name, bytes).expect_err("must be refused");
    let message = error.to_string();
    assert!(message.contains(name), "does not name the file: {message}");
    message
}

/// Asserts that a message has all of some words.
#[track_caller]
pub fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

/// All numbers of a tensor, as f32.
pub fn read(weights: &Weights, name: &str) -> Vec<f32> {
    let tensor = weights.get(name).unwrap_or_else(|| panic!("no {name}"));
    let mut out = vec![f32::NAN; tensor.len()];
    weights.read_f32(name, tensor.shape(), &mut out).unwrap();
    out
}

pub fn le(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// Two tensors in one small file.
pub fn small_safetensors() -> Vec<u8> {
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
pub struct Pickled<'a> {
    pub name: &'a str,
    pub storage: &'a str,
    pub key: &'a str,
    pub len: i64,
    pub offset: i64,
    pub shape: &'a [i64],
    pub strides: &'a [i64],
    /// Of the storage; the old layout always says which, or none.
    pub part: Option<Option<(i64, i64)>>,
}

pub const PICKLED: Pickled<'_> = Pickled {
    name: "a",
    storage: "FloatStorage",
    key: "0",
    len: 6,
    offset: 0,
    shape: &[2, 3],
    strides: &[3, 1],
    part: None,
};

pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

pub fn int(number: i64) -> Vec<u8> {
    [&[0x8a, 8], &number.to_le_bytes()[..]].concat()
}

pub fn tuple(numbers: &[i64]) -> Vec<u8> {
    let items = numbers.iter().flat_map(|&number| int(number)).collect();
    [b"(".to_vec(), items, b"t".to_vec()].concat()
}

pub fn tensor(t: &Pickled<'_>) -> Vec<u8> {
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
pub fn pickle(tensors: &[Pickled<'_>], extra: &[u8]) -> Vec<u8> {
    let members = tensors.iter().flat_map(|t| [text(t.name), tensor(t)].concat()).collect();
    [b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec(), members, extra.to_vec(), b"u.".to_vec()].concat()
}

/// Ways in which a zip file can differ from what torch.save writes, or lie.
#[derive(Default, Clone)]
pub struct Zip {
    pub method: u16,
    pub flags: u16,
    /// Added to the sizes in the list.
    pub more: u32,
    /// Where the list says that entries begin.
    pub header: Option<u32>,
    /// Sizes and place in 64 bits, in the list.
    pub wide: Option<[u64; 3]>,
    /// Ends with the zip64 part, as torch.save writes: where that is said to be, where the list is said to be.
    pub end: Option<(Option<u64>, Option<u64>)>,
    /// In the end: the list, its number.
    pub list: Option<u32>,
    pub count: Option<u16>,
    pub comment: Vec<u8>,
}

impl Zip {
    pub fn write(&self, entries: &[(&str, &[u8])]) -> Vec<u8> {
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
pub fn zip(pickle: &[u8], storages: &[&[u8]]) -> Vec<u8> {
    let keys: Vec<_> = (0..storages.len()).map(|key| format!("archive/data/{key}")).collect();
    let mut entries = vec![("archive/data.pkl", pickle), ("archive/byteorder", b"little")];
    entries.extend(keys.iter().map(String::as_str).zip(storages.iter().copied()));
    entries.push(("archive/version", b"3\n"));
    Zip::default().write(&entries)
}

pub fn small_zip() -> Vec<u8> {
    let turned = Pickled { name: "turned", shape: &[3, 2], strides: &[1, 3], ..PICKLED };
    zip(&pickle(&[PICKLED, turned], b""), &[&le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])])
}

/// A file of torch.save as it was before PyTorch 1.6.
pub fn legacy(state: &[u8], storages: &[(&str, u64, &[u8])]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let system = [b"\x80\x02}q\x00(", &text("little_endian")[..], b"\x88u."].concat();
    let keys = storages.iter().flat_map(|(key, ..)| text(key)).collect();
    let keys = [b"\x80\x02](".to_vec(), keys, b"e.".to_vec()].concat();
    let data =
        storages.iter().flat_map(|(_, len, data)| [&len.to_le_bytes(), *data].concat()).collect::<Vec<_>>();
    [magic, &b"\x80\x02M\xe9\x03."[..], &system, state, &keys, &data].concat()
}

pub fn small_legacy() -> Vec<u8> {
    let a = Pickled { part: Some(None), ..PICKLED };
    let part =
        Pickled { name: "part", shape: &[2], strides: &[1], part: Some(Some((3, 3))), offset: 1, ..PICKLED };
    legacy(&pickle(&[a, part], b""), &[("0", 6, &le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))])
}

pub fn index(map: Value) -> String {
    json!({"metadata": {"total_size": 28}, "weight_map": map}).to_string()
}
