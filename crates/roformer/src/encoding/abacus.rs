//! Abacus (McLeish et al. 2024, arXiv 2405.17399): digits stand where they are within their number, so that those of the same weight
//! have the same learned vector in every number that is written with its lowest digit first. Other tokens share one vector.
//!
//! In training all numbers of a step begin up to `shift` places further on, so that the vectors of places that short numbers do not
//! have are learned too. Which tokens are digits is known to the vocabulary: training asks it, and tasks say theirs.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, Digits, Init, Parameter};
use crate::ops::Real;

/// More tokens than any vocabulary has for single digits.
pub(super) const MOST_DIGITS: usize = 256;

/// Learned vectors by the place of a digit within its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abacus {
    /// The ids of the tokens that are digits; none until somebody who knows the vocabulary says so.
    pub digits: Vec<u32>,
    /// The most digits of a number: those beyond have the last one's vector.
    pub places: usize,
    /// In training numbers begin up to so many places further on.
    pub shift: usize,
    /// Whether queries and keys turn as well.
    pub is_rotary: bool,
}

impl Default for Abacus {
    fn default() -> Self {
        Abacus { digits: Vec::new(), places: 64, shift: 16, is_rotary: false }
    }
}

impl Abacus {
    /// Vectors that there are: for tokens that are no digits, and for all places.
    fn rows(&self) -> usize {
        1 + self.places.saturating_add(self.shift)
    }

    pub(super) fn check<T: Real>(&self, sizes: &Sizes) -> Result<()> {
        if self.places == 0 {
            return Err(Error::input("the places of a number", self.places, "at least 1"));
        }
        check_rows("the places of a number and their shift", self.rows())?;
        if self.digits.len() > MOST_DIGITS {
            let expected = format!("at most {MOST_DIGITS}");
            return Err(Error::input("the number of tokens that are digits", self.digits.len(), expected));
        }
        if self.is_rotary { Encode::<T>::check(&Rotary::default(), sizes) } else { Ok(()) }
    }

    pub(super) fn terms<T: Real>(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        match self.is_rotary {
            true => Rotary::default().terms(builder, layer, sizes),
            false => Terms::default(),
        }
    }

    /// The table under a name, and how tokens find their rows.
    pub(super) fn numbered<T: Real>(
        &self,
        name: &str,
        moves_others: bool,
        builder: &mut Builder<T>,
        sizes: &Sizes,
    ) -> (Parameter, Digits) {
        let rows = self.rows();
        let table = builder.parameters().add(name, &[rows, sizes.codes], Init::Normal(0.02));
        let mut ids = self.digits.clone();
        ids.sort_unstable();
        (table, Digits { ids, rows, shift: self.shift, moves_others })
    }
}

impl<T: Real> Encode<T> for Abacus {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        self.check::<T>(sizes)
    }

    fn digits(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Parameter, Digits)> {
        Some(self.numbered("position.abacus.weight", false, builder, sizes))
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        self.terms(builder, layer, sizes)
    }
}
