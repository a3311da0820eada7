//! Sizes that a network can have, and batches that fit it.

use super::{Laid, Network, Outline, Task};
use crate::blueprint::{Blueprint, Mixing, NormPlace};
use crate::encoding::Sizes;
use crate::error::{Error, Result};
use crate::graph::{Batch, IGNORE};
use crate::ops::Real;
use crate::ops::memory::is_available;

/// The most that any size can be: more than any model has, and products of two of them are still numbers.
const LIMIT: usize = 1 << 24;

/// Numbers whose memory is about that of a layer's names and operations.
const LAYER: u128 = 2048;

impl Network {
    /// About how many numbers its parameters and the values of a step are: asked about before any of them is made.
    fn numbers(&self, batch: usize, length: usize, longest: usize) -> u128 {
        let Blueprint { vocabulary, embedding, width, wide, .. } = self.blueprint;
        // An encoder's are as wide as its decoder's.
        let encoder = self.blueprint.encoder.as_ref().map_or(0, |encoder| encoder.layers);
        let layers = self.blueprint.layers.saturating_add(encoder);
        let [batch, length, longest, vocabulary, embedding, width, wide, layers] =
            [batch, length, longest, vocabulary, embedding, width, wide, layers].map(|size| size as u128);
        let heads = self.blueprint.query_width() as u128;
        let tables = 2 * vocabulary * embedding;
        let parameters = tables + layers * (width * (4 * heads + 3 * wide) + LAYER);
        let values = batch * length * (6 * width + layers * (8 * width + 5 * heads + 2 * wide));
        let cosines = if self.task == Task::Similarity { 2 * batch * batch } else { 0 };
        parameters + values + cosines + longest * width + length * heads
    }

    /// Checks that the CPU has the memory for such a network, before any of it is made; without batches, for its
    /// parameters alone.
    pub(crate) fn check_memory(&self, batch: usize, length: usize, longest: usize) -> Result<()> {
        // Sizes that cannot be are refused by what comes next.
        let Blueprint { vocabulary, width, wide, heads, head_dim, .. } = self.blueprint;
        let sizes = [batch, length, longest, vocabulary, width, wide, heads, head_dim];
        let is_known = sizes.iter().all(|&size| size <= LIMIT);
        match is_known && !is_available(self.numbers(batch, length, longest) * 2 * size_of::<f32>() as u128) {
            true => Err(Error::memory("the network")),
            false => Ok(()),
        }
    }

    /// Checks that there can be such a network for such batches.
    pub(super) fn check(&self, batch: usize, length: usize, longest: usize) -> Result<Sizes> {
        let blueprint = &self.blueprint;
        for (name, size) in [
            ("the batch", batch),
            ("the length", length),
            ("the longest text", longest),
            ("the vocabulary", blueprint.vocabulary),
            ("the width", blueprint.width),
            ("the width of the embeddings", blueprint.embedding),
            ("the number of heads", blueprint.heads),
            ("the number of key heads", blueprint.key_heads),
            ("the width of a head", blueprint.head_dim),
            ("the inner width", blueprint.wide),
            ("the number of classes", self.task.classes().unwrap_or(1)),
            ("the number of segments", blueprint.types.max(1)),
        ] {
            if size == 0 || size > LIMIT {
                return Err(Error::input(name, size, format!("from 1 to {LIMIT}")));
            }
        }
        if length > longest {
            return Err(Error::input("the length", length, format!("at most the longest text, {longest}")));
        }
        if self.task == Task::Similarity && !batch.is_multiple_of(2) {
            let expected = "an even number of texts: those of rows 2i and 2i + 1 are a pair";
            return Err(Error::input("the batch", batch, expected));
        }
        if !blueprint.heads.is_multiple_of(blueprint.key_heads) {
            let expected = format!("a divisor of the number of heads, {}", blueprint.heads);
            return Err(Error::input("the number of key heads", blueprint.key_heads, expected));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::input("dropout", self.dropout, "at least 0 and less than 1"));
        }
        self.check_task()?;
        let blueprint = Blueprint { longest, ..self.described() };
        blueprint.check()?;
        Ok(blueprint.sizes(batch, length))
    }

    /// Checks what a network cannot be trained for.
    fn check_task(&self) -> Result<()> {
        let blueprint = &self.blueprint;
        if let Some(encoder) = &blueprint.encoder {
            return self.check_encoder(encoder);
        }
        if blueprint.has_cross_attention {
            let expected = "none: attention to another model's output is run, but not trained";
            return Err(Error::input("cross-attention", "in the network", expected));
        }
        let is_by_first = match self.task {
            Task::Text(_) => blueprint.family.names().judges_by_first(),
            Task::Similarity => blueprint.pooler.is_some(),
            Task::Language | Task::Token(_) => false,
        };
        if is_by_first && blueprint.is_causal() {
            let expected =
                "one that is not: RoFormer judges a text by its first token, which then sees no other";
            return Err(Error::input("the network", "causal", expected));
        }
        Ok(())
    }

    /// Checks what a decoder cannot be trained with, together with its encoder: all that T5 does not have.
    fn check_encoder(&self, encoder: &Blueprint) -> Result<()> {
        let own = &self.blueprint;
        if self.task != Task::Language {
            let expected =
                "what is written of what is read; vectors and classes are trained with the encoder alone";
            return Err(Error::input("task", "one of texts, for a decoder with its encoder", expected));
        }
        let is_plain = |blueprint: &Blueprint| {
            blueprint.mixing == Mixing::Softmax
                && blueprint.norms.place == NormPlace::Before
                && blueprint.convolution.is_none()
                && !blueprint.has_segment_scores
                && !blueprint.is_parallel
                && blueprint.types == 0
        };
        let is_whole = own.is_causal()
            && own.has_cross_attention
            && !encoder.is_generative()
            && encoder.encoder.is_none();
        match is_whole
            && is_plain(own)
            && is_plain(encoder)
            && own.key_heads == own.heads
            && own.width == encoder.width
        {
            true => Ok(()),
            false => {
                let expected = "T5's form: a causal decoder that attends to an encoder of its width, norms before blocks";
                Err(Error::input("the network", "a decoder with an encoder of another form", expected))
            }
        }
    }
}

impl<T: Real> Laid<T> {
    /// What the next step works on, checked.
    pub fn set(&mut self, batch: Batch) -> Result<()> {
        self.outline.check(&batch)?;
        *self.graph.batch() = batch;
        Ok(())
    }
}

impl Outline {
    /// Checks that a batch fits.
    pub fn check(&self, batch: &Batch) -> Result<()> {
        let (network, sizes) = (&self.network, &self.sizes);
        let tokens = sizes.batch * sizes.length;
        let pairs = if network.task == Task::Similarity { sizes.batch / 2 } else { 0 };
        let source = if network.blueprint.encoder.is_some() { tokens } else { 0 };
        for (name, len, wanted, may_lack) in [
            ("the number of ids", batch.ids.len(), tokens, false),
            ("the number of segments", batch.types.len(), tokens, true),
            (
                "the number of targets",
                batch.targets.len(),
                network.task.targets(sizes.batch, sizes.length),
                false,
            ),
            ("the number of scores", batch.scores.len(), pairs, true),
            ("the length of the mask", batch.mask.len(), tokens, true),
            ("the number of ids of the source", batch.source.len(), source, false),
            ("the length of the mask of the source", batch.source_mask.len(), source, true),
            ("the number of positions", batch.positions.len(), sizes.length, true),
        ] {
            if len != wanted && !(may_lack && len == 0) {
                return Err(Error::input(name, len, wanted.to_string()));
            }
        }
        if !batch.positions.is_empty() && network.blueprint.encoding.is_by_places() {
            let value = format!("given for {}", network.blueprint.encoding.name());
            let expected = "none: its tables are by the places of tokens in the text";
            return Err(Error::input("the positions", value, expected));
        }
        for (name, list, limit) in [
            ("a token id", &batch.ids, network.blueprint.vocabulary),
            ("a token id of the source", &batch.source, network.blueprint.vocabulary),
            ("a segment", &batch.types, network.blueprint.segments()),
            ("a target", &batch.targets, network.task.classes().unwrap_or(network.blueprint.vocabulary)),
            ("a position", &batch.positions, network.positions(sizes)),
        ] {
            let is_allowed =
                |value: &&u32| (**value as usize) < limit || name == "a target" && **value == IGNORE;
            if let Some(value) = list.iter().find(|value| !is_allowed(value)) {
                return Err(Error::input(name, value, format!("less than {limit}")));
            }
        }
        self.check_texts(batch)
    }

    /// Checks that what is judged as a whole is there, and that what is compared can be.
    fn check_texts(&self, batch: &Batch) -> Result<()> {
        let (task, sizes) = (self.network.task, &self.sizes);
        let is_empty = |text: usize| batch.is_empty(text, sizes.length);
        let none = |text: usize, expected: &str| {
            Err(Error::input("the mask", format!("no token of text {text}"), expected))
        };
        if let Task::Text(_) = task {
            let is_judged = |text: &usize| batch.targets[*text] != IGNORE && is_empty(*text);
            return match (0..sizes.batch).find(is_judged) {
                Some(text) => none(text, "at least one of each that has a target"),
                None => Ok(()),
            };
        }
        if task != Task::Similarity {
            return Ok(());
        }
        if let Some(text) = (0..sizes.batch).find(|&text| is_empty(text) && !is_empty(text ^ 1)) {
            return none(
                text,
                "at least one of each, or none of both texts of a pair that is to be left out",
            );
        }
        if batch.scores.is_empty() && sizes.batch < 4 {
            let expected =
                "at least 4 where there are no scores: a text is told apart from those of other pairs";
            return Err(Error::input("the batch", sizes.batch, expected));
        }
        match batch.scores.iter().find(|score| !(-1.0..=1.0).contains(*score)) {
            Some(score) => Err(Error::input("a score", score, "from -1 to 1, as cosines are")),
            None => Ok(()),
        }
    }
}
