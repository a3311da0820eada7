//! FIRE (Li et al. 2023, arXiv 2310.04418): the bias is what a small network makes of how far a key is, as a part of how far it
//! could be: f(ψ(i − j)/ψ(max(L, i))), ψ(r) = ln(1 + c·r), with c, L and the network learned in each layer. However long a
//! text is, the network reads numbers from 0 to 1.

use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, FireWeights, Init};
use crate::ops::Real;

/// A bias by a small network of the relative distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fire {
    /// Hidden numbers of the network.
    pub hidden: usize,
    /// c at first: from about 1/c tokens on the logarithm flattens distances.
    pub rate: f64,
    /// L at first: queries before this place read distances as parts of it.
    pub threshold: f64,
}

impl Default for Fire {
    fn default() -> Self {
        Fire { hidden: 32, rate: 0.1, threshold: 64.0 }
    }
}

impl<T: Real> Encode<T> for Fire {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            let expected = "a causal model: distances are parts of how far back a token can look";
            return Err(Error::input("fire", "asked for without a causal mask", expected));
        }
        if !(1..=1024).contains(&self.hidden) {
            return Err(Error::input("the hidden numbers of fire", self.hidden, "from 1 to 1024"));
        }
        for (name, value) in [("rate", self.rate), ("threshold", self.threshold)] {
            if !(1e-9..=1e9).contains(&value) {
                return Err(Error::input(name, value, "from 1e-9 to 1e9: its logarithm is learned"));
            }
        }
        Ok(())
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let name = |part: &str| format!("position.fire.{layer}.{part}");
        let parameters = builder.parameters();
        let first = Init::Given(vec![self.rate.ln(), self.threshold.ln()]);
        let weights = FireWeights {
            scale: parameters.add(name("scale"), &[1, 2], first),
            // Of the size at which a network of one input and so many hidden numbers neither fades nor grows.
            inner: parameters.add(name("inner.weight"), &[self.hidden, 2], Init::Normal(1.0)),
            outer: parameters.add(
                name("outer.weight"),
                &[sizes.heads, self.hidden],
                Init::Normal(1.0 / (self.hidden as f64).sqrt()),
            ),
        };
        let pairs = builder.fire(weights, sizes.heads, sizes.length);
        Terms { pairs: Some(pairs), ..Terms::default() }
    }
}
