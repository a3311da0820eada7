//! Checkpoints of TensorFlow, made byte by byte: true ones, and such as lie.

use crate::files::Folder;
use std::path::PathBuf;

/// What is under a key of the table.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A number of variable length.
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field of a message that is a number.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field of a message that is a message.
pub fn message(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// The masked CRC-32C, bit by bit.
pub fn checksum(bytes: &[u8]) -> u32 {
    let step = |rest: u32| (rest >> 1) ^ if rest & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let crc = !bytes.iter().fold(!0, |rest, &byte| (0..8).fold(rest ^ u32::from(byte), |rest, _| step(rest)));
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The entry under the empty key: how many files there are.
pub fn header(shards: u64) -> Entry {
    (Vec::new(), [number(1, shards), message(3, &number(1, 1))].concat())
}

/// A variable, as the table describes it.
#[derive(Clone)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub dtype: u64,
    pub shape: &'a [i64],
    pub shard: i64,
    pub start: i64,
    pub len: i64,
    pub checksum: u32,
    /// Fields behind these.
    pub extra: Vec<u8>,
}

impl Variable<'_> {
    pub fn entry(&self) -> Entry {
        let axes = self.shape.iter().flat_map(|&size| message(2, &number(1, size as u64)));
        let fields = [
            number(1, self.dtype),
            message(2, &axes.collect::<Vec<_>>()),
            number(3, self.shard as u64),
            number(4, self.start as u64),
            number(5, self.len as u64),
            [&varint(6 << 3 | 5)[..], &self.checksum.to_le_bytes()].concat(),
            self.extra.clone(),
        ];
        (self.name.into(), fields.concat())
    }
}

/// The numbers of the small checkpoint: 1 to 6, as f32.
pub fn numbers() -> Vec<u8> {
    (1..=6).flat_map(|number| (number as f32).to_le_bytes()).collect()
}

/// Its one variable.
pub fn variable() -> Variable<'static> {
    let (shape, checksum) = (&[2, 3], checksum(&numbers()));
    Variable { name: "a", dtype: 1, shape, shard: 0, start: 0, len: 24, checksum, extra: Vec::new() }
}

/// A block of entries: keys without what they share with the one before, except for the first.
pub fn block(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), &[][..]);
    for (key, value) in entries {
        let shared = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        for size in [shared, key.len() - shared, value.len()] {
            bytes.extend(varint(size as u64));
        }
        bytes.extend_from_slice(&key[shared..]);
        bytes.extend_from_slice(value);
        last = key;
    }
    // One place where a key is spelled out: the first.
    bytes.extend([0_u32, 1].map(u32::to_le_bytes).concat());
    bytes
}

/// Ways in which a table can lie.
#[derive(Default, Clone)]
pub struct Table {
    pub compression: u8,
    /// Where blocks of entries are said to be, by number.
    pub places: Vec<(usize, [u64; 2])>,
    /// Where the empty block and the index of blocks are said to be.
    pub ends: [Option<[u64; 2]>; 2],
    /// What is in the empty block.
    pub more: Vec<Entry>,
    /// Bytes between the last block and the end.
    pub gap: Vec<u8>,
}

impl Table {
    pub fn write(&self, blocks: &[Vec<u8>]) -> Vec<u8> {
        let (mut table, mut places) = (Vec::new(), Vec::new());
        let mut put = |block: &[u8]| {
            let place = [table.len() as u64, block.len() as u64];
            let sealed = [block, &[self.compression]].concat();
            table.extend([&sealed[..], &checksum(&sealed).to_le_bytes()].concat());
            place
        };
        for (number, block) in blocks.iter().enumerate() {
            let own = put(block);
            let other = self.places.iter().find(|(other, _)| *other == number).map(|&(_, place)| place);
            // The key is one behind the block's last and before the next's first; nobody looks.
            places.push((vec![number as u8], other.unwrap_or(own).map(varint).concat()));
        }
        let empty = put(&block(&self.more));
        let index = put(&block(&places));
        table.extend(&self.gap);
        let ends = [self.ends[0].unwrap_or(empty), self.ends[1].unwrap_or(index)];
        let mut footer = ends.concat().into_iter().flat_map(varint).collect::<Vec<_>>();
        footer.resize(40, 0);
        [&table[..], &footer, &0xdb47_7524_8b80_fb57_u64.to_le_bytes()].concat()
    }
}

/// A table with these entries behind the header.
pub fn table(entries: &[Entry]) -> Vec<u8> {
    Table::default().write(&[block(&[&[header(1)], entries].concat())])
}

pub const NAME: &str = "a.ckpt.index";

/// Puts a checkpoint into a folder: the table, and the numbers of the small one.
pub fn put(folder: &Folder, table: &[u8]) -> PathBuf {
    folder.put("a.ckpt.data-00000-of-00001", numbers());
    folder.put(NAME, table)
}
