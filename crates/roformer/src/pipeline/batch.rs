//! Many texts through the model: sorted by length, in batches, the results in the order of the texts.

use super::reader::Wanted;
use super::{Pending, Pipeline};
use crate::error::{Error, Result};
use crate::model::{Call, Input, Output, Scores, States};
use crate::ops::pool::pool;
use crate::ops::{Backend, Span};

/// What the model gave for one text.
pub struct Row<'a> {
    /// `[length, hidden]`, or of what was asked for in their place: `[spans, hidden]`.
    pub states: &'a [f32],
    /// `[hidden]`, where there is a pooler.
    pub pooled: Option<&'a [f32]>,
    /// The head's scores: of a language model `[places, vocabulary]`, else `[labels]` or `[length, labels]`.
    pub scores: &'a [f32],
}

impl<B: Backend> Pipeline<B> {
    /// Whether texts of several lengths run together without padding.
    pub fn packs_texts(&self) -> bool {
        !self.is_one_by_one && !self.model.blueprint().depends_on_length() && self.model.packs_texts()
    }

    /// Runs texts that could be read, sorted by length and in batches, and gives an answer for each in the order they came.
    pub fn run_all<T: 'static>(&self, pending: Vec<Result<Pending<T>>>) -> Vec<Result<T>> {
        let mut results: Vec<Option<Result<T>>> = Vec::with_capacity(pending.len());
        let mut ready = Vec::with_capacity(pending.len());
        for (index, pending) in pending.into_iter().enumerate() {
            match pending {
                Ok(pending) => {
                    ready.push((index, pending));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        // The longest first: a batch too large for memory shows at once.
        ready.sort_by_key(|(_, pending)| std::cmp::Reverse(pending.tokens()));
        let (most, packs) = (self.tokens_at_a_time(), self.packs_texts());
        while let Some((_, first)) = ready.first() {
            let longest = first.tokens();
            let lengths = ready.iter().map(|(_, pending)| pending.tokens());
            let count = match self.model.blueprint().depends_on_length() {
                _ if self.is_one_by_one => 1,
                // Padding would make a text longer, and another.
                true => {
                    lengths.take_while(|length| *length == longest).count().min(most / longest.max(1)).max(1)
                }
                false if packs => packed_size(most, longest, lengths),
                false => batch_size(most, longest, lengths),
            };
            let (places, batch): (Vec<usize>, Vec<Pending<T>>) = ready.drain(..count).unzip();
            for (index, result) in places.into_iter().zip(self.batch(batch)) {
                results[index] = Some(result);
            }
        }
        results.into_iter().flatten().collect()
    }

    /// Runs one batch. If it fails, each of its texts alone: one that is too long spoils no other.
    fn batch<T: 'static>(&self, texts: Vec<Pending<T>>) -> Vec<Result<T>> {
        let length = texts.iter().map(Pending::tokens).max().unwrap_or(0);
        // Where one of the texts needs all of its states, those of all are copied back.
        let spans = spans_of(&texts, length);
        let wanted = spans.as_deref().map_or(States::All, States::Pooled);
        let output = match self.forward(&texts, length, wanted) {
            Ok(output) => output,
            Err(error) if texts.len() == 1 => return vec![Err(error)],
            Err(_) => return texts.into_iter().flat_map(|text| self.batch(vec![text])).collect(),
        };
        let reader = self.reader();
        let hidden = self.model.blueprint().width;
        let states = &output.last_hidden_state;
        let mut taken = 0;
        let logits = output.logits.as_ref();
        let is_placed = logits.is_some_and(|logits| reader.is_language_model() && logits.shape.len() == 2);
        let mut at = 0;
        let count = texts.len();
        let rows = texts.into_iter().enumerate().map(|(index, text)| {
            let Pending { encoding, places, states: wanted, finish } = text;
            let scores = match logits {
                None => &[][..],
                Some(logits) if is_placed => {
                    let vocabulary = logits.shape[1];
                    let scores = &logits.scores[at * vocabulary..][..places.len() * vocabulary];
                    at += places.len();
                    scores
                }
                Some(logits) => {
                    let each = logits.scores.len() / count;
                    let per_token = if logits.shape.len() == 3 { each / length } else { 0 };
                    let len = if per_token > 0 { encoding.len() * per_token } else { each };
                    &logits.scores[index * each..][..len]
                }
            };
            let own = || &states[index * length * hidden..][..encoding.len() * hidden];
            let pooled_here;
            let states = match (wanted, &spans) {
                (Wanted::All, _) => own(),
                (Wanted::Pooled(asked), Some(_)) => {
                    taken += asked.len();
                    &states[(taken - asked.len()) * hidden..taken * hidden]
                }
                (Wanted::Pooled(asked), None) => {
                    pooled_here = pool(own(), hidden, &asked).ok_or(Error::memory("the vectors"))?;
                    &pooled_here
                }
            };
            let row = Row {
                states,
                pooled: output.pooled.as_ref().map(|pooled| &pooled[index * hidden..][..hidden]),
                scores,
            };
            finish(reader, &encoding, row)
        });
        rows.collect()
    }

    /// Runs texts of at most `length` tokens, the shorter ones padded.
    fn forward<T>(&self, texts: &[Pending<T>], length: usize, states: States) -> Result<Output<f32>> {
        let pad = self.tokenizer.pad_id().unwrap_or(0);
        let mut ids = Vec::with_capacity(texts.len() * length);
        let mut types = Vec::with_capacity(texts.len() * length);
        let mut mask = Vec::with_capacity(texts.len() * length);
        for Pending { encoding: text, .. } in texts {
            let padding = length - text.len();
            ids.extend(text.ids.iter().copied().chain(std::iter::repeat_n(pad, padding)));
            types.extend(text.token_types.iter().copied().chain(std::iter::repeat_n(0, padding)));
            mask.extend((0..length).map(|token| token < text.len()));
        }
        let has_types = types.iter().any(|&kind| kind != 0);
        let is_padded = mask.contains(&false);
        let input = Input {
            ids: &ids,
            batch: texts.len(),
            token_types: has_types.then_some(&types[..]),
            mask: is_padded.then_some(&mask[..]),
        };
        let places: Vec<usize> = texts
            .iter()
            .enumerate()
            .flat_map(|(text, pending)| pending.places.iter().map(move |place| text * length + place))
            .collect();
        if self.model.blueprint().encoder.is_some() {
            // What reads a text is the encoder; the decoder writes one.
            return self.model.encode_to(&input, states);
        }
        let scores = if self.reader().is_language_model() { Scores::At(&places) } else { Scores::All };
        self.model.call(&input, Call { scores, states, ..Call::default() })
    }
}

/// The spans of all texts of a batch, `length` rows each; `None` where one of them needs all of its states.
fn spans_of<T>(texts: &[Pending<T>], length: usize) -> Option<Vec<Span>> {
    let mut all = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let Wanted::Pooled(spans) = &text.states else { return None };
        all.extend(spans.iter().map(|span| Span { first: index * length + span.first, ..*span }));
    }
    Some(all)
}

/// How many of the next texts, from the longest on, run as one batch where they need no padding.
fn packed_size(most: usize, longest: usize, lengths: impl Iterator<Item = usize>) -> usize {
    let mut tokens = 0;
    let fits = |&(index, length): &(usize, usize)| {
        tokens += length;
        index == 0 || fits_packed(most, tokens, (index + 1) * longest)
    };
    lengths.enumerate().take_while(fits).count()
}

/// Whether texts of so many tokens, and with padding of so many, are a batch of `most` tokens where they run without. Some heads are given
/// them with padding, which must not take much more memory than the texts.
pub fn fits_packed(most: usize, tokens: usize, padded: usize) -> bool {
    tokens <= most && padded <= most.saturating_mul(8)
}

/// How many of the next texts, from the longest on, run as one batch: at most `most` tokens, and no text that would be padded by
/// more than a quarter once there is a fair number of tokens.
fn batch_size(most: usize, longest: usize, lengths: impl Iterator<Item = usize>) -> usize {
    let fits = |(index, length): &(usize, usize)| {
        let tokens = (index + 1) * longest;
        *index == 0 || tokens <= most && (4 * length >= 3 * longest || tokens <= most / 4)
    };
    lengths.enumerate().take_while(fits).count()
}
