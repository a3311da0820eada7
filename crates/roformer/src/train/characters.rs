//! The vocabulary of characters, and its tokenizer's files.

use serde_json::{Map, Value, json};

/// The special tokens, which come first; ids 0 to 4. Text has none of them, but commands ask for them by name.
const SPECIAL: [(&str, &str); 5] = [
    ("pad_token", "[PAD]"),
    ("unk_token", "[UNK]"),
    ("cls_token", "[CLS]"),
    ("sep_token", "[SEP]"),
    ("mask_token", "[MASK]"),
];

/// The characters of a text: a token each, in the order of Unicode, after the five special tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Characters {
    chars: Vec<char>,
}

impl Characters {
    pub(super) fn new(mut chars: Vec<char>) -> Self {
        chars.sort_unstable();
        Characters { chars }
    }

    /// The characters, without the special tokens.
    pub fn chars(&self) -> &[char] {
        &self.chars
    }

    /// The tokens, special ones included.
    pub fn tokens(&self) -> usize {
        SPECIAL.len() + self.chars.len()
    }

    /// The token of a character of the text.
    pub fn id(&self, char: char) -> Option<u32> {
        self.chars.binary_search(&char).ok().map(|index| (SPECIAL.len() + index) as u32)
    }

    /// `tokenizer.json`: one token a character, whatever it is. BERT's WordPiece would drop spaces and line ends.
    pub(super) fn tokenizer(&self) -> Value {
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
            "post_processor": null,
            "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
        })
    }

    /// `tokenizer_config.json`.
    pub(super) fn tokenizer_config(&self) -> Value {
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
