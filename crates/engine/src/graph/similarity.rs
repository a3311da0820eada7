//! The loss of vectors that come in pairs: by scores that are given, or by who belongs to whom.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;
use crate::ops::similarity::{self, Pairs};

impl<T: Real> Builder<T> {
    /// The loss of vectors of length 1, `[batch, width]`, rows 2i and 2i + 1 being a pair. Where the batch has scores, the
    /// mean squared error of the cosines; else the mean cross-entropy of finding each row's partner among all other rows.
    /// A pair whose texts have no real token is left out. Nothing else may read the vectors.
    pub fn pair_loss(&mut self, vectors: Value) -> Value {
        let out = self.value(1, 1);
        let scratch = vec![T::ZERO; similarity::scratch(vectors.rows)];
        self.add(PairLoss { vectors, counts: vec![true; vectors.rows / 2], scratch, out });
        out
    }
}

pub(super) struct PairLoss<T> {
    pub(super) vectors: Value,
    /// Which pairs count.
    pub(super) counts: Vec<bool>,
    pub(super) scratch: Vec<T>,
    pub(super) out: Value,
}

impl<T: Real> PairLoss<T> {
    fn loss(&mut self, values: &Values<T>, gradient: Option<(&mut [T], f64)>) -> f64 {
        let batch = &values.batch;
        let length = batch.ids.len() / self.vectors.rows;
        for (pair, counts) in self.counts.iter_mut().enumerate() {
            *counts = !batch.is_empty(2 * pair, length);
        }
        let pairs =
            Pairs { vectors: values.get(self.vectors), width: self.vectors.width, counts: &self.counts };
        match batch.scores.is_empty() {
            true => pairs.contrast(&mut self.scratch, gradient),
            false => pairs.squared_error(&batch.scores, &mut self.scratch, gradient),
        }
    }
}

impl<T: Real> Operation<T> for PairLoss<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| out[0] = T::of(self.loss(values, None)));
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let scale = gradients.get(self.out)[0].to_f64();
        let mut loss = 0.0;
        gradients.add(self.vectors, |_, dvectors| loss = self.loss(values, Some((dvectors, scale))));
        gradients.loss = loss;
    }

    lowered_in_cuda!();
}
