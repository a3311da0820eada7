//! Cross-entropy: over a vocabulary without ever holding its scores, and over a few classes.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::{Real, loss};

/// Scores that exist at a time: of few enough rows to stay in a cache, or of as many as products want.
const SCORES: usize = 1 << 18;
const ROWS: usize = 512;

impl<T: Real> Builder<T> {
    /// The mean of −ln softmax(cap(x·Wᵀ + b)) at the target over the batch's targets that count, where scores are capped
    /// ([`ops::cap`](crate::ops::cap)) if there is one. Nothing else may read x.
    pub fn vocabulary_loss(
        &mut self,
        x: Value,
        weight: Parameter,
        bias: Option<Parameter>,
        vocabulary: usize,
        cap: Option<f64>,
    ) -> Value {
        let out = self.value(1, 1);
        let block = (SCORES / vocabulary).clamp(ROWS, loss::MOST).min(x.rows);
        let scratch = vec![T::ZERO; loss::scratch(block, x.width, vocabulary)];
        self.add(Vocabulary { x, weight, bias, vocabulary, cap, scratch, out });
        out
    }

    /// The mean of −ln softmax(scores) at the target over the batch's targets that count. Nothing else may read the scores.
    pub fn class_loss(&mut self, scores: Value) -> Value {
        let out = self.value(1, 1);
        self.add(Classes { scores, out });
        out
    }
}

pub(super) struct Vocabulary<T> {
    pub(super) x: Value,
    pub(super) weight: Parameter,
    pub(super) bias: Option<Parameter>,
    pub(super) vocabulary: usize,
    pub(super) cap: Option<f64>,
    pub(super) scratch: Vec<T>,
    pub(super) out: Value,
}

impl<T: Real> Vocabulary<T> {
    fn output<'a>(&self, values: &'a Values<T>) -> loss::Output<'a, T> {
        loss::Output {
            weight: values.parameter(self.weight),
            bias: self.bias.map(|bias| values.parameter(bias)),
            width: self.x.width,
            vocabulary: self.vocabulary,
            cap: self.cap,
        }
    }
}

impl<T: Real> Operation<T> for Vocabulary<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        // The way back computes the scores once more, and the loss with them.
        if values.is_going_back {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        values.write(self.out, |values, out| {
            let (x, targets) = (values.get(self.x), &values.batch.targets);
            out[0] = T::of(self.output(values).cross_entropy(x, targets, &mut scratch, None));
        });
        self.scratch = scratch;
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let scale = gradients.get(self.out)[0].to_f64();
        let mut scratch = std::mem::take(&mut self.scratch);
        // Set, not added to.
        let mut dx = gradients.lend(self.x).0;
        let ranges = [self.weight.range(), self.bias.map_or(0..0, Parameter::range)];
        let ([weight, bias], _) = gradients.each_parameter(ranges, self.out);
        let bias = self.bias.map(|_| bias);
        let given = loss::Gradients { x: &mut dx, weight, bias, scale };
        let (x, targets) = (values.get(self.x), &values.batch.targets);
        gradients.loss = self.output(values).cross_entropy(x, targets, &mut scratch, Some(given));
        gradients.take_back(self.x, dx);
        self.scratch = scratch;
    }

    lowered_in_cuda!();
}

pub(super) struct Classes {
    pub(super) scores: Value,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Classes {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| {
            let (scores, targets) = (values.get(self.scores), &values.batch.targets);
            out[0] = T::of(loss::softmax_cross_entropy(scores, self.scores.width, targets, None));
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let scale = gradients.get(self.out)[0].to_f64();
        let mut loss = 0.0;
        gradients.contribute(self.scores, |_, dscores, _| {
            let (scores, targets) = (values.get(self.scores), &values.batch.targets);
            loss = loss::softmax_cross_entropy(scores, self.scores.width, targets, Some((dscores, scale)));
        });
        gradients.loss = loss;
    }

    lowered_in_cuda!();
}
