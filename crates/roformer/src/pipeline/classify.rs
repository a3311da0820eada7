//! Labels of texts and of tokens.

use super::batch::{Row, nowhere};
use super::{Pipeline, largest, only, softmax};
use crate::error::Result;
use crate::model::{HeadKind, Problem};
use crate::ops::Backend;
use crate::tokenizer::Encoding;

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
        self.label_texts(self.encode_all(texts))
    }

    /// All labels of pairs of texts, such as a premise and what may follow from it.
    pub fn classify_pairs(
        &self,
        pairs: &[(impl AsRef<str> + Sync, impl AsRef<str> + Sync)],
    ) -> Vec<Result<Vec<Label>>> {
        self.label_texts(self.encode_pairs(pairs))
    }

    fn label_texts(&self, encodings: Vec<Result<Encoding>>) -> Vec<Result<Vec<Label>>> {
        let fits = self.model.head() == HeadKind::SequenceClassification;
        let checked = encodings.into_iter().map(|encoding| {
            self.require(
                "classify",
                fits,
                "one that classifies texts (such as RoFormerForSequenceClassification)",
            )?;
            encoding
        });
        self.each(checked.collect(), nowhere, |_: &Encoding, row: Row| {
            let mut scores = row.scores.to_vec();
            match self.model.blueprint().labels.problem {
                Problem::OneLabel => softmax(&mut scores),
                Problem::SeveralLabels => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
                Problem::Regression => {}
            }
            let order = largest(&scores, scores.len()).into_iter();
            Ok(order.map(|label| self.label(label, scores[label])).collect())
        })
    }

    /// The likeliest label of every token of a text.
    pub fn classify_tokens(&self, text: &str) -> Result<Vec<TokenLabel>> {
        only(self.classify_tokens_all(&[text]))
    }

    /// The same for many texts.
    pub fn classify_tokens_all(&self, texts: &[impl AsRef<str> + Sync]) -> Vec<Result<Vec<TokenLabel>>> {
        let fits = self.model.head() == HeadKind::TokenClassification;
        let checked = self.encode_all(texts).into_iter().map(|encoding| {
            self.require(
                "token labels",
                fits,
                "one that classifies tokens (such as RoFormerForTokenClassification)",
            )?;
            encoding
        });
        self.each(checked.collect(), nowhere, |encoding: &Encoding, row: Row| {
            let tokens = row.scores.chunks_exact(self.model.blueprint().classes()).enumerate();
            let real = tokens.filter(|(token, _)| encoding.sequence[*token].is_some());
            let label = |(token, scores): (usize, &[f32])| {
                let mut scores = scores.to_vec();
                softmax(&mut scores);
                let best = largest(&scores, 1)[0];
                let Label { label, score } = self.label(best, scores[best]);
                let (start, end) = encoding.offsets[token];
                TokenLabel { label, score, start, end }
            };
            Ok(real.map(label).collect())
        })
    }

    fn label(&self, label: usize, score: f32) -> Label {
        Label { label: self.model.blueprint().labels.name(label), score }
    }
}
