//! Norms, activations and dropout.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::norm::training::Kind;
use crate::ops::{Activation, Real, activation, dropout, norm};

impl<T: Real> Builder<T> {
    /// (x − mean)/√(variance + ε)·weight + bias, row by row.
    pub fn layer_norm(
        &mut self,
        x: Value,
        weight: Parameter,
        bias: Option<Parameter>,
        epsilon: f64,
    ) -> Value {
        self.norm(x, Kind::Layer, weight, bias, epsilon)
    }

    /// x/√(mean of squares + ε)·weight, row by row.
    pub fn rms_norm(&mut self, x: Value, weight: Parameter, epsilon: f64) -> Value {
        self.norm(x, Kind::Rms, weight, None, epsilon)
    }

    fn norm(
        &mut self,
        x: Value,
        kind: Kind,
        weight: Parameter,
        bias: Option<Parameter>,
        epsilon: f64,
    ) -> Value {
        let out = self.value(x.rows, x.width);
        let scratch = vec![T::ZERO; norm::training::Norm::<T>::scratch(x.rows, x.width)];
        self.add(Norm {
            x,
            kind,
            weight,
            bias,
            epsilon,
            statistics: vec![T::ZERO; 2 * x.rows],
            scratch,
            out,
        });
        out
    }

    /// activation(x). Nothing else may read x.
    pub fn activation(&mut self, x: Value, activation: Activation) -> Value {
        let out = self.value(x.rows, x.width);
        self.add(Activate { x, activation, out });
        out
    }

    /// activation(gate)·up, where gate and up stand side by side in x. Nothing else may read x.
    pub fn gate(&mut self, x: Value, activation: Activation) -> Value {
        let out = self.value(x.rows, x.width / 2);
        self.add(Gate { x, activation, out });
        out
    }

    /// factor·x, in place. Nothing else may have read x.
    pub fn times(&mut self, x: Value, factor: f64) -> Value {
        if factor != 1.0 {
            self.add(Times { x, factor });
        }
        x
    }

    /// x with numbers dropped in training, in place. Nothing else may have read x.
    pub fn dropout(&mut self, x: Value, probability: f64) -> Value {
        if probability > 0.0 {
            let site = self.site();
            self.add(Dropout { x, probability, site });
        }
        x
    }
}

pub(super) struct Norm<T> {
    pub(super) x: Value,
    pub(super) kind: Kind,
    pub(super) weight: Parameter,
    pub(super) bias: Option<Parameter>,
    pub(super) epsilon: f64,
    /// What the way back needs of each row: its mean and 1/σ.
    pub(super) statistics: Vec<T>,
    /// What the way back sums over blocks of rows.
    pub(super) scratch: Vec<T>,
    pub(super) out: Value,
}

impl<T: Real> Norm<T> {
    fn norm<'a>(&self, values: &'a Values<T>) -> norm::training::Norm<'a, T> {
        norm::training::Norm {
            kind: self.kind,
            width: self.x.width,
            weight: values.parameter(self.weight),
            bias: self.bias.map(|bias| values.parameter(bias)),
            epsilon: self.epsilon,
        }
    }
}

impl<T: Real> Operation<T> for Norm<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let mut statistics = std::mem::take(&mut self.statistics);
        values.write(self.out, |values, out| {
            let norm = self.norm(values);
            let kept = self.x.rows * norm.kind.statistics();
            norm.forward(values.get(self.x), out, &mut statistics[..kept]);
        });
        self.statistics = statistics;
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let (norm, x) = (self.norm(values), values.get(self.x));
        let known = (x, &self.statistics[..self.x.rows * norm.kind.statistics()]);
        let (mut dx, accumulate) = gradients.lend(self.x);
        // Weight and bias were added one after the other.
        let range = self.weight.range().start..self.bias.unwrap_or(self.weight).range().end;
        let (parameters, dy) = gradients.parameters(range, self.out);
        let (weight, bias) = parameters.split_at_mut(self.x.width);
        let (weight, bias) = (Some(weight), self.bias.map(|_| bias));
        let parameters = norm::training::Parameters { weight, bias, scratch: &mut scratch };
        norm.backward(known, dy, (&mut dx, accumulate), parameters);
        self.scratch = scratch;
        gradients.take_back(self.x, dx);
    }

    lowered_in_cuda!();
}

pub(super) struct Activate {
    /// In a step that goes back, its derivatives from the forward pass on.
    pub(super) x: Value,
    pub(super) activation: Activation,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Activate {
    fn forward(&mut self, values: &mut Values<T>) {
        if !values.is_going_back {
            return values.write(self.out, |values, out| self.activation.forward(values.get(self.x), out));
        }
        let mut x = values.store.lend(self.x);
        values.write(self.out, |_, out| self.activation.forward_with_derivatives(&mut x, out));
        values.store.values[self.x.index] = Some(x);
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.add(self.out, |_, dy| activation::backward(values.get(self.x), dy));
        gradients.hand_over(self.out, self.x);
    }

    lowered_in_cuda!();
}

pub(super) struct Gate {
    pub(super) x: Value,
    pub(super) activation: Activation,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Gate {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| {
            activation::gate(values.get(self.x), self.out.width, self.activation, out);
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.contribute(self.x, |gradients, dx, _| {
            let dy = gradients.get(self.out);
            activation::gate_backward(values.get(self.x), self.out.width, self.activation, dy, dx);
        });
    }

    lowered_in_cuda!();
}

pub(super) struct Times {
    pub(super) x: Value,
    pub(super) factor: f64,
}

impl<T: Real> Operation<T> for Times {
    fn forward(&mut self, values: &mut Values<T>) {
        let factor = T::of(self.factor);
        values.write(self.x, |_, numbers| numbers.iter_mut().for_each(|x| *x *= factor));
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let factor = T::of(self.factor);
        gradients.add(self.x, |_, numbers| numbers.iter_mut().for_each(|x| *x *= factor));
    }

    lowered_in_cuda!();
}

pub(super) struct Dropout {
    pub(super) x: Value,
    pub(super) probability: f64,
    pub(super) site: u64,
}

impl Dropout {
    fn apply<T: Real>(&self, values: &Values<T>, numbers: &mut [T]) {
        let batch = &values.batch;
        if batch.is_training {
            dropout::apply(numbers, self.probability, batch.seed, batch.step, self.site);
        }
    }
}

impl<T: Real> Operation<T> for Dropout {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.x, |values, numbers| self.apply(values, numbers));
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.add(self.x, |_, numbers| self.apply(values, numbers));
    }

    lowered_in_cuda!();
}
