//! Norms that training can go back through: out of place, with each row's statistics kept, and their gradients.

use super::sum;
use crate::ops::dispatch::vectorised;
use crate::ops::gemm::Level;
use crate::ops::real::Real;
use crate::ops::reduce::{self, COLUMNS, PARALLEL, ROWS};
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
    /// `[width]`; without, ones.
    pub weight: Option<&'a [T]>,
    /// `[width]`; without, zeros.
    pub bias: Option<&'a [T]>,
    /// What is added under the root.
    pub epsilon: f64,
}

impl<T: Real> Norm<'_, T> {
    /// y = norm(x), and what [`backward`](Norm::backward) needs of each row: x and y `[rows, width]`, statistics
    /// `[rows, kind.statistics()]`.
    pub fn forward(&self, x: &[T], y: &mut [T], statistics: &mut [T]) {
        self.check(x.len(), y.len(), statistics.len());
        if self.width == 0 {
            return;
        }
        let (width, kept) = (self.width, self.kind.statistics());
        if x.len() < PARALLEL {
            let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
            rows.zip(statistics.chunks_exact_mut(kept)).for_each(|((x, y), kept)| forward(self, x, y, kept));
        } else {
            let rows = x.par_chunks_exact(width).zip(y.par_chunks_exact_mut(width));
            let rows = rows.zip(statistics.par_chunks_exact_mut(kept)).with_min_len(8);
            rows.for_each(|((x, y), kept)| forward(self, x, y, kept));
        }
    }

    /// The gradients: dx = …, or dx += … where `accumulate`, dweight += …, dbias += …; those of the parameters only if
    /// asked for. x, dy and dx `[rows, width]`, the statistics as [`forward`](Norm::forward) left them, dweight and dbias
    /// `[width]`.
    pub fn backward(
        &self,
        (x, statistics): (&[T], &[T]),
        dy: &[T],
        (dx, accumulate): (&mut [T], bool),
        dweight: Option<&mut [T]>,
        dbias: Option<&mut [T]>,
    ) {
        self.check(x.len(), dx.len(), statistics.len());
        assert_eq!(x.len(), dy.len(), "shapes of a norm");
        if self.width == 0 {
            return;
        }
        let (width, kept) = (self.width, self.kind.statistics());
        let row = |(index, dx): (usize, &mut [T])| {
            let (x, dy) = (&x[index * width..][..width], &dy[index * width..][..width]);
            backward(self, x, &statistics[index * kept..][..kept], dy, dx, accumulate);
        };
        let parallel = x.len() >= PARALLEL;
        if parallel {
            dx.par_chunks_exact_mut(width).with_min_len(8).enumerate().for_each(row);
        } else {
            dx.chunks_exact_mut(width).enumerate().for_each(row);
        }
        if let Some(dweight) = dweight {
            assert_eq!(dweight.len(), width, "shapes of a norm");
            let columns = |(index, dweight): (usize, &mut [T])| {
                weight_columns(self, (x, statistics), dy, index * COLUMNS, dweight);
            };
            if parallel {
                dweight.par_chunks_mut(COLUMNS).enumerate().for_each(columns);
            } else {
                dweight.chunks_mut(COLUMNS).enumerate().for_each(columns);
            }
        }
        if let Some(dbias) = dbias {
            assert_eq!(dbias.len(), width, "shapes of a norm");
            reduce::add_rows(dy, dbias);
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
        assert!(self.weight.is_none_or(|list| list.len() == self.width), "shapes of a norm");
        assert!(self.bias.is_none_or(|list| list.len() == self.width), "shapes of a norm");
        assert!(x.is_multiple_of(self.width), "shapes of a norm");
        assert_eq!(statistics * self.width, x * self.kind.statistics(), "shapes of a norm");
    }
}

vectorised! { fn forward<T>(norm: &Norm<T>, x: &[T], y: &mut [T], kept: &mut [T]) = forward_row }

#[inline(always)]
fn forward_row<T: Real>(norm: &Norm<T>, x: &[T], y: &mut [T], kept: &mut [T]) {
    let count = T::of(x.len() as f64);
    let mean = if norm.kind == Kind::Layer { sum(x, |x| x) / count } else { T::ZERO };
    let variance = sum(x, |x| (x - mean) * (x - mean)) / count;
    let scale = T::ONE / (variance + T::of(norm.epsilon)).sqrt();
    match norm.kind {
        Kind::Layer => kept.copy_from_slice(&[mean, scale]),
        Kind::Rms => kept.copy_from_slice(&[scale]),
    }
    y.iter_mut().zip(x).for_each(|(y, x)| *y = (*x - mean) * scale);
    if let Some(weight) = norm.weight {
        y.iter_mut().zip(weight).for_each(|(y, weight)| *y *= *weight);
    }
    if let Some(bias) = norm.bias {
        y.iter_mut().zip(bias).for_each(|(y, bias)| *y += *bias);
    }
}

vectorised! {
    fn backward<T>(norm: &Norm<T>, x: &[T], kept: &[T], dy: &[T], dx: &mut [T], accumulate: bool) = backward_row
}

/// With n = (x − mean)·scale and g = dy·weight, dx = scale·(g − mean g − n·mean(g·n)); the mean of g is there only where a
/// mean was taken off.
#[inline(always)]
fn backward_row<T: Real>(norm: &Norm<T>, x: &[T], kept: &[T], dy: &[T], dx: &mut [T], accumulate: bool) {
    let (mean, scale) = norm.statistics(kept);
    let count = T::of(x.len() as f64);
    let (sum, product) = sums(dy, x, norm.weight, (mean, scale));
    let sum = if norm.kind == Kind::Layer { sum / count } else { T::ZERO };
    let parts = (mean, scale, sum, product / count);
    match norm.weight {
        Some(weight) => {
            write(dx, dy.iter().zip(weight).map(|(dy, weight)| *dy * *weight), x, parts, accumulate);
        }
        None => write(dx, dy.iter().copied(), x, parts, accumulate),
    }
}

#[inline(always)]
fn write<T: Real>(
    dx: &mut [T],
    g: impl Iterator<Item = T>,
    x: &[T],
    (mean, scale, sum, product): (T, T, T, T),
    accumulate: bool,
) {
    for ((dx, g), x) in dx.iter_mut().zip(g).zip(x) {
        let d = scale * (g - sum - (*x - mean) * scale * product);
        *dx = if accumulate { *dx + d } else { d };
    }
}

/// Σ g and Σ g·n of a row.
#[inline(always)]
fn sums<T: Real>(dy: &[T], x: &[T], weight: Option<&[T]>, parts: (T, T)) -> (T, T) {
    let mut lanes = [[T::ZERO; LANES]; 2];
    let ones = [T::ONE; LANES];
    for start in (0..x.len()).step_by(LANES) {
        match (dy[start..].first_chunk(), x[start..].first_chunk()) {
            (Some(dy), Some(x)) => {
                let weight = weight.and_then(|weight| weight[start..].first_chunk()).unwrap_or(&ones);
                add(&mut lanes, dy, x, weight, parts);
            }
            // The last few numbers, with zeros behind them.
            _ => {
                let weight = weight.map_or(ones, |weight| padded(&weight[start..]));
                add(&mut lanes, &padded(&dy[start..]), &padded(&x[start..]), &weight, parts);
            }
        }
    }
    let [plain, product] = lanes;
    (plain.into_iter().sum(), product.into_iter().sum())
}

#[inline(always)]
fn add<T: Real>(
    [plain, product]: &mut [[T; LANES]; 2],
    dy: &[T; LANES],
    x: &[T; LANES],
    weight: &[T; LANES],
    (mean, scale): (T, T),
) {
    for lane in 0..LANES {
        let g = dy[lane] * weight[lane];
        plain[lane] += g;
        product[lane] += g * ((x[lane] - mean) * scale);
    }
}

#[inline(always)]
fn padded<T: Real>(list: &[T]) -> [T; LANES] {
    let mut lanes = [T::ZERO; LANES];
    lanes.iter_mut().zip(list).for_each(|(lane, x)| *lane = *x);
    lanes
}

vectorised! {
    fn weight_columns<T>(norm: &Norm<T>, of: (&[T], &[T]), dy: &[T], first: usize, out: &mut [T]) = sum_columns
}

/// out[c] += Σ dy·(x − mean)·scale over the rows, for the columns from `first` on.
#[inline(always)]
fn sum_columns<T: Real>(norm: &Norm<T>, (x, kept): (&[T], &[T]), dy: &[T], first: usize, out: &mut [T]) {
    let (width, size, count) = (norm.width, norm.kind.statistics(), out.len());
    let rows = x.len() / width;
    for block in (0..rows).step_by(ROWS) {
        let mut sums = [T::ZERO; COLUMNS];
        for row in block..rows.min(block + ROWS) {
            let (mean, scale) = norm.statistics(&kept[row * size..][..size]);
            let (x, dy) = (&x[row * width + first..][..count], &dy[row * width + first..][..count]);
            // A length known beforehand keeps the sums in registers.
            match (x.first_chunk::<COLUMNS>(), dy.first_chunk::<COLUMNS>()) {
                (Some(x), Some(dy)) => {
                    for column in 0..COLUMNS {
                        sums[column] += dy[column] * ((x[column] - mean) * scale);
                    }
                }
                _ => {
                    for ((sum, dy), x) in sums.iter_mut().zip(dy).zip(x) {
                        *sum += *dy * ((*x - mean) * scale);
                    }
                }
            }
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out += *sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{close, dot, gradient, list, on_any_threads};

    /// y, dx, dweight, dbias; the gradients are added to ones.
    fn run<T: Real>(kind: Kind, rows: usize, width: usize, weighted: bool) -> Vec<T> {
        let (x, dy) = (list::<T>(1, rows * width), list::<T>(2, rows * width));
        let (weight, bias) = (list::<T>(3, width), list::<T>(4, width));
        let (weight, bias) = (weighted.then_some(&weight[..]), weighted.then_some(&bias[..]));
        let norm = Norm { kind, width, weight, bias, epsilon: 0.1 };
        on_any_threads(|| {
            let (mut y, mut dx) = (vec![T::ONE; rows * width], vec![T::ONE; rows * width]);
            let (mut dweight, mut dbias) = (vec![T::ONE; width], vec![T::ONE; width]);
            let mut statistics = vec![T::ZERO; rows * kind.statistics()];
            norm.forward(&x, &mut y, &mut statistics);
            let parameters = (Some(&mut dweight[..]), Some(&mut dbias[..]));
            norm.backward((&x, &statistics), &dy, (&mut dx, true), parameters.0, parameters.1);
            let mut alone = vec![T::ZERO; rows * width];
            norm.backward((&x, &statistics), &dy, (&mut alone, false), None, None);
            assert!(alone.iter().zip(&dx).all(|(a, b)| *a + T::ONE == *b || T::ONE + *a == *b));
            [y, dx, dweight, dbias].concat()
        })
    }

    #[test]
    fn gradients_are_those_of_the_norms() {
        let sizes = [(1, 1), (1, 2), (3, 5), (7, 16), (2, 33), (1, 100), (130, 67), (200, 300)];
        for (kind, (rows, width), weighted) in [Kind::Layer, Kind::Rms].into_iter().flat_map(|kind| {
            sizes.into_iter().flat_map(move |size| [(kind, size, true), (kind, size, false)])
        }) {
            let out = run::<f64>(kind, rows, width, weighted);
            let (x, dy) = (list::<f64>(1, rows * width), list::<f64>(2, rows * width));
            let (weight, bias) = match weighted {
                true => (list::<f64>(3, width), list::<f64>(4, width)),
                false => (vec![1.0; width], vec![0.0; width]),
            };
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
            close(&what, &run::<f32>(kind, rows, width, weighted), &out, 64.0);
        }
    }
}
