//! Labels of texts and of tokens.

use super::{Pending, Pipeline, Reader, largest, only, softmax};
use crate::error::Result;
use crate::model::{HeadKind, Problem};
use crate::ops::Backend;
use rayon::prelude::*;

/// A label and its probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The name that the model's configuration gives it.
    pub label: String,
    /// Its probability; the model's number itself for a regression.
    pub score: f32,
}

/// The label of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLabel {
    /// The likeliest label.
    pub label: String,
    /// Its probability.
    pub score: f32,
    /// The token's place in the text, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl<B: Backend> Pipeline<B> {
    /// All labels of a text, the likeliest first.
    pub fn classify(&self, text: &str) -> Result<Vec<Label>> {
        only(self.classify_all(&[text]))
    }

    /// The same for many texts.
    pub fn classify_all(&self, texts: &[impl AsRef<str> + Sync]) -> Vec<Result<Vec<Label>>> {
        let alone: Vec<(&str, Option<&str>)> = texts.iter().map(|text| (text.as_ref(), None)).collect();
        self.run_all(self.reader().classify_all(&alone, false))
    }

    /// All labels of pairs of texts, such as a premise and what may follow from it.
    pub fn classify_pairs(
        &self,
        pairs: &[(impl AsRef<str> + Sync, impl AsRef<str> + Sync)],
    ) -> Vec<Result<Vec<Label>>> {
        let pairs: Vec<(&str, Option<&str>)> =
            pairs.iter().map(|(a, b)| (a.as_ref(), Some(b.as_ref()))).collect();
        self.run_all(self.reader().classify_all(&pairs, false))
    }

    /// The likeliest label of every token of a text.
    pub fn classify_tokens(&self, text: &str) -> Result<Vec<TokenLabel>> {
        only(self.classify_tokens_all(&[text]))
    }

    /// The same for many texts.
    pub fn classify_tokens_all(&self, texts: &[impl AsRef<str> + Sync]) -> Vec<Result<Vec<TokenLabel>>> {
        self.run_all(self.reader().classify_tokens_all(texts))
    }
}

impl Reader<'_> {
    /// All labels of texts, or of pairs of them, the likeliest first. Scores are probabilities, or the model's own numbers if they
    /// are to be `raw`.
    pub fn classify_all(
        &self,
        texts: &[(&str, Option<&str>)],
        raw: bool,
    ) -> Vec<Result<Pending<Vec<Label>>>> {
        let fits = self.head == HeadKind::SequenceClassification;
        let read = |&(text, pair): &(&str, Option<&str>)| {
            self.require(
                "classify",
                fits,
                "one that classifies texts (such as RoFormerForSequenceClassification)",
            )?;
            Ok(Pending::new(self.encode(text, pair)?, Vec::new(), move |reader, _, row| {
                let mut scores = row.scores.to_vec();
                match reader.blueprint.labels.problem {
                    _ if raw => {}
                    Problem::OneLabel => softmax(&mut scores),
                    Problem::SeveralLabels => {
                        scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp()));
                    }
                    Problem::Regression => {}
                }
                let order = largest(&scores, scores.len()).into_iter();
                Ok(order.map(|label| reader.label(label, scores[label])).collect())
            }))
        };
        texts.par_iter().map(read).collect()
    }

    /// The likeliest label of every token of each text.
    pub fn classify_tokens_all(
        &self,
        texts: &[impl AsRef<str> + Sync],
    ) -> Vec<Result<Pending<Vec<TokenLabel>>>> {
        let fits = self.head == HeadKind::TokenClassification;
        let read = |text: &str| {
            self.require(
                "token labels",
                fits,
                "one that classifies tokens (such as RoFormerForTokenClassification)",
            )?;
            Ok(Pending::new(self.encode(text, None)?, Vec::new(), |reader, encoding, row| {
                let tokens = row.scores.chunks_exact(reader.blueprint.classes()).enumerate();
                let real = tokens.filter(|(token, _)| encoding.sequence[*token].is_some());
                let label = |(token, scores): (usize, &[f32])| {
                    let mut scores = scores.to_vec();
                    softmax(&mut scores);
                    let best = largest(&scores, 1)[0];
                    let Label { label, score } = reader.label(best, scores[best]);
                    let (start, end) = encoding.offsets[token];
                    TokenLabel { label, score, start, end }
                };
                Ok(real.map(label).collect())
            }))
        };
        texts.par_iter().map(|text| read(text.as_ref())).collect()
    }

    fn label(&self, label: usize, score: f32) -> Label {
        Label { label: self.blueprint.labels.name(label), score }
    }
}
