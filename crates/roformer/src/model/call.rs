//! What a model is given and what it gives, the same for every model here.

use super::cache::Cache;
use super::heads::{Logits, Scores};
use crate::error::{Error, Result};
use crate::ops::{Backend, Cpu, Real, Span};
use std::sync::{Mutex, PoisonError};

/// Token ids of a batch of texts, `[batch, length]`.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Row by row.
    pub ids: &'a [u32],
    /// Texts.
    pub batch: usize,
    /// Segment ids, `[batch, length]`; all 0 if absent.
    pub token_types: Option<&'a [u32]>,
    /// Which tokens are real, `[batch, length]`; all if absent.
    pub mask: Option<&'a [bool]>,
}

/// Another model's output for cross-attention.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a, T> {
    /// `[batch, length, hidden]`
    pub hidden: &'a [T],
    /// Which of its tokens are real, `[batch, length]`; all if absent.
    pub mask: Option<&'a [bool]>,
}

/// What a call of a model is given besides its input; nothing by default.
pub struct Call<'a, T: Real = f32, B: Backend = Cpu> {
    /// Another model's output, for cross-attention.
    pub encoded: Option<Encoded<'a, T>>,
    /// What came before the input; the input is added to it.
    pub cache: Option<&'a mut Cache<T, B>>,
    /// For each text `[batch]` how many tokens are read whole; those after them see only what came before (UniLM). Not
    /// together with a cache.
    pub prefix: Option<&'a [usize]>,
    /// The tokens that a language model scores.
    pub scores: Scores<'a>,
    /// What is copied back of the hidden states.
    pub states: States<'a>,
}

/// What a call copies back of the hidden states. All of them are much, and on a GPU they take as long as the model itself.
#[derive(Clone, Copy, Debug, Default)]
pub enum States<'a> {
    /// All of them.
    #[default]
    All,
    /// What these spans of their rows come to, each within one text, where token t of text b is row b · length + t; and no more.
    Pooled(&'a [Span]),
}

impl<T: Real, B: Backend> Default for Call<'_, T, B> {
    fn default() -> Self {
        Call { encoded: None, cache: None, prefix: None, scores: Scores::All, states: States::All }
    }
}

/// What a forward pass gives.
#[derive(Clone, Debug)]
pub struct Output<T> {
    /// `[batch, length, hidden]`; where spans of them were asked for, `[spans, hidden]`.
    pub last_hidden_state: Vec<T>,
    /// `[batch, hidden]`: RoFormer-Sim's vector of each text, where there is a pooler and no cache.
    pub pooled: Option<Vec<T>>,
    /// The head's scores, where there is one.
    pub logits: Option<Logits<T>>,
}

impl States<'_> {
    /// Nothing: the scores are what is asked for.
    pub const NONE: States<'static> = States::Pooled(&[]);
}

/// Checks an input against a vocabulary and a number of segments; returns batch and length.
pub(super) fn check_input(input: &Input, vocabulary: usize, kinds: usize) -> Result<(usize, usize)> {
    let Input { ids, batch, token_types, mask } = *input;
    if ids.is_empty() || batch == 0 || !ids.len().is_multiple_of(batch) {
        let value = format!("{} for a batch of {batch}", ids.len());
        return Err(Error::input("the number of ids", value, "the same number, at least 1, for each text"));
    }
    if let Some(id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
        return Err(Error::input("a token id", id, format!("less than the vocabulary, {vocabulary}")));
    }
    if let Some(kind) = token_types.unwrap_or(&[]).iter().find(|&&kind| kind as usize >= kinds) {
        return Err(Error::input("a token type", kind, format!("less than {kinds}")));
    }
    for (name, len) in [("token types", token_types.map(<[u32]>::len)), ("the mask", mask.map(<[bool]>::len))]
    {
        if len.is_some_and(|len| len != ids.len()) {
            return Err(Error::input(
                name,
                len.unwrap_or(0),
                format!("one for each of the {} ids", ids.len()),
            ));
        }
    }
    Ok((batch, ids.len() / batch))
}

/// Checks what a call is given besides its input.
pub(super) fn check_call(
    prefix: Option<&[usize]>,
    scores: Scores,
    states: States,
    has_cache: bool,
    batch: usize,
    length: usize,
) -> Result<()> {
    if let Some(prefix) = prefix {
        if has_cache {
            return Err(Error::input("the prefix", "given with a cache", "only one of the two"));
        }
        if prefix.len() != batch || prefix.iter().any(|&prefix| prefix > length) {
            let expected = format!("for each of {batch} texts a number up to {length}");
            return Err(Error::input("the prefix", format!("{prefix:?}"), expected));
        }
    }
    if let States::Pooled(spans) = states
        && let Some(span) = spans.iter().find(|span| span.end().is_none_or(|end| end > batch * length))
    {
        let value = format!("{} rows from row {} on", span.rows, span.first);
        return Err(Error::input(
            "a span of hidden states",
            value,
            format!("within {batch} × {length} rows"),
        ));
    }
    if let Scores::At(places) = scores
        && let Some(place) = places.iter().find(|&&place| place >= batch * length)
    {
        return Err(Error::input("a place to score", place, format!("less than {batch} × {length}")));
    }
    Ok(())
}

/// Memory of forward passes that have ended, for those that follow: one for each that ran at the same time.
pub(super) struct Pool<M>(Mutex<Vec<M>>);

impl<M> Pool<M> {
    pub fn new() -> Self {
        Pool(Mutex::new(Vec::new()))
    }

    /// What is kept, or what `make` makes.
    pub fn take(&self, make: impl FnOnce() -> Result<M>) -> Result<M> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(make, Ok)
    }

    pub fn give_back(&self, memory: M) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }
}
