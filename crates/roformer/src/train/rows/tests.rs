//! Rows of every task, as batches.

use super::*;
use crate::train::data::Request;

/// The rows of one file of text.
fn rows(name: &str, text: &str, settings: &Settings) -> Rows {
    let path = std::env::temp_dir().join(format!("roformer-rows-{}-{name}.jsonl", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let request = Request { files: vec![path.clone()], ..Request::default() };
    let data = Data::read(&request, settings.goal, settings.layout(), None, |_| {}).unwrap();
    std::fs::remove_file(path).unwrap();
    Rows::new(data, settings).unwrap()
}

fn texts(settings: &Settings, rows: &Rows, count: u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut batch = Batch::default();
    let mut all = Vec::new();
    for number in 0..count {
        rows.training(number, &mut batch);
        assert_eq!(batch.ids.len(), settings.batch * settings.block);
        let rows = batch.ids.chunks(settings.block).zip(batch.targets.chunks(settings.block));
        all.extend(rows.map(|(ids, targets)| (ids.to_vec(), targets.to_vec())));
    }
    all
}

#[test]
fn whole_words_are_hidden_and_their_part_is_as_asked() {
    let settings = Settings { goal: Goal::Masked, block: 40, batch: 8, mask: 0.3, ..Settings::default() };
    let line = "{\"text\": \"今天天气很好 whole words 我们去公园散步\"}\n";
    let rows = rows("masked", &line.repeat(50), &settings);
    let (mut hidden, mut words, mut masked, mut changed) = (0, 0, 0, 0);
    for (ids, targets) in texts(&settings, &rows, 40) {
        // Around the block stand tokens that are never hidden.
        assert_eq!((ids[0], ids[39], targets[0], targets[39]), (2, 3, IGNORE, IGNORE));
        let original: Vec<u32> = ids
            .iter()
            .zip(&targets)
            .map(|(&id, &target)| if target == IGNORE { id } else { target })
            .collect();
        assert!(original.iter().all(|id| id & BEGINS == 0));
        // jieba's words of the text, of more than one character, as they stand in the row.
        let vocabulary = rows.data().vocabulary();
        let file: serde_json::Value = serde_json::from_slice(&vocabulary.files[0].1).unwrap();
        let ids_of = |word: &str| -> Vec<u32> {
            word.chars()
                .map(|char| file["model"]["vocab"][char.to_string()].as_u64().unwrap() as u32)
                .collect()
        };
        for word in ["今天天气", "whole", "words", "公园", "散步"] {
            let word = ids_of(word);
            for at in 1..39 - word.len() {
                if original[at..at + word.len()] == word[..] {
                    words += 1;
                    let count =
                        targets[at..at + word.len()].iter().filter(|&&target| target != IGNORE).count();
                    assert!(count == 0 || count == word.len(), "{count} of {}", word.len());
                    hidden += usize::from(count > 0);
                }
            }
        }
        for (id, target) in ids.iter().zip(&targets).filter(|(_, target)| **target != IGNORE) {
            masked += usize::from(*id == 4);
            changed += usize::from(*id != 4 && id != target);
        }
        assert!(targets.iter().any(|&target| target != IGNORE));
    }
    let part = |count: usize, of: usize| count as f64 / of as f64;
    assert!(words > 1000 && (part(hidden, words) - 0.3).abs() < 0.05, "{hidden} of {words}");
    let all = texts(&settings, &rows, 40)
        .iter()
        .map(|(_, targets)| targets.iter().filter(|&&target| target != IGNORE).count())
        .sum();
    assert!((part(masked, all) - 0.8).abs() < 0.03 && (part(changed, all) - 0.1).abs() < 0.03);
}

#[test]
fn an_epoch_has_every_row_once_and_kept_rows_are_others() {
    let settings =
        Settings { goal: Goal::Classification, block: 24, batch: 5, validation: 0.25, ..Settings::default() };
    let lines: String =
        (0..40).map(|index| format!("{{\"text\": \"row {index:02}\", \"label\": {index}}}\n")).collect();
    let rows = rows("epoch", &lines, &settings);
    let mut batch = Batch::default();
    let mut labels = |fill: &mut dyn FnMut(u64, &mut Batch), numbers: Range<u64>| {
        let mut all = Vec::new();
        for number in numbers {
            fill(number, &mut batch);
            assert_eq!(batch.mask.iter().filter(|&&real| real).count(), 5 * 8);
            all.extend(&batch.targets);
        }
        all
    };
    let mut train = |number: u64, batch: &mut Batch| rows.training(number, batch);
    let (first, second) = (labels(&mut train, 0..6), labels(&mut train, 6..12));
    let mut kept =
        labels(&mut |number, batch| assert_eq!(rows.evaluation(5 * number as usize, 10, batch), 5), 0..2);
    assert_ne!(first, second);
    for epoch in [first, second] {
        let mut all: Vec<u32> = epoch.iter().chain(&kept).copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..40).collect::<Vec<u32>>());
    }
    kept.sort_unstable();
    assert_ne!(kept, (30..40).collect::<Vec<u32>>());
}

/// XLNet's last token is of a segment of its own, and what is beside it of the text's.
#[test]
fn what_is_after_a_text_has_its_own_segments() {
    let line = "{\"text\": \"aa\", \"pair\": \"bbb\", \"label\": 0}\n";
    let one = "{\"text\": \"aa\", \"label\": 0}\n";
    let stream = "{\"text\": \"aa\"}\n";
    for (goal, line, wanted) in [
        (Goal::Classification, line, &[0, 0, 0, 0, 1, 1, 1, 1, 2, 0, 0][..]),
        (Goal::Classification, one, &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]),
        // A stream of many texts: what is after them is at the end of each row.
        (Goal::Masked, stream, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
    ] {
        let settings = Settings { goal, block: 11, batch: 2, validation: 0.0, ..Settings::default() };
        let mut rows = rows("ends", &line.repeat(9), &settings);
        rows.frame.after.push(4);
        rows.frame.ends = [vec![0, 2], vec![1, 2]];
        let mut batch = Batch::default();
        rows.training(0, &mut batch);
        assert_eq!(batch.types, [wanted, wanted].concat());
        rows.frame.ends = [vec![0, 0], vec![1, 1]];
        rows.training(0, &mut batch);
        assert_eq!(batch.types.is_empty(), !wanted.contains(&1), "all of the first segment");
    }
}

#[test]
fn the_longer_of_two_texts_is_cut_first() {
    let settings =
        Settings { goal: Goal::Classification, block: 11, batch: 1, validation: 0.0, ..Settings::default() };
    for (a, b, left, right) in [
        ("aaaaaaaaaa", "bb", 6, 2),
        ("aa", "bbbbbbbbbb", 2, 6),
        ("aaaaaa", "bbbbbb", 4, 4),
        ("aaa", "bb", 3, 2),
    ] {
        let line = format!("{{\"text\": \"{a}\", \"pair\": \"{b}\", \"label\": 0}}\n");
        let rows = rows("cut", &line, &settings);
        let mut batch = Batch::default();
        rows.training(0, &mut batch);
        let count = |id: u32| batch.ids.iter().filter(|&&other| other == id).count();
        assert_eq!((count(5), count(6)), (left, right), "{a} {b}");
        assert_eq!(batch.types.iter().filter(|&&kind| kind == 1).count(), right + 1);
        assert_eq!(batch.ids[..1], [2]);
    }
}
