//! Text that follows a text: token after token with a cache; and RoFormer-Sim's paraphrases.

use super::Pipeline;
use super::sample::choose;
use super::{Embed, cosine};
use crate::error::{Error, Result};
use crate::model::{Cache, Call, Encoded, HeadKind, Input, Scores};
use crate::ops::Backend;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// How text is generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generate {
    /// Tokens at most.
    pub max_tokens: usize,
    /// Below 1 likely tokens become likelier, above 1 unlikely ones do; at 0 the likeliest token is always taken.
    pub temperature: f32,
    /// Only so many of the likeliest tokens; 0 for all.
    pub top_k: usize,
    /// Only the fewest tokens whose probabilities sum to this.
    pub top_p: f32,
    /// The same seed gives the same text.
    pub seed: u64,
}

impl Default for Generate {
    fn default() -> Self {
        Generate { max_tokens: 128, temperature: 1.0, top_k: 0, top_p: 0.95, seed: 0 }
    }
}

/// A text that says the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Paraphrase {
    /// The text.
    pub text: String,
    /// The cosine of its vector with the original's.
    pub score: f32,
}

/// What generation starts from.
struct Prompt {
    ids: Vec<u32>,
    token_types: Vec<u32>,
}

/// Rounds of samples for one list of paraphrases: many samples are the same text.
const ROUNDS: usize = 4;

impl<B: Backend> Pipeline<B> {
    /// Continues a text; RoFormer-Sim instead writes another that says the same, and a model with an encoder, such as T5, what
    /// it was trained to. What is new is handed to `on_text` piece by piece as it comes, and returned as a whole.
    pub fn generate(&self, text: &str, options: &Generate, mut on_text: impl FnMut(&str)) -> Result<String> {
        self.generate_while(text, options, |piece| {
            on_text(piece);
            ControlFlow::Continue(())
        })
    }

    /// The same, until `on_text` breaks: then what there is so far is returned.
    pub fn generate_while(
        &self,
        text: &str,
        options: &Generate,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<String> {
        let prompt = self.prompt(text, options)?;
        let mut shown = String::new();
        let mut show = |ids: &[u32], is_last: bool| {
            let text = self.tokenizer.decode(ids);
            // A token may be part of a character, and the text of the last token may change with the next.
            let is_whole = is_last || !text.ends_with('\u{fffd}');
            match text.strip_prefix(shown.as_str()).filter(|new| is_whole && !new.is_empty()) {
                Some(new) => {
                    shown.push_str(new);
                    on_text(new)
                }
                None => ControlFlow::Continue(()),
            }
        };
        let mut flow = ControlFlow::Continue(());
        let rows = self.continuations(&prompt, options, 1, 0, |rows| {
            flow = show(&rows[0], false);
            flow
        })?;
        if flow.is_continue() {
            // Whoever listens has all of it then, and nothing is left to be stopped.
            let _ = show(&rows[0], true);
        }
        Ok(self.tokenizer.decode(&rows[0]))
    }

    /// Up to `count` different texts that say the same as this one, the nearest first. For RoFormer-Sim.
    pub fn paraphrase(&self, text: &str, count: usize, options: &Generate) -> Result<Vec<Paraphrase>> {
        let fits = self.model.blueprint().is_unilm() && self.is_language_model();
        self.require("paraphrases", fits, "RoFormer-Sim, which has a pooler and a language model's head")?;
        let prompt = self.prompt(text, options)?;
        // As the tokenizer gives it back, so that a sample of it is recognised.
        let original = self.tokenizer.decode(&prompt.ids);
        let (mut seen, mut texts) = (HashSet::from([original, text.to_string(), String::new()]), Vec::new());
        for round in 0..ROUNDS {
            if texts.len() >= count {
                break;
            }
            let rows = self.continuations(&prompt, options, count, (round * count) as u64, |_| {
                ControlFlow::Continue(())
            })?;
            let new =
                rows.iter().map(|row| self.tokenizer.decode(row)).filter(|text| seen.insert(text.clone()));
            texts.extend(new);
        }
        let original = self.embed(text, Embed::default())?;
        let vectors = self.embed_all(&texts, Embed::default());
        let scored = texts.into_iter().zip(vectors);
        let scored = scored.map(|(text, vector)| Ok(Paraphrase { text, score: cosine(&original, &vector?) }));
        let mut ranked = scored.collect::<Result<Vec<_>>>()?;
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranked.truncate(count);
        Ok(ranked)
    }

    /// The tokens that generation starts from.
    fn prompt(&self, text: &str, options: &Generate) -> Result<Prompt> {
        let (model, wanted) =
            (self.model.blueprint(), "RoFormer-Sim, a RoFormerForCausalLM or another causal language model");
        let fits = model.is_unilm() || model.is_causal() && model.head == HeadKind::CausalLm;
        self.require("generate", fits && self.is_language_model(), wanted)?;
        let (temperature, top_p) = (options.temperature, options.top_p);
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Err(Error::input("the temperature", temperature, "a finite number, 0 or more"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(Error::input("top_p", top_p, "more than 0 and at most 1"));
        }
        let mut prompt = self.encode(text, None)?;
        // What follows a text that goes on stands where its end would be. RoFormer-Sim and encoders read the text to its end.
        let (ends, goes_on) = (self.ends(), !model.is_unilm() && model.encoder.is_none());
        if goes_on && prompt.ids.len() > 1 && ends.contains(&prompt.ids.last().copied()) {
            prompt.ids.pop();
            prompt.token_types.pop();
        }
        Ok(Prompt { ids: prompt.ids, token_types: prompt.token_types })
    }

    /// What follows a prompt, `rows` times: the tokens of each, without the one that ends it. `on_step` sees all rows after
    /// every step and may break there. `first_row` counts the rows of earlier calls, so that every row has its own random numbers.
    fn continuations(
        &self,
        prompt: &Prompt,
        options: &Generate,
        rows: usize,
        first_row: u64,
        mut on_step: impl FnMut(&[Vec<u32>]) -> ControlFlow<()>,
    ) -> Result<Vec<Vec<u32>>> {
        let mut texts = vec![Vec::new(); rows];
        if rows == 0 || options.max_tokens == 0 {
            return Ok(texts);
        }
        let ends = self.ends();
        // Tokens that are no text and do not end one.
        let tokenizer = &self.tokenizer;
        let barred = [tokenizer.pad_id(), tokenizer.cls_id(), tokenizer.mask_id(), tokenizer.unk_id()];
        let barred: Vec<u32> = barred.into_iter().flatten().filter(|&id| !ends.contains(&Some(id))).collect();

        // An encoder reads the prompt, and the decoder begins anew.
        let reads = self.model.blueprint().encoder.is_some();
        let whole = Input { ids: &prompt.ids, batch: 1, token_types: Some(&prompt.token_types), mask: None };
        let read = if reads { Some(self.model.encode(&whole)?.last_hidden_state) } else { None };
        let begun = [self.model.blueprint().start];
        let input = if reads { Input { ids: &begun, token_types: None, ..whole } } else { whole };
        let encoded = read.as_ref().map(|hidden| Encoded { hidden, mask: None });
        let length = input.ids.len();
        // The prompt is read once, then as many times over as there are rows.
        let capacity = length.saturating_add(options.max_tokens);
        let mut cache = self.model.cache(1, capacity)?;
        let mut scores = self.scores(&input, encoded, &mut cache, &[length - 1])?;
        if rows > 1 {
            cache = self.model.repeat(&cache, rows)?;
            scores = scores.repeat(rows);
        }
        let vocabulary = self.model.blueprint().vocabulary;
        let mut is_done = vec![false; rows];
        // RoFormer-Sim's output is another segment.
        let types = vec![u32::from(self.model.blueprint().is_unilm()); rows];
        let places: Vec<usize> = (0..rows).collect();
        for step in 0..options.max_tokens {
            // A row that has ended is given any token: nothing reads what comes of it.
            let mut next = vec![0; rows];
            for (row, scores) in scores.chunks_exact_mut(vocabulary).enumerate() {
                if is_done[row] {
                    continue;
                }
                barred.iter().for_each(|&id| scores[id as usize] = f32::NEG_INFINITY);
                match choose(scores, options, first_row + row as u64, step as u64) {
                    Some(id) if !ends.contains(&Some(id)) => {
                        texts[row].push(id);
                        next[row] = id;
                    }
                    _ => is_done[row] = true,
                }
            }
            let flow = on_step(&texts);
            if flow.is_break() || is_done.iter().all(|&done| done) || step + 1 == options.max_tokens {
                break;
            }
            let input = Input { ids: &next, batch: rows, token_types: Some(&types), mask: None };
            scores = self.scores(&input, encoded, &mut cache, &places)?;
        }
        Ok(texts)
    }

    /// The tokens that end a text.
    fn ends(&self) -> Vec<Option<u32>> {
        let sep = self.tokenizer.sep_id();
        let named = &self.model.blueprint().ends[..];
        named.iter().map(|&id| Some(id)).chain([sep, self.tokenizer.eos_id().or(sep)]).collect()
    }

    /// The scores at these places, `[places, vocabulary]`.
    fn scores(
        &self,
        input: &Input,
        encoded: Option<Encoded<f32>>,
        cache: &mut Cache<f32, B>,
        places: &[usize],
    ) -> Result<Vec<f32>> {
        let call = Call { encoded, cache: Some(cache), scores: Scores::At(places), ..Call::default() };
        let logits = self.model.call(input, call)?.logits;
        logits.map(|logits| logits.scores).ok_or(Error::input(
            "the model",
            "without scores",
            "a language model",
        ))
    }
}
