//! Files of every kind, good and bad.

use crate::common::{Folder, begin, request, small};
use roformer::train::{Choice, Data, Goal, Layout, Request, Settings};
use std::fs;
use std::path::PathBuf;

fn read(files: &[&PathBuf], goal: Goal, layout: Layout) -> roformer::Result<Data> {
    let files = files.iter().map(|&path| path.clone()).collect();
    Data::read(&Request { files, ..Request::default() }, goal, layout, None, |_| {})
}

#[test]
fn hostile_text_is_refused_by_name() {
    let folder = Folder::new("hostile");
    let cases: [(&str, Option<&[u8]>, &str); 7] = [
        ("missing", None, "missing: "),
        ("empty", Some(b""), "empty; expected text"),
        ("mark", Some(b"\xef\xbb\xbf"), "0 tokens"),
        ("short", Some(b"a few words"), "11 tokens, 10 of them to train on"),
        ("latin", Some(b"caf\xe9 au lait"), "line 1: byte 3 is not UTF-8"),
        ("second", Some(b"fine\ncaf\xe9 au lait"), "line 2: byte 8 is not UTF-8"),
        ("cut", Some(b"caf\xc3"), "byte 3 is not UTF-8"),
    ];
    for (name, bytes, says) in cases {
        let path = folder.0.join(name);
        bytes.map(|bytes| fs::write(&path, bytes));
        let error = begin(&folder.0.join("out"), &small(), &request(path)).err().unwrap().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{name}: {error}");
        assert!(!folder.0.join("out").exists(), "{name}");
    }
    fs::create_dir(folder.0.join("none")).unwrap();
    let error = read(&[&folder.0.join("none")], Goal::Causal, Layout::Packed).err().unwrap().to_string();
    assert!(error.contains("a folder without text"), "{error}");
}

#[test]
fn hostile_records_are_refused_by_line() {
    let folder = Folder::new("records");
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(17 << 20));
    let good = "{\"text\": \"a\", \"label\": \"b\"}";
    let pair = "{\"a\": \"x\", \"b\": \"y\"}";
    for (goal, lines, says) in [
        (Goal::Causal, vec!["{\"text\": \"a\"}", "{\"text\": "], "line 2: not JSON"),
        (Goal::Causal, vec!["{\"text\": \"a\"}", "", "[1]"], "line 3: JSON, but not an object"),
        (Goal::Causal, vec!["{\"content\": \"a\"}"], "line 1: no `text`"),
        (Goal::Causal, vec!["{\"text\": 7}"], "line 1: `text` is not a string"),
        (Goal::Causal, vec![&long], "line 1: a line of more than 16 MiB"),
        (Goal::Masked, vec!["{\"text\": null}"], "line 1: no `text`"),
        (Goal::Classification, vec![good, "{\"text\": \"a\"}"], "line 2: no `label`"),
        (Goal::Classification, vec![good, "{\"text\": \"a\", \"label\": 1.5}"], "line 2: no `label`"),
        (
            Goal::Classification,
            vec![good, "{\"text\": \"\", \"label\": 1}"],
            "line 2: a text without any token",
        ),
        (
            Goal::Classification,
            vec![good, "{\"text\": \"a\", \"pair\": \"b\", \"label\": 1}"],
            "line 2: `pair` is there",
        ),
        (Goal::Similarity, vec![pair, "{\"a\": \"x\"}"], "line 2: no `b`"),
        (Goal::Similarity, vec![pair, "{\"a\": \"x\", \"b\": \"y\", \"score\": 5}"], "line 2: `score` is 5"),
        (
            Goal::Similarity,
            vec![pair, "{\"a\": \"x\", \"b\": \"y\", \"score\": 1}"],
            "line 2: `score` is there",
        ),
    ] {
        let path = folder.put("records.jsonl", (lines.join("\n") + "\n").as_bytes());
        let error = read(&[&path], goal, Layout::Packed).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains("records.jsonl") && error.len() < 300, "{error}");
    }
    let text = folder.put("text.txt", b"no labels here");
    for goal in [Goal::Classification, Goal::Similarity] {
        let error = read(&[&text], goal, Layout::Packed).err().unwrap().to_string();
        assert!(error.contains("expected JSON Lines"), "{error}");
    }
    let few = folder.put("few.jsonl", (pair.to_owned() + "\n").repeat(5).as_bytes());
    let settings = Settings { goal: Goal::Similarity, ..small() };
    let error = begin(&folder.0.join("out"), &settings, &request(few)).err().unwrap().to_string();
    assert!(error.contains("5 texts") && error.contains("at least 4"), "{error}");
    let short = Settings { goal: Goal::Masked, block: 2, ..small() };
    let error = begin(&folder.0.join("out"), &short, &request(text)).err().unwrap().to_string();
    assert!(error.contains("block is 2; expected at least 3"), "{error}");
}

#[test]
fn a_line_of_any_length_is_text_for_characters_alone() {
    let folder = Folder::new("long-line");
    let path = folder.put("text", "雨x".repeat(5 << 20).as_bytes());
    assert_eq!(read(&[&path], Goal::Causal, Layout::Packed).unwrap().tokens(), 10 << 20);
    let pieces = Request { tokenizer: Some(Choice::WordPiece(100)), ..request(path) };
    let error = begin(&folder.0.join("out"), &small(), &pieces).err().unwrap().to_string();
    assert!(error.contains("text: line 1: a line of more than 16 MiB"), "{error}");
}

#[test]
fn characters_that_pieces_cut_are_whole() {
    let folder = Folder::new("pieces");
    // Three bytes each: a piece of a power of two cuts one.
    let long = "雨".repeat(50_000) + "x";
    let path = folder.put("text", long.as_bytes());
    let one = read(&[&path], Goal::Causal, Layout::Packed).unwrap();
    assert_eq!((one.tokens(), one.vocabulary().tokens()), (50_001, 7));
    assert_eq!(one.fingerprint(), Data::from_text(&long).unwrap().fingerprint());
    // A token stands between two texts.
    let two = read(&[&path, &path], Goal::Causal, Layout::Packed).unwrap();
    assert_eq!(two.tokens(), 100_003);
    assert_ne!(one.fingerprint(), two.fingerprint());
}

#[test]
fn files_that_are_kept_are_not_trained_on() {
    let folder = Folder::new("kept");
    let (a, b) = (folder.put("a.txt", &b"abc ".repeat(50)), folder.put("b.txt", &b"xyz ".repeat(30)));
    let both = Request { kept: vec![b], ..request(a) };
    let run = begin(&folder.0.join("out"), &small(), &both).unwrap();
    assert_eq!(run.trainer().data().tokens(), 200 + 1 + 120);
    assert_eq!(run.files().len(), 2);
}

#[test]
fn rows_are_shuffled_by_the_seed() {
    use roformer::train::Trainer;
    let folder = Folder::new("shuffled");
    let lines: String = (0..40).map(|index| format!("{{\"text\": \"number {index}\"}}\n")).collect();
    let path = folder.put("lines.jsonl", lines.as_bytes());
    let losses = |seed: u64| {
        let settings =
            Settings { seed, layout: Layout::Padded, dropout: 0.0, lr: 1e-9, min_lr: 0.0, ..small() };
        let data = read(&[&path], Goal::Causal, Layout::Padded).unwrap();
        let mut trainer = Trainer::new(&settings, data).unwrap();
        (0..3).map(|_| trainer.step().unwrap().loss).collect::<Vec<_>>()
    };
    assert_eq!(losses(1), losses(1));
    assert_ne!(losses(1), losses(2));
}
