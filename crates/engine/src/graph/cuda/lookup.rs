//! Rows of tables: embeddings of tokens, and codes of positions.

use super::feed::write;
use super::{Lowered, Lowering};
use crate::graph::lookup::{Ids, Positions, Tokens};
use crate::ops::Real;
use crate::ops::cuda::no_encoder;
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::embedding::Scatter;
use crate::ops::cuda::training::positions;

impl Tokens {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Tokens { table, ids, out } = *self;
        if ids == Ids::Source {
            return Err(no_encoder());
        }
        let (count, width, storage) = (out.rows, out.width, lowering.storage());
        let vocabulary = table.range().len() / width;
        let [ids, order] = lowering.ids(ids == Ids::Types, count, vocabulary);
        let (factor, result) = (lowering.factor(table, storage), lowering.make(out, storage));
        lowering.forward(move |gpu| {
            // SAFETY: ids without a row of the table are refused where they are put in order.
            unsafe { gpu.look_up_rows(storage, [factor, ids, result], count, width) }
        });
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            let work = Scatter {
                dy,
                ids,
                order,
                table: lowering.parameter_gradient(table),
                scratch: lowering.scratch(Scatter::scratch(count, width)),
                count,
                width,
            };
            lowering.backward(move |gpu| {
                // SAFETY: as above; the order is made from the ids, and has each row once.
                unsafe { gpu.scatter_rows(storage, &work) }
            });
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
                for (bytes, (row, weight)) in bytes.chunks_exact_mut(4).zip(rows) {
                    // A kernel reads every row with a weight.
                    assert!((row as usize) < table.rows || weight as f32 == 0.0, "rows of the table");
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
        let rows_of = self.rows.clone();
        let bytes = positions::order_bytes(length, table.rows);
        let order = lowering.feed("order of rows of positions", bytes, move |batch, bytes| {
            let terms = (0..length).flat_map(|index| rows_of(place(&batch.positions, index)));
            write(positions::in_order(terms, table.rows), bytes);
        });
        let result = lowering.make(out, Storage::F32);
        let work = positions::Positions {
            table: lowering.place(table).span,
            entries: table.rows,
            rows: named,
            order,
            weights,
            out: result,
            length,
            width: table.width,
        };
        lowering.forward(move |gpu| {
            // SAFETY: rows without an entry of the table are refused where a batch brings them.
            unsafe { positions::position_rows(&gpu.training()?.rows, gpu, &work) }
        });
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            if lowering.is_constant(table) {
                return Ok(());
            }
            let work = positions::Positions { table: lowering.add_to(table), out: dy, ..work };
            lowering.backward(move |gpu| {
                // SAFETY: as above.
                unsafe { positions::position_rows_backward(&gpu.training()?.rows, gpu, &work) }
            });
            Ok(())
        }))
    }
}
