//! Many texts through the model: sorted by length, in batches, the results in the order of the texts.

use super::Pipeline;
use crate::error::Result;
use crate::model::{Call, Input, Output, Scores};
use crate::ops::Backend;
use crate::tokenizer::Encoding;

/// Tokens of a batch. Enough that products run at full speed, few enough that activations stay near the CPU.
const BATCH_TOKENS: usize = 2048;

/// What the model gave for one text.
pub(super) struct Row<'a> {
    /// `[length, hidden]`
    pub hidden: &'a [f32],
    /// `[hidden]`, where there is a pooler.
    pub pooled: Option<&'a [f32]>,
    /// The head's scores: of a language model `[places, vocabulary]`, else `[labels]` or `[length, labels]`.
    pub scores: &'a [f32],
}

/// Which tokens of a text a language model scores.
pub(super) type Places<B> = fn(&Pipeline<B>, &Encoding) -> Vec<usize>;

/// None of them: for tasks that read hidden states alone.
pub(super) fn nowhere<B: Backend>(_: &Pipeline<B>, _: &Encoding) -> Vec<usize> {
    Vec::new()
}

impl<B: Backend> Pipeline<B> {
    /// Runs texts that could be read and hands what the model gave to `finish`, for each text on its own.
    pub(super) fn each<R>(
        &self,
        encodings: Vec<Result<Encoding>>,
        places: Places<B>,
        finish: impl Fn(&Encoding, Row) -> Result<R>,
    ) -> Vec<Result<R>> {
        let mut results: Vec<Option<Result<R>>> = Vec::with_capacity(encodings.len());
        let mut ready = Vec::with_capacity(encodings.len());
        for (index, encoding) in encodings.into_iter().enumerate() {
            match encoding {
                Ok(encoding) => {
                    ready.push((index, encoding));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        // The longest first: a batch too large for memory shows at once.
        ready.sort_by_key(|(_, encoding)| std::cmp::Reverse(encoding.len()));
        let mut rest = &ready[..];
        while let Some((_, first)) = rest.first() {
            let lengths = rest.iter().map(|(_, encoding)| encoding.len());
            let count = match self.model.blueprint().depends_on_length() {
                _ if self.is_one_by_one => 1,
                // Padding would make a text longer, and another.
                true => lengths
                    .take_while(|length| *length == first.len())
                    .count()
                    .min(BATCH_TOKENS / first.len().max(1))
                    .max(1),
                false => batch_size(first.len(), lengths),
            };
            let (batch, later) = rest.split_at(count);
            let texts: Vec<&Encoding> = batch.iter().map(|(_, encoding)| encoding).collect();
            for ((index, _), result) in batch.iter().zip(self.batch(&texts, places, &finish)) {
                results[*index] = Some(result);
            }
            rest = later;
        }
        results.into_iter().flatten().collect()
    }

    /// Runs one batch. If it fails, each of its texts alone: one that is too long spoils no other.
    fn batch<R>(
        &self,
        texts: &[&Encoding],
        places: Places<B>,
        finish: &impl Fn(&Encoding, Row) -> Result<R>,
    ) -> Vec<Result<R>> {
        let length = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let scored: Vec<Vec<usize>> = texts.iter().map(|text| places(self, text)).collect();
        let output = match self.run(texts, &scored, length) {
            Ok(output) => output,
            Err(error) if texts.len() == 1 => return vec![Err(error)],
            Err(_) => return texts.iter().flat_map(|text| self.batch(&[text], places, finish)).collect(),
        };
        let hidden = self.model.blueprint().width;
        let logits = output.logits.as_ref();
        let is_placed = logits.is_some_and(|logits| self.is_language_model() && logits.shape.len() == 2);
        let mut at = 0;
        let rows = texts.iter().zip(&scored).enumerate().map(|(index, (text, places))| {
            let scores = match logits {
                None => &[][..],
                Some(logits) if is_placed => {
                    let vocabulary = logits.shape[1];
                    let scores = &logits.scores[at * vocabulary..][..places.len() * vocabulary];
                    at += places.len();
                    scores
                }
                Some(logits) => {
                    let each = logits.scores.len() / texts.len();
                    let per_token = if logits.shape.len() == 3 { each / length } else { 0 };
                    let len = if per_token > 0 { text.len() * per_token } else { each };
                    &logits.scores[index * each..][..len]
                }
            };
            let row = Row {
                hidden: &output.last_hidden_state[index * length * hidden..][..text.len() * hidden],
                pooled: output.pooled.as_ref().map(|pooled| &pooled[index * hidden..][..hidden]),
                scores,
            };
            finish(text, row)
        });
        rows.collect()
    }

    /// Runs texts of at most `length` tokens, the shorter ones padded.
    fn run(&self, texts: &[&Encoding], scored: &[Vec<usize>], length: usize) -> Result<Output<f32>> {
        let pad = self.tokenizer.pad_id().unwrap_or(0);
        let mut ids = Vec::with_capacity(texts.len() * length);
        let mut types = Vec::with_capacity(texts.len() * length);
        let mut mask = Vec::with_capacity(texts.len() * length);
        for text in texts {
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
        let places: Vec<usize> = scored
            .iter()
            .enumerate()
            .flat_map(|(text, places)| places.iter().map(move |place| text * length + place))
            .collect();
        if self.model.blueprint().encoder.is_some() {
            // What reads a text is the encoder; the decoder writes one.
            return self.model.encode(&input);
        }
        let scores = if self.is_language_model() { Scores::At(&places) } else { Scores::All };
        self.model.call(&input, Call { scores, ..Call::default() })
    }
}

/// How many of the next texts, from the longest on, run as one batch: at most [`BATCH_TOKENS`], and no text that would be
/// padded by more than a quarter once there is a fair number of tokens.
fn batch_size(longest: usize, lengths: impl Iterator<Item = usize>) -> usize {
    let fits = |(index, length): &(usize, usize)| {
        let tokens = (index + 1) * longest;
        *index == 0 || tokens <= BATCH_TOKENS && (4 * length >= 3 * longest || tokens <= BATCH_TOKENS / 4)
    };
    lengths.enumerate().take_while(fits).count()
}
