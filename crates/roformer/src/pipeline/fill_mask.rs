//! What stands behind a mask.

use super::{Pending, Pipeline, Reader, largest, only, softmax};
use crate::error::{Error, Result};
use crate::model::HeadKind;
use crate::ops::Backend;
use crate::tokenizer::Encoding;
use rayon::prelude::*;

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
        self.run_all(self.reader().fill_mask_all(texts, top_k))
    }
}

impl Reader<'_> {
    /// The likeliest tokens behind the one mask of each text.
    pub fn fill_mask_all(
        &self,
        texts: &[impl AsRef<str> + Sync],
        top_k: usize,
    ) -> Vec<Result<Pending<Vec<Guess>>>> {
        let read = |text: &str| {
            let encoding = self.encode(text, None)?;
            let place = self.check_mask(&encoding)?;
            let (start, end) = encoding.offsets[place];
            let (before, after) = (text[..start].to_string(), text[end..].to_string());
            Ok(Pending::new(encoding, vec![place], move |reader, _, row| {
                let mut scores = row.scores.to_vec();
                softmax(&mut scores);
                let guess = |id: usize| {
                    let token = reader.tokenizer.token(id as u32).unwrap_or_default();
                    let piece = token.strip_prefix("##").unwrap_or(&token);
                    let text = format!("{before}{piece}{after}");
                    Guess { score: scores[id], id: id as u32, token, text }
                };
                Ok(largest(&scores, top_k).into_iter().map(guess).collect())
            }))
        };
        texts.par_iter().map(|text| read(text.as_ref())).collect()
    }

    /// The places of the masks of a text.
    fn masks(&self, encoding: &Encoding) -> Vec<usize> {
        let mask = self.tokenizer.mask_id();
        let is_mask = |&place: &usize| Some(encoding.ids[place]) == mask;
        (0..encoding.len()).filter(is_mask).collect()
    }

    /// The place of the one mask of a text.
    fn check_mask(&self, encoding: &Encoding) -> Result<usize> {
        let fits = matches!(self.head, HeadKind::MaskedLm) || self.blueprint.is_unilm();
        self.require("fill-mask", fits && self.is_language_model(), "a masked language model")?;
        let name = self.tokenizer.mask_id().and_then(|id| self.tokenizer.token(id));
        let Some(name) = name else {
            return Err(Error::input(
                "the tokenizer",
                "without a mask",
                "one with a mask token, such as [MASK]",
            ));
        };
        match self.masks(encoding)[..] {
            [place] => Ok(place),
            [] => Err(Error::input("the text", "without a mask", format!("exactly one {name}"))),
            ref masks => Err(Error::input("the number of masks", masks.len(), format!("exactly one {name}"))),
        }
    }
}
