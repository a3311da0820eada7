//! Position coupling (Cho et al. 2024, arXiv 2405.20671): tokens that belong together stand at the same position. For numbers those
//! are the digits of the same weight, and the signs beside the lowest of them: every number, written with its lowest digit first,
//! begins at the position behind that of the sign before it, and in training that is another one in every step.
//!
//! It differs from Abacus in that signs move with the numbers. (The paper writes what is asked with the highest digit first, where a
//! digit's weight is not known before its number ends; here a text can be read token by token.)

use super::abacus::Abacus;
use super::{Encode, Sizes, Terms};
use crate::error::Result;
use crate::graph::{Builder, Digits, Parameter};
use crate::ops::Real;

/// Learned vectors by the weight of a digit, with signs that move along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coupled {
    /// Which tokens are digits, and how far is counted.
    pub numbers: Abacus,
}

impl<T: Real> Encode<T> for Coupled {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        self.numbers.check::<T>(sizes)
    }

    fn digits(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Parameter, Digits)> {
        Some(self.numbers.numbered("position.coupled.weight", true, builder, sizes))
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        self.numbers.terms(builder, layer, sizes)
    }
}
