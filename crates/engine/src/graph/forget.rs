//! Sums of gates over the tokens so far, c_t = Σ_(l ≤ t) g(z_l): what is forgotten between a key and a query is the difference
//! of two of them.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;

/// What a gate makes of a number: how much a score falls for each token that is passed, 0 or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// ln σ(z): the logarithm of the part that is kept (the Forgetting Transformer).
    #[default]
    Sigmoid,
    /// −max(z, 0): nothing is forgotten where z is below 0.
    Relu,
}

impl Gate {
    /// g(z).
    pub fn of(self, z: f64) -> f64 {
        match self {
            // In the form that neither overflows nor loses small numbers.
            Gate::Sigmoid => z.min(0.0) - (-z.abs()).exp().ln_1p(),
            Gate::Relu => -z.max(0.0),
        }
    }

    /// g′(z).
    pub fn slope(self, z: f64) -> f64 {
        match self {
            Gate::Sigmoid => 1.0 / (1.0 + z.exp()),
            Gate::Relu if z > 0.0 => -1.0,
            Gate::Relu => 0.0,
        }
    }
}

impl<T: Real> Builder<T> {
    /// `[batch · length, heads]`: for each token of a text and each head the sum of g(z) up to it; z has the same shape.
    pub fn accumulate(&mut self, z: Value, gate: Gate, length: usize) -> Value {
        let out = self.value(z.rows, z.width);
        self.add(Accumulate { z, gate, length, out });
        out
    }
}

pub(super) struct Accumulate {
    z: Value,
    gate: Gate,
    length: usize,
    out: Value,
}

impl<T: Real> Operation<T> for Accumulate {
    fn forward(&mut self, values: &mut Values<T>) {
        let (heads, text) = (self.z.width, self.length * self.z.width);
        values.write(self.out, |values, out| {
            for (z, out) in values.get(self.z).chunks_exact(text).zip(out.chunks_exact_mut(text)) {
                for head in 0..heads {
                    let mut sum = 0.0;
                    for (z, out) in z[head..].iter().zip(&mut out[head..]).step_by(heads) {
                        sum += self.gate.of(z.to_f64());
                        *out = T::of(sum);
                    }
                }
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let (heads, text) = (self.z.width, self.length * self.z.width);
        gradients.add(self.z, |gradients, dz| {
            let texts = values.get(self.z).chunks_exact(text).zip(gradients.get(self.out).chunks_exact(text));
            for (dz, (z, dc)) in dz.chunks_exact_mut(text).zip(texts) {
                for head in 0..heads {
                    // A token's gate is in its own sum and in all that follow.
                    let mut sum = 0.0;
                    for at in (head..text).step_by(heads).rev() {
                        sum += dc[at].to_f64();
                        dz[at] += T::of(sum * self.gate.slope(z[at].to_f64()));
                    }
                }
            }
        });
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        Err(crate::error::Error::Device("the encoding forget has no form for a GPU; use the CPU".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_their_formulas_far_out_too() {
        for z in [-3.0, -0.5, 0.0, 0.7, 4.0f64] {
            assert!((Gate::Sigmoid.of(z) - (1.0 / (1.0 + (-z).exp())).ln()).abs() < 1e-15, "{z}");
            let h = 1e-6;
            let slope = (Gate::Sigmoid.of(z + h) - Gate::Sigmoid.of(z - h)) / (2.0 * h);
            assert!((Gate::Sigmoid.slope(z) - slope).abs() < 1e-9, "{z}");
            assert_eq!(
                (Gate::Relu.of(z), Gate::Relu.slope(z)),
                if z > 0.0 { (-z, -1.0) } else { (0.0, 0.0) }
            );
        }
        assert_eq!(Gate::Sigmoid.of(-1000.0), -1000.0);
        let small = Gate::Sigmoid.of(50.0);
        assert!((small + (-50f64).exp()).abs() < 1e-30 && small < 0.0, "{small:e}");
        assert_eq!((Gate::Sigmoid.slope(-1000.0), Gate::Sigmoid.slope(1000.0)), (1.0, 0.0));
    }
}
