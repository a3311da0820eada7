//! Linear layers, sums, columns, and values that are given.

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::{Real, linear};

impl<T: Real> Builder<T> {
    /// x·Wᵀ + b: W `[outputs, inputs]`, b `[outputs]`.
    pub fn linear(&mut self, x: Value, weight: Parameter, bias: Option<Parameter>, outputs: usize) -> Value {
        let out = self.value(x.rows, outputs);
        self.push(Linear { x, weight, bias, out });
        out
    }

    /// a + b, where b may have fewer rows, such as codes `[length, width]` for every text of `[batch · length, width]`.
    pub fn sum(&mut self, a: Value, b: Value) -> Value {
        let out = self.value(a.rows, a.width);
        self.push(Sum { a, b, out });
        out
    }

    /// [x, codes]: the codes `[length, width]` beside every text of x `[batch · length, width]`.
    pub fn concatenate_rows(&mut self, x: Value, codes: Value) -> Value {
        let out = self.value(x.rows, x.width + codes.width);
        self.push(Concatenate { x, codes, out });
        out
    }

    /// Columns of x, from `first` on.
    pub fn columns(&mut self, x: Value, first: usize, count: usize) -> Value {
        let out = self.value(x.rows, count);
        self.push(Columns { x, first, out });
        out
    }

    /// Every `step`-th row of x, from `first` on: such as the first token of every text.
    pub fn every(&mut self, x: Value, first: usize, step: usize) -> Value {
        let out = self.value((x.rows - first).div_ceil(step), x.width);
        self.push(Every { x, first, step, out });
        out
    }

    /// A parameter as a value.
    pub fn lift(&mut self, parameter: Parameter, rows: usize, width: usize) -> Value {
        let out = self.value(rows, width);
        self.push(Lift { parameter, out });
        out
    }

    /// Numbers that are never learned.
    pub fn constant(&mut self, rows: usize, width: usize, numbers: &[f64]) -> Value {
        let out = self.value(rows, width);
        self.push(Constant { numbers: numbers.iter().map(|&x| T::of(x)).collect(), is_set: false, out });
        out
    }
}

struct Linear {
    x: Value,
    weight: Parameter,
    bias: Option<Parameter>,
    out: Value,
}

impl<T: Real> Operation<T> for Linear {
    fn forward(&mut self, values: &mut Values<T>) {
        let Linear { x, weight, bias, out } = *self;
        values.write(out, |values, numbers| {
            let bias = bias.map(|bias| values.parameter(bias));
            linear::forward(
                values.get(x),
                values.parameter(weight),
                bias,
                numbers,
                [x.rows, x.width, out.width],
            );
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let Linear { x, weight, bias, out } = *self;
        let sizes = [x.rows, x.width, out.width];
        gradients.add(x, |gradients, dx| {
            linear::backward_input(gradients.get(out), values.parameter(weight), dx, sizes, true);
        });
        let (dw, dy) = gradients.parameter(weight, out);
        linear::backward_weight(dy, values.get(x), dw, sizes);
        if let Some(bias) = bias {
            let (db, dy) = gradients.parameter(bias, out);
            linear::backward_bias(dy, db);
        }
    }
}

/// a + b, where b may have fewer rows: then it is repeated.
struct Sum {
    a: Value,
    b: Value,
    out: Value,
}

impl<T: Real> Operation<T> for Sum {
    fn forward(&mut self, values: &mut Values<T>) {
        let Sum { a, b, out } = *self;
        values.write(out, |values, out| {
            let (a, b) = (values.get(a), values.get(b));
            for (out, a) in out.chunks_mut(b.len()).zip(a.chunks(b.len())) {
                out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (&a, &b))| *out = a + b);
            }
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        for part in [self.a, self.b] {
            gradients.add(part, |gradients, sum| {
                for dy in gradients.get(self.out).chunks(sum.len()) {
                    sum.iter_mut().zip(dy).for_each(|(sum, &dy)| *sum += dy);
                }
            });
        }
    }
}

struct Concatenate {
    x: Value,
    codes: Value,
    out: Value,
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
}

struct Columns {
    x: Value,
    first: usize,
    out: Value,
}

impl<T: Real> Operation<T> for Columns {
    fn forward(&mut self, values: &mut Values<T>) {
        let Columns { x, first, out } = *self;
        values.write(out, |values, numbers| {
            for (to, from) in numbers.chunks_mut(out.width).zip(values.get(x).chunks(x.width)) {
                to.copy_from_slice(&from[first..][..out.width]);
            }
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let Columns { x, first, out } = *self;
        gradients.add(x, |gradients, dx| {
            for (dx, dy) in dx.chunks_mut(x.width).zip(gradients.get(out).chunks(out.width)) {
                dx[first..].iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
            }
        });
    }
}

struct Every {
    x: Value,
    first: usize,
    step: usize,
    out: Value,
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
}

struct Lift {
    parameter: Parameter,
    out: Value,
}

impl<T: Real> Operation<T> for Lift {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| out.copy_from_slice(values.parameter(self.parameter)));
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let (sum, dy) = gradients.parameter(self.parameter, self.out);
        sum.iter_mut().zip(dy).for_each(|(sum, &dy)| *sum += dy);
    }
}

struct Constant<T> {
    numbers: Vec<T>,
    is_set: bool,
    out: Value,
}

impl<T: Real> Operation<T> for Constant<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        if !self.is_set {
            values.write(self.out, |_, out| out.copy_from_slice(&self.numbers));
            self.is_set = true;
        }
    }

    fn backward(&mut self, _: &Values<T>, _: &mut Gradients<T>) {}
}
