//! What stands behind a mask.

use super::batch::Row;
use super::{Pipeline, largest, only, softmax};
use crate::error::{Error, Result};
use crate::model::HeadKind;
use crate::ops::Backend;
use crate::tokenizer::Encoding;

/// A token that may stand behind the mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// Its probability.
    pub score: f32,
    /// Its id.
    pub id: u32,
    /// The token, as the vocabulary has it.
    pub token: String,
    /// The text with the token in place of the mask.
    pub text: String,
}

impl<B: Backend> Pipeline<B> {
    /// The likeliest tokens behind the one `[MASK]` of a text.
    pub fn fill_mask(&self, text: &str, top_k: usize) -> Result<Vec<Guess>> {
        only(self.fill_mask_all(&[text], top_k))
    }

    /// The same for many texts.
    pub fn fill_mask_all(&self, texts: &[impl AsRef<str> + Sync], top_k: usize) -> Vec<Result<Vec<Guess>>> {
        let encodings = self.encode_all(texts).into_iter().map(|encoding| {
            let encoding = encoding?;
            self.check_mask(&encoding)?;
            Ok(encoding)
        });
        let guesses = self.each(encodings.collect(), Self::masks, |encoding, row: Row| {
            let mut scores = row.scores.to_vec();
            softmax(&mut scores);
            let place = self.masks(encoding).first().map(|&mask| encoding.offsets[mask]);
            let best = largest(&scores, top_k);
            Ok((place, best.into_iter().map(|id| (id as u32, scores[id])).collect::<Vec<_>>()))
        });
        let named = guesses.into_iter().zip(texts).map(|(guesses, text)| {
            let ((start, end), guesses) =
                guesses.map(|(place, guesses)| (place.unwrap_or_default(), guesses))?;
            let text = text.as_ref();
            Ok(guesses
                .into_iter()
                .map(|(id, score)| {
                    let token = self.tokenizer.token(id).unwrap_or_default();
                    let piece = token.strip_prefix("##").unwrap_or(&token);
                    let text = format!("{}{piece}{}", &text[..start], &text[end..]);
                    Guess { score, id, token, text }
                })
                .collect())
        });
        named.collect()
    }

    /// The places of the masks of a text.
    pub(super) fn masks(&self, encoding: &Encoding) -> Vec<usize> {
        let mask = self.tokenizer.mask_id();
        let is_mask = |&place: &usize| Some(encoding.ids[place]) == mask;
        (0..encoding.len()).filter(is_mask).collect()
    }

    fn check_mask(&self, encoding: &Encoding) -> Result<()> {
        let fits = matches!(self.model.head(), HeadKind::MaskedLm) || self.model.blueprint().is_unilm();
        self.require("fill-mask", fits && self.is_language_model(), "a masked language model")?;
        let name = self.tokenizer.mask_id().and_then(|id| self.tokenizer.token(id));
        let Some(name) = name else {
            return Err(Error::input(
                "the tokenizer",
                "without a mask",
                "one with a mask token, such as [MASK]",
            ));
        };
        match self.masks(encoding).len() {
            1 => Ok(()),
            0 => Err(Error::input("the text", "without a mask", format!("exactly one {name}"))),
            count => Err(Error::input("the number of masks", count, format!("exactly one {name}"))),
        }
    }

    /// Whether the model scores the vocabulary.
    pub(super) fn is_language_model(&self) -> bool {
        matches!(self.model.head(), HeadKind::MaskedLm | HeadKind::CausalLm)
    }
}
