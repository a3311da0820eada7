//! Rows side by side, norms without parameters, and one vector for each text.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;
use crate::ops::norm::training::{Kind, Norm, Parameters};

/// What is added to the mean square of a row before it is divided by its root: of rows of zeros alone does it change anything.
const LEAST: f64 = 1e-24;

impl Value {
    /// The same numbers in rows of another width, such as those of single heads.
    pub fn reshaped(self, width: usize) -> Value {
        Value { index: self.index, rows: self.size() / width, width }
    }
}

impl<T: Real> Builder<T> {
    /// Three values side by side: `[rows, the sum of their widths]`.
    pub fn beside(&mut self, parts: [Value; 3]) -> Value {
        let out = self.value(parts[0].rows, parts.iter().map(|part| part.width).sum());
        self.add(Beside { parts, out });
        out
    }

    /// x/√(mean of squares + ε), row by row.
    pub fn plain_norm(&mut self, x: Value, epsilon: f64) -> Value {
        self.scaled(x, epsilon, T::of(1.0))
    }

    /// Rows scaled to length 1.
    pub fn unit(&mut self, x: Value) -> Value {
        // A row whose mean square is 1 has the length √width.
        let scale = T::of((x.width as f64).sqrt().recip());
        self.scaled(x, LEAST, scale)
    }

    fn scaled(&mut self, x: Value, epsilon: f64, weight: T) -> Value {
        let out = self.value(x.rows, x.width);
        let scratch = vec![T::ZERO; Norm::<T>::scratch(x.rows, x.width)];
        let (weight, statistics) = (vec![weight; x.width], vec![T::ZERO; x.rows]);
        self.add(Scaled { x, epsilon, weight, statistics, scratch, out });
        out
    }

    /// The mean over the real tokens of each text: `[batch, width]` from `[batch · length, width]`; 0 of a text without.
    pub fn token_means(&mut self, x: Value, length: usize) -> Value {
        let out = self.value(x.rows / length, x.width);
        self.add(Means { x, length, out });
        out
    }

    /// The last real token of each text: `[batch, width]` from `[batch · length, width]`; of a text without, the last.
    pub fn last_tokens(&mut self, x: Value, length: usize) -> Value {
        let out = self.value(x.rows / length, x.width);
        self.add(Last { x, length, out });
        out
    }
}

pub(super) struct Beside {
    pub(super) parts: [Value; 3],
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Beside {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, numbers| {
            for (row, out) in numbers.chunks_mut(self.out.width).enumerate() {
                let mut rest = out;
                for part in self.parts {
                    let (own, others) = rest.split_at_mut(part.width);
                    own.copy_from_slice(&values.get(part)[row * part.width..][..part.width]);
                    rest = others;
                }
            }
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.add_each(self.parts, |gradients, mut sums| {
            for (row, dy) in gradients.get(self.out).chunks(self.out.width).enumerate() {
                let mut rest = dy;
                for (part, sum) in self.parts.iter().zip(&mut sums) {
                    let (own, others) = rest.split_at(part.width);
                    let sum = &mut sum[row * part.width..][..part.width];
                    sum.iter_mut().zip(own).for_each(|(sum, &dy)| *sum += dy);
                    rest = others;
                }
            }
        });
    }

    lowered_in_cuda!();
}

/// A norm of the mean square whose weight is never learned.
pub(super) struct Scaled<T> {
    pub(super) x: Value,
    pub(super) epsilon: f64,
    pub(super) weight: Vec<T>,
    /// What the way back needs of each row.
    pub(super) statistics: Vec<T>,
    pub(super) scratch: Vec<T>,
    pub(super) out: Value,
}

impl<T: Real> Scaled<T> {
    fn norm(&self) -> Norm<'_, T> {
        let (width, weight) = (self.x.width, &self.weight[..]);
        Norm { kind: Kind::Rms, width, weight, bias: None, epsilon: self.epsilon }
    }
}

impl<T: Real> Operation<T> for Scaled<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let mut statistics = std::mem::take(&mut self.statistics);
        values.write(self.out, |values, out| self.norm().forward(values.get(self.x), out, &mut statistics));
        self.statistics = statistics;
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        gradients.contribute(self.x, |gradients, dx, accumulate| {
            let known = (values.get(self.x), &self.statistics[..]);
            let none = Parameters { weight: None, bias: None, scratch: &mut scratch };
            self.norm().backward(known, gradients.get(self.out), (dx, accumulate), none);
        });
        self.scratch = scratch;
    }

    lowered_in_cuda!();
}

/// Which tokens of a text are real, by their places.
fn real<'a, T: Real>(
    values: &'a Values<T>,
    text: usize,
    length: usize,
) -> impl DoubleEndedIterator<Item = usize> + Clone + 'a {
    let mask = &values.batch.mask;
    (text * length..(text + 1) * length).filter(move |&token| mask.is_empty() || mask[token])
}

pub(super) struct Means {
    pub(super) x: Value,
    pub(super) length: usize,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Means {
    fn forward(&mut self, values: &mut Values<T>) {
        let width = self.x.width;
        values.write(self.out, |values, out| {
            for (text, out) in out.chunks_mut(width).enumerate() {
                out.fill(T::ZERO);
                let tokens = real(values, text, self.length);
                let share = T::ONE / T::of(tokens.clone().count().max(1) as f64);
                for token in tokens {
                    let x = &values.get(self.x)[token * width..][..width];
                    out.iter_mut().zip(x).for_each(|(out, &x)| *out += x);
                }
                out.iter_mut().for_each(|out| *out *= share);
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let width = self.x.width;
        gradients.add(self.x, |gradients, dx| {
            for (text, dy) in gradients.get(self.out).chunks(width).enumerate() {
                let tokens = real(values, text, self.length);
                let share = T::ONE / T::of(tokens.clone().count().max(1) as f64);
                for token in tokens {
                    let dx = &mut dx[token * width..][..width];
                    dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy * share);
                }
            }
        });
    }

    lowered_in_cuda!();
}

pub(super) struct Last {
    pub(super) x: Value,
    pub(super) length: usize,
    pub(super) out: Value,
}

impl Last {
    fn place<T: Real>(&self, values: &Values<T>, text: usize) -> usize {
        real(values, text, self.length).next_back().unwrap_or((text + 1) * self.length - 1)
    }
}

impl<T: Real> Operation<T> for Last {
    fn forward(&mut self, values: &mut Values<T>) {
        let width = self.x.width;
        values.write(self.out, |values, out| {
            for (text, out) in out.chunks_mut(width).enumerate() {
                out.copy_from_slice(&values.get(self.x)[self.place(values, text) * width..][..width]);
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let width = self.x.width;
        gradients.add(self.x, |gradients, dx| {
            for (text, dy) in gradients.get(self.out).chunks(width).enumerate() {
                let dx = &mut dx[self.place(values, text) * width..][..width];
                dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
            }
        });
    }

    lowered_in_cuda!();
}
