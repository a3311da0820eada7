//! The vocabulary of characters, and its tokenizer's files.

use super::data::{Frame, Vocabulary, digits};
use crate::tokenizer::template;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The special tokens, which come first; ids 0 to 4. Text has none of them, but commands ask for them by name.
const SPECIAL: [(&str, &str); 5] = [
    ("pad_token", "[PAD]"),
    ("unk_token", "[UNK]"),
    ("cls_token", "[CLS]"),
    ("sep_token", "[SEP]"),
    ("mask_token", "[MASK]"),
];

/// Their ids.
const PAD: u32 = 0;
const UNKNOWN: u32 = 1;
const CLS: u32 = 2;
const SEP: u32 = 3;
const MASK: u32 = 4;

/// The characters of a text: a token each, in the order of Unicode, after the five special tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Characters {
    chars: Vec<char>,
}

impl Characters {
    pub(super) fn new(chars: BTreeSet<char>) -> Self {
        Characters { chars: chars.into_iter().collect() }
    }

    /// The characters, without the special tokens.
    pub fn chars(&self) -> &[char] {
        &self.chars
    }

    /// The tokens, special ones included.
    pub fn tokens(&self) -> usize {
        SPECIAL.len() + self.chars.len()
    }

    /// The token of a character; none where it is not among them.
    pub fn id(&self, char: char) -> Option<u32> {
        self.chars.binary_search(&char).ok().map(|index| (SPECIAL.len() + index) as u32)
    }

    /// The same, with `[UNK]` for what is not among them.
    pub(super) fn id_or_unknown(&self, char: char) -> u32 {
        self.id(char).unwrap_or(UNKNOWN)
    }

    /// The vocabulary of a run: with `[CLS]` and `[SEP]` around texts, or, for a causal model, with nothing.
    pub(super) fn vocabulary(&self, is_framed: bool) -> Vocabulary {
        let around = |id: u32| if is_framed { vec![id] } else { Vec::new() };
        let json = |value: Value| format!("{value:#}\n").into_bytes();
        Vocabulary {
            tokens: self.tokens(),
            pad: PAD,
            mask: Some(MASK),
            frame: Frame {
                before: around(CLS),
                after: around(SEP),
                between: around(SEP),
                second: u32::from(is_framed),
                ends: [around(0), around(1)],
            },
            end: Some(SEP),
            unknown: Some(UNKNOWN),
            digits: digits(|token| self.id(token.chars().next().filter(|_| token.len() == 1)?)),
            files: vec![
                ("tokenizer.json".into(), json(self.tokenizer(is_framed))),
                ("tokenizer_config.json".into(), json(self.tokenizer_config())),
            ],
        }
    }

    /// `tokenizer.json`: one token per character, whatever it is. BERT's WordPiece would drop spaces and line ends.
    fn tokenizer(&self, is_framed: bool) -> Value {
        let added: Vec<Value> = (0..)
            .zip(SPECIAL)
            .map(|(id, (_, token))| {
                json!({
                    "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true,
                })
            })
            .collect();
        let special = SPECIAL.iter().map(|(_, token)| token.to_string());
        let tokens = special.chain(self.chars.iter().map(char::to_string));
        let vocabulary: Map<String, Value> = tokens.zip(0..).map(|(token, id)| (token, json!(id))).collect();
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": null,
            // A dot does not match a line end, and the flag that makes it is not the same in every engine.
            "pre_tokenizer": {
                "type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": false,
            },
            "post_processor": is_framed.then(|| template([("[CLS]", CLS), ("[SEP]", SEP)])),
            "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
        })
    }

    /// `tokenizer_config.json`.
    fn tokenizer_config(&self) -> Value {
        let mut config = Map::new();
        // Any class but RoFormer's and BERT's own takes tokenizer.json as it is.
        config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
        config.insert("clean_up_tokenization_spaces".into(), json!(false));
        for (role, token) in SPECIAL {
            config.insert(role.into(), json!(token));
        }
        Value::Object(config)
    }
}
