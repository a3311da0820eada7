//! Frequencies with a receptive field, θ*_j = α/10000^ρ + (1−α)·θ_j, from what is learned: a, with α = 1/(1 + e^(−a)), and ρ.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;

impl<T: Real> Builder<T> {
    /// `[1, pairs]`: frequencies from `field`, `[1, 2]`, which is a and ρ, and θ, `[pairs]`.
    pub fn field_frequencies(&mut self, field: Value, theta: Vec<f64>) -> Value {
        let out = self.value(1, theta.len());
        self.add(Frequencies { field, theta, out });
        out
    }
}

/// α from what is learned.
fn alpha(learned: f64) -> f64 {
    1.0 / (1.0 + (-learned).exp())
}

pub(super) struct Frequencies {
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
    fn lower(&self, lowering: &mut super::Lowering) -> super::Lowered {
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
            let Some(frequencies) = lowering.gradient(out) else { return Ok(()) };
            let work = rotation::Field { frequencies, gradient: lowering.add_to(field), ..work };
            lowering.backward(move |gpu| rotation::field_backward(&gpu.training()?.rotation, gpu, &work));
            Ok(())
        }))
    }
}
