//! Texts to ids and back.

use super::*;
use proptest::prelude::*;
use roformer::tokenizer::{Encoding, Kind};
use std::sync::OnceLock;

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
}

#[track_caller]
fn same(got: &Encoding, wanted: &Value, first: &str, second: &str, what: &str) {
    let ids: Vec<usize> = got.ids.iter().map(|&id| id as usize).collect();
    assert_eq!(ids, numbers(&wanted["ids"]), "{what}: ids of {first:?} {second:?}");
    let offsets: Vec<usize> =
        got.characters(first, second).iter().flat_map(|&(start, end)| [start, end]).collect();
    assert_eq!(offsets, numbers(&wanted["offsets"]), "{what}: offsets of {first:?} {second:?}");
    for ((start, end), sequence) in got.offsets.iter().zip(&got.sequence) {
        let text = if *sequence == Some(1) { second } else { first };
        assert!(text.get(*start..*end).is_some(), "{what}: {start}..{end} of {text:?}");
    }
    assert_eq!(got.token_types.len(), ids.len());
    assert_eq!(got.sequence.len(), ids.len());
}

#[test]
fn ids_and_offsets_are_those_of_transformers() {
    let kinds = [
        ("roformer", roformer("same-roformer")),
        ("bert", bert("same-bert")),
        (
            "roformer-cased",
            tokenizer("same-cased", json!({"tokenizer_class": "RoFormerTokenizer", "do_lower_case": false})),
        ),
        (
            "bert-plain",
            tokenizer(
                "same-plain",
                json!({"tokenizer_class": "BertTokenizer", "strip_accents": false, "tokenize_chinese_chars": false}),
            ),
        ),
        // What transformers saved: the rule in tokenizer.json is not RoFormer's.
        ("roformer", Tokenizer::load(golden().join("saved")).unwrap()),
    ];
    let mut compared = 0;
    for case in cases("cases") {
        let text = text(&case["text"]);
        for (name, tokenizer) in &kinds {
            let wanted = match &case[*name] {
                Value::Null => continue,
                Value::String(other) => &case[other],
                wanted => wanted,
            };
            let encoding = tokenizer.encode(&text).unwrap();
            same(&encoding, wanted, &text, "", name);
            assert!(encoding.token_types.iter().all(|&kind| kind == 0));
            let plain = tokenizer.encode_plain(&text).unwrap();
            assert_eq!(plain.ids, encoding.ids[1..encoding.len() - 1]);
            assert_eq!(plain.offsets, encoding.offsets[1..encoding.len() - 1]);
            assert_eq!(plain.sequence, vec![Some(0); plain.len()]);
            compared += 1;
        }
    }
    assert_eq!(compared, 2000 * 3 + 500 * 2);
}

#[test]
fn pairs_are_those_of_transformers() {
    let kinds = [("roformer", roformer("pair-roformer")), ("bert", bert("pair-bert"))];
    for case in cases("pairs") {
        let (first, second) = (text(&case["first"]), text(&case["second"]));
        for (name, tokenizer) in &kinds {
            let mut encoding = tokenizer.encode_pair(&first, &second).unwrap();
            if let Some(length) = case["max_length"].as_u64() {
                encoding.truncate(length as usize);
            }
            same(&encoding, &case[*name], &first, &second, name);
            let types: Vec<usize> = encoding.token_types.iter().map(|&kind| kind as usize).collect();
            assert_eq!(types, numbers(&case[*name]["token_types"]));
            let special: Vec<usize> =
                (0..encoding.len()).filter(|&at| encoding.sequence[at].is_none()).collect();
            assert_eq!(special.len(), 3, "{:?}", encoding.sequence);
            assert!(special.iter().all(|&at| encoding.offsets[at] == (0, 0)));
        }
    }
}

#[test]
fn special_tokens() {
    let tokenizer = roformer("special");
    assert_eq!(tokenizer.kind(), Kind::RoFormer);
    let ids =
        [tokenizer.pad_id(), tokenizer.unk_id(), tokenizer.cls_id(), tokenizer.sep_id(), tokenizer.mask_id()];
    assert_eq!(ids, [0, 100, 101, 102, 103].map(Some));
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_id()), (None, None));
    assert_eq!(tokenizer.len(), String::from_utf8(vocabulary()).unwrap().lines().count());
    assert_eq!(tokenizer.token(103).as_deref(), Some("[MASK]"));
    assert_eq!(tokenizer.token(1 << 30), None);
    assert_eq!(tokenizer.id("[MASK]"), Some(103));
    assert_eq!(tokenizer.id("no such token"), None);
    // One in the text is the text's.
    let encoding = tokenizer.encode("天[MASK]").unwrap();
    assert_eq!(encoding.sequence, [None, Some(0), Some(0), None]);
    assert_eq!(encoding.offsets[2], (3, 9));

    let mut encoding = tokenizer.encode("今天天气很好").unwrap();
    encoding.truncate(1);
    assert_eq!(encoding.ids, [101, 102]);
}

/// The examples of docs/tokenizer.md.
#[test]
fn documented() {
    let (roformer, bert) = (roformer("documented-roformer"), bert("documented-bert"));
    let pieces = |tokenizer: &Tokenizer, text: &str| -> String {
        let ids = tokenizer.encode_plain(text).unwrap().ids;
        ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect::<Vec<_>>().join(" ")
    };
    for (text, by_words, by_characters) in [
        ("今天天气非常好。", "今天天气 非 [UNK] 好 。", "今 天 天 气 非 [UNK] 好 。"),
        ("每天天气都好", "每天 天 气 都 好", "每 天 天 气 都 好"),
        ("C#", "c ###", "c #"),
        ("café", "c ##a ##f ##e", "c ##a ##f ##e"),
        ("a\u{200b}b", "a ##b", "a ##b"),
        ("각", "[UNK] [UNK] [UNK]", "[UNK]"),
        ("привет", "п р и в е т", "[UNK]"),
    ] {
        assert_eq!(pieces(&roformer, text), by_words);
        assert_eq!(pieces(&bert, text), by_characters);
    }
}

/// What reads back as it was written, once the vocabulary has it.
#[test]
fn decoding() {
    let texts = [
        "",
        "今天我们在一起。",
        "我们一起去公园吧，好不好？",
        "一台3d电脑",
        "hello world, this is the first time!",
        "it's 3.14, not 1,000: see 12:30.",
        "do you know (or not) \"the model\" and \"the data\"? no; never!",
        "wi-fi and/or x_y me@home",
        "我们说hello，他们说world。",
        "the 天天 model",
        "50% of $20 [sic]",
    ];
    let mut vocabulary = String::from_utf8(vocabulary()).unwrap();
    for character in texts.concat().chars().filter(|c| !c.is_whitespace()) {
        for line in [format!("{character}\n"), format!("##{character}\n")] {
            if !vocabulary.contains(&format!("\n{line}")) {
                vocabulary.push_str(&line);
            }
        }
    }
    let load = |name: &str, class: &str| {
        let config = json!({"tokenizer_class": class}).to_string();
        let files = [("vocab.txt", vocabulary.as_bytes()), ("tokenizer_config.json", config.as_bytes())];
        Tokenizer::load(folder(name, &files)).unwrap()
    };
    let (roformer, bert) =
        (load("decode-roformer", "RoFormerTokenizer"), load("decode-bert", "BertTokenizer"));
    for text in texts {
        let both = text != "the 天天 model";
        for tokenizer in [&roformer, &bert] {
            let ids = tokenizer.encode(text).unwrap().ids;
            assert!(
                !ids.contains(&100),
                "{text}: {:?}",
                ids.iter().map(|&id| tokenizer.token(id)).collect::<Vec<_>>()
            );
            let wanted = if both { text } else { "the天天model" };
            assert_eq!(tokenizer.decode(&ids), wanted, "{}", tokenizer.kind());
        }
    }
    // Special tokens and ids that do not exist are left out; a piece may come first.
    let ids = [101, roformer.id("##ing").unwrap(), 103, u32::MAX, roformer.id("the").unwrap(), 102, 0, 0];
    assert_eq!(roformer.decode(&ids), "ing the");
}

/// A text of a mebibyte of anything is read, and every token stands where it says. (Anything quadratic would not end.)
#[test]
fn long_texts() {
    let texts = ["今天天气非常好。", "天", "a", "%", " ", "\u{301}", "[MASK]", "a b ", "👨‍👩‍👧", "é"];
    let tokenizers = [roformer("long-roformer"), bert("long-bert")];
    for text in texts.map(|text| text.repeat((1 << 20) / text.len())) {
        for tokenizer in &tokenizers {
            let encoding = tokenizer.encode(&text).unwrap();
            assert!(encoding.offsets.iter().all(|&(start, end)| text.get(start..end).is_some()));
        }
    }
}

#[test]
fn shared_between_threads() {
    fn check<T: Send + Sync>(_: &T) {}
    let tokenizer = roformer("threads");
    check(&tokenizer);
    let wanted = tokenizer.encode("今天天气非常好。").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(tokenizer.encode("今天天气非常好。").unwrap(), wanted));
        }
    });
}

proptest! {
    /// Whatever the text, every token stands somewhere in it.
    #[test]
    fn any_text(first in any::<String>(), second in "[\\PC今天气非常\\[\\]MASK ]{0,40}", room in 0usize..40) {
        static KINDS: OnceLock<[Tokenizer; 2]> = OnceLock::new();
        for tokenizer in KINDS.get_or_init(|| [roformer("any-roformer"), bert("any-bert")]) {
            let mut encoding = tokenizer.encode_pair(&first, &second).unwrap();
            for ((start, end), text) in encoding.offsets.iter().zip(&encoding.sequence) {
                let text = match text {
                    None => "",
                    Some(0) => &first,
                    Some(_) => &second,
                };
                prop_assert!(text.get(*start..*end).is_some());
            }
            tokenizer.decode(&encoding.ids);
            encoding.truncate(room);
            prop_assert!(encoding.len() <= room.max(3));
        }
    }
}
