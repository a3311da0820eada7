//! Rotary embedding with a learned receptive field: θ*_j = φ + (1−α)·θ_j, φ = α/10000^ρ, with an α and a ρ for each layer.
//!
//! α starts at 0.1 and ρ at 0.5: at α = 0, ρ has no gradient. What is learned is a, with α = 1/(1 + e^(−a)), so that α stays
//! between 0 and 1, where the two parts of the score are a Hilbert pair.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms};
use crate::error::{Error, Result};
use crate::graph::{Builder, Gradients, Init, Operation, Turned, Value, Values};
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
        let out = builder.value(1, theta.len());
        builder.push(Frequencies { field, theta, out });
        let values = self.rotary.values;
        Terms { rotation: Some(Turned { rope, frequencies: Some(out), values }), ..Terms::default() }
    }
}

/// α from what is learned.
pub(super) fn alpha(learned: f64) -> f64 {
    1.0 / (1.0 + (-learned).exp())
}

/// `[1, pairs]` from `[a, ρ]`.
struct Frequencies {
    field: Value,
    theta: Vec<f64>,
    out: Value,
}

impl<T: Real> Operation<T> for Frequencies {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| {
            let field = values.get(self.field);
            let (alpha, rho) = (alpha(field[0].to_f64()), field[1].to_f64());
            let shared = alpha / 10_000f64.powf(rho);
            out.iter_mut()
                .zip(&self.theta)
                .for_each(|(out, theta)| *out = T::of(shared + (1.0 - alpha) * theta));
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let field = values.get(self.field);
        let (alpha, power) = (alpha(field[0].to_f64()), 10_000f64.powf(-field[1].to_f64()));
        gradients.add(self.field, |gradients, out| {
            let given = gradients.get(self.out);
            let total: f64 = given.iter().map(|given| given.to_f64()).sum();
            let weighted: f64 =
                given.iter().zip(&self.theta).map(|(given, theta)| given.to_f64() * theta).sum();
            // ∂θ*_j/∂α = 10000^(−ρ) − θ_j, and dα/da = α(1−α).
            out[0] += T::of((power * total - weighted) * alpha * (1.0 - alpha));
            // ∂θ*_j/∂ρ = −ln 10000·α·10000^(−ρ)
            out[1] += T::of(-10_000f64.ln() * alpha * power * total);
        });
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, lowering: &mut crate::graph::Lowering) -> crate::graph::Lowered {
        use crate::ops::cuda::product::Storage;
        use crate::ops::cuda::training::rotation;
        let (field, out) = (self.field, self.out);
        let work = rotation::Field {
            field: lowering.place(field).span,
            theta: lowering.constant(&self.theta),
            frequencies: lowering.make(out, Storage::F32),
            gradient: gpu::Span::NOTHING,
            pairs: self.theta.len(),
        };
        lowering.forward(move |gpu| rotation::field_forward(&gpu.training()?.rotation, gpu, &work));
        Ok(Box::new(move |lowering| {
            let Some(frequencies) = lowering.slope(out) else { return Ok(()) };
            let work = rotation::Field { frequencies, gradient: lowering.add_to(field), ..work };
            lowering.backward(move |gpu| rotation::field_backward(&gpu.training()?.rotation, gpu, &work));
            Ok(())
        }))
    }
}
