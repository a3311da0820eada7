//! Linear layers, sums, columns, and values that are given.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::{Real, linear, pass};

impl<T: Real> Builder<T> {
    /// x·Wᵀ + b: W `[outputs, inputs]`, b `[outputs]`.
    pub fn linear(&mut self, x: Value, weight: Parameter, bias: Option<Parameter>, outputs: usize) -> Value {
        let out = self.value(x.rows, outputs);
        let linear = Linear { x, weight, bias, residual: None, out };
        self.add(linear);
        self.last_linear = Some(linear);
        out
    }

    /// a + b, where b may have fewer rows, such as codes `[length, width]` for every text of `[batch · length, width]`. Nothing
    /// else may read b: if a linear layer has just made it, the layer adds a by itself.
    pub fn sum(&mut self, a: Value, b: Value) -> Value {
        let is_linear = |linear: &Linear| linear.out == b && a.rows == b.rows && a != b;
        if let Some(linear) = self.last_linear.filter(is_linear) {
            self.replace_last(Linear { residual: Some(a), ..linear });
            return b;
        }
        let out = self.value(a.rows, a.width);
        self.add(Sum { a, b, out });
        out
    }

    /// [x, codes]: the codes `[length, width]` beside every text of x `[batch · length, width]`.
    pub fn concatenate_rows(&mut self, x: Value, codes: Value) -> Value {
        let out = self.value(x.rows, x.width + codes.width);
        self.add(Concatenate { x, codes, out });
        out
    }

    /// Columns of x, from `first` on.
    pub fn columns(&mut self, x: Value, first: usize, count: usize) -> Value {
        let out = self.value(x.rows, count);
        self.add(Columns { x, first, out });
        out
    }

    /// Every `step`-th row of x, from `first` on: such as the first token of every text.
    pub fn every(&mut self, x: Value, first: usize, step: usize) -> Value {
        let out = self.value((x.rows - first).div_ceil(step), x.width);
        self.add(Every { x, first, step, out });
        out
    }

    /// A parameter as a value.
    pub fn lift(&mut self, parameter: Parameter, rows: usize, width: usize) -> Value {
        let out = self.value(rows, width);
        self.add(Lift { parameter, out });
        out
    }

    /// Numbers that are never learned.
    pub fn constant(&mut self, rows: usize, width: usize, numbers: &[f64]) -> Value {
        let out = self.value(rows, width);
        self.add(Constant { numbers: numbers.iter().map(|&x| T::of(x)).collect(), is_set: false, out });
        out
    }
}

/// A linear layer, and perhaps the sum of what it gives and a residual.
#[derive(Clone, Copy)]
pub(super) struct Linear {
    pub(super) x: Value,
    pub(super) weight: Parameter,
    pub(super) bias: Option<Parameter>,
    pub(super) residual: Option<Value>,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Linear {
    fn forward(&mut self, values: &mut Values<T>) {
        let Linear { x, weight, bias, residual, out } = *self;
        values.write(out, |values, numbers| {
            let (x_numbers, weight) = (values.get(x), values.parameter(weight));
            let bias = bias.map(|bias| values.parameter(bias));
            let residual = residual.map(|residual| values.get(residual));
            linear::forward(x_numbers, weight, bias, residual, numbers, [x.rows, x.width, out.width]);
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let Linear { x, weight, bias, residual, out } = *self;
        let (mut dx, accumulate) = gradients.lend(x);
        let ranges = [weight.range(), bias.map_or(0..0, Parameter::range)];
        let (parameters, dy) = gradients.each_parameter(ranges, out);
        let [dweight, dbias] = parameters;
        let given =
            linear::Gradients { x: (&mut dx, accumulate), weight: dweight, bias: bias.map(|_| dbias) };
        let sizes = [x.rows, x.width, out.width];
        linear::backward(dy, values.get(x), values.parameter(weight), given, sizes);
        gradients.take_back(x, dx);
        if let Some(residual) = residual {
            gradients.hand_over(out, residual);
        }
    }

    lowered_in_cuda!();
}

/// a + b, where b may have fewer rows: then it is repeated.
pub(super) struct Sum {
    pub(super) a: Value,
    pub(super) b: Value,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Sum {
    fn forward(&mut self, values: &mut Values<T>) {
        let Sum { a, b, out } = *self;
        values.write(out, |values, out| pass::add(values.get(a), values.get(b), out));
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.contribute(self.b, |gradients, sum, accumulate| {
            pass::add_backward(gradients.get(self.out), sum, accumulate);
        });
        gradients.hand_over(self.out, self.a);
    }

    lowered_in_cuda!();
}

pub(super) struct Concatenate {
    pub(super) x: Value,
    pub(super) codes: Value,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Concatenate {
    fn forward(&mut self, values: &mut Values<T>) {
        let Concatenate { x, codes, out } = *self;
        values.write(out, |values, numbers| {
            let repeated = values.get(codes).chunks(codes.width).cycle();
            let rows = values.get(x).chunks(x.width).zip(repeated);
            for (out, (x, code)) in numbers.chunks_mut(out.width).zip(rows) {
                out[..x.len()].copy_from_slice(x);
                out[x.len()..].copy_from_slice(code);
            }
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let Concatenate { x, codes, out } = *self;
        gradients.add_each([x, codes], |gradients, [dx, dcodes]| {
            for (row, dy) in gradients.get(out).chunks(out.width).enumerate() {
                let dx = &mut dx[row * x.width..][..x.width];
                dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
                let dcodes = &mut dcodes[row % codes.rows * codes.width..][..codes.width];
                dcodes.iter_mut().zip(&dy[x.width..]).for_each(|(dcode, &dy)| *dcode += dy);
            }
        });
    }

    lowered_in_cuda!();
}

pub(super) struct Columns {
    pub(super) x: Value,
    pub(super) first: usize,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Columns {
    fn forward(&mut self, values: &mut Values<T>) {
        let Columns { x, first, out } = *self;
        values.write(out, |values, numbers| {
            pass::columns(values.get(x), x.width, first, numbers, out.width);
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let Columns { x, first, out } = *self;
        gradients.add(x, |gradients, dx| {
            pass::columns_backward(gradients.get(out), out.width, first, dx, x.width);
        });
    }

    lowered_in_cuda!();
}

pub(super) struct Every {
    pub(super) x: Value,
    pub(super) first: usize,
    pub(super) step: usize,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Every {
    fn forward(&mut self, values: &mut Values<T>) {
        let Every { x, first, step, out } = *self;
        values.write(out, |values, out| {
            let rows = values.get(x).chunks(x.width).skip(first).step_by(step);
            out.chunks_mut(x.width).zip(rows).for_each(|(out, row)| out.copy_from_slice(row));
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let Every { x, first, step, out } = *self;
        gradients.add(x, |gradients, dx| {
            let rows = dx.chunks_mut(x.width).skip(first).step_by(step);
            for (dx, dy) in rows.zip(gradients.get(out).chunks(x.width)) {
                dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
            }
        });
    }

    lowered_in_cuda!();
}

pub(super) struct Lift {
    pub(super) parameter: Parameter,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Lift {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| out.copy_from_slice(values.parameter(self.parameter)));
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let (sum, dy) = gradients.parameter(self.parameter, self.out);
        sum.iter_mut().zip(dy).for_each(|(sum, &dy)| *sum += dy);
    }

    lowered_in_cuda!();
}

pub(super) struct Constant<T> {
    pub(super) numbers: Vec<T>,
    pub(super) is_set: bool,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Constant<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        if !self.is_set {
            values.write(self.out, |_, out| out.copy_from_slice(&self.numbers));
            self.is_set = true;
        }
    }

    fn backward(&mut self, _: &Values<T>, _: &mut Gradients<T>) {}

    lowered_in_cuda!();
}
