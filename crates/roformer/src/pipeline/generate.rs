//! Text that follows a text, or many texts; and RoFormer-Sim's paraphrases.

use super::Pipeline;
use super::continuation::to_the_end;
use super::{Embed, cosine};
use crate::error::{Error, Result};
use crate::model::HeadKind;
use crate::ops::Backend;
use rayon::prelude::*;
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

/// What a model wrote behind a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// What is new.
    pub text: String,
    /// Tokens that were read.
    pub prompt_tokens: usize,
    /// Tokens that were written, without the one that ended the text.
    pub tokens: usize,
    /// Whether the text came to its end, rather than to the most tokens or to a caller who wanted no more.
    pub has_ended: bool,
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
pub(super) struct Prompt {
    pub ids: Vec<u32>,
    pub token_types: Vec<u32>,
}

/// Texts that are continued at once. A step reads all weights, for one text as for many.
const TOGETHER: usize = 16;

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
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<String> {
        Ok(self.complete(text, options, on_text)?.text)
    }

    /// The same, with how many tokens were read and written.
    pub fn complete(
        &self,
        text: &str,
        options: &Generate,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Completion> {
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
        let rows = self.continuations(&[&prompt], 1, 0, options, |rows, _| {
            flow = show(&rows[0], false);
            flow
        })?;
        if flow.is_continue() {
            // Whoever listens has all of it then, and nothing is left to be stopped.
            let _ = show(&rows[0], true);
        }
        let tokens = rows[0].len();
        let has_ended = flow.is_continue() && tokens < options.max_tokens;
        let text = self.tokenizer.decode(&rows[0]);
        Ok(Completion { text, prompt_tokens: prompt.ids.len(), tokens, has_ended })
    }

    /// The same for many texts, without their pieces. Texts of as many tokens are continued together, and one that has come to
    /// its end costs the others nothing. Each becomes what [`generate`](Self::generate) makes of it alone: on the CPU a text has
    /// the same bits in any batch; on a GPU a product of another size may be rounded differently.
    pub fn generate_all(&self, texts: &[impl AsRef<str> + Sync], options: &Generate) -> Vec<Result<String>> {
        let prompts: Vec<Result<Prompt>> =
            texts.par_iter().map(|text| self.prompt(text.as_ref(), options)).collect();
        let length = |index: usize| prompts[index].as_ref().map_or(0, |prompt| prompt.ids.len());
        let mut order: Vec<usize> = (0..prompts.len()).filter(|&index| prompts[index].is_ok()).collect();
        order.sort_by_key(|&index| length(index));
        // What an encoder has read stays with its text.
        let most = if self.model.blueprint().encoder.is_some() { 1 } else { TOGETHER };
        let mut done: Vec<Option<Result<Vec<u32>>>> = prompts.iter().map(|_| None).collect();
        for equal in order.chunk_by(|&a, &b| length(a) == length(b)) {
            for together in equal.chunks(most) {
                let group: Vec<&Prompt> =
                    together.iter().filter_map(|&index| prompts[index].as_ref().ok()).collect();
                let one =
                    |prompt| Ok(self.continuations(&[prompt], 1, 0, options, to_the_end)?.swap_remove(0));
                let rows: Vec<Result<Vec<u32>>> = match self.continuations(&group, 1, 0, options, to_the_end)
                {
                    Ok(rows) => rows.into_iter().map(Ok).collect(),
                    // Too many for the memory, perhaps: each has its own error, if any.
                    Err(_) => group.into_iter().map(one).collect(),
                };
                together.iter().zip(rows).for_each(|(&index, row)| done[index] = Some(row));
            }
        }
        let results = prompts.into_iter().zip(done).map(|(prompt, row)| {
            prompt?;
            Ok(self.tokenizer.decode(&row.unwrap_or(Ok(Vec::new()))?))
        });
        results.collect()
    }

    /// Up to `count` different texts that say the same as this one, the nearest first. For RoFormer-Sim.
    pub fn paraphrase(&self, text: &str, count: usize, options: &Generate) -> Result<Vec<Paraphrase>> {
        let fits = self.model.blueprint().is_unilm() && self.reader().is_language_model();
        self.reader().require(
            "paraphrases",
            fits,
            "RoFormer-Sim, which has a pooler and a language model's head",
        )?;
        let prompt = self.prompt(text, options)?;
        // As the tokenizer gives it back, so that a sample of it is recognised.
        let original = self.tokenizer.decode(&prompt.ids);
        let (mut seen, mut texts) = (HashSet::from([original, text.to_string(), String::new()]), Vec::new());
        for round in 0..ROUNDS {
            if texts.len() >= count {
                break;
            }
            let rows = self.continuations(&[&prompt], count, (round * count) as u64, options, to_the_end)?;
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
    pub(super) fn prompt(&self, text: &str, options: &Generate) -> Result<Prompt> {
        let (model, wanted) =
            (self.model.blueprint(), "RoFormer-Sim, a RoFormerForCausalLM or another causal language model");
        let fits = model.is_unilm() || model.is_causal() && model.head == HeadKind::CausalLm;
        self.reader().require("generate", fits && self.reader().is_language_model(), wanted)?;
        let (temperature, top_p) = (options.temperature, options.top_p);
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return Err(Error::input("the temperature", temperature, "a finite number, 0 or more"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(Error::input("top_p", top_p, "more than 0 and at most 1"));
        }
        let mut prompt = self.reader().encode(text, None)?;
        // What follows a text that goes on stands where its end would be. RoFormer-Sim and encoders read the text to its end.
        let (ends, goes_on) = (self.ends(), !model.is_unilm() && model.encoder.is_none());
        if goes_on && prompt.ids.len() > 1 && ends.contains(&prompt.ids.last().copied()) {
            prompt.ids.pop();
            prompt.token_types.pop();
        }
        Ok(Prompt { ids: prompt.ids, token_types: prompt.token_types })
    }

    /// The tokens that end a text.
    pub(super) fn ends(&self) -> Vec<Option<u32>> {
        let sep = self.tokenizer.sep_id();
        let named = &self.model.blueprint().ends[..];
        named.iter().map(|&id| Some(id)).chain([sep, self.tokenizer.eos_id().or(sep)]).collect()
    }
}
