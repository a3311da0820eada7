//! Tokens that stand for what a vocabulary does not have.

/// A vocabulary that fits knows all but a few words in a hundred; one of another language, hardly any.
const LARGE: f64 = 0.2;

/// A text or two say nothing.
const ENOUGH: u64 = 100;

/// How many of the tokens of texts were unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Tokens of texts.
    pub tokens: u64,
    /// Those of them that are the unknown one, `[UNK]`.
    pub unknown: u64,
}

impl Unknown {
    /// Counts the tokens of a text; `unknown` is the one that stands for what the vocabulary does not have.
    pub fn add(&mut self, ids: impl Iterator<Item = u32>, unknown: Option<u32>) {
        for id in ids {
            self.tokens += 1;
            self.unknown += u64::from(Some(id) == unknown);
        }
    }

    /// What to say where a large share of enough tokens is unknown.
    ///
    /// ```
    /// use roformer::tokenizer::Unknown;
    /// assert!(Unknown { tokens: 200, unknown: 50 }.warning().unwrap().starts_with("25 % of 200 tokens"));
    /// assert!(Unknown { tokens: 200, unknown: 5 }.warning().is_none());
    /// assert!(Unknown { tokens: 50, unknown: 50 }.warning().is_none());
    /// ```
    pub fn warning(&self) -> Option<String> {
        let Unknown { tokens, unknown } = *self;
        let share = unknown as f64 / tokens.max(1) as f64;
        (tokens >= ENOUGH && share > LARGE).then(|| {
            format!(
                "{:.0} % of {tokens} tokens are unknown to the vocabulary, and the model cannot tell them apart; check \
                 that the tokenizer's files are the model's own, and the language of the texts",
                100.0 * share
            )
        })
    }
}
