//! Rotary embedding of a value in place, with fixed or learned frequencies.

use super::{Lowered, Lowering};
use crate::error::{Error, Result};
use crate::graph::rotate::{Columns, Rotate};
use crate::ops::Real;
use crate::ops::cuda::training::rotation::{self, FrequencyGradient, Heads};
use rope::Turn;
use rope::cuda::Table;
use std::any::Any;
use std::sync::Arc;

impl Lowering<'_> {
    /// A table on the GPU; one that does not change is shared. `None` while memory is only counted.
    fn table<T: Real>(&mut self, table: &rope::Table<T>, is_shared: bool) -> Result<Option<Arc<Table>>> {
        if self.is_counting() {
            return Ok(None);
        }
        let table = (table as &dyn Any).downcast_ref::<rope::Table<f32>>();
        let table = table.ok_or_else(|| Error::Device("f64 is not trained on a GPU; use f32".into()))?;
        if let Some(kept) = self.tables.iter().find(|kept| is_shared && kept.holds(table)) {
            return Ok(Some(kept.clone()));
        }
        let made = Arc::new(Table::new(self.gpu.device(), table)?);
        if is_shared {
            self.tables.push(made.clone());
        }
        Ok(Some(made))
    }
}

impl<T: Real> Rotate<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (x, frequencies) = (self.x, self.frequencies);
        let Columns { first, heads, length, .. } = self.columns;
        let place = lowering.place(x);
        let (span, arithmetic) = (place.span, place.storage.arithmetic());
        let positions = match &self.places {
            Some(places) => lowering.constant(places),
            None => lowering.positions(length),
        };
        let heads = Heads { positions, batch: x.rows / length, length, width: x.width, first, heads };
        let table = lowering.table(&self.table, frequencies.is_none())?;
        let given = frequencies.map(|value| lowering.place(value).span);
        let forward_table = table.clone();
        lowering.forward(move |gpu| {
            let Some(table) = &forward_table else { return Ok(()) };
            if let Some(given) = given {
                rotation::fill(&gpu.training()?.rotation, gpu, given, table)?;
            }
            rotation::turn(gpu, arithmetic, table, Turn::Forward, span, &heads)
        });
        let scratch = rotation::scratch(self.table.rope().pairs());
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(x) else { return Ok(()) };
            let learned = frequencies.map(|value| {
                let (gradient, scratch) = (lowering.add_to(value), lowering.scratch(scratch));
                FrequencyGradient { y: span, dy, gradient, scratch }
            });
            lowering.backward(move |gpu| {
                let Some(table) = &table else { return Ok(()) };
                if let Some(learned) = &learned {
                    let kernels = &gpu.training()?.rotation;
                    rotation::frequency_gradient(kernels, gpu, arithmetic, table, learned, &heads)?;
                }
                rotation::turn(gpu, arithmetic, table, Turn::Backward, dy, &heads)
            });
            Ok(())
        }))
    }
}
