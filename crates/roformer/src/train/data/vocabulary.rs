//! What a run has to know of its vocabulary once the text is tokens: how many there are, those with a meaning of their own,
//! what goes around a text, and the files by which others read it.

use crate::error::{Error, Result};
use crate::tokenizer::{Encoding, Tokenizer};
use std::path::Path;

/// Tokens around texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub before: Vec<u32>,
    /// After a text that is alone or the last.
    pub after: Vec<u32>,
    /// Between two texts.
    pub between: Vec<u32>,
    /// The segment of a second text.
    pub second: u32,
    /// The segments of what is after a text that is alone, and after a second one.
    pub ends: [Vec<u32>; 2],
}

/// The vocabulary of a run.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Tokens that there are.
    pub(crate) tokens: usize,
    pub(crate) pad: u32,
    /// The token that hides another.
    pub(crate) mask: Option<u32>,
    pub(crate) frame: Frame,
    /// What ends a text in a stream of several.
    pub(crate) end: Option<u32>,
    /// What stands for text that is in none of the tokens.
    pub(crate) unknown: Option<u32>,
    /// The tokens that are single digits, rising.
    pub(crate) digits: Vec<u32>,
    /// The files of the tokenizer, by name.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

/// The tokens that are single digits, at the beginning of a word or, in WordPiece, within one.
pub(crate) fn digits(id: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
    let of = |digit: u32| [id(&digit.to_string()), id(&format!("##{digit}"))];
    let mut all: Vec<u32> = (0..10).flat_map(of).flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Vocabulary {
    /// The vocabulary of a tokenizer that was loaded from this folder.
    pub(crate) fn of(tokenizer: &Tokenizer, folder: &Path) -> Result<Self> {
        Ok(Vocabulary {
            tokens: tokenizer.len(),
            // Padding counts for nothing, whatever it is.
            pad: tokenizer.pad_id().unwrap_or(0),
            mask: tokenizer.mask_id(),
            frame: frame(tokenizer)?,
            end: tokenizer.eos_id().or(tokenizer.sep_id()),
            unknown: tokenizer.unk_id(),
            digits: digits(|token| tokenizer.id(token)),
            files: tokenizer.files(folder)?,
        })
    }

    /// Tokens that there are.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The token that hides another, which a masked model needs.
    pub(crate) fn needed_mask(&self) -> Result<u32> {
        self.mask.ok_or_else(|| {
            Error::input(
                "the tokenizer",
                "one without a mask token",
                "one with `mask_token`, for a masked model",
            )
        })
    }
}

/// What the tokenizer puts around texts, and of which segments that is: seen on two short ones.
fn frame(tokenizer: &Tokenizer) -> Result<Frame> {
    let one = tokenizer.encode("a")?;
    let two = tokenizer.encode_pair("a", "b")?;
    let run = |encoding: &Encoding, from: usize| -> Vec<u32> {
        let rest = encoding.ids.iter().zip(&encoding.sequence).skip(from);
        rest.take_while(|(_, text)| text.is_none()).map(|(&id, _)| id).collect()
    };
    let past = |encoding: &Encoding, text: u8| {
        encoding.sequence.iter().rposition(|&of| of == Some(text)).map_or(0, |last| last + 1)
    };
    let has_texts = two.sequence.contains(&Some(0)) && two.sequence.contains(&Some(1));
    let second = two.sequence.iter().position(|&text| text == Some(1));
    let (after, second) = (run(&one, past(&one, 0)), second.map_or(0, |at| two.token_types[at]));
    // XLNet's last token is of a segment of its own.
    let end = |encoding: &Encoding, from: usize, usual: u32| {
        let kinds = encoding.token_types.iter().skip(from).copied().chain(std::iter::repeat(usual));
        kinds.take(after.len()).collect()
    };
    let frame = Frame {
        before: run(&one, 0),
        between: run(&two, past(&two, 0)),
        second,
        ends: [end(&one, past(&one, 0), 0), end(&two, past(&two, 1), second)],
        after,
    };
    // A tokenizer that knows neither letter is none for text.
    match has_texts && one.sequence.contains(&Some(0)) {
        true => Ok(frame),
        false => Err(Error::input("the tokenizer", "one that reads no token in `a` and `b`", "one for text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// XLNet's: a text, `<sep>` of its segment, `<cls>` of one of its own.
    #[test]
    fn what_is_after_a_text_has_its_own_segments() {
        let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
        let token = |id: &str, kind: u32| json!({"SpecialToken": {"id": id, "type_id": kind}});
        let special = |id: &str, number: u32| json!({"id": id, "ids": [number], "tokens": [id]});
        let rule = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "decoder": null,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "model": {
                "type": "WordLevel", "unk_token": "<unk>",
                "vocab": {"<unk>": 0, "<sep>": 1, "<cls>": 2, "a": 3, "b": 4},
            },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [text("A", 0), token("<sep>", 0), token("<cls>", 2)],
                "pair": [text("A", 0), token("<sep>", 0), text("B", 1), token("<sep>", 1), token("<cls>", 2)],
                "special_tokens": {"<sep>": special("<sep>", 1), "<cls>": special("<cls>", 2)},
            },
        });
        let folder = std::env::temp_dir().join(format!("roformer-frame-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tokenizer.json"), rule.to_string()).unwrap();
        let found = frame(&Tokenizer::load(&folder).unwrap()).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let ends = [vec![0, 2], vec![1, 2]];
        assert_eq!(found, Frame { before: vec![], after: vec![1, 2], between: vec![1], second: 1, ends });
    }
}
