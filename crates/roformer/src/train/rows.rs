//! Which rows a step reads, and the batch that they make: by the seed and the number of the batch alone.

use super::data::{BEGINS, Data, Frame, Shuffle};
use super::settings::{Goal, Layout, Settings};
use crate::error::{Error, Result};
use crate::graph::{Batch, IGNORE, mix};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Makes the chance of an evaluation another than that of training.
const KEPT: u64 = 0x6576_616c;

/// Of the tokens that are hidden, those that become `[MASK]`, and those that become any token; the rest stay.
const MASKED: f64 = 0.8;
const REPLACED: f64 = 0.1;

/// The rows of a run.
pub(super) struct Rows {
    data: Data,
    goal: Goal,
    layout: Layout,
    block: usize,
    batch: usize,
    seed: u64,
    hidden: f64,
    /// What is trained on and what is not: tokens of a stream, or places in an order of rows.
    parts: [Range<usize>; 2],
    mask: u32,
    /// Tokens around texts.
    frame: Frame,
    /// The token that a text which is written begins with.
    start: u32,
}

impl Rows {
    /// The rows of some texts, if there are enough of them.
    pub fn new(data: Data, settings: &Settings) -> Result<Self> {
        let Settings { goal, block, batch, seed, mask: hidden, .. } = *settings;
        let mask = if goal == Goal::Masked { data.vocabulary().needed_mask()? } else { 0 };
        let layout = settings.layout();
        let mut frame = data.vocabulary().frame.clone();
        if goal == Goal::Causal {
            // Where a text ends is for the model to learn.
            frame.after = data.vocabulary().end.into_iter().collect();
            frame.ends[0] = vec![0; frame.after.len()];
        }
        if goal == Goal::Sequences && frame.after.is_empty() {
            frame.after = data.vocabulary().end.into_iter().collect();
        }
        let parts = [0..0, 0..0];
        let mut rows = Rows { data, goal, layout, block, batch, seed, hidden, parts, mask, frame, start: 0 };
        let around = rows.around();
        let least = if goal.is_of_texts() { around + rows.data.about().texts } else { around + 1 };
        if block < least {
            return Err(Error::input(
                "block",
                block,
                format!("at least {least}, for a text and what is around it"),
            ));
        }
        rows.parts = rows.split(settings.validation)?;
        Ok(rows)
    }

    /// The same with another token that a text which is written begins with.
    pub fn starting_with(self, start: u32) -> Self {
        Rows { start, ..self }
    }

    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Tokens around the texts of a row.
    fn around(&self) -> usize {
        let Frame { before, after, between, .. } = &self.frame;
        match (self.goal, self.layout) {
            (Goal::Causal, Layout::Packed) => 0,
            (Goal::Classification, _) if self.data.about().texts == 2 => {
                before.len() + between.len() + after.len()
            }
            _ => before.len() + after.len(),
        }
    }

    /// Tokens of a stream that one row reads: the last of a causal row is only a target.
    fn reach(&self) -> usize {
        match self.goal {
            Goal::Causal => self.block + 1,
            _ => self.block - self.around(),
        }
    }

    /// What is trained on, and what is kept: the last part of a stream, or rows of a fixed order.
    fn split(&self, validation: f64) -> Result<[Range<usize>; 2]> {
        let is_stream = self.layout == Layout::Packed;
        let (all, unit) =
            if is_stream { (self.data.tokens(), "tokens") } else { (self.data.rows(), "texts") };
        let kept = self.data.about().kept.map(|[documents, tokens]| {
            let before = if is_stream { tokens } else { documents / self.data.about().texts };
            all - before.min(all)
        });
        let kept = kept.unwrap_or_else(|| (all as f64 * validation).round() as usize).min(all);
        let first = all - kept;
        // Pairs are told apart from the others of their batch, which must be others.
        let least = match (is_stream, self.goal) {
            (true, _) => self.reach(),
            (false, Goal::Similarity) => self.batch,
            (false, _) => 1,
        };
        const KEPT: &str = "kept for validation";
        let wants_kept = validation > 0.0 || self.data.about().kept.is_some();
        for (what, len, is_wanted) in [("to train on", first, true), (KEPT, kept, wants_kept)] {
            if is_wanted && len < least {
                let value = format!("{all} {unit}, {len} of them {what}");
                let expected = match is_stream {
                    true => format!("more than a block, {}: pass more text or a smaller block", self.block),
                    false => {
                        let batch = if least > 1 { ", or a smaller batch" } else { "" };
                        let share = match self.data.about().kept {
                            Some(_) => "",
                            None if what == KEPT => {
                                ", or keep a larger part of them (`validation`; 0 for none)"
                            }
                            None => ", or keep a smaller part of them (`validation`)",
                        };
                        format!("at least {least}: pass more texts{batch}{share}")
                    }
                };
                return Err(Error::input("the text", value, expected));
            }
        }
        Ok([0..first, first..all])
    }

    /// Fills a batch to train on, by its number.
    pub fn training(&self, number: u64, batch: &mut Batch) {
        self.begin(batch, number, true);
        for row in 0..self.batch as u64 {
            let chance = mix(mix(mix(self.seed ^ 0x626c_6f63_6b73) ^ number) ^ row);
            match self.layout {
                Layout::Packed => {
                    let places = self.parts[0].len() - self.reach() + 1;
                    let start = ((u128::from(chance) * places as u128) >> 64) as usize;
                    self.block_from(self.parts[0].start + start, mix(chance), batch);
                }
                Layout::Padded => {
                    let count = self.parts[0].len() as u64;
                    let index = number.wrapping_mul(self.batch as u64).wrapping_add(row);
                    let order = Shuffle::new(count, mix(self.seed ^ 0x6f72_6465_7273) ^ (index / count));
                    self.row(self.in_order(order.at(index % count) as usize), mix(chance), batch);
                }
            }
        }
    }

    /// How many rows an evaluation of at most so many batches reads.
    pub fn kept(&self, batches: u64) -> usize {
        let all = match self.layout {
            Layout::Packed => {
                self.parts[1].len().saturating_sub(usize::from(self.goal == Goal::Causal)) / self.step()
            }
            Layout::Padded => self.parts[1].len(),
        };
        let count = all.min((batches as usize).saturating_mul(self.batch));
        match self.goal {
            Goal::Similarity => count / self.batch * self.batch,
            _ => count,
        }
    }

    /// Tokens from one block of an evaluation to the next.
    fn step(&self) -> usize {
        self.reach() - usize::from(self.goal == Goal::Causal)
    }

    /// Fills a batch with rows `first` and on of the `count` that an evaluation reads, spread evenly; returns how many. Rows
    /// beyond the last repeat it and count for nothing.
    pub fn evaluation(&self, first: usize, count: usize, batch: &mut Batch) -> usize {
        self.begin(batch, first as u64, false);
        let all = self.kept(u64::MAX);
        let rows = self.batch.min(count - first);
        for row in 0..self.batch {
            let index = (first + row.min(rows - 1)) as u128 * all as u128 / count as u128;
            let chance = mix(mix(KEPT) ^ index as u64);
            match self.layout {
                Layout::Packed => {
                    self.block_from(self.parts[1].start + index as usize * self.step(), chance, batch);
                }
                Layout::Padded => {
                    self.row(self.in_order(self.parts[1].start + index as usize), chance, batch)
                }
            }
        }
        let of_a_row = batch.targets.len() / self.batch;
        batch.targets[rows * of_a_row..].fill(IGNORE);
        rows
    }

    /// The seed of positions that are drawn by chance.
    pub fn seed_of_positions(&self) -> u64 {
        self.seed
    }

    fn begin(&self, batch: &mut Batch, number: u64, is_training: bool) {
        for list in [&mut batch.ids, &mut batch.types, &mut batch.targets, &mut batch.source] {
            list.clear();
        }
        batch.mask.clear();
        batch.source_mask.clear();
        batch.scores.clear();
        (batch.seed, batch.step, batch.is_training) = (self.seed, number, is_training);
    }

    /// The row at a place: what is trained on and what is kept are drawn from all rows alike, unless they are from files of
    /// their own.
    fn in_order(&self, place: usize) -> usize {
        match self.data.about().kept {
            Some(_) => place,
            None => Shuffle::new(self.data.rows() as u64, KEPT).at(place as u64) as usize,
        }
    }

    /// Adds a block of the stream.
    fn block_from(&self, start: usize, chance: u64, batch: &mut Batch) {
        let token = |index: usize| self.data.token(index);
        if self.goal == Goal::Causal {
            batch.ids.extend((start..start + self.block).map(|index| token(index) & !BEGINS));
            batch.targets.extend((start + 1..start + 1 + self.block).map(|index| token(index) & !BEGINS));
            return;
        }
        let Frame { before, after, ends, .. } = &self.frame;
        let first = batch.ids.len();
        batch.ids.extend(before);
        batch.ids.extend((start..start + self.reach()).map(token));
        self.end(0, &ends[0], batch);
        let real = first + before.len()..batch.ids.len() - after.len();
        self.hide(real, first, chance, batch);
    }

    /// Adds a row of one text or two.
    fn row(&self, row: usize, chance: u64, batch: &mut Batch) {
        let texts = self.data.about().texts;
        let document = |index: usize| self.data.text(row * texts + index);
        match self.goal {
            Goal::Similarity => {
                for index in 0..texts {
                    self.alone(document(index), batch);
                }
                if self.data.about().has_scores {
                    batch.scores.push(f32::from_bits(self.data.answer(row * texts)));
                }
            }
            Goal::Sequences => self.sequences(document(0), document(1), batch),
            Goal::Classification => {
                match texts {
                    2 => self.beside(document(0), document(1), batch),
                    _ => drop(self.alone(document(0), batch)),
                }
                batch.targets.push(self.data.answer(row * texts));
            }
            Goal::Masked => {
                let first = batch.ids.len();
                let real = self.alone(document(0), batch);
                self.hide(real, first, chance, batch);
            }
            Goal::Causal => {
                let first = batch.ids.len();
                let real = self.alone(document(0), batch);
                // What comes after the text, its end, is to be learned; what is beyond is not.
                let end = real.end + self.frame.after.len();
                let Batch { ids, targets, .. } = batch;
                targets.extend((first..first + self.block).map(|place| match place + 1 < end {
                    true => ids[place + 1],
                    false => IGNORE,
                }));
            }
        }
    }

    /// Adds a text with what is around it, cut to the block and padded; returns where its own tokens are.
    fn alone(&self, text: Range<usize>, batch: &mut Batch) -> Range<usize> {
        let Frame { before, after, ends, .. } = &self.frame;
        let keeps_marks = self.goal == Goal::Masked;
        let len = text.len().min(self.block - before.len() - after.len());
        let first = batch.ids.len() + before.len();
        batch.ids.extend(before);
        let kept = if keeps_marks { u32::MAX } else { !BEGINS };
        batch.ids.extend((text.start..text.start + len).map(|index| self.data.token(index) & kept));
        self.end(0, &ends[0], batch);
        self.pad(first - before.len(), batch);
        first..first + len
    }

    /// Adds a text that is read and one that is to be written of it, each with what is around it, cut to the block and padded:
    /// every token is to be told from those before it, the first from the token that all begin with.
    fn sequences(&self, read: Range<usize>, written: Range<usize>, batch: &mut Batch) {
        let pad = self.data.vocabulary().pad;
        let framed = |text: Range<usize>| {
            let Frame { before, after, .. } = &self.frame;
            let len = text.len().min(self.block - before.len() - after.len());
            let own = (text.start..text.start + len).map(|index| self.data.token(index) & !BEGINS);
            before.iter().copied().chain(own).chain(after.iter().copied())
        };
        let source = batch.source.len() + self.block;
        batch.source.extend(framed(read));
        batch.source_mask.resize(batch.source.len(), true);
        batch.source.resize(source, pad);
        batch.source_mask.resize(source, false);
        let (first, end) = (batch.targets.len(), batch.targets.len() + self.block);
        batch.targets.extend(framed(written));
        let Batch { ids, targets, mask, .. } = batch;
        ids.push(self.start);
        ids.extend(&targets[first..targets.len() - 1]);
        mask.resize(ids.len(), true);
        ids.resize(end, pad);
        mask.resize(end, false);
        targets.resize(end, IGNORE);
    }

    /// Adds two texts side by side, the longer cut first.
    fn beside(&self, a: Range<usize>, b: Range<usize>, batch: &mut Batch) {
        let Frame { before, between, after, second, ends } = &self.frame;
        let room = self.block - before.len() - between.len() - after.len();
        let (mut left, mut right) = (a.len(), b.len());
        if left + right > room {
            // The odd token goes to the one that was longer, to the second if they were equal.
            let shorter = left.min(right).min(room / 2);
            (left, right) = if right >= left { (shorter, room - shorter) } else { (room - shorter, shorter) };
        }
        let first = batch.ids.len();
        let token = |index: usize| self.data.token(index) & !BEGINS;
        batch.ids.extend(before);
        batch.ids.extend((a.start..a.start + left).map(token));
        batch.ids.extend(between);
        batch.types.resize(batch.ids.len(), 0);
        batch.ids.extend((b.start..b.start + right).map(token));
        self.end(*second, &ends[1], batch);
        self.pad(first, batch);
    }

    /// Adds what is after a text, and segments: of the text, which is of `own`, and of what is after it. Where all are of the
    /// first, nothing is said.
    fn end(&self, own: u32, ends: &[u32], batch: &mut Batch) {
        if own != 0 || ends.iter().any(|&kind| kind != 0) {
            batch.types.resize(batch.ids.len(), own);
            batch.types.extend(ends);
        }
        batch.ids.extend(&self.frame.after);
    }

    /// Fills a row that begins at `first` up to the block.
    fn pad(&self, first: usize, batch: &mut Batch) {
        batch.mask.resize(batch.ids.len(), true);
        batch.ids.resize(first + self.block, self.data.vocabulary().pad);
        batch.mask.resize(first + self.block, false);
        if !batch.types.is_empty() {
            batch.types.resize(first + self.block, 0);
        }
    }

    /// Hides some words of a row, at least one, and has them as targets. The row begins at `first`, and its own tokens,
    /// still marked, are `real`.
    fn hide(&self, real: Range<usize>, first: usize, chance: u64, batch: &mut Batch) {
        batch.targets.resize(first + self.block, IGNORE);
        let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
        let of_word = |start: usize| mix(chance ^ (start - first) as u64);
        let begins = |ids: &[u32], place: usize| place == real.start || ids[place] & BEGINS != 0;
        // The word that is hidden even if chance hides none.
        let starts = real.clone().filter(|&place| begins(&batch.ids, place));
        let least = starts.min_by_key(|&place| of_word(place));
        let tokens = self.data.vocabulary().tokens() as u64;
        let mut is_hidden = false;
        for place in real.clone() {
            if begins(&batch.ids, place) {
                is_hidden = unit(of_word(place)) < self.hidden || Some(place) == least;
            }
            let id = batch.ids[place] & !BEGINS;
            batch.ids[place] = id;
            if is_hidden {
                batch.targets[place] = id;
                let bits = mix(of_word(place) ^ 0x6869_6465);
                let kind = unit(bits);
                if kind < MASKED {
                    batch.ids[place] = self.mask;
                } else if kind < MASKED + REPLACED {
                    batch.ids[place] = ((u128::from(mix(bits)) * u128::from(tokens)) >> 64) as u32;
                }
            }
        }
    }
}
