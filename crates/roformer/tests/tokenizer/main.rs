//! Tokenizers: texts, against Hugging Face transformers (`golden/tokenizer`, made by `golden/tokenizer.py`); and files, as they are
//! published and as nobody should make them.

mod files;
mod texts;

use roformer::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/tokenizer")
}

fn cases(part: &str) -> Vec<Value> {
    let file: Value = serde_json::from_slice(&fs::read(golden().join("cases.json")).unwrap()).unwrap();
    file[part].as_array().unwrap().clone()
}

/// A new folder with these files.
fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tokenizer").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    for (file, bytes) in files {
        fs::write(path.join(file), bytes).unwrap();
    }
    path
}

fn vocabulary() -> Vec<u8> {
    fs::read(golden().join("vocab.txt")).unwrap()
}

/// A tokenizer with the vocabulary of the cases.
fn tokenizer(name: &str, config: Value) -> Tokenizer {
    let config = config.to_string();
    let files: [(&str, &[u8]); 2] =
        [("vocab.txt", &vocabulary()), ("tokenizer_config.json", config.as_bytes())];
    Tokenizer::load(folder(name, &files)).unwrap()
}

fn roformer(name: &str) -> Tokenizer {
    tokenizer(name, json!({"tokenizer_class": "RoFormerTokenizer"}))
}

fn bert(name: &str) -> Tokenizer {
    tokenizer(name, json!({"tokenizer_class": "BertTokenizerFast"}))
}

/// A text, or a fragment and how often it stands.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        list => list[0].as_str().unwrap().repeat(list[1].as_u64().unwrap() as usize),
    }
}
