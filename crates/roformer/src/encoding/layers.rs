//! Encodings that differ from layer to layer, as models of 2025 have them: rotary embedding that looks no further than a window in
//! most layers, and in every n-th a layer that sees all and has no positions (RNoPE, arXiv 2501.18795; SWAN-GPT, arXiv 2504.08719), or
//! rotary embedding of another base (Gemma 3, arXiv 2503.19786). Near ones tell places apart, far ones content, and neither meets an
//! angle that training has not shown.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::Builder;
use crate::ops::Real;

/// Rotary embedding with a window, and every n-th layer another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layers {
    /// Every so many layers one sees all: the last of each group.
    pub every: usize,
    /// In the others a token sees none that is this many places away or more; all where there is no window.
    pub window: Option<usize>,
    /// The base of the frequencies of the others.
    pub base: f64,
    /// That of the layers that see all; they have no positions where there is none.
    pub far: Option<f64>,
}

impl Default for Layers {
    fn default() -> Self {
        Layers { every: 2, window: Some(16), base: 10_000.0, far: None }
    }
}

impl Layers {
    /// Whether a layer is one that sees all.
    fn sees_all(&self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.every.max(1))
    }

    /// The window of a layer, where it has one.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        self.window.filter(|_| !self.sees_all(layer))
    }

    /// The rotation of a layer, where it has one.
    pub fn rotary_of(&self, layer: usize) -> Option<Rotary> {
        let base = if self.sees_all(layer) { self.far } else { Some(self.base) };
        base.map(|base| Rotary { base, ..Rotary::default() })
    }
}

impl<T: Real> Encode<T> for Layers {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !(1..=1024).contains(&self.every) {
            return Err(Error::input("every", self.every, "from 1 to 1024 layers"));
        }
        let bases = [Some(self.base), self.far].into_iter().flatten();
        bases
            .map(|base| Rotary { base, ..Rotary::default() })
            .try_for_each(|own| Encode::<T>::check(&own, sizes))
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        self.rotary_of(layer).map_or_else(Terms::default, |own| own.terms(builder, layer, sizes))
    }
}
