//! Rows of tables: embeddings of tokens, and codes of positions.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::Real;
use crate::ops::embedding::{self, Combination};
use std::sync::Arc;

/// Rows and weights: a row of the result is a sum of up to three rows of a table.
pub type Rows = [(u32, f64); 3];

impl<T: Real> Builder<T> {
    /// The rows of a table `[vocabulary, width]` that the batch's ids name, or those of its source, `[batch · length, width]`.
    pub fn tokens(&mut self, table: Parameter, rows: usize, width: usize) -> Value {
        let out = self.value(rows, width);
        let ids = if self.is_of_source { Ids::Source } else { Ids::Own };
        self.add(Tokens { table, ids, out });
        out
    }

    /// The same for the batch's segments.
    pub fn types(&mut self, table: Parameter, rows: usize, width: usize) -> Value {
        let out = self.value(rows, width);
        self.add(Tokens { table, ids: Ids::Types, out });
        out
    }

    /// For each of the batch's positions the sum of rows of a table that `rows` names, `[length, width]`.
    pub fn position_rows(
        &mut self,
        table: Value,
        length: usize,
        rows: impl Fn(u32) -> Rows + Send + Sync + 'static,
    ) -> Value {
        let out = self.value(length, table.width);
        let (named, weights) = (vec![0; 3 * length], vec![T::ZERO; 3 * length]);
        self.add(Positions { table, rows: Arc::new(rows), named, weights, out });
        out
    }
}

/// Which numbers of a batch name rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    Own,
    Types,
    Source,
}

pub(super) struct Tokens {
    pub(super) table: Parameter,
    pub(super) ids: Ids,
    pub(super) out: Value,
}

impl Tokens {
    fn ids<'a, T: Real>(&self, values: &'a Values<T>) -> &'a [u32] {
        match self.ids {
            Ids::Own => &values.batch.ids,
            Ids::Types => &values.batch.types,
            Ids::Source => &values.batch.source,
        }
    }
}

impl<T: Real> Operation<T> for Tokens {
    fn forward(&mut self, values: &mut Values<T>) {
        let width = self.out.width;
        values.write(self.out, |values, out| {
            let (table, ids) = (values.parameter(self.table), self.ids(values));
            match ids.is_empty() {
                // Without segments every token is of the first.
                true => out.chunks_mut(width).for_each(|out| out.copy_from_slice(&table[..width])),
                false => embedding::gather(table, ids, width, out, false),
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let (sum, dy) = gradients.parameter(self.table, self.out);
        let (ids, width) = (self.ids(values), self.out.width);
        match ids.is_empty() {
            true => {
                for dy in dy.chunks(width) {
                    sum[..width].iter_mut().zip(dy).for_each(|(sum, &dy)| *sum += dy);
                }
            }
            false => embedding::gather_backward(dy, ids, width, sum),
        }
    }

    lowered_in_cuda!();
}

pub(super) struct Positions<T> {
    pub(super) table: Value,
    pub(super) rows: Arc<dyn Fn(u32) -> Rows + Send + Sync>,
    /// `[length, 3]`: what `rows` gave for the positions of this step.
    pub(super) named: Vec<u32>,
    pub(super) weights: Vec<T>,
    pub(super) out: Value,
}

impl<T: Real> Positions<T> {
    fn combination(&self) -> Combination<'_, T> {
        Combination { rows: &self.named, weights: &self.weights, terms: 3 }
    }
}

impl<T: Real> Operation<T> for Positions<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let given = &values.batch.positions;
        let parts = self.named.chunks_exact_mut(3).zip(self.weights.chunks_exact_mut(3));
        for (index, (named, weights)) in parts.enumerate() {
            let rows = (self.rows)(given.get(index).copied().unwrap_or(index as u32));
            for ((row, weight), (named, out)) in rows.into_iter().zip(named.iter_mut().zip(weights)) {
                (*named, *out) = (row, T::of(weight));
            }
        }
        values.write(self.out, |values, out| {
            self.combination().forward(values.get(self.table), self.table.width, out, false);
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.add(self.table, |gradients, sum| {
            self.combination().backward(gradients.get(self.out), self.table.width, sum);
        });
    }

    lowered_in_cuda!();
}
