//! What the files of a model's folder say about its tokenizer.

use crate::error::{Error, Result};
use crate::files::{broken, read};
use crate::weights::brief;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokenizers::AddedToken;

/// The most that is read of one file. The largest tokenizer.json in use has half of that.
pub(super) const LIMIT: u64 = 64 << 20;

/// The most values of a file of JSON: each takes some 100 bytes of memory, and two of the file. The largest in use have a
/// quarter of that.
const MOST_VALUES: usize = 8 << 20;

/// More tokens than any vocabulary has.
const MAX_ID: u64 = 1 << 24;

/// The special tokens that have a name of their own, with BERT's default.
pub(super) const ROLES: [(&str, Option<&str>); 7] = [
    ("unk_token", Some("[UNK]")),
    ("sep_token", Some("[SEP]")),
    ("pad_token", Some("[PAD]")),
    ("cls_token", Some("[CLS]")),
    ("mask_token", Some("[MASK]")),
    ("bos_token", None),
    ("eos_token", None),
];

/// A JSON object; empty if there is no such file.
pub(super) fn object(path: &Path) -> Result<Map<String, Value>> {
    match read(path, LIMIT)? {
        None => Ok(Map::new()),
        Some(bytes) => parse(path, &bytes),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.iter().filter(|byte| b",:[{".contains(byte)).count() > MOST_VALUES {
        return Err(broken(path, format!("JSON of more than {MOST_VALUES} values; expected fewer")));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(broken(path, "JSON, but not an object; download it again")),
        Err(error) => Err(broken(path, format!("not JSON ({error}); download it again"))),
    }
}

/// `tokenizer_config.json` and what belongs to it.
pub(super) struct Settings {
    path: PathBuf,
    fields: Map<String, Value>,
    /// Tokens beside the vocabulary or with rules of their own, with the id that the file gives them.
    pub(super) added: Vec<(Option<u64>, AddedToken)>,
}

impl Settings {
    /// Reads `tokenizer_config.json`; where that lists no added tokens, `special_tokens_map.json`, `added_tokens.json`
    /// and the added tokens of `tokenizer.json` too, as transformers does.
    pub(super) fn read(folder: &Path, model: Option<&Map<String, Value>>) -> Result<Self> {
        let path = folder.join("tokenizer_config.json");
        let mut settings = Settings { fields: object(&path)?, path, added: Vec::new() };
        match settings.fields.get("added_tokens_decoder") {
            Some(Value::Object(tokens)) => {
                for (id, token) in tokens {
                    let id = id
                        .parse()
                        .map_err(|_| settings.wrong("added_tokens_decoder", "keys that are ids"))?;
                    settings.added.push((Some(id), settings.token("added_tokens_decoder", token)?));
                }
            }
            Some(Value::Null) | None => settings.read_older(folder, model)?,
            Some(_) => return Err(settings.wrong("added_tokens_decoder", "an object")),
        }
        settings.added.sort_by_key(|(id, _)| *id);
        settings.add_special()?;
        Ok(settings)
    }

    fn read_older(&mut self, folder: &Path, model: Option<&Map<String, Value>>) -> Result<()> {
        for (name, value) in object(&folder.join("special_tokens_map.json"))? {
            self.fields.insert(name, value);
        }
        for (content, id) in object(&folder.join("added_tokens.json"))? {
            let special = ROLES.iter().any(|(role, _)| self.name(role).ok().flatten() == Some(&content));
            self.added.push((id.as_u64(), AddedToken::from(content, special)));
        }
        for token in model.and_then(|model| model.get("added_tokens")?.as_array()).into_iter().flatten() {
            let id = token.get("id").and_then(Value::as_u64);
            let token = self.token("added_tokens", token)?;
            self.added.retain(|(_, known)| known.content != token.content);
            self.added.push((id, token));
        }
        Ok(())
    }

    /// The special tokens that are named, unless they are among the added tokens already.
    fn add_special(&mut self) -> Result<()> {
        let mut special = Vec::new();
        for (role, default) in ROLES {
            match (self.fields.get(role), default) {
                (Some(Value::Null), _) | (None, None) => {}
                (Some(value), _) => special.push(self.token(role, value)?),
                (None, Some(default)) => special.push(AddedToken::from(default, true)),
            }
        }
        for (_, token) in &mut self.added {
            token.special |= special.iter().any(|named| named.content == token.content);
        }
        for list in ["extra_special_tokens", "additional_special_tokens"] {
            for token in self.fields.get(list).and_then(Value::as_array).into_iter().flatten() {
                special.push(self.token(list, token)?);
            }
        }
        for token in special {
            if !self.added.iter().any(|(_, known)| known.content == token.content) {
                self.added.push((None, token.special(true)));
            }
        }
        Ok(())
    }

    fn wrong(&self, field: &str, expected: &str) -> Error {
        broken(&self.path, format!("`{field}` is not usable; expected {expected}"))
    }

    /// A token as files write it: a string, or an object with `content` and rules.
    fn token(&self, field: &str, value: &Value) -> Result<AddedToken> {
        if let Some(content) = value.as_str() {
            return Ok(AddedToken::from(content, true));
        }
        let flag = |name| value.get(name).and_then(Value::as_bool);
        let Some(content) = value.get("content").and_then(Value::as_str) else {
            return Err(self.wrong(field, "a string, or an object with `content`"));
        };
        let special = flag("special").unwrap_or(ROLES.iter().any(|(role, _)| *role == field));
        Ok(AddedToken::from(content, special)
            .normalized(flag("normalized").unwrap_or(!special))
            .single_word(flag("single_word").unwrap_or(false))
            .lstrip(flag("lstrip").unwrap_or(false))
            .rstrip(flag("rstrip").unwrap_or(false)))
    }

    /// The content of a named special token.
    pub(super) fn name(&self, role: &str) -> Result<Option<&str>> {
        match self.fields.get(role) {
            Some(Value::Null) => Ok(None),
            Some(Value::String(name)) => Ok(Some(name)),
            Some(value) => match value.get("content").and_then(Value::as_str) {
                Some(name) => Ok(Some(name)),
                None => Err(self.wrong(role, "a string, or an object with `content`")),
            },
            None => Ok(ROLES.iter().find(|(name, _)| *name == role).and_then(|(_, default)| *default)),
        }
    }

    /// `tokenizer_class`.
    pub(super) fn class(&self) -> Result<Option<&str>> {
        match self.fields.get("tokenizer_class") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(class)) => Ok(Some(class)),
            Some(_) => Err(self.wrong("tokenizer_class", "a string")),
        }
    }

    /// A field that is true or false; none where it is absent or null.
    pub(super) fn flag(&self, field: &str) -> Result<Option<bool>> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(field, "true or false")),
        }
    }
}

/// The tokens of a WordPiece model, and the file that they are from.
pub(super) struct Vocabulary {
    pub(super) path: PathBuf,
    pub(super) ids: HashMap<String, u32>,
}

impl Vocabulary {
    /// `vocab.txt`: a token per line, numbered from 0. Of two equal lines the last counts, as in transformers.
    pub(super) fn from_text(path: PathBuf, bytes: Vec<u8>) -> Result<Self> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let line =
                error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count();
            broken(&path, format!("line {} is not UTF-8; save the file as UTF-8", line + 1))
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let ids: HashMap<String, u32> =
            text.lines().map(|line| line.trim_end().to_owned()).zip(0..).collect();
        Self { path, ids }.checked()
    }

    /// The vocabulary of the WordPiece model in a `tokenizer.json`.
    pub(super) fn from_json(path: PathBuf, file: &Map<String, Value>) -> Result<Self> {
        let model = file.get("model");
        let kind = model.and_then(|model| model.get("type")?.as_str()).unwrap_or("WordPiece");
        let vocabulary = model.and_then(|model| model.get("vocab")?.as_object());
        let Some(vocabulary) = vocabulary.filter(|_| kind == "WordPiece") else {
            let reason = format!("model of type {}; expected a WordPiece with a `vocab` object", brief(kind));
            return Err(broken(&path, reason));
        };
        let mut ids = HashMap::with_capacity(vocabulary.len());
        for (token, id) in vocabulary {
            let Some(id) = id.as_u64().filter(|&id| id < MAX_ID) else {
                let reason = format!(
                    "id {} of `{}`; expected one below {MAX_ID}",
                    brief(&id.to_string()),
                    brief(token)
                );
                return Err(broken(&path, reason));
            };
            ids.insert(token.clone(), id as u32);
        }
        Self { path, ids }.checked()
    }

    fn checked(self) -> Result<Self> {
        if self.ids.keys().all(String::is_empty) {
            return Err(broken(
                &self.path,
                "no token at all; expected a vocabulary, a token per line; download it again",
            ));
        }
        if self.ids.len() as u64 > MAX_ID {
            return Err(broken(&self.path, format!("{} tokens; expected at most {MAX_ID}", self.ids.len())));
        }
        Ok(self)
    }

    /// Whether there are words of two or more Chinese characters, as only vocabularies made with jieba have.
    pub(super) fn has_words(&self) -> bool {
        self.ids.keys().any(|token| token.chars().filter(|&c| super::words::is_chinese(c)).count() >= 2)
    }
}

/// `tokenizer.json` as JSON.
pub(super) fn parsed(path: &Path, bytes: &Option<Vec<u8>>) -> Result<Option<Map<String, Value>>> {
    bytes.as_ref().map(|bytes| parse(path, bytes)).transpose()
}
