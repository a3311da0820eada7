//! Rotary embedding (Su et al. 2021): queries and keys turned by their positions, so that scores depend on distances alone.
//! Every pairing and schedule of `rope`; frequencies fixed or learned; values left alone unless asked.

use super::{Encode, Sizes, Terms, part_of};
use crate::error::{Error, Result};
use crate::graph::{Builder, Init, Rotation};
use crate::ops::Real;
use rope::{Pairing, Rope, Schedule};

/// Rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the frequencies.
    pub base: f64,
    /// Which features form pairs.
    pub pairing: Pairing,
    /// The rule that makes the frequencies.
    pub schedule: Schedule,
    /// Features of a head that turn; all of them if not given.
    pub rotary_dim: Option<usize>,
    /// The same as a part of a head's features, in whole pairs.
    pub part: Option<f64>,
    /// Whether values turn too.
    pub values: bool,
    /// Whether the frequencies are learned, in every layer its own, from those of the schedule on.
    pub is_learned: bool,
    /// Whether each key head has learned frequencies of its own, and the queries that meet it the same.
    pub is_by_head: bool,
    /// The embedding itself, where the fields above do not say all of it (angles in `f32`, features that do not begin with
    /// the first): for models that are run, not trained.
    pub given: Option<Rope>,
}

impl Default for Rotary {
    fn default() -> Self {
        Rotary {
            base: 10_000.0,
            pairing: Pairing::Interleaved,
            schedule: Schedule::Default,
            rotary_dim: None,
            part: None,
            values: false,
            is_learned: false,
            is_by_head: false,
            given: None,
        }
    }
}

impl Rotary {
    /// The encoding that rotates as a rope does.
    pub fn of(rope: &Rope) -> Self {
        let rotary = Rotary {
            base: rope.base(),
            pairing: rope.pairing(),
            schedule: rope.schedule().clone(),
            rotary_dim: Some(rope.rotary_dim()).filter(|&dim| dim != rope.head_dim()),
            ..Rotary::default()
        };
        match rotary.rope(rope.head_dim()) {
            Ok(same) if same == *rope => rotary,
            _ => Rotary { given: Some(rope.clone()), ..rotary },
        }
    }

    /// The rotary embedding of heads of so many features.
    pub fn rope(&self, head_dim: usize) -> Result<Rope> {
        if let Some(given) = &self.given {
            return match given.head_dim() == head_dim {
                true => Ok(given.clone()),
                false => Err(Error::input("the width of a head", head_dim, given.head_dim().to_string())),
            };
        }
        let builder =
            Rope::builder(head_dim).base(self.base).pairing(self.pairing).schedule(self.schedule.clone());
        let by_part = self.part.map(|part| part_of(head_dim, part)).transpose()?;
        if by_part.is_some() && self.rotary_dim.is_some() {
            let expected = "one of the two: both say how many features turn";
            return Err(Error::input("rotary", "given a dim and a part", expected));
        }
        Ok(match self.rotary_dim.or(by_part) {
            Some(rotary_dim) => builder.rotary_dim(rotary_dim),
            None => builder,
        }
        .build()?)
    }

    /// The embedding with frequencies that are learned, which a schedule can give but not a scale of vectors with them.
    pub(super) fn learned_rope(&self, head_dim: usize) -> Result<Rope> {
        let rope = self.rope(head_dim)?;
        let factor = rope.frequencies(None).attention_factor();
        if factor != 1.0 {
            return Err(Error::input(
                "the attention factor of the schedule",
                factor,
                "1 for learned frequencies",
            ));
        }
        Ok(rope)
    }
}

impl<T: Real> Encode<T> for Rotary {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if self.is_by_head && !self.is_learned {
            let expected = "learned ones: fixed frequencies are the same for all heads";
            return Err(Error::input("the frequencies of each head", "fixed", expected));
        }
        let is_learned = self.is_learned;
        if is_learned { self.learned_rope(sizes.head_dim) } else { self.rope(sizes.head_dim) }.map(drop)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let Ok(rope) = self.rope(sizes.head_dim) else { return Terms::default() };
        let first = rope.frequencies(None).inv_freq().to_vec();
        let mut learned = |name: String| {
            let shape = [1, first.len()];
            let learned = builder.parameters().add(name, &shape, Init::Given(first.clone()));
            builder.lift(learned, 1, shape[1])
        };
        let name = format!("position.rotary.{layer}.frequencies");
        let frequencies = match (self.is_learned, self.is_by_head) {
            (false, _) => Vec::new(),
            (true, false) => vec![learned(name)],
            (true, true) => (0..sizes.key_heads).map(|head| learned(format!("{name}.{head}"))).collect(),
        };
        Terms { rotation: Some(Rotation { rope, frequencies, values: self.values }), ..Terms::default() }
    }
}
