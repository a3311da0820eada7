//! Tokens that follow prompts, one after the other with a cache.

use super::Pipeline;
use super::generate::{Generate, Prompt};
use super::sample::choose;
use crate::error::{Error, Result};
use crate::model::{Cache, Call, Encoded, Input, Scores, States};
use crate::ops::Backend;
use std::ops::ControlFlow;

/// A step that is not looked at.
pub(super) fn to_the_end(_: &[Vec<u32>], _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

impl<B: Backend> Pipeline<B> {
    /// What follows prompts of equal length, or one prompt `copies` times: the tokens of each row, without the one that ends it.
    /// `on_step` sees all rows after every step, and how many of them go on: the next step has those alone, unless it breaks there.
    /// `first_copy` counts the copies of earlier calls, so that each has its own random numbers.
    pub(super) fn continuations(
        &self,
        prompts: &[&Prompt],
        copies: usize,
        first_copy: u64,
        options: &Generate,
        mut on_step: impl FnMut(&[Vec<u32>], usize) -> ControlFlow<()>,
    ) -> Result<Vec<Vec<u32>>> {
        let batch = prompts.len();
        let rows = batch * copies;
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
        let joined = |part: fn(&Prompt) -> &[u32]| -> Vec<u32> {
            prompts.iter().flat_map(|prompt| part(prompt)).copied().collect()
        };
        let (ids, types) = (joined(|prompt| &prompt.ids), joined(|prompt| &prompt.token_types));
        let whole = Input { ids: &ids, batch, token_types: Some(&types), mask: None };
        let read = if reads { Some(self.model.encode(&whole)?.last_hidden_state) } else { None };
        let begun = vec![self.model.blueprint().start; batch];
        let input = if reads { Input { ids: &begun, token_types: None, ..whole } } else { whole };
        let encoded = read.as_ref().map(|hidden| Encoded { hidden, mask: None });
        let length = input.ids.len() / batch;
        let capacity = length.saturating_add(options.max_tokens);
        let mut cache = self.model.cache(batch, capacity)?;
        let places: Vec<usize> = (1..=batch).map(|row| row * length - 1).collect();
        let mut scores = self.scores(&input, encoded, &mut cache, &places)?;
        // A prompt is read once, then as many times over as there are copies.
        if copies > 1 {
            cache = self.model.repeat(&cache, copies)?;
            scores = scores.repeat(copies);
        }
        let vocabulary = self.model.blueprint().vocabulary;
        // RoFormer-Sim's output is another segment.
        let types = vec![u32::from(self.model.blueprint().is_unilm()); rows];
        let places: Vec<usize> = (0..rows).collect();
        // The rows that have not ended, in the order of the cache.
        let mut running = places.clone();
        for step in 0..options.max_tokens {
            let (mut next, mut kept) = (Vec::new(), Vec::new());
            for (place, (scores, &row)) in scores.chunks_exact_mut(vocabulary).zip(&running).enumerate() {
                barred.iter().for_each(|&id| scores[id as usize] = f32::NEG_INFINITY);
                let copy = first_copy + (row % copies) as u64;
                if let Some(id) =
                    choose(scores, options, copy, step as u64).filter(|id| !ends.contains(&Some(*id)))
                {
                    texts[row].push(id);
                    next.push(id);
                    kept.push(place);
                }
            }
            let is_last = kept.is_empty() || step + 1 == options.max_tokens;
            let flow = on_step(&texts, if is_last { 0 } else { kept.len() });
            if is_last || flow.is_break() {
                break;
            }
            if kept.len() < running.len() {
                self.model.keep(&mut cache, &kept)?;
                running = kept.iter().map(|&place| running[place]).collect();
            }
            let (types, places) = (&types[..kept.len()], &places[..kept.len()]);
            let input = Input { ids: &next, batch: kept.len(), token_types: Some(types), mask: None };
            scores = self.scores(&input, encoded, &mut cache, places)?;
        }
        Ok(texts)
    }

    /// The scores at these places, `[places, vocabulary]`.
    fn scores(
        &self,
        input: &Input,
        encoded: Option<Encoded<f32>>,
        cache: &mut Cache<f32, B>,
        places: &[usize],
    ) -> Result<Vec<f32>> {
        let call = Call {
            encoded,
            cache: Some(cache),
            scores: Scores::At(places),
            states: States::NONE,
            ..Call::default()
        };
        let logits = self.model.call(input, call)?.logits;
        logits.map(|logits| logits.scores).ok_or(Error::input(
            "the model",
            "without scores",
            "a language model",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Cpu, Precision};
    use std::path::Path;

    fn open(name: &str, precision: Precision) -> Pipeline {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models").join(name);
        Pipeline::open_on(Cpu { precision }, folder).unwrap()
    }

    /// Rows that end leave the others: each is what it is alone, and no step has a row that has ended.
    #[test]
    fn rows_that_end_leave_the_batch() {
        let options = Generate { max_tokens: 24, temperature: 1.5, top_p: 1.0, ..Generate::default() };
        for precision in [Precision::F32, Precision::Bf16] {
            for (name, text) in [("tiny-sim", "广州和深圳哪个好？"), ("tiny-gpt", "我们")] {
                let pipeline = open(name, precision);
                let prompt = pipeline.prompt(text, &options).unwrap();
                let (mut sizes, mut lengths) = (vec![12], Vec::new());
                let on_step = |rows: &[Vec<u32>], running: usize| {
                    let before = lengths.last().copied().unwrap_or(0);
                    let now: usize = rows.iter().map(Vec::len).sum();
                    // A row that goes on has a token more; the last step asks for none.
                    if running > 0 {
                        assert_eq!(now - before, running, "{name}");
                        sizes.push(running);
                    }
                    lengths.push(now);
                    ControlFlow::Continue(())
                };
                let rows = pipeline.continuations(&[&prompt], 12, 3, &options, on_step).unwrap();
                assert!(
                    sizes.is_sorted_by(|a, b| a >= b) && sizes.last() < sizes.first(),
                    "{name}: {sizes:?}"
                );
                for (copy, row) in rows.iter().enumerate() {
                    let alone = pipeline.continuations(&[&prompt], 1, 3 + copy as u64, &options, to_the_end);
                    assert_eq!(alone.unwrap()[0], *row, "{name} {precision:?}: {copy}");
                }
            }
        }
    }
}
