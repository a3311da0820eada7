//! KERPLE's kernels (Chi et al. 2022): −r₁·ln(1 + r₂·|i − j|) added to the score, with an r₁ > 0 and an r₂ > 0 for each head of
//! each layer; or a power, −r₁·|i − j|^r₂, with r₂ between 0 and 2.
//!
//! What is learned of the first is their logarithms, so that both stay positive. Near a token the bias falls by about r₁·r₂ per token, as
//! ALiBi's does everywhere; far from it a distance e times as long costs r₁ more, so that distances beyond those of
//! training have biases not far from known ones. Without a causal mask it cannot tell a sentence from its reversal.

use super::{Encode, Sizes, Terms, by_distance};
use crate::error::{Error, Result};
use crate::graph::{Builder, Init, TableTerm};
use crate::ops::Real;

/// A learned bias that falls with the logarithm of the distance.
///
/// A training step with it:
///
/// ```
/// use roformer::blueprint::{Blueprint, Dims};
/// use roformer::encoding::{Encoding, Kerple};
/// use roformer::graph::Batch;
/// use roformer::network::{Network, Task};
/// use roformer::ops::optimizer::{AdamW, State};
///
/// let plain = Blueprint::plain(Dims { vocabulary: 10, width: 16, layers: 2, heads: 2 });
/// let blueprint = Blueprint { encoding: Encoding::Kerple(Kerple::default()), ..plain };
/// let network = Network { blueprint, dropout: 0.0, task: Task::Language };
/// // One text of six tokens; each token's target is the next one.
/// let mut laid = network.build::<f32>(1, 6, 6)?;
/// let parameters = laid.graph.layout().clone();
/// parameters.initialise(1, laid.graph.parameters_mut());
/// laid.set(Batch { ids: vec![1, 2, 3, 4, 5, 6], targets: vec![2, 3, 4, 5, 6, 7], ..Batch::default() })?;
///
/// let ranges: Vec<_> =
///     parameters.entries().iter().map(|entry| (entry.range.clone(), entry.is_matrix())).collect();
/// let (mut first, mut second) = (vec![0.0; parameters.len()], vec![0.0; parameters.len()]);
/// let adam = AdamW::default();
/// let mut losses = Vec::new();
/// for step in 1..=5 {
///     laid.graph.clear();
///     losses.push(laid.graph.step(1.0));
///     let (parameters, gradients) = laid.graph.both_mut();
///     let mut state = State { parameters, gradients, first: &mut first, second: &mut second };
///     adam.apply(&adam.at(step, 1e-3, 1.0), &mut state, &ranges);
/// }
/// assert!(losses[4] < losses[0]);
/// # Ok::<(), roformer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kerple {
    /// r₁ at first: what a distance e times as long costs more, far away.
    pub strength: f64,
    /// r₂ at first: from about 1/r₂ tokens on the logarithm flattens the bias; or the power.
    pub rate: f64,
    /// How the bias falls.
    pub kernel: Kernel,
}

/// How KERPLE's bias falls with the distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// With its logarithm.
    #[default]
    Log,
    /// With a power of it.
    Power,
}

impl Default for Kerple {
    fn default() -> Self {
        Kerple { strength: 1.0, rate: 0.5, kernel: Kernel::Log }
    }
}

impl<T: Real> Encode<T> for Kerple {
    fn check(&self, _sizes: &Sizes) -> Result<()> {
        for (name, value) in [("strength", self.strength), ("rate", self.rate)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::input(name, value, "a number above 0: its logarithm is learned"));
            }
        }
        if self.kernel == Kernel::Power && self.rate >= 2.0 {
            return Err(Error::input("rate", self.rate, "less than 2, as a power of the distance"));
        }
        Ok(())
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let (heads, length) = (sizes.heads, sizes.length);
        let second = match self.kernel {
            Kernel::Log => self.rate.ln(),
            // r₂ = 2/(1 + e^(−a))
            Kernel::Power => (self.rate / (2.0 - self.rate)).ln(),
        };
        let first = [self.strength.ln(), second].repeat(heads);
        let name = format!("position.kerple.{layer}.weight");
        let weight = builder.parameters().add(name, &[heads, 2], Init::Given(first));
        let table = match self.kernel {
            Kernel::Log => builder.log_bias(weight, heads, length),
            Kernel::Power => builder.power_bias(weight, heads, length),
        };
        let index = by_distance(length, |distance| distance.unsigned_abs() as u32);
        Terms { bias: Some(TableTerm { table, index }), ..Terms::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::{Blueprint, Dims, Direction, LinearForm, Mixing};
    use crate::encoding::Encoding;
    use crate::network::{Network, Task};

    fn network(is_causal: bool, encoding: Kerple) -> Network {
        let blueprint = Blueprint {
            wide: 8,
            direction: if is_causal { Direction::Causal } else { Direction::Both },
            encoding: Encoding::Kerple(encoding),
            ..Blueprint::plain(Dims { vocabulary: 7, width: 6, layers: 2, heads: 3 })
        };
        Network { blueprint, dropout: 0.0, task: Task::Language }
    }

    #[test]
    fn biases_are_the_formula() {
        let mut builder = Builder::<f64>::default();
        let sizes = Sizes {
            batch: 1,
            length: 40,
            longest: 40,
            width: 6,
            codes: 6,
            heads: 3,
            key_heads: 3,
            head_dim: 2,
            is_causal: false,
            has_biases: true,
        };
        let terms = Kerple::default().terms(&mut builder, 0, &sizes);
        let bias = terms.bias.unwrap();
        let mut graph = builder.build().unwrap();
        let learned = [0.3f64, 2.0, 1.0, 0.01, 7.0, 50.0];
        let logarithms = learned.map(f64::ln);
        graph.parameters_mut().copy_from_slice(&logarithms);
        graph.forward();
        let table = graph.value(bias.table);
        for head in 0..3 {
            let (r1, r2) = (learned[2 * head], learned[2 * head + 1]);
            for (i, j) in (0..40).flat_map(|i: usize| (0..40).map(move |j: usize| (i, j))) {
                let wanted = -r1 * (1.0 + r2 * i.abs_diff(j) as f64).ln();
                // As attention reads it: query i and key j have entry i + keys − 1 − j.
                let got = table[head * 40 + bias.index[i + 39 - j] as usize];
                assert!(
                    (got - wanted).abs() <= 1e-13 * (1.0 + wanted.abs()),
                    "{head} {i} {j}: {got} {wanted}"
                );
            }
        }
    }

    #[test]
    fn what_it_starts_with_must_be_positive() {
        for (strength, rate) in [(0.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert!(
                network(true, Kerple { strength, rate, ..Kerple::default() }).build::<f32>(1, 2, 2).is_err()
            );
        }
    }

    #[test]
    fn linear_attention_refuses_it() {
        let linear =
            network(true, Kerple::default()).with(|own| own.mixing = Mixing::Linear(LinearForm::default()));
        let refused = linear.build::<f32>(1, 2, 2).err().unwrap().to_string();
        assert!(refused.contains("kerple"), "{refused}");
    }
}
