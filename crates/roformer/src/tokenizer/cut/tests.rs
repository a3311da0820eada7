//! Every place that a text may be cut at, for tokenizers of every kind (`golden/tokenizer` and
//! `golden/tokenizer-kinds`).

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name)
}

fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("roformer-cut-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    for (file, bytes) in files {
        fs::write(path.join(file), bytes).unwrap();
    }
    path
}

fn load(name: &str, files: &[(&str, &[u8])]) -> Tokenizer {
    let folder = folder(name, files);
    let tokenizer = Tokenizer::load(&folder).unwrap();
    fs::remove_dir_all(folder).unwrap();
    tokenizer
}

const KINDS: [&str; 6] = ["byte-level", "split", "no-cuts", "unigram", "unigram-no-split", "word-ends"];

fn kinds() -> &'static [(&'static str, Tokenizer)] {
    static ALL: OnceLock<Vec<(&str, Tokenizer)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let words = fs::read(golden("tokenizer/vocab.txt")).unwrap();
        let class = |class: &str| json!({ "tokenizer_class": class }).to_string();
        let ours = |name, rule: &str| {
            (name, load(name, &[("vocab.txt", &words), ("tokenizer_config.json", class(rule).as_bytes())]))
        };
        let saved = fs::read(golden("tokenizer/saved/tokenizer.json")).unwrap();
        let mut all = vec![
            ours("jieba", "RoFormerTokenizer"),
            ours("bert", "BertTokenizer"),
            ("bert-file", load("bert-file", &[("tokenizer.json", &saved)])),
        ];
        all.extend(KINDS.map(|kind| (kind, Tokenizer::load(golden("tokenizer-kinds").join(kind)).unwrap())));
        all
    })
}

impl Tokenizer {
    /// All places of a text.
    fn cuts(&self, text: &str) -> Vec<usize> {
        let mut cuts: Vec<usize> =
            (0..text.len()).map(|from| self.end(text, from)).filter(|&end| end < text.len()).collect();
        cuts.dedup();
        cuts
    }
}

/// What is wrong with a cut; nothing where it leaves the tokens before it as they are.
fn difference(tokenizer: &Tokenizer, text: &str, cut: usize) -> Option<String> {
    let (whole, part) =
        (tokenizer.encode_plain(text).unwrap(), tokenizer.encode_plain(&text[..cut]).unwrap());
    let count = part.len();
    let is_same = whole.ids.get(..count) == Some(&part.ids[..])
        && whole.offsets.get(..count) == Some(&part.offsets[..])
        && whole.offsets[count..].iter().all(|&(start, _)| start >= cut);
    (!is_same).then(|| format!("{:?} of {text:?}: {:?} and {:?}", &text[..cut], part.offsets, whole.offsets))
}

/// Texts of anything, with many places to cut.
fn texts(most: usize) -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        8 => "[a-zA-Z0-9]{1,6}".boxed(),
        6 => "[今天气非常好我们一起去公园北京大学的学生龥]{1,5}".boxed(),
        10 => "[ \n,，。、！？]".boxed(),
        3 => "[ \n\t\u{3000}\u{a0}.;:'’\"\\-_#&+%]{1,3}".boxed(),
        2 => "[\u{301}\u{200d}é①½ｶﾞ👍🏽각ÅǅΩß▁Ġ\u{600}\u{0}\u{feff}]{1,2}".boxed(),
        2 => prop::sample::select(vec![
            "[MASK]", "[SEP]", "<mask>", "</s>", "<s>", "<unk>", "hello", "don't", "  <mask>  ", "C#", "3.14", "1234567", "##s",
        ])
        .prop_map(str::to_owned)
        .boxed(),
        1 => "\\PC{1,3}".boxed(),
    ];
    prop::collection::vec(parts, 0..most).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_cut_changes_what_stands_before_it(text in texts(30)) {
        for (name, tokenizer) in kinds() {
            for cut in tokenizer.cuts(&text) {
                prop_assert_eq!(difference(tokenizer, &text, cut), None, "{}", name);
            }
        }
    }
}

/// Which marks each kind can be cut before: what is shown above is shown of something.
#[test]
fn every_kind_has_its_places() {
    let at = |tokenizer: &Tokenizer, text: &str| -> String {
        tokenizer.cuts(text).iter().filter_map(|&cut| text[cut..].chars().next()).collect()
    };
    let text = "the of\nthe,the，the。the、the！the？the";
    for (name, tokenizer) in kinds() {
        let found = at(tokenizer, text);
        match *name {
            "no-cuts" | "unigram-no-split" => assert!(found.starts_with(' '), "{name}: {found:?}"),
            "unigram" => assert!(found.starts_with(' '), "{name}: {found:?}"),
            _ => assert_eq!(found, " \n,，。、！？", "{name}"),
        }
        // Not between two marks, not after one letter, not at the ends.
        assert_eq!(at(tokenizer, " ab  ab, ab é b é 。ab "), "", "{name}");
    }
    let (_, jieba) = &kinds()[0];
    assert_eq!(jieba.cuts("今天，天气"), [6]);
    assert_eq!(kinds()[1].1.cuts("今天，天气"), [6]);
}

/// A file of the golden ones, changed.
fn changed(name: &str, kind: &str, change: impl FnOnce(&mut Value)) -> Tokenizer {
    let bytes = fs::read(golden("tokenizer-kinds").join(kind).join("tokenizer.json")).unwrap();
    let mut file: Value = serde_json::from_slice(&bytes).unwrap();
    change(&mut file);
    load(name, &[("tokenizer.json", file.to_string().as_bytes())])
}

/// A token after the 500 of the vocabulary.
fn added(content: &str, rstrip: bool) -> Value {
    json!({"id": 500, "content": content, "single_word": false, "lstrip": false, "rstrip": rstrip, "normalized": true,
        "special": false})
}

/// Rules that reach over a mark, or that nothing is known of: the mark is not used.
#[test]
fn what_reaches_over_a_mark_forbids_it() {
    let text = "the of the";
    assert_eq!(kinds()[3].1.cuts(text), [3, 6]);
    let with = |name: &str, part: &str, value: Value| changed(name, "byte-level", |file| file[part] = value);
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let swap = |pattern: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": "x"});
    for (name, tokenizer) in [
        ("added", with("added", "added_tokens", json!([added("of the", false)]))),
        // As written it ends with a blank, and the normalizer strips it.
        (
            "blank",
            changed("blank", "unigram", |file| {
                let mut token = added("of ", false);
                token["id"] = json!(file["model"]["vocab"].as_array().unwrap().len());
                token["normalized"] = json!(false);
                file["added_tokens"] = json!([token]);
            }),
        ),
        ("rstrip", with("rstrip", "added_tokens", json!([added("of", true)]))),
        ("split", with("split", "pre_tokenizer", split(r"\w+ \w+|\w+|\W"))),
        ("look", with("look", "pre_tokenizer", split(r"\w+(?=.*end)|\w|\W"))),
        ("swap", with("swap", "normalizer", swap("e o"))),
        ("fixed", with("fixed", "pre_tokenizer", json!({"type": "FixedLength", "length": 5}))),
        (
            "bytes",
            with(
                "bytes",
                "pre_tokenizer",
                json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
            ),
        ),
        (
            "piece",
            changed("piece", "no-cuts", |file| {
                let id = file["model"]["vocab"].as_object().unwrap().len();
                file["model"]["vocab"]["e▁o"] = json!(id);
            }),
        ),
        (
            "unknown",
            changed("unknown", "no-cuts", |file| {
                let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
                let blank = vocabulary.remove("▁").unwrap();
                vocabulary.insert("§§".into(), blank);
                let merges = file["model"]["merges"].as_array_mut().unwrap();
                merges.retain(|pair| !pair.to_string().contains("\"▁\""));
            }),
        ),
        ("whole", changed("whole", "no-cuts", |file| file["model"]["ignore_merges"] = json!(true))),
        ("ends", changed("ends", "word-ends", |file| file["pre_tokenizer"] = Value::Null)),
    ] {
        assert!(tokenizer.cuts(text).is_empty(), "{name}");
        assert!(tokenizer.encode_cut(&text.repeat(1000), None, 7).unwrap().len() <= 7);
    }
}

/// A text of ten megabytes that is cut is not read to its end, whichever of two it is.
#[test]
fn only_the_beginning_is_read() {
    let english = "the model has a new position and then more words, of the old one\n".repeat(150_000);
    let chinese = "今天天气非常好，我们一起去公园散步吧。".repeat(180_000);
    let bound = 2 * (512 * BYTES_PER_TOKEN + LEAST);
    for (name, tokenizer) in kinds() {
        let chinese =
            matches!(*name, "jieba" | "bert" | "bert-file" | "byte-level" | "split").then_some(&chinese);
        for text in [Some(&english), chinese].into_iter().flatten() {
            let (_, [read, none]) = tokenizer.encode_beginning(text, None, 512).unwrap();
            assert!(read < bound && none == 0, "{name}: {read}");
            let (_, [question, read]) = tokenizer.encode_beginning("the model?", Some(text), 512).unwrap();
            assert!(read < bound && question == 10, "{name}: {read}");
            // Which of two is longer shows when the shorter one has ended.
            let short = &english[..20_000];
            let (_, [read, all]) = tokenizer.encode_beginning(text, Some(short), 101).unwrap();
            assert!(read < 8 * short.len() && all <= short.len(), "{name}: {read} {all}");
        }
    }
    // Nowhere to cut: as ever.
    let (_, jieba) = &kinds()[0];
    let text = "a".repeat(100_000);
    assert_eq!(jieba.encode_beginning(&text, None, 512).unwrap().1, [text.len(), 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// One text and two, cut before and after.
    #[test]
    fn the_same_tokens_as_of_the_whole(
        first in texts(60), second in texts(60), repeats in (1usize..120, 1usize..120), room in 0usize..200,
    ) {
        let (first, second) = (first.repeat(repeats.0), second.repeat(repeats.1));
        for (name, tokenizer) in kinds() {
            let mut whole = tokenizer.encode(&first).unwrap();
            whole.truncate(room);
            prop_assert_eq!(&tokenizer.encode_cut(&first, None, room).unwrap(), &whole, "{}", name);
            let mut whole = tokenizer.encode_pair(&first, &second).unwrap();
            whole.truncate(room);
            prop_assert_eq!(&tokenizer.encode_cut(&first, Some(&second), room).unwrap(), &whole, "{}", name);
        }
    }
}
