//! Tokenizers, vocabularies and texts that were changed at random: each is read or refused, in one line, and nothing panics.
//!
//! `MUTATIONS` sets how many there are (1,000 if it is not set), `MUTATION_SEED` where they begin. With `MUTATION_TIMES` the
//! slowest are printed, by their time on a CPU, and the most memory that the process has had:
//!
//! ```sh
//! MUTATIONS=100000 MUTATION_TIMES=1 cargo test --release -p roformer --test mutations -- --nocapture
//! ```

use roformer::graph::mix;
use roformer::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        bits
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// A folder as it was before the changes: files by name.
type Files = Vec<(String, Vec<u8>)>;

/// Values that files do not expect where they come to stand.
fn odd(chance: &mut Chance) -> Value {
    let list = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1e308),
        json!(4294967295u64),
        json!(u64::MAX),
        json!(""),
        json!("a"),
        json!("[UNK]"),
        json!("\u{1b}[2J"),
        json!([]),
        json!({}),
        json!(["a", 0.0]),
        json!("(a+)+$"),
        json!({"String": ""}),
        json!({"Regex": "(?=(a*)*b)|"}),
        json!({"Regex": "["}),
        json!({"Regex": "\\"}),
        json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"}),
        json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "天天天"}),
        json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFKD"}); 40]}),
        json!({"type": "Sequence", "pretokenizers": vec![json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}); 40]}),
        json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
        json!({"type": "Prepend", "prepend": "▁"}),
        json!({"type": "Nmt"}),
        json!({"type": "StripAccents"}),
        json!({"type": "Split", "pattern": {"Regex": "(a|b|ab)*(?=c)"}, "behavior": "MergedWithNext", "invert": true}),
        json!({"type": "FixedLength", "length": 0}),
        json!({"type": "UnicodeScripts"}),
        json!({"type": "Digits", "individual_digits": true}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        json!({"type": "Punctuation", "behavior": "Isolated"}),
        json!({"type": "CharDelimiterSplit", "delimiter": "a"}),
        json!({"type": "RobertaProcessing", "sep": ["[SEP]", 9], "cls": ["[CLS]", 8], "trim_offsets": true, "add_prefix_space": false}),
        json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true}),
        json!({"type": "Strip", "content": "a", "start": 1000000, "stop": 1000000}),
        json!({"type": "ByteFallback"}),
        json!({"type": "WordPiece", "prefix": "", "cleanup": true}),
        json!({"type": "BPEDecoder", "suffix": ""}),
        json!({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "byte_fallback": true, "unk_token": "a"}),
        json!({"type": "Unigram", "vocab": [["a", 0.0], ["ab", -1.0], ["", -2.0]], "unk_id": 0, "byte_fallback": true}),
        json!({"type": "WordLevel", "vocab": {"a": 0, "b": 4294967295u64}, "unk_token": "a"}),
        json!({"max_length": 0, "stride": 9, "strategy": "LongestFirst", "direction": "Left"}),
    ];
    chance.pick(&list).clone()
}

/// A place of a JSON value, by chance.
fn place<'a>(value: &'a mut Value, chance: &mut Chance) -> &'a mut Value {
    let parts = match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    };
    if parts == 0 || chance.below(6) == 0 {
        return value;
    }
    let at = chance.below(parts);
    match value {
        Value::Object(map) => place(map.values_mut().nth(at).unwrap(), chance),
        other => place(&mut other[at], chance),
    }
}

/// Changes a JSON value: another value in a place, an entry gone, doubled or under another name.
fn change_json(value: &mut Value, chance: &mut Chance) {
    let target = place(value, chance);
    match (chance.below(5), &mut *target) {
        (0, Value::Object(map)) if !map.is_empty() => {
            let name = map.keys().nth(chance.below(map.len())).unwrap().clone();
            map.remove(&name);
        }
        (1, Value::Object(map)) if !map.is_empty() => {
            let name = map.keys().nth(chance.below(map.len())).unwrap().clone();
            let moved = map.remove(&name).unwrap();
            map.insert(format!("{name}{name}"), moved);
        }
        (0 | 1, Value::Array(list)) if !list.is_empty() => {
            let at = chance.below(list.len());
            let copy = list[at].clone();
            list.extend(std::iter::repeat_n(copy, 1 << chance.below(8)));
        }
        (2, Value::String(text)) => *text = text.repeat(1 + chance.below(200)),
        (2, Value::Number(_)) => *target = json!(chance.next() >> chance.below(64)),
        // One of its own parts, one level deeper.
        (3, _) => {
            let list = *chance.pick(&["normalizers", "pretokenizers", "decoders", "processors"]);
            *target = json!({"type": "Sequence", list: vec![target.clone(); 1 + chance.below(4)]});
        }
        _ => *target = odd(chance),
    }
}

/// Puts steps by chance, each of them sound, in the place of a part of a `tokenizer.json`.
fn change_part(file: &mut Value, chance: &mut Chance) {
    let patterns = [
        json!({"String": "a"}),
        json!({"String": ""}),
        json!({"String": " "}),
        json!({"Regex": ""}),
        json!({"Regex": "\\s+"}),
        json!({"Regex": "a|"}),
        json!({"Regex": "(a+)+$"}),
        json!({"Regex": "(?=((?:a|b)*)*c)|a"}),
        json!({"Regex": "(.)\\1*"}),
        json!({"Regex": "[\\s\\S]"}),
    ];
    let contents = ["", "a", "aa", "aaaaaaaa", "▁", "天天天天", " "];
    let behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    let (part, list) = *chance.pick(&[
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("decoder", "decoders"),
    ]);
    let replace =
        json!({"type": "Replace", "pattern": chance.pick(&patterns), "content": chance.pick(&contents)});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": chance.below(2) == 0, "trim_offsets": true, "use_regex": chance.below(2) == 0});
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": chance.pick(&["always", "first", "never"]), "split": chance.below(2) == 0});
    let steps: Vec<Value> = match part {
        "normalizer" => vec![
            replace,
            json!({"type": "NFKD"}),
            json!({"type": "NFC"}),
            json!({"type": "ByteLevel"}),
            json!({"type": "Lowercase"}),
            json!({"type": "Nmt"}),
            json!({"type": "StripAccents"}),
            json!({"type": "Prepend", "prepend": chance.pick(&contents)}),
            json!({"type": "Strip", "strip_left": true, "strip_right": false}),
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}),
        ],
        "pre_tokenizer" => vec![
            bytes,
            metaspace,
            json!({"type": "Split", "pattern": chance.pick(&patterns), "behavior": chance.pick(&behaviors), "invert": chance.below(2) == 0}),
            json!({"type": "Whitespace"}),
            json!({"type": "WhitespaceSplit"}),
            json!({"type": "BertPreTokenizer"}),
            json!({"type": "UnicodeScripts"}),
            json!({"type": "Punctuation", "behavior": chance.pick(&behaviors)}),
            json!({"type": "Digits", "individual_digits": true}),
            json!({"type": "FixedLength", "length": chance.below(3)}),
            json!({"type": "CharDelimiterSplit", "delimiter": "a"}),
        ],
        _ => vec![
            replace,
            bytes,
            metaspace,
            json!({"type": "Fuse"}),
            json!({"type": "ByteFallback"}),
            json!({"type": "BPEDecoder", "suffix": chance.pick(&contents)}),
            json!({"type": "WordPiece", "prefix": chance.pick(&contents), "cleanup": true}),
            json!({"type": "Strip", "content": "a", "start": chance.below(9), "stop": chance.below(9)}),
            json!({"type": "CTC", "pad_token": chance.pick(&contents), "word_delimiter_token": "|", "cleanup": true}),
        ],
    };
    let many = 1 << chance.below(6);
    let steps: Vec<&Value> = (0..many).map(|_| chance.pick(&steps)).collect();
    file[part] = json!({"type": "Sequence", list: steps});
}

/// Changes bytes: some other, gone, doubled, or all of it cut.
fn change_bytes(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let at = chance.below(bytes.len());
    let end = (at + 1 + chance.below(40)).min(bytes.len());
    match chance.below(6) {
        _ if bytes.is_empty() => bytes.extend(b"[UNK]\n[CLS]\n"),
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let part = bytes[at..end].repeat(1 + chance.below(100));
            bytes.splice(at..at, part);
        }
        3 => bytes[at] = chance.next() as u8,
        4 => bytes[at] ^= 1 << chance.below(8),
        _ => {
            let odd: [&[u8]; 9] = [
                b"\n",
                b"\n\n\n",
                b"\r",
                b"\0",
                b"\xff",
                b"##",
                b"\xe2\x80\xa8",
                b"[CLS]\n[CLS]\n",
                b"\xef\xbb\xbf",
            ];
            bytes.splice(at..at, chance.pick(&odd).iter().copied());
        }
    }
}

/// A text by chance.
fn text(chance: &mut Chance) -> String {
    const PARTS: [&str; 24] = [
        "今天天气非常好。",
        "天",
        "a",
        "ab",
        "the model",
        "[MASK]",
        "[CLS]",
        "[mask",
        " ",
        "\n",
        "\t",
        "\0",
        "\u{1b}[31m",
        "\u{fdfa}",
        "é",
        "e\u{301}",
        "👨‍👩‍👧",
        "각",
        "\u{202e}",
        "\u{ffff}",
        "AT&T 3.14",
        "ｶﾞ",
        "\u{10ffff}",
        "İ",
    ];
    let count = chance.below(30);
    let mut text: String = (0..count)
        .map(|_| match chance.below(8) {
            0 => char::from_u32(chance.below(0x11_0000) as u32).unwrap_or('\u{fffd}').to_string(),
            _ => chance.pick(&PARTS).to_string(),
        })
        .collect();
    // One in a hundred is long.
    if chance.below(100) == 0 {
        text = text.repeat(1 + (1 << 16) / text.len().max(1));
    }
    text
}

/// Folders to begin with: of all three rules, and of models that the tokenizers crate knows.
fn sources() -> Vec<Files> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/tokenizer");
    let vocabulary = fs::read(golden.join("vocab.txt")).unwrap();
    let class = |name: &str| {
        json!({"tokenizer_class": name, "do_lower_case": true, "mask_token": "[MASK]"})
            .to_string()
            .into_bytes()
    };
    let with = |name: &str| {
        vec![("vocab.txt".into(), vocabulary.clone()), ("tokenizer_config.json".into(), class(name))]
    };
    let small: String =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "今", "天", "天气", "a", "b", "##a", "##b", "the"]
            .iter()
            .flat_map(|token| [token, "\n"])
            .collect();
    let json = |value: Value| vec![("tokenizer.json".into(), value.to_string().into_bytes())];
    let token = |id: u32, content: &str, normalized: bool| json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": normalized, "special": !normalized});
    let replace =
        |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    let sentence_piece = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [token(0, "<unk>", false), token(1, "<s>", false), token(7, "<x>", true)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Lowercase"}, replace(json!({"Regex": " {2,}"}), " "), replace(json!({"String": " "}), "▁"),
            {"type": "Prepend", "prepend": "▁"},
        ]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [replace(json!({"String": "▁"}), " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0.0], ["<s>", 0.0], ["▁", -1.0], ["▁the", -2.0], ["a", -3.0], ["b", -3.5], ["天", -4.0]]},
    });
    let byte_pairs = json!({
        "version": "1.0", "truncation": {"max_length": 64, "stride": 0, "strategy": "LongestFirst", "direction": "Right"}, "padding": null,
        "added_tokens": [token(5, "<end>", false)], "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(?i:'s|'t)|\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": true, "vocab": {"a": 0, "b": 1, "t": 2, "ab": 3, "Ġ": 4}, "merges": [["a", "b"]]},
    });
    let saved = fs::read(golden.join("saved/tokenizer.json")).unwrap();
    let words = vec![
        ("vocab.txt".into(), small.clone().into_bytes()),
        ("tokenizer_config.json".into(), class("RoFormerTokenizer")),
    ];
    let older = vec![
        ("vocab.txt".into(), small.into_bytes()),
        (
            "special_tokens_map.json".into(),
            br#"{"mask_token": {"content": "[MASK]", "lstrip": true}, "additional_special_tokens": ["a"]}"#
                .to_vec(),
        ),
        ("added_tokens.json".into(), br#"{"<x>": 13}"#.to_vec()),
        ("config.json".into(), br#"{"model_type": "roformer"}"#.to_vec()),
    ];
    vec![
        words,
        older,
        json(sentence_piece),
        json(byte_pairs),
        vec![("tokenizer.json".into(), saved)],
        with("BertTokenizer"),
        with("RoFormerTokenizer"),
    ]
}

/// Changes a folder in one to three places.
fn changed(sources: &[Files], chance: &mut Chance) -> Files {
    // The large vocabularies take longest to load, and say little more.
    let which = if chance.below(20) == 0 { chance.below(sources.len()) } else { chance.below(4) };
    let mut files = sources[which].clone();
    for _ in 0..1 + chance.below(3) {
        let at = chance.below(files.len());
        let (name, bytes) = &mut files[at];
        match serde_json::from_slice::<Value>(bytes) {
            Ok(mut value) if name.ends_with(".json") && chance.below(8) > 0 => {
                match name == "tokenizer.json" && value.is_object() && chance.below(2) == 0 {
                    true => change_part(&mut value, chance),
                    false => change_json(&mut value, chance),
                }
                *bytes = value.to_string().into_bytes();
            }
            _ => change_bytes(bytes, chance),
        }
    }
    files
}

/// Reads a folder, and a text or two with it. Says in a word how it went.
fn try_out(folder: &Path, files: &Files, texts: &[String]) -> &'static str {
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let check = |error: roformer::Error| {
        let message = error.to_string();
        assert!(!message.is_empty() && message.len() < 4000, "a message of {} bytes", message.len());
        assert!(!message.chars().any(char::is_control), "{message:?}");
    };
    let outcome = match Tokenizer::load(folder) {
        Err(error) => {
            check(error);
            "refused"
        }
        Ok(tokenizer) => {
            let encoded = match texts {
                [first, second] => tokenizer.encode_pair(first, second),
                _ => tokenizer.encode(&texts[0]),
            };
            let outcome = match encoded {
                Ok(mut encoding) => {
                    tokenizer.decode(&encoding.ids);
                    encoding.truncate(8);
                    "works"
                }
                Err(error) => {
                    check(error);
                    "refuses the text"
                }
            };
            tokenizer.files(folder).map(drop).unwrap_or_else(check);
            outcome
        }
    };
    fs::remove_dir_all(folder).unwrap();
    outcome
}

/// The time that this thread has spent on a CPU, or else by the clock: other work on the machine is not counted.
fn spent() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let read = || fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok();
    read().map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// The most memory that this process has had, in MB, where the system tells.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kb| kb / 1000)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn whatever_is_changed_is_read_or_refused() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    let loud = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        HEARD.fetch_add(1, Ordering::Relaxed);
        loud(info);
    }));
    let (count, first) = (number("MUTATIONS", 1000), number("MUTATION_SEED", 0));
    let sources = sources();
    let folder: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutations-{}-{first}", std::process::id()));
    for files in &sources {
        let texts = ["今天天气非常好。 the a".to_string(), "[MASK] ab".into()];
        assert_eq!(try_out(&folder, files, &texts), "works", "before any change");
    }
    let mut outcomes = std::collections::BTreeMap::<&str, u64>::new();
    let mut slowest: Vec<(Duration, u64, &str)> = Vec::new();
    for case in first..first + count {
        let mut chance = Chance(case.wrapping_mul(0xD134_2543_DE82_EF95));
        let files = changed(&sources, &mut chance);
        let texts: Vec<String> = (0..1 + chance.below(2)).map(|_| text(&mut chance)).collect();
        let start = spent();
        let outcome = try_out(&folder, &files, &texts);
        *outcomes.entry(outcome).or_default() += 1;
        slowest.push((spent().saturating_sub(start), case, outcome));
        slowest.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        slowest.truncate(10);
        assert_eq!(HEARD.load(Ordering::Relaxed), 0, "case {case}: a panic was heard of");
    }
    assert!(count < 1000 || outcomes.len() == 3, "too tame: {outcomes:?}");
    if std::env::var_os("MUTATION_TIMES").is_some() {
        println!("{count} cases from {first} on: {outcomes:?}; at most {:?} MB", peak());
        slowest.iter().for_each(|(time, case, outcome)| println!("case {case}: {time:?}, {outcome}"));
    }
}
