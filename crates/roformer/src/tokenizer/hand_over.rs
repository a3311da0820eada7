//! The files by which transformers cuts texts as a tokenizer here does.

use super::{Kind, Rule, Tokenizer, files};
use crate::error::Result;
use crate::files::read;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The files that tokenizers are kept in, whatever their kind.
pub const FILES: [&str; 11] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
];

/// Those of [`FILES`] that a folder has, by name.
pub fn kept(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in FILES {
        if let Some(bytes) = read(&folder.join(name), files::LIMIT)? {
            found.push((name.to_string(), bytes));
        }
    }
    Ok(found)
}

impl Tokenizer {
    /// The files to put beside a model that was trained with this tokenizer, which was loaded from a folder: its own, and
    /// what transformers needs to cut texts alike.
    ///
    /// That is a `tokenizer.json` with the vocabulary (from `vocab.txt` alone, transformers finds none of RoFormer's words),
    /// and the class in `tokenizer_config.json` (without it the model's type decides, which may be another's).
    pub fn files(&self, folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
        let mut all = kept(folder)?;
        let class = match self.kind {
            Kind::RoFormer => "RoFormerTokenizer",
            Kind::Bert => "BertTokenizer",
            Kind::File => return Ok(all),
        };
        let mut put = |name: &str, value: Value| {
            all.retain(|(known, _)| known != name);
            all.push((name.into(), format!("{value:#}\n").into_bytes()));
        };
        put("tokenizer.json", self.json());
        let mut config = files::object(&folder.join("tokenizer_config.json"))?;
        if config.get("tokenizer_class").is_none_or(Value::is_null) {
            config.insert("tokenizer_class".into(), class.into());
            put("tokenizer_config.json", Value::Object(config));
        }
        Ok(all)
    }

    /// `tokenizer.json` as transformers saves it: with BERT's words in the place of jieba's, which cannot be saved; the class
    /// puts them back.
    fn json(&self) -> Value {
        let Rule::Pieces(pieces) = &self.rule else { return Value::Null };
        let mut added: Vec<_> = pieces.get_added_tokens_decoder().into_iter().collect();
        added.sort_by_key(|(id, _)| *id);
        let added: Vec<Value> = added
            .into_iter()
            .map(|(id, token)| {
                json!({
                    "id": id, "content": token.content, "single_word": token.single_word, "lstrip": token.lstrip,
                    "rstrip": token.rstrip, "normalized": token.normalized, "special": token.special,
                })
            })
            .collect();
        let [cls, sep] = [self.cls_id(), self.sep_id()].map(Option::unwrap_or_default);
        let name = |id: u32| self.token(id).unwrap_or_default();
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": pieces.get_normalizer(),
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": template([(&name(cls), cls), (&name(sep), sep)]),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
            "model": pieces.get_model(),
        })
    }
}

/// `[CLS] text [SEP]`, and `[CLS] text [SEP] second [SEP]`: the two tokens, with their ids.
pub(crate) fn template([cls, sep]: [(&str, u32); 2]) -> Value {
    let special = |(name, _): (&str, u32), kind: u32| json!({"SpecialToken": {"id": name, "type_id": kind}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let entry =
        |(name, id): (&str, u32)| (name.to_string(), json!({"id": name, "ids": [id], "tokens": [name]}));
    json!({
        "type": "TemplateProcessing",
        "single": [special(cls, 0), text("A", 0), special(sep, 0)],
        "pair": [special(cls, 0), text("A", 0), special(sep, 0), text("B", 1), special(sep, 1)],
        "special_tokens": Map::from_iter([cls, sep].map(entry)),
    })
}
