//! Checkpoints of TensorFlow that lie, with checksums that are right.

use crate::bundle::*;
use crate::files::{Folder, read, says};
use proptest::prelude::*;
use roformer::weights::Weights;
use std::fs;

/// What is said of a table that must not open.
#[track_caller]
fn refused(table: &[u8], words: &[&str]) {
    let folder = Folder::new();
    let message = Weights::open(put(&folder, table)).expect_err("must be refused").to_string();
    says(&message, &[&[NAME][..], words].concat());
    assert!(!message.contains('\n') && message.len() < 2000, "{message}");
}

/// What is said of a table of such variables.
#[track_caller]
fn refused_variables(variables: &[Variable<'_>], words: &[&str]) {
    refused(&table(&variables.iter().map(Variable::entry).collect::<Vec<_>>()), words);
}

#[test]
fn a_table_that_does_not_lie() {
    let folder = Folder::new();
    let weights = Weights::open(put(&folder, &table(&[variable().entry()]))).unwrap();
    assert_eq!(read(&weights, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Several blocks, and names that share a beginning.
    let names = ["layer_0", "layer_00", "layer_1", "layer_10/kernel", "layer_10/kernel_1"];
    let one = |(at, &name): (usize, &&'static str)| {
        let start = 4 * at as i64;
        let checksum = checksum(&numbers()[4 * at..][..4]);
        Variable { name, shape: &[], start, len: 4, checksum, ..variable() }.entry()
    };
    let entries: Vec<Entry> = names.iter().enumerate().map(one).collect();
    let blocks = [vec![header(1)], entries[..3].to_vec(), entries[3..].to_vec()].map(|part| block(&part));
    let weights = Weights::open(put(&folder, &Table::default().write(&blocks))).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), names);
    assert_eq!(names.map(|name| read(&weights, name)[0]), [1.0, 2.0, 3.0, 4.0, 5.0]);
    // By what it holds, whatever it is called; but then nothing tells where the numbers are.
    let message =
        folder.open("a.bin", Table::default().write(&blocks)).expect_err("another name").to_string();
    says(&message, &["a.bin", "ends with .index"]);
}

#[test]
fn variables_that_lie() {
    let one = variable;
    let refuse = |variable: Variable<'_>, words: &[&str]| refused_variables(&[variable], words);
    refuse(Variable { start: 1, ..one() }, &["tensor `a`: 24 bytes from byte 1 on, in a file of 24"]);
    refuse(Variable { start: -4, ..one() }, &["24 bytes from byte -4 on"]);
    refuse(Variable { start: i64::MAX, len: i64::MAX, ..one() }, &["in a file of 24"]);
    refuse(Variable { len: 25, ..one() }, &["25 bytes from byte 0 on"]);
    refuse(Variable { len: -1, ..one() }, &["-1 bytes"]);
    refuse(Variable { len: 20, ..one() }, &["[2, 3]", "reaches past the 5 elements"]);
    refuse(Variable { shape: &[5], ..one() }, &["5 elements of 4 bytes in 24 bytes"]);
    refuse(Variable { shape: &[], ..one() }, &["1 elements of 4 bytes in 24 bytes"]);
    refuse(Variable { shape: &[7], ..one() }, &["tensor `a`", "[7]", "reaches past"]);
    refuse(Variable { shape: &[1 << 40, 1 << 40], ..one() }, &["more elements than can be counted"]);
    refuse(Variable { shape: &[0, 1 << 40, 1 << 40], len: 0, ..one() }, &["more elements than"]);
    refuse(Variable { shape: &[1 << 61], ..one() }, &["reaches past"]);
    refuse(Variable { shape: &[i64::MAX], ..one() }, &["tensor `a`"]);
    refuse(Variable { shape: &[-1, 3], ..one() }, &["a shape that is not known"]);
    refuse(Variable { shape: &[1; 255], ..one() }, &["a shape that is not known"]);
    refuse(Variable { shard: 1, ..one() }, &["tensor `a` in file 1 of 1, from 0 on"]);
    refuse(Variable { shard: -1, ..one() }, &["in file -1 of 1"]);
    refuse(Variable { shard: i64::MAX, ..one() }, &["tensor `a` in file"]);
    refuse(Variable { dtype: 8, ..one() }, &["TensorFlow's type 8"]);
    refuse(Variable { dtype: 0, ..one() }, &["TensorFlow's type 0"]);
    refuse(Variable { dtype: 101, ..one() }, &["TensorFlow's type 101"]);
    refuse(Variable { extra: message(7, &[]), ..one() }, &["tensor `a`", "in several parts"]);
    refuse(Variable { extra: message(2, &number(3, 1)), ..one() }, &["a shape that is not known"]);
    refuse(Variable { extra: vec![0x80], ..one() }, &["tensor `a`: a description that cannot be read"]);
    refuse(Variable { extra: message(1, &[]), ..one() }, &["cannot be read"]);
    refuse(Variable { extra: number(6, 3), ..one() }, &["cannot be read"]);
    refuse(Variable { extra: vec![0x3b], ..one() }, &["cannot be read"]);
    refuse(Variable { extra: vec![0x7a, 0xff, 0xff, 0x7f], ..one() }, &["cannot be read"]);
    refuse(Variable { name: "a\u{1b}[31m", dtype: 0, ..one() }, &["tensor `a\\u{1b}[31m`"]);

    let half = |name, start, len| Variable { name, shape: &[3], start, len, ..one() };
    refused_variables(&[half("a", 0, 12), half("b", 8, 12)], &["tensors `a` and `b` in the same place"]);
    refused_variables(&[half("a", 0, 12), half("b", 0, 12)], &["`a` and `b` in the same place"]);
    refused_variables(&[half("b", 0, 12), half("a", 12, 12)], &["names out of order, at `a`"]);
    refused_variables(&[half("a", 0, 12), half("a", 12, 12)], &["names out of order, at `a`"]);

    // The checksum of the numbers is looked at when they are read.
    let folder = Folder::new();
    let other = Variable { checksum: 0, ..one() };
    let weights = Weights::open(put(&folder, &table(&[other.entry()]))).unwrap();
    let message = weights.read_f32("a", &[2, 3], &mut [0.0; 6]).unwrap_err().to_string();
    says(&message, &["a.ckpt.data-00000-of-00001: damaged numbers of `a`", "checksum"]);
    // A model reads matrices transposed, with the same checksum.
    let name = "bert/pooler/dense/kernel";
    put(&folder, &table(&[Variable { name, ..one() }.entry()]));
    let weights = Weights::of_model(&folder.0).unwrap();
    assert_eq!(read(&weights, "roformer.pooler.dense.weight"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn headers_that_lie() {
    let with = |header: Entry| Table::default().write(&[block(&[header, variable().entry()])]);
    let refuse = |value: &[Vec<u8>], words: &[&str]| refused(&with((Vec::new(), value.concat())), words);
    refuse(&[], &["does not say how many files"]);
    refuse(&[number(1, 0)], &["does not say how many files"]);
    refuse(&[number(1, u64::MAX)], &["does not say how many files"]);
    refuse(&[vec![8]], &["does not say how many files"]);
    refuse(&[number(1, 1), number(2, 1)], &["the high byte first"]);
    refuse(&[number(1, 1), message(3, &number(2, 2))], &["version 2 of the format"]);
    refuse(&[number(1, 2)], &["in a.ckpt.data-00000-of-00002, which is not there"]);
    refuse(&[number(1, i32::MAX as u64)], &["in a.ckpt.data-00000-of-2147483647, which is not there"]);
    refused(&Table::default().write(&[block(&[variable().entry()])]), &["does not say how many files"]);
    refused(&table(&[]), &["no tensor at all"]);
    refused(&Table::default().write(&[block(&[])]), &["an index that says nothing"]);
    refused(&Table::default().write(&[]), &["an index that says nothing"]);
    let part = |key: &[u8]| (key.to_vec(), variable().entry().1);
    refused(&table(&[part(b"\0a")]), &["parts of a variable that is not there"]);
    refused(&table(&[part(b"\xff")]), &["a name that is not UTF-8"]);
}

#[test]
fn tables_that_lie() {
    let blocks = [block(&[header(1)]), block(&[variable().entry()])];
    let lens = blocks.each_ref().map(|block| block.len() as u64);
    let refuse = |table: Table, words: &[&str]| refused(&table.write(&blocks), words);
    let at = |number: usize, place: [u64; 2]| Table { places: vec![(number, place)], ..Table::default() };
    let none = Table::default;
    refuse(at(0, [u64::MAX, 1]), &["outside the file"]);
    refuse(at(0, [0, u64::MAX]), &["outside the file"]);
    refuse(at(0, [0, u64::MAX - 4]), &["outside the file"]);
    refuse(at(0, [0, 1 << 40]), &["a block of 1099511627776 bytes at byte 0, outside the file"]);
    // The same block twice, the blocks the other way round, the index of blocks as a block of its own.
    refuse(at(1, [0, lens[0]]), &["a block at byte 0, where byte"]);
    refuse(at(0, [lens[0] + 5, lens[1]]), &["where byte 0 is next"]);
    let index = lens[0] + lens[1] + 10 + block(&[]).len() as u64 + 5;
    let len = none().write(&blocks).len() as u64 - 48 - index - 5;
    refuse(at(1, [index, len]), &["a block at byte", "is next"]);
    refuse(Table { ends: [None, Some([0, lens[0]])], ..none() }, &["does not say where its block is"]);
    refuse(Table { ends: [None, Some([u64::MAX, 8])], ..none() }, &["outside the file"]);
    refuse(Table { ends: [Some([index, len]), None], ..none() }, &["where byte", "is next"]);
    refuse(Table { ends: [Some([1, lens[0]]), None], ..none() }, &["a damaged block at byte 1"]);
    refuse(Table { compression: 1, ..none() }, &["a compressed block at byte"]);
    refuse(Table { compression: 9, ..none() }, &["a compressed block"]);
    refuse(Table { more: vec![header(1)], ..none() }, &["entries where TensorFlow writes none"]);
    refuse(Table { gap: vec![0; 3], ..none() }, &["3 bytes that belong to no block"]);

    let mut other = none().write(&blocks);
    let end = other.len();
    other[end - 9] = 1;
    refused(&other, &["something in it that is not known"]);
    other[end - 48..end - 8].fill(0xff);
    refused(&other, &["does not say where the blocks are"]);
    refused(b"", &["a file of 0 bytes"]);
    refused(&[0; 60], &["an index without its end"]);
    let alone = [vec![0; 40], 0xdb47_7524_8b80_fb57_u64.to_le_bytes().to_vec()].concat();
    refused(&alone, &["a block of 0 bytes at byte 0, outside the file"]);
}

#[test]
fn blocks_that_lie() {
    let apart = "entries cannot be told apart";
    let refuse = |block: &[u8], words: &[&str]| refused(&Table::default().write(&[block.to_vec()]), words);
    let sizes = |sizes: [u64; 3]| sizes.map(varint).concat();
    let ended = |entries: Vec<u8>| [entries, [0_u32, 1].map(u32::to_le_bytes).concat()].concat();
    refuse(b"", &[apart]);
    refuse(&[0xff; 4], &[apart]);
    refuse(&[0, 0, 0, 0, 5, 0, 0, 0], &[apart]);
    refuse(&ended(vec![0xff; 11]), &[apart]);
    refuse(&ended(sizes([0, 0, 1])), &[apart]);
    refuse(&ended(sizes([0, 1, 0])), &[apart]);
    refuse(&ended(sizes([1, 0, 0])), &[apart]);
    refuse(&ended(sizes([u64::MAX, 0, 0])), &[apart]);
    refuse(&ended(sizes([0, u64::MAX, 0])), &[apart]);
    refuse(&ended(sizes([0, 0, u64::MAX])), &[apart]);
    refuse(&ended(vec![0]), &[apart]);
}

/// A small file that claims much: nothing is reserved for what is not there.
#[test]
fn tables_that_claim_more_than_there_can_be() {
    // Names that are spelled out to gigabytes.
    let long = vec![b'a'; 5000];
    refused(&table(&[(long, variable().entry().1)]), &["a name of 5000 bytes"]);
    let text = Variable { dtype: 7, len: 0, shape: &[0], ..variable() };
    let value = text.entry().1;
    let name = |number: u32| [&[b'a'; 4000][..], &number.to_be_bytes().map(|byte| b'a' + byte % 26)].concat();
    let mut names: Vec<Vec<u8>> =
        (0..20_000).map(|i| [name(i), format!("{i:06}").into_bytes()].concat()).collect();
    names.sort();
    let entries: Vec<Entry> = names.into_iter().map(|name| (name, value.clone())).collect();
    let bytes = table(&entries);
    assert!(bytes.len() < 1 << 20);
    refused(&bytes, &["names of more than 67108864 bytes"]);
    // More tensors than any model has, without a byte each.
    let entries: Vec<Entry> =
        (0..(1 << 20) + 1).map(|i: u32| (format!("{i:08}").into_bytes(), value.clone())).collect();
    refused(&table(&entries), &["more than 1048576 tensors"]);
    // A file that takes no room on the disk, and has the right end.
    let folder = Folder::new();
    let path = put(&folder, b"");
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    says(
        &Weights::open(&path).unwrap_err().to_string(),
        &["an index of 1073741824 bytes", "at most 67108864"],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes of blocks, under checksums that are right, and messages in them: whatever they are, there is an answer.
    #[test]
    fn any_bytes_in_a_table_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        which in 0..3,
    ) {
        let mut whole = block(&[header(1), variable().entry()]);
        for (at, value) in changes {
            let at = at.index(whole.len());
            whole[at] = value;
        }
        let blocks = match which {
            0 => vec![whole],
            1 => vec![block(&[header(1), ("a".into(), bytes)])],
            _ => vec![bytes],
        };
        let folder = Folder::new();
        if let Ok(weights) = Weights::open(put(&folder, &Table::default().write(&blocks))) {
            for name in weights.names() {
                let tensor = weights.get(name).unwrap();
                prop_assert!(tensor.len() <= 24);
                let _ = weights.read_f32(name, tensor.shape(), &mut vec![0.0; tensor.len()]);
            }
        }
    }
}
