//! Norms that training can go back through: out of place, with each row's statistics kept, and their gradients.

use super::sum;
use crate::ops::dispatch::vectorised;
use crate::ops::real::Real;
use crate::ops::reduce::{PARALLEL, ROWS};
use rayon::prelude::*;

/// Numbers that are summed beside each other.
const LANES: usize = 16;

/// What a row is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its deviation, after its mean was taken off.
    Layer,
    /// The root of the mean of its squares.
    Rms,
}

impl Kind {
    /// How many numbers are kept for each row: mean and 1/√(variance + ε), or 1/√(mean of squares + ε).
    pub fn statistics(self) -> usize {
        match self {
            Kind::Layer => 2,
            Kind::Rms => 1,
        }
    }
}

/// A norm of rows of `width` numbers: y = (x − mean)·scale·weight + bias.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a, T> {
    /// Which norm.
    pub kind: Kind,
    /// Numbers of a row.
    pub width: usize,
    /// `[width]`
    pub weight: &'a [T],
    /// `[width]`; without, zeros.
    pub bias: Option<&'a [T]>,
    /// What is added under the root.
    pub epsilon: f64,
}

/// Where the gradients of a norm's parameters go, each `[width]` and added to, if it is asked for.
#[derive(Debug)]
pub struct Parameters<'a, T> {
    /// Of the weight.
    pub weight: Option<&'a mut [T]>,
    /// Of the bias.
    pub bias: Option<&'a mut [T]>,
    /// What blocks of rows sum before it is added up, in an order that does not depend on threads: see
    /// [`Norm::scratch`].
    pub scratch: &'a mut [T],
}

impl<T: Real> Norm<'_, T> {
    /// y = norm(x), and what [`backward`](Norm::backward) needs of each row: x and y `[rows, width]`, statistics
    /// `[rows, kind.statistics()]`.
    pub fn forward(&self, x: &[T], y: &mut [T], statistics: &mut [T]) {
        self.check(x.len(), y.len(), statistics.len());
        if self.width == 0 {
            return;
        }
        let (block, kept) = (ROWS * self.width, ROWS * self.kind.statistics());
        if x.len() < PARALLEL {
            forward(self, x, y, statistics);
        } else {
            let blocks =
                x.par_chunks(block).zip(y.par_chunks_mut(block)).zip(statistics.par_chunks_mut(kept));
            blocks.for_each(|((x, y), kept)| forward(self, x, y, kept));
        }
    }

    /// The numbers of scratch that [`backward`](Norm::backward) needs.
    pub fn scratch(rows: usize, width: usize) -> usize {
        rows.div_ceil(ROWS) * 2 * width
    }

    /// The gradients: dx = …, or dx += … where `accumulate`, and those of the parameters. x, dy and dx `[rows, width]`, the
    /// statistics as [`forward`](Norm::forward) left them.
    pub fn backward(
        &self,
        (x, statistics): (&[T], &[T]),
        dy: &[T],
        (dx, accumulate): (&mut [T], bool),
        mut parameters: Parameters<T>,
    ) {
        self.check(x.len(), dx.len(), statistics.len());
        assert_eq!(x.len(), dy.len(), "shapes of a norm");
        if x.is_empty() {
            return;
        }
        let (width, kept) = (self.width, self.kind.statistics());
        let sums = &mut parameters.scratch[..Self::scratch(x.len() / width, width)];
        let block = |(index, (dx, sums)): (usize, (&mut [T], &mut [T]))| {
            let (first, count) = (index * ROWS, dx.len() / width);
            let (x, dy) = (&x[first * width..][..dx.len()], &dy[first * width..][..dx.len()]);
            backward(self, (x, &statistics[first * kept..][..count * kept]), dy, dx, sums, accumulate);
        };
        if x.len() < PARALLEL {
            dx.chunks_mut(ROWS * width).zip(sums.chunks_exact_mut(2 * width)).enumerate().for_each(block);
        } else {
            let blocks = dx.par_chunks_mut(ROWS * width).zip(sums.par_chunks_exact_mut(2 * width));
            blocks.enumerate().for_each(block);
        }
        for sums in sums.chunks_exact(2 * width) {
            let (weight, bias) = sums.split_at(width);
            for (out, sum) in [(&mut parameters.weight, weight), (&mut parameters.bias, bias)] {
                if let Some(out) = out {
                    assert_eq!(out.len(), width, "shapes of a norm");
                    out.iter_mut().zip(sum).for_each(|(out, &sum)| *out += sum);
                }
            }
        }
    }

    /// A row's mean and scale.
    #[inline(always)]
    fn statistics(&self, kept: &[T]) -> (T, T) {
        match self.kind {
            Kind::Layer => (kept[0], kept[1]),
            Kind::Rms => (T::ZERO, kept[0]),
        }
    }

    fn check(&self, x: usize, y: usize, statistics: usize) {
        assert_eq!(x, y, "shapes of a norm");
        assert_eq!(self.weight.len(), self.width, "shapes of a norm");
        assert!(self.bias.is_none_or(|list| list.len() == self.width), "shapes of a norm");
        assert!(x.is_multiple_of(self.width), "shapes of a norm");
        assert_eq!(statistics * self.width, x * self.kind.statistics(), "shapes of a norm");
    }
}

vectorised! { fn forward<T>(norm: &Norm<T>, x: &[T], y: &mut [T], kept: &mut [T]) = forward_rows }

#[inline(always)]
fn forward_rows<T: Real>(norm: &Norm<T>, x: &[T], y: &mut [T], kept: &mut [T]) {
    let rows = x.chunks_exact(norm.width).zip(y.chunks_exact_mut(norm.width));
    let count = T::of(norm.width as f64);
    for ((x, y), kept) in rows.zip(kept.chunks_exact_mut(norm.kind.statistics())) {
        let mean = if norm.kind == Kind::Layer { sum(x, |x| x) / count } else { T::ZERO };
        let variance = sum(x, |x| (x - mean) * (x - mean)) / count;
        let scale = T::ONE / (variance + T::of(norm.epsilon)).sqrt();
        match norm.kind {
            Kind::Layer => kept.copy_from_slice(&[mean, scale]),
            Kind::Rms => kept.copy_from_slice(&[scale]),
        }
        match norm.bias {
            Some(bias) => {
                for ((y, x), (weight, bias)) in y.iter_mut().zip(x).zip(norm.weight.iter().zip(bias)) {
                    *y = (*x - mean) * scale * *weight + *bias;
                }
            }
            None => {
                for ((y, x), weight) in y.iter_mut().zip(x).zip(norm.weight) {
                    *y = (*x - mean) * scale * *weight;
                }
            }
        }
    }
}

vectorised! {
    fn backward<T>(norm: &Norm<T>, of: (&[T], &[T]), dy: &[T], dx: &mut [T], sums: &mut [T], accumulate: bool)
        = backward_rows
}

/// With n = (x − mean)·scale and g = dy·weight, dx = scale·(g − mean g − n·mean(g·n)); the mean of g is there only where a
/// mean was taken off. The sums of dy·n and of dy over these rows into `sums`.
#[inline(always)]
fn backward_rows<T: Real>(
    norm: &Norm<T>,
    (x, kept): (&[T], &[T]),
    dy: &[T],
    dx: &mut [T],
    sums: &mut [T],
    accumulate: bool,
) {
    let width = norm.width;
    let count = T::of(width as f64);
    let (dweight, dbias) = sums.split_at_mut(width);
    dweight.fill(T::ZERO);
    dbias.fill(T::ZERO);
    let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width));
    for (((x, dy), dx), kept) in rows.zip(kept.chunks_exact(norm.kind.statistics())) {
        let (mean, scale) = norm.statistics(kept);
        let sum = total([dy, norm.weight, x], |dy, weight, _| dy * weight) / count;
        let sum = if norm.kind == Kind::Layer { sum } else { T::ZERO };
        let product = total([dy, norm.weight, x], |dy, weight, x| dy * weight * ((x - mean) * scale)) / count;
        let parameters = dweight.iter_mut().zip(dbias.iter_mut()).zip(norm.weight);
        for (((dx, x), dy), ((dweight, dbias), weight)) in dx.iter_mut().zip(x).zip(dy).zip(parameters) {
            let n = (*x - mean) * scale;
            *dweight += *dy * n;
            *dbias += *dy;
            let d = scale * (*dy * *weight - sum - n * product);
            *dx = if accumulate { *dx + d } else { d };
        }
    }
}

/// The sum of `of` over the numbers of three rows.
#[inline(always)]
fn total<T: Real>(rows: [&[T]; 3], of: impl Fn(T, T, T) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let [a, b, c] = rows.map(|row| row.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder()).zip(c.remainder());
    for ((a, b), c) in a.zip(b).zip(c) {
        let numbers = a.iter().zip(b).zip(c);
        lanes.iter_mut().zip(numbers).for_each(|(lane, ((&a, &b), &c))| *lane += of(a, b, c));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, ((&a, &b), &c))| *lane += of(a, b, c));
    lanes.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{close, dot, gradient, list, on_any_threads};

    /// y, dx, dweight, dbias; the gradients are added to ones.
    fn run<T: Real>(kind: Kind, rows: usize, width: usize, is_biased: bool) -> Vec<T> {
        let (x, dy) = (list::<T>(1, rows * width), list::<T>(2, rows * width));
        let (weight, bias) = (list::<T>(3, width), list::<T>(4, width));
        let bias = is_biased.then_some(&bias[..]);
        let norm = Norm { kind, width, weight: &weight, bias, epsilon: 0.1 };
        on_any_threads(|| {
            let (mut y, mut dx) = (vec![T::ONE; rows * width], vec![T::ONE; rows * width]);
            let (mut dweight, mut dbias) = (vec![T::ONE; width], vec![T::ONE; width]);
            let mut statistics = vec![T::ZERO; rows * kind.statistics()];
            norm.forward(&x, &mut y, &mut statistics);
            let mut scratch = vec![T::ONE; Norm::<T>::scratch(rows, width)];
            let [weight, bias] = [&mut dweight, &mut dbias].map(|list| Some(&mut list[..]));
            let parameters = Parameters { weight, bias, scratch: &mut scratch };
            norm.backward((&x, &statistics), &dy, (&mut dx, true), parameters);
            let mut alone = vec![T::ZERO; rows * width];
            let parameters = Parameters { weight: None, bias: None, scratch: &mut scratch };
            norm.backward((&x, &statistics), &dy, (&mut alone, false), parameters);
            assert!(alone.iter().zip(&dx).all(|(a, b)| *a + T::ONE == *b || T::ONE + *a == *b));
            [y, dx, dweight, dbias].concat()
        })
    }

    #[test]
    fn gradients_are_those_of_the_norms() {
        let sizes = [(1, 1), (1, 2), (3, 5), (7, 16), (2, 33), (1, 100), (130, 67), (200, 300)];
        for (kind, (rows, width), is_biased) in [Kind::Layer, Kind::Rms].into_iter().flat_map(|kind| {
            sizes.into_iter().flat_map(move |size| [(kind, size, true), (kind, size, false)])
        }) {
            let out = run::<f64>(kind, rows, width, is_biased);
            let (x, dy) = (list::<f64>(1, rows * width), list::<f64>(2, rows * width));
            let weight = list::<f64>(3, width);
            let bias = if is_biased { list::<f64>(4, width) } else { vec![0.0; width] };
            let run_norm = |x: &[f64], weight: &[f64], bias: &[f64]| {
                let mut y = x.to_vec();
                match kind {
                    Kind::Layer => super::super::layer_norm(&mut y, &[], weight, bias, 0.1),
                    Kind::Rms => {
                        super::super::rms_norm(&mut y, &[], weight, 0.1);
                        y.chunks_exact_mut(width)
                            .for_each(|y| y.iter_mut().zip(bias).for_each(|(y, b)| *y += b));
                    }
                }
                y
            };
            let (y, rest) = out.split_at(rows * width);
            assert!(y.iter().zip(run_norm(&x, &weight, &bias)).all(|(a, b)| (a - b).abs() < 1e-12));
            let rest: Vec<f64> = rest.iter().map(|d| d - 1.0).collect();
            let (dx, rest) = rest.split_at(rows * width);
            let (dweight, dbias) = rest.split_at(width);
            let loss = |x: &[f64], weight: &[f64], bias: &[f64]| dot(&run_norm(x, weight, bias), &dy);
            let what = format!("{kind:?} {rows} × {width}");
            gradient(&format!("{what}: x"), &x, dx, |x| loss(x, &weight, &bias));
            gradient(&format!("{what}: weight"), &weight, dweight, |weight| loss(&x, weight, &bias));
            gradient(&format!("{what}: bias"), &bias, dbias, |bias| loss(&x, &weight, bias));
            close(&what, &run::<f32>(kind, rows, width, is_biased), &out, 64.0);
        }
    }
}
