//! The part of a text that answers a question.

use super::{Pending, Pipeline, Reader, only, softmax};
use crate::error::{Error, Result};
use crate::model::HeadKind;
use crate::ops::Backend;
use rayon::prelude::*;

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
        self.run_all(self.reader().answer_all(questions))
    }
}

impl Reader<'_> {
    /// The answers to many questions, each in its context.
    pub fn answer_all(
        &self,
        questions: &[(impl AsRef<str> + Sync, impl AsRef<str> + Sync)],
    ) -> Vec<Result<Pending<Answer>>> {
        let fits = self.head == HeadKind::QuestionAnswering;
        let read = |question: &str, context: &str| {
            self.require("answer", fits, "one that answers questions (RoFormerForQuestionAnswering)")?;
            let encoding = self.encode(question, Some(context))?;
            if !encoding.sequence.contains(&Some(1)) {
                return Err(Error::input("the context", "without tokens", "a text that holds the answer"));
            }
            let text = context.to_string();
            Ok(Pending::new(encoding, Vec::new(), move |_, encoding, row| {
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
                let (start, end) = (encoding.offsets[context[first]].0, encoding.offsets[context[last]].1);
                Ok(Answer { score, text: text[start..end].to_string(), start, end })
            }))
        };
        questions.par_iter().map(|(question, context)| read(question.as_ref(), context.as_ref())).collect()
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
