//! The files of a tokenizer: which kind they mean, what cannot be used, what is written.

use super::*;
use roformer::tokenizer::Kind;

/// Names and rules from the files, in the forms that versions of transformers write.
#[test]
fn added_tokens() {
    let mask = json!({"content": "[MASK]", "lstrip": true, "rstrip": false, "normalized": false, "single_word": false});
    let size = String::from_utf8(vocabulary()).unwrap().lines().count();
    let decoder = json!({size.to_string(): {"content": "<新>", "special": false, "normalized": false}});
    let newer = tokenizer(
        "added-newer",
        json!({"tokenizer_class": "RoFormerTokenizer", "mask_token": mask, "eos_token": "<T>", "added_tokens_decoder": decoder}),
    );
    assert_eq!(newer.len(), size + 1);
    assert_eq!(newer.eos_id(), newer.id("<T>"));
    let encoding = newer.encode_plain("天 [MASK]<新><t>").unwrap();
    assert_eq!(encoding.ids[1..3], [103, size as u32]);
    // The rule `lstrip` takes the space before it.
    assert_eq!(encoding.offsets[1], (3, 10));
    assert_eq!(newer.decode(&[size as u32]), "<新>");

    let older = folder(
        "added-older",
        &[
            ("vocab.txt", &vocabulary()),
            ("config.json", br#"{"model_type": "roformer"}"#),
            ("special_tokens_map.json", br#"{"mask_token": "<S>", "additional_special_tokens": ["<T>"]}"#),
            ("added_tokens.json", format!(r#"{{"<x>": {size}}}"#).as_bytes()),
        ],
    );
    let older = Tokenizer::load(older).unwrap();
    assert_eq!((older.kind(), older.mask_id()), (Kind::RoFormer, older.id("<S>")));
    // The same token in two files is one.
    let saved: Value =
        serde_json::from_slice(&fs::read(golden().join("saved/tokenizer.json")).unwrap()).unwrap();
    let (mut twice, token) = (saved.clone(), json!({"id": size, "content": "<x>", "normalized": false}));
    twice["added_tokens"].as_array_mut().unwrap().push(token);
    let twice = twice.to_string();
    let files: [(&str, &[u8]); 3] = [
        ("tokenizer.json", twice.as_bytes()),
        ("tokenizer_config.json", br#"{"tokenizer_class": "RoFormerTokenizer"}"#),
        ("added_tokens.json", &format!(r#"{{"<x>": {size}}}"#).into_bytes()),
    ];
    assert_eq!(Tokenizer::load(folder("added-twice", &files)).unwrap().id("<x>"), Some(size as u32));
    let encoding = older.encode_plain("<S><T><x>").unwrap();
    assert_eq!(encoding.ids, [older.id("<S>").unwrap(), older.id("<T>").unwrap(), size as u32]);
}

#[test]
fn a_folder_decides_the_kind() {
    let characters: Vec<u8> = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n天\n##天\na\n".into();
    let words = vocabulary();
    let saved = fs::read(golden().join("saved/tokenizer.json")).unwrap();
    let kind = |name: &str, files: &[(&str, &[u8])]| Tokenizer::load(folder(name, files)).unwrap().kind();
    assert_eq!(kind("kind-words", &[("vocab.txt", &words)]), Kind::RoFormer);
    assert_eq!(kind("kind-characters", &[("vocab.txt", &characters)]), Kind::Bert);
    let model: &[u8] = br#"{"model_type": "roformer"}"#;
    assert_eq!(kind("kind-json", &[("tokenizer.json", &saved)]), Kind::File);
    assert_eq!(
        kind("kind-json-roformer", &[("tokenizer.json", &saved), ("config.json", model)]),
        Kind::RoFormer
    );
    let class: &[u8] = br#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#;
    assert_eq!(
        kind("kind-other", &[("tokenizer.json", &saved), ("tokenizer_config.json", class)]),
        Kind::File
    );
    let class: &[u8] = br#"{"model_type": "roformer", "tokenizer_class": "BertTokenizer"}"#;
    assert_eq!(kind("kind-model", &[("vocab.txt", &words), ("config.json", class)]), Kind::Bert);

    // The file as it is follows BERT's rule, special tokens included, but for Chinese, which RoFormer's normaliser leaves
    // to jieba: a whole sentence is one word there.
    let file = Tokenizer::load(folder("kind-file", &[("tokenizer.json", &saved)])).unwrap();
    let bert = bert("kind-bert");
    for text in ["", "hello [MASK]", "AT&T 3.14"] {
        assert_eq!(file.encode(text).unwrap(), bert.encode(text).unwrap());
        assert_eq!(file.encode_pair(text, "好").unwrap(), bert.encode_pair(text, "好").unwrap());
        assert_eq!(
            file.decode(&file.encode(text).unwrap().ids),
            bert.decode(&bert.encode(text).unwrap().ids)
        );
    }
    let text = "今天天气非常好。";
    assert_eq!(file.encode(text).unwrap().ids, [101, 100, file.id("。").unwrap(), 102]);
    assert_eq!(roformer("kind-roformer").encode(text).unwrap().len(), 7);
}

#[test]
fn lines_may_end_as_on_windows() {
    let text = String::from_utf8(vocabulary()).unwrap();
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let windows = Tokenizer::load(folder("windows", &[("vocab.txt", windows.as_bytes())])).unwrap();
    let text = "今天天气非常好，[MASK] GPT-4";
    assert_eq!(windows.encode(text).unwrap(), roformer("not-windows").encode(text).unwrap());
    assert_eq!(windows.pad_id(), Some(0));
}

#[track_caller]
fn refused(name: &str, files: &[(&str, &[u8])], words: &[&str]) {
    let error =
        Tokenizer::load(folder(name, files)).map(|tokenizer| tokenizer.kind()).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{name}: {error}");
    }
}

#[test]
fn files_that_cannot_be_used() {
    let class: &[u8] = br#"{"tokenizer_class": "RoFormerTokenizer"}"#;
    let words = vocabulary();
    refused("no-files", &[], &["vocab.txt", "tokenizer.json"]);
    refused("no-vocabulary", &[("tokenizer_config.json", class)], &["vocab.txt"]);
    refused("empty", &[("vocab.txt", b"")], &["vocab.txt", "no token"]);
    refused("blank", &[("vocab.txt", b"\n\n \n")], &["no token"]);
    refused("no-unknown", &[("vocab.txt", b"[CLS]\n[SEP]\na\n")], &["[UNK]"]);
    refused("no-cls", &[("vocab.txt", b"[UNK]\n[SEP]\na\n")], &["[CLS]"]);
    refused("no-sep", &[("vocab.txt", b"[UNK]\n[CLS]\na\n")], &["[SEP]"]);
    refused("not-utf8", &[("vocab.txt", b"[UNK]\n[CLS]\n\xff\xfe\n")], &["line 3", "UTF-8"]);
    let huge = folder("huge", &[]);
    fs::File::create(huge.join("vocab.txt")).unwrap().set_len((64 << 20) + 1).unwrap();
    assert!(Tokenizer::load(huge).unwrap_err().to_string().contains("more than"));
    let config = |json: &'static [u8]| [("vocab.txt", &words[..]), ("tokenizer_config.json", json)];
    refused("config-text", &config(b"not json"), &["tokenizer_config.json", "not JSON"]);
    refused("config-list", &config(b"[1]"), &["object"]);
    refused("config-deep", &config(Box::leak("[".repeat(100_000).into_bytes().into())), &["not JSON"]);
    refused("class-number", &config(br#"{"tokenizer_class": 7}"#), &["tokenizer_class"]);
    refused(
        "class-unknown",
        &config(br#"{"tokenizer_class": "LlamaTokenizer"}"#),
        &["LlamaTokenizer", "tokenizer.json"],
    );
    refused("flag", &config(br#"{"do_lower_case": "yes"}"#), &["do_lower_case", "true or false"]);
    refused("name", &config(br#"{"cls_token": 7}"#), &["cls_token"]);
    refused("null", &config(br#"{"cls_token": null}"#), &["cls_token"]);
    refused("renamed", &config(br#"{"sep_token": "</s>"}"#), &["</s>"]);
    refused("added-list", &config(br#"{"added_tokens_decoder": []}"#), &["added_tokens_decoder"]);
    refused(
        "added-key",
        &config(br#"{"added_tokens_decoder": {"x": {"content": "y"}}}"#),
        &["added_tokens_decoder"],
    );
    refused(
        "added-id",
        &config(br#"{"added_tokens_decoder": {"9": {"content": "<new>"}}}"#),
        &["<new>", "9"],
    );

    let file = |json: &'static [u8]| [("tokenizer.json", json)];
    refused("json-text", &file(b"\x00\x01"), &["tokenizer.json", "not JSON"]);
    refused("json-other", &file(b"{}"), &["tokenizer.json", "not a tokenizer"]);
    refused("json-model", &file(br#"{"model": {"type": "WordPiece", "vocab": 7}}"#), &["not a tokenizer"]);
    let model = |json: &'static [u8]| [("tokenizer.json", json), ("tokenizer_config.json", class)];
    refused(
        "piece-model",
        &model(br#"{"model": {"type": "BPE", "vocab": {}, "merges": []}}"#),
        &["BPE", "WordPiece"],
    );
    refused("piece-id", &model(br#"{"model": {"vocab": {"a": 4294967295}}}"#), &["4294967295"]);
    refused("piece-negative", &model(br#"{"model": {"vocab": {"a": -1}}}"#), &["-1"]);
    let path = folder("file", &[("vocab.txt", &words)]).join("vocab.txt");
    assert!(Tokenizer::load(path).unwrap_err().to_string().contains("folder"));
    assert!(Tokenizer::load("/no/such/folder").is_err());
}

/// Of two equal lines the last counts.
#[test]
fn equal_lines() {
    let files: [(&str, &[u8]); 1] = [("vocab.txt", b"[UNK]\n[CLS]\n[SEP]\na\nb\na\n")];
    let tokenizer = Tokenizer::load(folder("equal", &files)).unwrap();
    assert_eq!(tokenizer.encode_plain("a b").unwrap().ids, [5, 4]);
    assert_eq!((tokenizer.len(), tokenizer.token(3), tokenizer.mask_id()), (6, None, None));
    // A token can then not be added: the id that it would get is taken.
    let more: (&str, &[u8]) = ("added_tokens.json", br#"{"<x>": 5}"#);
    refused("equal-added", &[files[0], more], &["<x>", "5", "equal lines"]);
}

/// A template that names what it does not define makes the tokenizers crate panic.
#[test]
fn a_damaged_template_is_an_error() {
    let saved = fs::read(golden().join("saved/tokenizer.json")).unwrap();
    let mut file: Value = serde_json::from_slice(&saved).unwrap();
    file["post_processor"]["special_tokens"] = json!({});
    let bytes = file.to_string();
    let tokenizer = Tokenizer::load(folder("template", &[("tokenizer.json", bytes.as_bytes())]));
    // Refused now or at the first text; either way by an error.
    if let Ok(tokenizer) = tokenizer {
        let error = tokenizer.encode("a").unwrap_err().to_string();
        assert!(error.contains("tokenizer.json"), "{error}");
        assert_eq!(tokenizer.encode_plain("the").unwrap().len(), 1);
    }
}

/// Pipes and devices are refused before they are opened.
#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    type Make<'a> = &'a dyn Fn(&Path);
    let words = vocabulary();
    let saved = fs::read(golden().join("saved/tokenizer.json")).unwrap();
    let names = ["vocab.txt", "tokenizer.json", "tokenizer_config.json", "config.json"];
    for name in names.into_iter().chain(["special_tokens_map.json", "added_tokens.json"]) {
        let make: [(&str, Make); 4] = [
            ("pipe", &|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
            ("zero", &|path| symlink("/dev/zero", path).unwrap()),
            ("null", &|path| symlink("/dev/null", path).unwrap()),
            ("folder", &|path| fs::create_dir(path).unwrap()),
        ];
        for (what, make) in make {
            // The one that is asked for is the one that is wrong.
            let others: &[(&str, &[u8])] = match name {
                "vocab.txt" => &[],
                "tokenizer.json" | "config.json" => &[("vocab.txt", &words)],
                _ => &[("tokenizer.json", &saved)],
            };
            let folder = folder(&format!("{what}-{name}"), others);
            make(&folder.join(name));
            let error = Tokenizer::load(folder).map(|tokenizer| tokenizer.kind()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("not a regular file"), "{what}: {error}");
        }
    }
}

/// A `tokenizer.json` of these parts, and a vocabulary of letters.
fn made(name: &str, parts: Value) -> roformer::Result<Tokenizer> {
    let vocabulary: serde_json::Map<String, Value> =
        ["[UNK]", "a", "b", "é"].iter().zip(0..).map(|(token, id)| (token.to_string(), json!(id))).collect();
    let mut file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    file.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    Tokenizer::load(folder(name, &[("tokenizer.json", file.to_string().as_bytes())]))
}

/// Steps that each double a text: the error comes before the memory is asked for.
#[test]
fn a_text_does_not_grow_without_bound() {
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let between = json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "a".repeat(40)});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let sequence =
        |list: &str, step: &Value, count: usize| json!({"type": "Sequence", list: vec![step; count]});
    for (name, part) in [
        ("grows-replace", json!({"normalizer": sequence("normalizers", &double, 30)})),
        ("grows-regex", json!({"normalizer": sequence("normalizers", &between, 30)})),
        ("grows-prepend", json!({"normalizer": {"type": "Prepend", "prepend": "a".repeat(1 << 20)}})),
        ("grows-bytes", json!({"normalizer": sequence("normalizers", &json!({"type": "ByteLevel"}), 30)})),
        ("grows-cut", json!({"pre_tokenizer": sequence("pretokenizers", &bytes, 30)})),
    ] {
        let tokenizer = made(name, part).unwrap();
        let error = tokenizer.encode("aéb").unwrap_err().to_string();
        assert!(error.contains("tokenizer.json") && error.contains("times as many"), "{name}: {error}");
        assert!(error.lines().count() == 1 && tokenizer.encode("").is_ok(), "{name}");
    }
    // Back to text there is always a way: the tokens as they are.
    let spaces = json!({"type": "BPEDecoder", "suffix": ""});
    for step in [&spaces, &double, &between] {
        let tokenizer = made("grows-back", json!({"decoder": sequence("decoders", step, 30)})).unwrap();
        assert_eq!(tokenizer.decode(&[1, 2]), "a b", "{step}");
    }
    let blanks = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "éé"});
    let tokenizer = made("grows-a-little", json!({"decoder": sequence("decoders", &blanks, 1)})).unwrap();
    assert_eq!(tokenizer.decode(&[1, 2, 1]), "éébéé");
    // Tokens that are normalised when they are loaded.
    let token = json!({"id": 4, "content": "aéb", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false});
    let loaded = made(
        "grows-added",
        json!({"added_tokens": [token], "normalizer": sequence("normalizers", &double, 30)}),
    );
    assert!(loaded.unwrap_err().to_string().contains("times as many"));
    // As far as tokenizers in use go, all is as it was.
    let metaspace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "a"});
    let steps = json!({"type": "Sequence", "normalizers": [spaces, metaspace, {"type": "NFKC"}]});
    let split = json!({"type": "Split", "pattern": {"String": "▁"}, "behavior": "Removed", "invert": false});
    let tokenizer = made("grows-little", json!({"normalizer": steps, "pre_tokenizer": split})).unwrap();
    let encoding = tokenizer.encode("a b    é x").unwrap();
    assert_eq!(encoding.ids, [1, 0, 0]);
    assert_eq!(encoding.offsets, [(0, 1), (2, 9), (10, 11)]);
}

/// A pattern that takes its time at every letter.
#[test]
fn a_pattern_does_not_take_for_ever() {
    let pattern = json!({"Regex": "(?=((?:a|a)*)*b)|a"});
    let split = json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
    let tokenizer = made("pattern", json!({"pre_tokenizer": split})).unwrap();
    // Given up after a second or two, or after as many steps as the engine takes: not after hours.
    drop(tokenizer.encode(&"a".repeat(60_000)));
}

/// Words that the crate would say of its own panics are not said; those of other threads are.
#[test]
fn foreign_panics_are_silent() {
    const MARK: &str = "ROFORMER_TOKENIZER_PANICS";
    if std::env::var_os(MARK).is_some() {
        let mut file: Value =
            serde_json::from_slice(&fs::read(golden().join("saved/tokenizer.json")).unwrap()).unwrap();
        file["post_processor"]["special_tokens"] = json!({});
        let folder = folder("silent", &[("tokenizer.json", file.to_string().as_bytes())]);
        assert!(Tokenizer::load(folder).and_then(|tokenizer| tokenizer.encode("a")).is_err());
        assert!(std::thread::spawn(|| panic!("this is heard")).join().is_err());
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["files::foreign_panics_are_silent", "--exact", "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("panicked").count(), 1, "{said}");
    assert!(said.contains("this is heard"), "{said}");
}

/// The files that are put beside a model: read back they are the same tokenizer, and transformers finds in them what it
/// needs (`golden/tokenizer.py` loads such a folder and compares all texts).
#[test]
fn files_for_transformers() {
    let words = vocabulary();
    let class = |name: &str| json!({"tokenizer_class": name, "do_lower_case": false}).to_string();
    let (by_words, by_characters) = (class("RoFormerTokenizerFast"), class("BertTokenizer"));
    type Files<'a> = &'a [(&'a str, &'a [u8])];
    let sources: [(&str, Files, Kind); 4] = [
        (
            "for-words",
            &[("vocab.txt", &words), ("tokenizer_config.json", by_words.as_bytes())],
            Kind::RoFormer,
        ),
        (
            "for-bert",
            &[("vocab.txt", &words), ("tokenizer_config.json", by_characters.as_bytes())],
            Kind::Bert,
        ),
        // No class is named: what was seen in the vocabulary is said from now on.
        ("for-none", &[("vocab.txt", &words)], Kind::RoFormer),
        (
            "for-older",
            &[("vocab.txt", &words), ("special_tokens_map.json", br#"{"mask_token": "<S>"}"#)],
            Kind::RoFormer,
        ),
    ];
    for (name, files, kind) in sources {
        let source = folder(name, files);
        let first = Tokenizer::load(&source).unwrap();
        assert_eq!(first.kind(), kind);
        let handed = first.files(&source).unwrap();
        let handed: Vec<(&str, &[u8])> = handed.iter().map(|(name, bytes)| (&name[..], &bytes[..])).collect();
        let object = |wanted: &str| -> Value {
            let (_, bytes) = handed.iter().find(|(name, _)| *name == wanted).unwrap();
            serde_json::from_slice(bytes).unwrap()
        };
        let model = &object("tokenizer.json")["model"];
        assert_eq!(
            (&model["type"], &model["vocab"]["今天天气"]),
            (&json!("WordPiece"), &json!(first.id("今天天气")))
        );
        let named = object("tokenizer_config.json")["tokenizer_class"].as_str().unwrap().to_owned();
        assert!(named.starts_with(if kind == Kind::RoFormer {
            "RoFormerTokenizer"
        } else {
            "BertTokenizer"
        }));
        assert!(
            files.iter().all(|file| file.0 == "tokenizer_config.json" || handed.contains(file)),
            "{name}"
        );
        let again = Tokenizer::load(folder(&format!("{name}-again"), &handed)).unwrap();
        assert_eq!((again.kind(), again.len(), again.mask_id()), (kind, first.len(), first.mask_id()));
        for case in cases("cases").iter().step_by(7) {
            let text = text(&case["text"]);
            assert_eq!(again.encode(&text).unwrap(), first.encode(&text).unwrap(), "{name}: {text}");
        }
    }
}
