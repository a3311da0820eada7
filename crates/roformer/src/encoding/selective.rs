//! Selective RoPE (Movahedi et al. 2025, arXiv 2511.17388): how far a pair of features turns from one token to the next follows from
//! what is read. The angle of pair j of key head h at token t is θ_j·Σ_(u ≤ t) z_u, z = W·x + b, with x what the layer reads, so a
//! score knows the sum of z between a key and a query in the place of their distance. Rotary embedding is the case W = 0, b = 1,
//! from which it starts.
//!
//! The sum itself is what is here, under softmax and under linear attention. The paper's own layers also make W of two smaller
//! matrices, may gate z, and run a convolution over four tokens of it; those are left out.

use super::{AngleTerm, Encode, Sizes};
use crate::error::{Error, Result};
use crate::graph::{Angles, Builder, Init};
use crate::ops::Real;
use rope::{Pairing, Rope};

/// Rotary embedding that turns by what is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selective {
    /// The base of the frequencies θ.
    pub base: f64,
    /// b at first: at 1 every token turns as far as in rotary embedding, at 0 none turns before W has learned to.
    pub bias: f64,
}

impl Default for Selective {
    fn default() -> Self {
        Selective { base: 10_000.0, bias: 1.0 }
    }
}

impl Selective {
    /// θ of the pairs of a head.
    fn theta(&self, head_dim: usize) -> Result<Vec<f64>> {
        let rope = Rope::builder(head_dim).base(self.base).pairing(Pairing::Interleaved).build()?;
        Ok(rope.frequencies(None).inv_freq().to_vec())
    }
}

impl<T: Real> Encode<T> for Selective {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            let expected = "a causal model: angles sum up over the tokens that were read so far";
            return Err(Error::input("selective", "asked for without a causal mask", expected));
        }
        if self.bias.is_nan() || self.bias.abs() > 100.0 {
            return Err(Error::input("the bias of the angles", self.bias, "from -100 to 100"));
        }
        self.theta(sizes.head_dim).map(drop)
    }

    fn angles(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Option<AngleTerm> {
        let theta = self.theta(sizes.head_dim).ok()?;
        let count = sizes.key_heads * theta.len();
        let name = |part: &str| format!("position.selective.{layer}.{part}");
        let parameters = builder.parameters();
        let weight = parameters.add(name("weight"), &[count, sizes.width], Init::Normal(0.02));
        let bias = parameters.add(name("bias"), &[count], Init::Constant(self.bias));
        Some(AngleTerm { weight, bias, angles: Angles { theta, heads: sizes.key_heads } })
    }
}
