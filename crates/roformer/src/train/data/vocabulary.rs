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
    /// The segment of a second text, and of what is after it.
    pub second: u32,
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
    /// The files of the tokenizer, by name.
    pub(crate) files: Vec<(String, Vec<u8>)>,
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

/// What the tokenizer puts around texts: seen on two short ones.
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
    let frame = Frame {
        before: run(&one, 0),
        after: run(&one, past(&one, 0)),
        between: run(&two, past(&two, 0)),
        second: second.map_or(0, |at| two.token_types[at]),
    };
    // A tokenizer that knows neither letter is none for text.
    match has_texts && one.sequence.contains(&Some(0)) {
        true => Ok(frame),
        false => Err(Error::input("the tokenizer", "one that reads no token in `a` and `b`", "one for text")),
    }
}
