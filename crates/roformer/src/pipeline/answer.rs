//! The part of a text that answers a question.

use super::batch::{Row, nowhere};
use super::{Pipeline, only, softmax};
use crate::error::{Error, Result};
use crate::model::HeadKind;
use crate::ops::Backend;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The probability of its start times that of its end.
    pub score: f32,
    /// The answer.
    pub text: String,
    /// Its place in the context, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Answers have at most so many tokens.
const LONGEST: usize = 64;

impl<B: Backend> Pipeline<B> {
    /// The part of `context` that answers `question`.
    pub fn answer(&self, question: &str, context: &str) -> Result<Answer> {
        only(self.answer_all(&[(question, context)]))
    }

    /// The same for many questions, each with its context.
    pub fn answer_all(
        &self,
        questions: &[(impl AsRef<str> + Sync, impl AsRef<str> + Sync)],
    ) -> Vec<Result<Answer>> {
        let fits = self.model.head() == HeadKind::QuestionAnswering;
        let encodings = self.encode_pairs(questions).into_iter().map(|encoding| {
            self.require("answer", fits, "one that answers questions (RoFormerForQuestionAnswering)")?;
            let encoding = encoding?;
            match encoding.sequence.contains(&Some(1)) {
                true => Ok(encoding),
                false => Err(Error::input("the context", "without tokens", "a text that holds the answer")),
            }
        });
        let places = self.each(encodings.collect(), nowhere, |encoding, row: Row| {
            // Only the context can hold the answer.
            let context: Vec<usize> =
                (0..encoding.len()).filter(|&token| encoding.sequence[token] == Some(1)).collect();
            let column = |column: usize| {
                let mut scores: Vec<f32> =
                    context.iter().map(|token| row.scores[2 * token + column]).collect();
                softmax(&mut scores);
                scores
            };
            let (score, first, last) = best_span(&column(0), &column(1));
            Ok((score, encoding.offsets[context[first]].0, encoding.offsets[context[last]].1))
        });
        let answers = places.into_iter().zip(questions).map(|(place, (_, context))| {
            let (score, start, end) = place?;
            Ok(Answer { score, text: context.as_ref()[start..end].to_string(), start, end })
        });
        answers.collect()
    }
}

/// The likeliest first and last token, with their probability.
fn best_span(starts: &[f32], ends: &[f32]) -> (f32, usize, usize) {
    let mut best = (-1.0, 0, 0);
    for (first, &start) in starts.iter().enumerate() {
        for (last, &end) in ends.iter().enumerate().skip(first).take(LONGEST) {
            if start * end > best.0 {
                best = (start * end, first, last);
            }
        }
    }
    best
}
