//! Text to tokens, as it is read.

use super::vocabulary::Vocabulary;
use crate::error::Result;
use crate::files::{broken, failed};
use crate::tokenizer::{Tokenizer, word_starts};
use crate::train::characters::Characters;
use std::fs;
use std::path::Path;

/// Set in a token that begins a word. No vocabulary is so large.
pub(crate) const BEGINS: u32 = 1 << 31;

/// What turns text into tokens.
pub(super) enum Encoder {
    Characters(Characters),
    Tokenizer(Box<Tokenizer>),
}

impl Encoder {
    /// The tokenizer of a folder, or of a `tokenizer.json` or `vocab.txt` by itself, with its vocabulary.
    pub fn load(path: &Path) -> Result<(Self, Vocabulary)> {
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !path.is_dir() && !["tokenizer.json", "vocab.txt"].contains(&name) {
            let reason = "not a tokenizer; expected `characters`, `wordpiece`, a folder with a tokenizer, its \
                          tokenizer.json or its vocab.txt";
            return Err(broken(path, reason));
        }
        if let Err(error) = fs::metadata(path) {
            return Err(failed(path, error));
        }
        let tokenizer = Tokenizer::load(folder)?;
        let vocabulary = Vocabulary::of(&tokenizer, folder)?;
        Ok((Encoder::Tokenizer(Box::new(tokenizer)), vocabulary))
    }

    /// The tokens of a text, without any around it; those that begin a word are marked, where that is wanted.
    pub fn encode(&self, text: &str, marks_words: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        // Where each token begins.
        let mut starts = Vec::new();
        match self {
            Encoder::Characters(characters) => {
                for (at, char) in text.char_indices() {
                    ids.push(characters.id_or_unknown(char));
                    if marks_words {
                        starts.push(at);
                    }
                }
            }
            Encoder::Tokenizer(tokenizer) => {
                let encoding = tokenizer.encode_plain(text)?;
                ids = encoding.ids;
                starts = encoding.offsets.iter().map(|&(start, _)| start).collect();
            }
        }
        if marks_words {
            mark(&mut ids, &starts, &word_starts(text));
        }
        Ok(ids)
    }
}

/// Marks the first token of each word, given where tokens and words begin, both rising.
fn mark(ids: &mut [u32], starts: &[usize], words: &[usize]) {
    let mut words = words.iter().peekable();
    let mut word = 0;
    let mut last = None;
    for (id, &start) in ids.iter_mut().zip(starts) {
        while let Some(&&next) = words.peek()
            && next <= start
        {
            word = next;
            words.next();
        }
        if last != Some(word) {
            *id |= BEGINS;
            last = Some(word);
        }
    }
}
