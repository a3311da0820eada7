//! A bias that falls with the logarithm of the distance, −r₁·ln(1 + r₂·r), from the logarithms of r₁ and r₂: what KERPLE
//! learns.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::Real;

impl<T: Real> Builder<T> {
    /// `[heads, length]`: the bias of each head at distances 0, 1, 2 and so on, from `[heads, 2]`, its ln r₁ and ln r₂.
    pub fn log_bias(&mut self, weight: Parameter, heads: usize, length: usize) -> Value {
        let table = self.value(heads, length);
        self.add(LogBias { weight, table });
        table
    }
}

pub(super) struct LogBias {
    weight: Parameter,
    table: Value,
}

impl<T: Real> Operation<T> for LogBias {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.table, |values, table| {
            let rows = table.chunks_exact_mut(self.table.width);
            for (row, weight) in rows.zip(values.parameter(self.weight).chunks_exact(2)) {
                let (strength, rate) = (weight[0].to_f64().exp(), weight[1].to_f64().exp());
                for (distance, bias) in row.iter_mut().enumerate() {
                    *bias = T::of(-strength * (rate * distance as f64).ln_1p());
                }
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let (weights, tables) = (values.parameter(self.weight), values.get(self.table));
        let (sums, dtables) = gradients.parameter(self.weight, self.table);
        let rows = tables.chunks_exact(self.table.width).zip(dtables.chunks_exact(self.table.width));
        for ((sum, weight), (row, drow)) in sums.chunks_exact_mut(2).zip(weights.chunks_exact(2)).zip(rows) {
            let (strength, rate) = (weight[0].to_f64().exp(), weight[1].to_f64().exp());
            let (mut by_strength, mut by_rate) = (0.0, 0.0);
            for (distance, (bias, dbias)) in row.iter().zip(drow).enumerate() {
                let (bias, dbias, reach) = (bias.to_f64(), dbias.to_f64(), rate * distance as f64);
                // ∂b/∂(ln r₁) = b, and ∂b/∂(ln r₂) = −r₁·r₂·r/(1 + r₂·r).
                by_strength += dbias * bias;
                by_rate -= dbias * strength * reach / (1.0 + reach);
            }
            sum[0] += T::of(by_strength);
            sum[1] += T::of(by_rate);
        }
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, lowering: &mut super::Lowering) -> super::Lowered {
        use crate::ops::cuda::product::Storage;
        use crate::ops::cuda::training::rotation;
        let (weight, table) = (self.weight, self.table);
        let work = rotation::Kernel {
            weight: lowering.parameter(weight),
            table: lowering.make(table, Storage::F32),
            dtable: gpu::Span::NOTHING,
            gradient: gpu::Span::NOTHING,
            heads: table.rows,
            length: table.width,
        };
        lowering.forward(move |gpu| rotation::kernel_forward(&gpu.training()?.rotation, gpu, &work));
        Ok(Box::new(move |lowering| {
            let Some(dtable) = lowering.gradient(table) else { return Ok(()) };
            let work = rotation::Kernel { dtable, gradient: lowering.parameter_gradient(weight), ..work };
            lowering.backward(move |gpu| rotation::kernel_backward(&gpu.training()?.rotation, gpu, &work));
            Ok(())
        }))
    }
}
