//! Rotary embedding with a learned receptive field: θ*_j = φ + (1−α)·θ_j, φ = α/10000^ρ, with an α and a ρ for each layer.
//!
//! α starts at 0.1 and ρ at 0.5: at α = 0, ρ has no gradient. What is learned is a, with α = 1/(1 + e^(−a)), so that α stays
//! between 0 and 1, where the two parts of the score are a Hilbert pair.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Init, Rotation};
use crate::ops::Real;

/// Rotary embedding with a learned receptive field.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceptiveField {
    /// The rotary embedding that it changes.
    pub rotary: Rotary,
    /// α at first.
    pub alpha: f64,
    /// ρ at first.
    pub rho: f64,
}

impl Default for ReceptiveField {
    fn default() -> Self {
        ReceptiveField { rotary: Rotary::default(), alpha: 0.1, rho: 0.5 }
    }
}

impl<T: Real> Encode<T> for ReceptiveField {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !(self.alpha > 0.0 && self.alpha < 1.0) {
            return Err(Error::input(
                "alpha",
                self.alpha,
                "between 0 and 1: at 0, rho would have no gradient",
            ));
        }
        if self.rho.is_nan() || self.rho.abs() > 4.0 {
            return Err(Error::input("rho", self.rho, "from -4 to 4"));
        }
        self.rotary.learned_rope(sizes.head_dim).map(drop)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let Ok(rope) = self.rotary.rope(sizes.head_dim) else { return Terms::default() };
        let theta = rope.frequencies(None).inv_freq().to_vec();
        let first = Init::Given(vec![(self.alpha / (1.0 - self.alpha)).ln(), self.rho]);
        let field = builder.parameters().add(format!("position.receptive.{layer}"), &[1, 2], first);
        let field = builder.lift(field, 1, 2);
        let out = builder.field_frequencies(field, theta);
        let (frequencies, values) = (vec![out], self.rotary.values);
        Terms { rotation: Some(Rotation { rope, frequencies, values }), ..Terms::default() }
    }
}
