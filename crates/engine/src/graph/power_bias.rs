//! A bias that falls with a power of the distance, −r₁·r^r₂, from ln r₁ and a, with r₂ = 2/(1 + e^(−a)) between 0 and 2:
//! KERPLE's other kernel.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::Real;

impl<T: Real> Builder<T> {
    /// `[heads, length]`: the bias of each head at distances 0, 1, 2 and so on, from `[heads, 2]`, its ln r₁ and a.
    pub fn power_bias(&mut self, weight: Parameter, heads: usize, length: usize) -> Value {
        let table = self.value(heads, length);
        self.add(PowerBias { weight, table });
        table
    }
}

pub(super) struct PowerBias {
    weight: Parameter,
    table: Value,
}

/// r₁ and r₂ from what is learned.
fn strength_and_power<T: Real>(weight: &[T]) -> (f64, f64) {
    (weight[0].to_f64().exp(), 2.0 / (1.0 + (-weight[1].to_f64()).exp()))
}

impl<T: Real> Operation<T> for PowerBias {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.table, |values, table| {
            let rows = table.chunks_exact_mut(self.table.width);
            for (row, weight) in rows.zip(values.parameter(self.weight).chunks_exact(2)) {
                let (strength, power) = strength_and_power(weight);
                for (distance, bias) in row.iter_mut().enumerate() {
                    *bias = T::of(-strength * (distance as f64).powf(power));
                }
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let weights = values.parameter(self.weight);
        let (sums, dtables) = gradients.parameter(self.weight, self.table);
        let rows = dtables.chunks_exact(self.table.width);
        for ((sum, weight), row) in sums.chunks_exact_mut(2).zip(weights.chunks_exact(2)).zip(rows) {
            let (strength, power) = strength_and_power(weight);
            let (mut by_strength, mut by_power) = (0.0, 0.0);
            // At a distance of 0 the bias is 0 whatever the parameters are.
            for (distance, dbias) in row.iter().enumerate().skip(1) {
                let distance = distance as f64;
                let gradient = dbias.to_f64() * -strength * distance.powf(power);
                // ∂b/∂(ln r₁) = b, ∂b/∂r₂ = b·ln r, and dr₂/da = r₂·(1 − r₂/2).
                by_strength += gradient;
                by_power += gradient * distance.ln() * power * (1.0 - power / 2.0);
            }
            sum[0] += T::of(by_strength);
            sum[1] += T::of(by_power);
        }
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        let reason =
            "the encoding kerple with kernel=power has no form for a GPU; use the CPU, or kernel=log";
        Err(crate::error::Error::Device(reason.into()))
    }
}
