//! The Forgetting Transformer (Lin et al. 2025, arXiv 2503.02130): each token and head has a gate f = σ(w·x + b) of what the layer
//! reads, and a score falls by −ln f for every token between the key and the query. How far a head looks follows from what is
//! read. The bias is c_i − c_j with c_t = Σ_(l ≤ t) ln f_l, so that one sum a token is all that is kept.
//!
//! ALiBi is the case w = 0; the additive form of GRAPE (arXiv 2512.07805) is this one, and CABLE (arXiv 2503.08067) sums biases by what is
//! read in the same way: `gate=relu` is the form without a sigmoid.

use super::rotary::Rotary;
use super::{Encode, GateTerm, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Gate, Init};
use crate::ops::Real;

/// A bias that falls by what is read between a key and a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forget {
    /// What a gate makes of w·x + b.
    pub gate: Gate,
    /// b at first: with a sigmoid at 3, a token keeps 0.95 of what came before it.
    pub bias: f64,
    /// Whether queries and keys turn as well.
    pub is_rotary: bool,
}

impl Default for Forget {
    fn default() -> Self {
        Forget { gate: Gate::Sigmoid, bias: 3.0, is_rotary: false }
    }
}

impl<T: Real> Encode<T> for Forget {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            let expected = "a causal model: what is forgotten lies between a token and those before it";
            return Err(Error::input("forget", "asked for without a causal mask", expected));
        }
        if self.bias.is_nan() || self.bias.abs() > 100.0 {
            return Err(Error::input("the bias of the gates", self.bias, "from -100 to 100"));
        }
        if self.is_rotary { Encode::<T>::check(&Rotary::default(), sizes) } else { Ok(()) }
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        match self.is_rotary {
            true => Rotary::default().terms(builder, layer, sizes),
            false => Terms::default(),
        }
    }

    fn gate(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Option<GateTerm> {
        let name = |part: &str| format!("position.forget.{layer}.{part}");
        let parameters = builder.parameters();
        let weight = parameters.add(name("weight"), &[sizes.heads, sizes.width], Init::Normal(0.02));
        let bias = parameters.add(name("bias"), &[sizes.heads], Init::Constant(self.bias));
        Some(GateTerm { weight, bias, gate: self.gate })
    }
}
