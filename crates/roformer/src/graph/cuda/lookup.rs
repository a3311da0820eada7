//! Rows of tables: embeddings of tokens, and codes of positions.

use super::{Lowered, Lowering};
use crate::graph::lookup::{Positions, Tokens};
use crate::ops::Real;
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::embedding::Scatter;
use crate::ops::cuda::training::rows;

impl Tokens {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Tokens { table, is_type, out } = *self;
        let (count, width, storage) = (out.rows, out.width, lowering.storage());
        let vocabulary = table.range().len() / width;
        let [ids, order] = lowering.ids(is_type, count, vocabulary);
        let (factor, result) = (lowering.factor(table, storage), lowering.make(out, storage));
        lowering.forward(move |gpu| gpu.look_up_rows(storage, [factor, ids, result], count, width));
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.slope(out) else { return Ok(()) };
            let work = Scatter {
                dy,
                ids,
                order,
                table: lowering.parameter_gradient(table),
                scratch: lowering.scratch(Scatter::scratch(count, width)),
                count: count as u32,
                width: width as u32,
            };
            lowering.backward(move |gpu| gpu.scatter_rows(storage, &work));
            Ok(())
        }))
    }
}

impl<T: Real> Positions<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (table, out, length) = (self.table, self.out, self.out.rows);
        let place = |positions: &[u32], index: usize| positions.get(index).copied().unwrap_or(index as u32);
        // One table of positions in a network.
        let rows_of = self.rows.clone();
        let named = lowering.feed("rows of positions", 12 * length, move |batch, bytes| {
            for (index, bytes) in bytes.chunks_exact_mut(12).enumerate() {
                let rows = rows_of(place(&batch.positions, index));
                for (bytes, (row, _)) in bytes.chunks_exact_mut(4).zip(rows) {
                    bytes.copy_from_slice(&row.to_ne_bytes());
                }
            }
        });
        let rows_of = self.rows.clone();
        let weights = lowering.feed("weights of positions", 12 * length, move |batch, bytes| {
            for (index, bytes) in bytes.chunks_exact_mut(12).enumerate() {
                let rows = rows_of(place(&batch.positions, index));
                for (bytes, (_, weight)) in bytes.chunks_exact_mut(4).zip(rows) {
                    bytes.copy_from_slice(&(weight as f32).to_ne_bytes());
                }
            }
        });
        let result = lowering.make(out, Storage::F32);
        let work = rows::Positions {
            table: lowering.place(table).address,
            rows: named,
            weights,
            out: result,
            length: length as u32,
            width: table.width as u32,
        };
        lowering.forward(move |gpu| rows::position_rows(&gpu.training()?.rows, gpu.queue(), &work));
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.slope(out) else { return Ok(()) };
            if lowering.is_constant(table) {
                return Ok(());
            }
            let work = rows::Positions { table: lowering.add_to(table), out: dy, ..work };
            lowering
                .backward(move |gpu| rows::position_rows_backward(&gpu.training()?.rows, gpu.queue(), &work));
            Ok(())
        }))
    }
}
