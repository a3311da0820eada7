//! Sizes that a blueprint can have.

use super::fields::MAX_SIZE;
use super::names::Queries;
use super::{Blueprint, HeadNorms, LinearForm, Mixing};
use crate::error::{Error, Result};
use std::ops::RangeInclusive;

/// Soft caps: beyond these f32 has no number for one, or for its inverse.
pub(super) const CAPS: RangeInclusive<f64> = 1e-30..=1e30;

/// The most tokens that a convolution reads at a time.
const MOST_NEIGHBOURS: usize = 255;

impl Blueprint {
    /// Checks the sizes of a blueprint that may have been made by hand.
    pub fn check(&self) -> Result<()> {
        let field = |part: &str| self.family.field(part).to_string();
        let wrong = |part: &str, value: String, expected: String| {
            Err(Error::Config { field: field(part), value, expected })
        };
        for (part, size) in [
            ("vocabulary", self.vocabulary),
            ("embedding", self.embedding),
            ("width", self.width),
            ("heads", self.heads),
            ("key heads", self.key_heads),
            ("head width", self.head_dim),
            ("inner width", self.wide),
            ("labels", self.labels.count),
            // Within bounds as those above are, the product of two cannot overflow.
            ("query width", self.heads.saturating_mul(self.head_dim)),
        ] {
            if size == 0 || size as u64 > MAX_SIZE {
                return wrong(part, size.to_string(), format!("a whole number from 1 to {MAX_SIZE}"));
            }
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            let expected = format!("a divisor of {}, which is {}", field("heads"), self.heads);
            return wrong("key heads", self.key_heads.to_string(), expected);
        }
        if self.head.is_language_model() && self.output.transform.is_none() && self.embedding != self.width {
            let expected = format!("{}, as {}: the output reads hidden states", self.width, field("width"));
            return wrong("embedding", self.embedding.to_string(), expected);
        }
        let chunk = self.local.as_ref().and_then(|local| local.chunk);
        let every = self.nope.as_ref().and_then(|nope| nope.temperature).map(|own| own.every);
        if let Some(size) =
            [chunk, every].into_iter().flatten().find(|&size| size == 0 || size as u64 > MAX_SIZE)
        {
            let expected = format!("from 1 to {MAX_SIZE} tokens");
            return Err(Error::input("the length of pieces of a text", size, expected));
        }
        if let Some(cap) =
            [self.score_cap, self.output.cap].into_iter().flatten().find(|cap| !CAPS.contains(cap))
        {
            return Err(Error::input(
                "the soft cap",
                cap,
                format!("from {:e} to {:e}", CAPS.start(), CAPS.end()),
            ));
        }
        if self.score_cap.is_some() && self.has_segment_scores {
            // Where all tokens are of one segment the term is left out, which changes no weight but of scores that are capped.
            let expected = "none: scores that compare segments are not capped";
            return Err(Error::input("the soft cap", "in the network", expected));
        }
        self.check_convolution()?;
        if self.has_segment_scores && self.family.names().segments[0].is_empty() {
            let value = format!("in a {}", self.family.model_type());
            return Err(Error::input("scores by segment", value, "none: only XLNet has tensors for them"));
        }
        if let Mixing::Linear(form) = self.mixing {
            if self.local.as_ref().is_some_and(|local| local.window.is_some() || local.chunk.is_some()) {
                let expected = "softmax: linear attention knows no window";
                return Err(Error::input("the attention", "linear, in a model with a window", expected));
            }
            if self.score_cap.is_some() {
                let expected = "softmax: linear attention has no scores to cap";
                return Err(Error::input("the attention", "linear, in a model that caps scores", expected));
            }
            if self.has_segment_scores {
                let expected = "softmax: linear attention cannot carry what scores have of segments";
                return Err(Error::input("the attention", "linear, with a term of segments", expected));
            }
            let temperature = self.nope.as_ref().and_then(|nope| nope.temperature);
            if self.head_norms == HeadNorms::Bare || temperature.is_some() {
                let expected =
                    "softmax: linear attention norms no heads that are rotated, and knows no temperature";
                return Err(Error::input("the attention", "linear, in a model of Llama 4's form", expected));
            }
            self.encoding.check_linear()?;
            self.check_features(form)?;
        }
        self.check_encoding()?;
        self.encoder.as_ref().map_or(Ok(()), |encoder| encoder.check())
    }

    /// Checks that there can be such a convolution: it reads what comes after a token too.
    fn check_convolution(&self) -> Result<()> {
        let Some(own) = self.convolution else { return Ok(()) };
        let is_there = !self.family.names().convolution[0].is_empty() && self.layers > 0;
        let is_whole = !self.norms.place.is_before() && !self.is_generative();
        match own.kernel.is_multiple_of(2) || own.kernel > MOST_NEIGHBOURS || !is_there || !is_whole {
            true => {
                let expected =
                    format!("an odd number up to {MOST_NEIGHBOURS}, in a DeBERTa that is read both ways");
                Err(Error::input("the kernel of the convolution", own.kernel, expected))
            }
            false => Ok(()),
        }
    }

    /// Checks that queries and keys have as many features, and that values can be rotated with them.
    fn check_features(&self, form: LinearForm) -> Result<()> {
        if self.key_heads != self.heads {
            let expected = "as many as heads: linear attention does not group heads";
            return Err(Error::input("the number of key heads", self.key_heads, expected));
        }
        let [queries, keys] = [form.queries, form.keys].map(|map| map.features(self.head_dim));
        if queries != keys {
            return Err(Error::input(
                "the number of features of keys",
                keys,
                format!("that of queries, {queries}"),
            ));
        }
        if self.encoding.turns_values() && !form.rotates_before && queries != self.head_dim {
            let expected = format!("the width of a head, {}: values are rotated with them", self.head_dim);
            return Err(Error::input("the number of features", queries, expected));
        }
        Ok(())
    }

    /// Checks that the encoding works for these sizes.
    pub(super) fn check_encoding(&self) -> Result<()> {
        if self.encoding.shares_projections() {
            let is_apart = matches!(self.family.names().queries, Queries::Apart(_));
            if !is_apart || self.key_heads != self.heads {
                let expected =
                    "own or biased: this model has no queries and keys of one width in tensors of their own";
                return Err(Error::input("the projections of deberta", "shared", expected));
            }
        }
        let is_spread = self.encoding.meeting_dim(1) != 1;
        if self.encoding.far().is_some() && (self.has_segment_scores || self.head_norms == HeadNorms::Bare) {
            let value = format!("extend, in a {}", self.family.model_type());
            let expected = "a model whose scores are of queries and keys as they are turned: this one norms them after it, or has \
                            a term of segments";
            return Err(Error::input("the encoding", value, expected));
        }
        if self.has_segment_scores && is_spread {
            let value = format!("{}, with a term of segments", self.encoding.name());
            let expected = "another: what scores have of segments is for heads of their own width";
            return Err(Error::input("the encoding", value, expected));
        }
        if self.head_norms == HeadNorms::Bare && is_spread {
            let value =
                format!("{}, in a model that norms heads after they are turned", self.encoding.name());
            let expected =
                "another: the magnitudes of its features are no longer a head's when they are turned";
            return Err(Error::input("the encoding", value, expected));
        }
        let own = self.local.as_ref().and_then(|local| local.encoding.as_ref());
        let mut all = [Some(&self.encoding), own].into_iter().flatten();
        all.try_for_each(|encoding| encoding.as_encode::<f32>().check(&self.encoded_sizes(1)))
    }
}
