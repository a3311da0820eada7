//! What a run trains on: files as tokens, in a folder or in memory.
//!
//! Text is read once or twice, a piece at a time: once for its characters, words and labels where those make the vocabulary,
//! and once to turn it into tokens. The tokens of a run lie in its folder, four bytes each, and are mapped: memory does not
//! grow with the text, a resumed run needs none of its files, and any row can be read at once.
//!
//! ```text
//! files.rs       which files
//! records.rs     what they hold
//! encoder.rs     text to tokens
//! wordpiece.rs   a vocabulary of pieces of words, made from the text
//! vocabulary.rs  what is known of the vocabulary from then on
//! list.rs        tokens in memory or in a file
//! shuffle.rs     an order by chance
//! read.rs        all of it together
//! ```

mod encoder;
mod files;
mod list;
mod read;
mod records;
mod shuffle;
mod vocabulary;
mod wordpiece;

pub(super) use encoder::BEGINS;
pub use read::{Choice, Request};
pub(super) use shuffle::Shuffle;
pub(super) use vocabulary::Frame;
pub use vocabulary::Vocabulary;
pub(crate) use vocabulary::digits;

use crate::error::Result;
use crate::files::{broken, read as read_file, write};
use crate::graph::mix;
use crate::tokenizer::Unknown;
use list::{Bytes, number};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::Path;

/// More bytes than the description of texts has: it lists labels.
const LIMIT: u64 = 64 << 20;

/// Bytes of a document's entry: where it ends, and its answer.
const ENTRY: usize = 12;

/// Texts as tokens, all of them one after the other, with where each ends.
pub struct Data {
    tokens: Bytes,
    documents: Bytes,
    about: About,
    vocabulary: Vocabulary,
    unknown: Unknown,
}

/// What is known of the texts beside their tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct About {
    /// The names of labels, by number.
    pub labels: Vec<String>,
    /// Texts of a row: two for pairs.
    pub texts: usize,
    /// Whether pairs have scores.
    pub has_scores: bool,
    /// The documents and tokens that come before those of files that are kept for validation, where there are such.
    pub kept: Option<[usize; 2]>,
}

impl Data {
    /// Tokens.
    pub fn tokens(&self) -> usize {
        self.tokens.len() / 4
    }

    /// The tokens, one after the other.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        (0..self.tokens()).map(|index| self.token(index) & !BEGINS)
    }

    /// Rows: texts, or pairs of them.
    pub fn rows(&self) -> usize {
        self.documents.len() / ENTRY / self.about.texts.max(1)
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// How many tokens the vocabulary did not have, of those that were read now; none in a run that is resumed.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    /// The names of labels, by number.
    pub fn labels(&self) -> &[String] {
        &self.about.labels
    }

    pub(super) fn about(&self) -> &About {
        &self.about
    }

    /// A token, marked where it begins a word.
    pub(super) fn token(&self, index: usize) -> u32 {
        number(&self.tokens, index)
    }

    /// The tokens of a text.
    pub(super) fn text(&self, document: usize) -> Range<usize> {
        let end = |document: usize| self.entry(document).0 as usize;
        let start = if document == 0 { 0 } else { end(document - 1) };
        start..end(document).max(start)
    }

    /// What was said of a text: a label's number, or the bits of a score.
    pub(super) fn answer(&self, document: usize) -> u32 {
        self.entry(document).1
    }

    fn entry(&self, document: usize) -> (u64, u32) {
        let Some(entry) = self.documents.get(document * ENTRY..(document + 1) * ENTRY) else { return (0, 0) };
        let low = u64::from(number(entry, 0));
        (low | u64::from(number(entry, 1)) << 32, number(entry, 2))
    }

    /// A number that is another for other texts.
    pub fn fingerprint(&self) -> u64 {
        let part = |hash: u64, bytes: &[u8]| {
            let eights = bytes.chunks(8).map(|chunk| {
                let mut eight = [0; 8];
                eight[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(eight)
            });
            eights.fold(mix(hash ^ bytes.len() as u64), |hash, eight| mix(hash ^ eight))
        };
        let labels = self.about.labels.join("\n");
        let hash = part(self.vocabulary.tokens as u64, labels.as_bytes());
        part(part(hash, &self.tokens), &self.documents)
    }

    /// Writes what is known of the texts into their folder.
    fn describe(&self, folder: &Path) -> Result<()> {
        let About { labels, texts, has_scores, kept } = &self.about;
        let about = json!({
            "labels": labels, "texts": texts, "has_scores": has_scores, "kept": kept,
            "fingerprint": format!("{:016x}", self.fingerprint()),
        });
        write(&folder.join("about.json"), format!("{about:#}\n").as_bytes())
    }

    /// The texts of a folder, and the tokenizer of another.
    pub(super) fn open(folder: &Path, tokenizer: &Path) -> Result<Self> {
        let path = folder.join("about.json");
        let wrong = || broken(&path, "not what a run wrote; expected the folder of a run, unchanged");
        let bytes = read_file(&path, LIMIT)?.ok_or_else(wrong)?;
        let about: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
        let whole = |value: &Value| value.as_u64().and_then(|whole| usize::try_from(whole).ok());
        let labels = about.get("labels").and_then(Value::as_array).ok_or_else(wrong)?;
        let kept = match about.get("kept").and_then(Value::as_array) {
            Some(kept) => match kept.iter().map(whole).collect::<Option<Vec<_>>>().as_deref() {
                Some(&[documents, tokens]) => Some([documents, tokens]),
                _ => return Err(wrong()),
            },
            None => None,
        };
        let (_, vocabulary) = encoder::Encoder::load(tokenizer)?;
        let data = Data {
            tokens: Bytes::map(&folder.join("tokens"))?,
            documents: Bytes::map(&folder.join("documents"))?,
            about: About {
                labels: labels.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                texts: about.get("texts").and_then(whole).ok_or_else(wrong)?,
                has_scores: about.get("has_scores").and_then(Value::as_bool).ok_or_else(wrong)?,
                kept,
            },
            vocabulary,
            unknown: Unknown::default(),
        };
        let fingerprint = about.get("fingerprint").and_then(Value::as_str);
        if fingerprint != Some(&format!("{:016x}", data.fingerprint())) {
            let reason =
                "the tokens in it are not those that the run was begun with; begin anew in another folder";
            return Err(broken(folder, reason));
        }
        Ok(data)
    }
}
