//! The vectors of a text's tokens become one.

use super::CONFIG;
use super::fields::Fields;
use crate::error::{Error, Result};
use crate::ops::{Pool, Span};
use serde_json::Value;
use std::path::Path;
use std::str::FromStr;

/// How the vectors of tokens become one of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The vector of the first token, `[CLS]`.
    Cls,
    /// The largest of all tokens, number by number.
    Max,
    /// The mean over all tokens, `[CLS]` and `[SEP]` included.
    Mean,
    /// The sum over all tokens, divided by the square root of how many they are.
    MeanSqrt,
    /// The mean over all tokens, each counted as often as its place says, from one on.
    Weighted,
    /// The vector of the last token.
    Last,
    /// The model's own pooler, which RoFormer-Sim has.
    Pooler,
}

impl Pooling {
    /// Those that sentence-transformers has, in the order in which it puts their results side by side, with what the newer
    /// and the older files call them.
    const NAMED: [(Pooling, &'static str, &'static str); 6] = [
        (Pooling::Cls, "cls", "pooling_mode_cls_token"),
        (Pooling::Max, "max", "pooling_mode_max_tokens"),
        (Pooling::Mean, "mean", "pooling_mode_mean_tokens"),
        (Pooling::MeanSqrt, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
        (Pooling::Weighted, "weightedmean", "pooling_mode_weightedmean_tokens"),
        (Pooling::Last, "lasttoken", "pooling_mode_lasttoken"),
    ];

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::Cls => "cls",
            Pooling::Max => "max",
            Pooling::Mean => "mean",
            Pooling::MeanSqrt => "mean-sqrt",
            Pooling::Weighted => "weighted",
            Pooling::Last => "last",
            Pooling::Pooler => "pooler",
        }
    }

    /// What becomes the vector of a text of so many tokens, of which the first `skipped` are not pooled. A pooler is the model's own:
    /// asked for here, there is none.
    pub(crate) fn span(self, tokens: usize, skipped: usize) -> Result<Span> {
        let skipped = skipped.min(tokens);
        let left = tokens - skipped;
        let one = |first| Span { first, rows: 1, kind: Pool::Sum { over: 1.0 } };
        let all = |kind| Span { first: skipped, rows: left, kind };
        // What is divided by nothing is nothing.
        let over = |by: f64| by.max(1e-9);
        Ok(match self {
            // Where nothing is left, the first of all tokens: so it is in sentence-transformers.
            Pooling::Cls => one(if left > 0 { skipped } else { 0 }),
            Pooling::Last if left > 0 => one(tokens - 1),
            Pooling::Last => all(Pool::Sum { over: 1.0 }),
            Pooling::Mean => all(Pool::Sum { over: over(left as f64) }),
            Pooling::MeanSqrt => all(Pool::Sum { over: over((left as f64).sqrt()) }),
            Pooling::Weighted => {
                // Tokens keep the places that they have behind the prompt.
                let total = (skipped + 1..=tokens).map(|place| place as f64).sum();
                all(Pool::Places { first: skipped + 1, over: over(total) })
            }
            Pooling::Max if left == 0 => {
                let expected = "a text of its own: its tokens are pooled, and those of the prompt are not";
                return Err(Error::input("the text", "without tokens after the prompt", expected));
            }
            Pooling::Max => all(Pool::Largest),
            Pooling::Pooler => {
                let expected = "cls or mean: this model has no pooler (RoFormer-Sim has one)";
                return Err(Error::input("the pooling", "pooler", expected));
            }
        })
    }
}

impl FromStr for Pooling {
    type Err = Error;

    /// The pooling of a [`name`](Pooling::name).
    fn from_str(name: &str) -> Result<Self> {
        let pooled = Pooling::NAMED.iter().map(|(pooling, ..)| *pooling);
        pooled.chain([Pooling::Pooler]).find(|pooling| pooling.name() == name).ok_or_else(|| {
            let expected = "cls, mean, max, mean-sqrt, weighted, last or pooler";
            Error::input("pooling", format!("{name:?}"), expected)
        })
    }
}

/// The poolings of a module, and whether prompts are pooled too.
pub(super) fn read(folder: &Path) -> Result<(Vec<Pooling>, bool)> {
    let fields = Fields::read(&folder.join(CONFIG))?;
    let older = Pooling::NAMED.map(|(.., older)| older);
    let known = ["pooling_mode", "include_prompt", "embedding_dimension", "word_embedding_dimension"];
    fields.only(&[&known[..], &older].concat())?;
    let includes_prompt = fields.boolean("include_prompt", true)?;
    let by_name = |name: &Value| {
        let found = Pooling::NAMED.iter().find(|(_, newer, _)| name == newer).map(|(pooling, ..)| *pooling);
        let expected = "cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken, or a list of them";
        found.ok_or_else(|| fields.wrong("pooling_mode", expected))
    };
    let mut poolings = match fields.get("pooling_mode") {
        Some(Value::Array(names)) => names.iter().map(by_name).collect::<Result<Vec<_>>>()?,
        Some(name) => vec![by_name(name)?],
        None => {
            let mut active = Vec::new();
            for (pooling, _, older) in Pooling::NAMED {
                if fields.boolean(older, false)? {
                    active.push(pooling);
                }
            }
            active
        }
    };
    if poolings.is_empty() {
        poolings.push(Pooling::Mean);
    }
    Ok((poolings, includes_prompt))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [f32; 8] = [1.0, -1.0, 2.0, -5.0, 6.0, -3.0, 0.0, f32::MIN];

    fn pool(pooling: Pooling, tokens: usize, skipped: usize) -> Vec<f32> {
        crate::ops::pool::pool(&TOKENS[..2 * tokens], 2, &[pooling.span(tokens, skipped).unwrap()]).unwrap()
    }

    #[test]
    fn by_hand() {
        assert_eq!(pool(Pooling::Cls, 3, 0), [1.0, -1.0]);
        assert_eq!(pool(Pooling::Max, 3, 0), [6.0, -1.0]);
        assert_eq!(pool(Pooling::Mean, 3, 0), [3.0, -3.0]);
        let sum = (9.0 / 3f64.sqrt()) as f32;
        assert_eq!(pool(Pooling::MeanSqrt, 3, 0), [sum, -sum]);
        assert_eq!(pool(Pooling::Weighted, 3, 0), [23.0 / 6.0, -20.0 / 6.0]);
        assert_eq!(pool(Pooling::Last, 3, 0), [6.0, -3.0]);
    }

    #[test]
    fn a_prompt_is_left_out_and_counts_as_a_place() {
        assert_eq!(pool(Pooling::Cls, 3, 1), [2.0, -5.0]);
        assert_eq!(pool(Pooling::Max, 3, 1), [6.0, -3.0]);
        assert_eq!(pool(Pooling::Mean, 3, 1), [4.0, -4.0]);
        assert_eq!(pool(Pooling::Weighted, 3, 1), [22.0 / 5.0, -19.0 / 5.0]);
        assert_eq!(pool(Pooling::Last, 3, 1), [6.0, -3.0]);
    }

    #[test]
    fn where_nothing_is_left() {
        for pooling in [Pooling::Mean, Pooling::MeanSqrt, Pooling::Weighted, Pooling::Last] {
            assert_eq!(pool(pooling, 2, 9), [0.0, 0.0]);
        }
        assert_eq!(pool(Pooling::Cls, 2, 2), [1.0, -1.0]);
        let refused = Pooling::Max.span(4, 4).unwrap_err().to_string();
        assert!(refused.contains("without tokens after the prompt"), "{refused}");
    }
}
