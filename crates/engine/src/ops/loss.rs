//! Losses and their gradients: cross-entropy after a linear layer, of given logits, and squared errors.

use super::cap;
use super::dispatch::vectorised;
use super::linear;
use super::real::Real;
use super::reduce::{self, BLOCK, PARALLEL};
use rayon::prelude::*;

/// The target of a row that does not count.
pub const IGNORE: u32 = u32::MAX;

/// Rows of a block at most: targets and losses of a block are on the stack.
pub const MOST: usize = 2048;
/// Numbers whose exponentials are summed in their own type, before the sum goes on in `f64`.
const CHUNK: usize = 512;

/// A linear layer whose outputs are logits: cap(x·Wᵀ + b).
#[derive(Clone, Copy, Debug)]
pub struct Output<'a, T> {
    /// `[vocabulary, width]`
    pub weight: &'a [T],
    /// `[vocabulary]`
    pub bias: Option<&'a [T]>,
    /// Numbers of a row of x.
    pub width: usize,
    /// Logits of a row.
    pub vocabulary: usize,
    /// c: logits become c·tanh(z/c), see [`cap`].
    pub cap: Option<f64>,
}

/// Where the gradients of `scale` times the loss go.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// Set: dx `[rows, width]`, 0 for rows that do not count.
    pub x: &'a mut [T],
    /// Added to: dW `[vocabulary, width]`.
    pub weight: &'a mut [T],
    /// Added to: db `[vocabulary]`.
    pub bias: Option<&'a mut [T]>,
    /// What the loss is multiplied with: 1 / steps, where gradients of several steps are added up.
    pub scale: f64,
}

/// The numbers of scratch that [`Output::cross_entropy`] needs for blocks of this many rows.
pub fn scratch(block: usize, width: usize, vocabulary: usize) -> usize {
    block * (vocabulary + 2 * width)
}

impl<T: Real> Output<'_, T> {
    /// The mean of −ln softmax(cap(x·Wᵀ + b)) at the target over the rows that count, 0 if none does; and its gradients.
    ///
    /// x `[rows, width]`, targets `[rows]`, each below the vocabulary or [`IGNORE`]. Only the logits of a block of rows
    /// exist at a time, and none of rows that do not count: as many as the scratch has room for, see [`scratch()`]. The
    /// scratch sets the order of the sums, the number of threads does not.
    pub fn cross_entropy(
        &self,
        x: &[T],
        targets: &[u32],
        scratch: &mut [T],
        mut gradients: Option<Gradients<T>>,
    ) -> f64 {
        let (width, vocabulary) = (self.width, self.vocabulary);
        assert_eq!(x.len(), targets.len() * width, "shapes of a loss");
        if let Some(gradients) = &mut gradients {
            assert_eq!(gradients.x.len(), x.len(), "shapes of a loss");
        }
        let count = counted(targets, vocabulary);
        if let Some(gradients) = gradients.as_mut().filter(|_| count < targets.len()) {
            gradients.x.fill(T::ZERO);
        }
        if count == 0 {
            return 0.0;
        }
        let block = MOST.min(scratch.len() / (vocabulary + 2 * width));
        assert!(block > 0, "the scratch of a loss has no room for a row");
        let (logits, rest) = scratch.split_at_mut(block * vocabulary);
        let (inputs, rest) = rest.split_at_mut(block * width);
        let dinputs = &mut rest[..block * width];

        let mut total = 0.0;
        let mut rows = [(0, 0); MOST];
        let mut counting = (0..).zip(targets).filter(|(_, target)| **target != IGNORE);
        loop {
            let mut filled = 0;
            for (slot, (row, &target)) in rows[..block].iter_mut().zip(&mut counting) {
                *slot = (row, target);
                filled += 1;
            }
            if filled == 0 {
                return total / count as f64;
            }
            let rows = &rows[..filled];
            // Rows that stand together are used where they stand, others are gathered first.
            let (first, last) = (rows[0].0, rows[filled - 1].0);
            let together = (last + 1 - first == filled).then_some(first * width..(last + 1) * width);
            let inputs = match together.clone() {
                Some(range) => &x[range],
                None => {
                    for (to, &(row, _)) in inputs.chunks_exact_mut(width).zip(rows) {
                        to.copy_from_slice(&x[row * width..][..width]);
                    }
                    &inputs[..filled * width]
                }
            };
            let (logits, sizes) = (&mut logits[..filled * vocabulary], [filled, width, vocabulary]);
            linear::forward(inputs, self.weight, self.bias, None, logits, sizes);
            let scale = gradients.as_ref().map(|gradients| gradients.scale / count as f64);
            total += entropies(logits, rows, self.cap, scale);
            if let Some(gradients) = &mut gradients {
                let given = linear::Gradients {
                    x: match together.clone() {
                        Some(range) => (&mut gradients.x[range], false),
                        None => (&mut dinputs[..filled * width], false),
                    },
                    weight: gradients.weight,
                    bias: gradients.bias.as_deref_mut(),
                };
                linear::backward(logits, inputs, self.weight, given, sizes);
                if together.is_none() {
                    for (from, &(row, _)) in dinputs.chunks_exact(width).zip(rows) {
                        gradients.x[row * width..][..width].copy_from_slice(from);
                    }
                }
            }
        }
    }
}

/// The sum of the losses of at most [`MOST`] rows of logits that are still to be capped, each with its target; with a scale,
/// the logits become their gradients.
fn entropies<T: Real>(
    logits: &mut [T],
    rows: &[(usize, u32)],
    limit: Option<f64>,
    scale: Option<f64>,
) -> f64 {
    let vocabulary = logits.len() / rows.len();
    let mut losses = [0.0; MOST];
    let losses = &mut losses[..rows.len()];
    let row = |((logits, &(_, target)), loss): ((&mut [T], &(usize, u32)), &mut f64)| {
        if let Some(limit) = limit {
            cap::apply(logits, limit);
        }
        let (max, sum) = exponentials(logits);
        let own = logits[target as usize];
        *loss = sum.ln() + (max - own).to_f64();
        let Some(scale) = scale else { return };
        let (factor, mut given) = (T::of(scale / sum), T::of(-scale));
        match limit.map(|limit| T::of(1.0 / limit)) {
            None => softmax(logits, max, factor),
            Some(inverse) => {
                softmax_before_cap(logits, max, factor, inverse);
                given *= cap::slope(own, inverse);
            }
        }
        logits[target as usize] += given;
    };
    if logits.len() < PARALLEL {
        logits.chunks_exact_mut(vocabulary).zip(rows).zip(losses.iter_mut()).for_each(row);
    } else {
        let rows = logits.par_chunks_exact_mut(vocabulary).zip(rows).zip(losses.par_iter_mut());
        rows.with_min_len(PARALLEL / 4 / vocabulary).for_each(row);
    }
    losses.iter().sum()
}

/// The mean of −ln softmax(logits) at the target over the rows that count, 0 if none does: logits `[rows, classes]`, targets
/// `[rows]`, each below `classes` or [`IGNORE`]. With (dlogits, scale), dlogits `[rows, classes]` becomes the gradient of
/// `scale` times the loss, 0 for rows that do not count. For few classes: one thread does it.
pub fn softmax_cross_entropy<T: Real>(
    logits: &[T],
    classes: usize,
    targets: &[u32],
    mut gradient: Option<(&mut [T], f64)>,
) -> f64 {
    assert_eq!(logits.len(), targets.len() * classes, "shapes of a loss");
    if let Some((dlogits, _)) = &mut gradient {
        assert_eq!(dlogits.len(), logits.len(), "shapes of a loss");
        dlogits.fill(T::ZERO);
    }
    let count = counted(targets, classes);
    let mut total = 0.0;
    for (row, &target) in targets.iter().enumerate().filter(|(_, target)| **target != IGNORE) {
        let range = row * classes..(row + 1) * classes;
        let (logits, target) = (&logits[range.clone()], target as usize);
        let (max, sum) = exponentials(logits);
        total += sum.ln() + (max - logits[target]).to_f64();
        if let Some((dlogits, scale)) = &mut gradient {
            let (dlogits, scale) = (&mut dlogits[range], *scale / count as f64);
            dlogits.copy_from_slice(logits);
            softmax(dlogits, max, T::of(scale / sum));
            dlogits[target] += T::of(-scale);
        }
    }
    if count == 0 { 0.0 } else { total / count as f64 }
}

/// How many rows count.
fn counted(targets: &[u32], vocabulary: usize) -> usize {
    let valid = |target: u32| target == IGNORE || (target as usize) < vocabulary;
    assert!(targets.iter().all(|&target| valid(target)), "a target beyond {vocabulary} classes");
    targets.iter().filter(|&&target| target != IGNORE).count()
}

vectorised! { fn exponentials<T>(x: &[T]) -> (T, f64) = sum_exponentials }

/// max x and Σ e^(x − max).
#[inline(always)]
fn sum_exponentials<T: Real>(x: &[T]) -> (T, f64) {
    let mut lanes = [T::NEG_INFINITY; 16];
    for chunk in x.chunks(16) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = lane.maximum(*x));
    }
    let max = lanes.into_iter().fold(T::NEG_INFINITY, T::maximum);
    let mut total = 0.0;
    for block in x.chunks(CHUNK) {
        let mut lanes = [T::ZERO; 16];
        let chunks = block.chunks_exact(16);
        let rest = chunks.remainder();
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += (*x - max).exp());
        }
        lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += (*x - max).exp());
        total += lanes.into_iter().sum::<T>().to_f64();
    }
    (max, total)
}

vectorised! { fn softmax<T>(x: &mut [T], max: T, scale: T) = scale_exponentials }

#[inline(always)]
fn scale_exponentials<T: Real>(x: &mut [T], max: T, scale: T) {
    x.iter_mut().for_each(|x| *x = (*x - max).exp() * scale);
}

vectorised! { fn softmax_before_cap<T>(x: &mut [T], max: T, scale: T, inverse: T) = scale_capped_exponentials }

/// As [`scale_exponentials`], times the slope of the cap that gave the numbers.
#[inline(always)]
fn scale_capped_exponentials<T: Real>(x: &mut [T], max: T, scale: T, inverse: T) {
    x.iter_mut().for_each(|x| *x = (*x - max).exp() * scale * cap::slope(*x, inverse));
}

/// The mean of (x − y)² over all numbers, 0 if there are none. With (dx, scale), dx becomes the gradient of `scale` times
/// the loss with respect to x; that with respect to y is −dx.
pub fn mean_squared_error<T: Real>(x: &[T], y: &[T], gradient: Option<(&mut [T], f64)>) -> f64 {
    assert_eq!(x.len(), y.len(), "shapes of a loss");
    let count = x.len().max(1) as f64;
    if let Some((dx, scale)) = gradient {
        assert_eq!(x.len(), dx.len(), "shapes of a loss");
        let scale = T::of(2.0 * scale / count);
        let set = |((dx, x), y): ((&mut [T], &[T]), &[T])| {
            dx.iter_mut().zip(x).zip(y).for_each(|((dx, x), y)| *dx = scale * (*x - *y));
        };
        dx.par_chunks_mut(BLOCK).zip(x.par_chunks(BLOCK)).zip(y.par_chunks(BLOCK)).for_each(set);
    }
    let square = |(x, y): (&T, &T)| (x.to_f64() - y.to_f64()).powi(2);
    reduce::sum(x.len(), |range| x[range.clone()].iter().zip(&y[range]).map(square).sum()) / count
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, gradient, list, on_any_threads};
    use super::*;

    /// Every third row does not count; of an even number of rows, only in the first half.
    fn targets(rows: usize, classes: usize) -> Vec<u32> {
        let counts = |row: usize| row % 3 != 1 || (rows.is_multiple_of(2) && row >= rows / 2);
        (0..rows).map(|row| if counts(row) { (row * 7 % classes) as u32 } else { IGNORE }).collect()
    }

    /// Obviously right.
    fn naive(logits: &[f64], classes: usize, targets: &[u32]) -> f64 {
        let counted: Vec<f64> = (logits.chunks_exact(classes).zip(targets))
            .filter(|(_, target)| **target != IGNORE)
            .map(|(row, &target)| row.iter().map(|z| z.exp()).sum::<f64>().ln() - row[target as usize])
            .collect();
        counted.iter().sum::<f64>() / counted.len().max(1) as f64
    }

    /// Loss, dx, dW, db; those of the parameters are added to zeros.
    fn run<T: Real>([rows, width, vocabulary]: [usize; 3], block: usize, cap: Option<f64>) -> Vec<T> {
        let (x, weight) = (list::<T>(1, rows * width), list::<T>(2, vocabulary * width));
        let (bias, targets) = (list::<T>(3, vocabulary), targets(rows, vocabulary));
        on_any_threads(|| {
            let mut lists = [x.len(), weight.len(), vocabulary].map(|len| vec![T::ZERO; len]);
            lists[0].fill(T::ONE);
            let [dx, dweight, dbias] = &mut lists;
            let gradients = Gradients { x: dx, weight: dweight, bias: Some(dbias), scale: 0.5 };
            let mut scratch = vec![T::ONE; scratch(block, width, vocabulary)];
            let output = Output { weight: &weight, bias: Some(&bias), width, vocabulary, cap };
            let loss = output.cross_entropy(&x, &targets, &mut scratch, Some(gradients));
            assert_eq!(loss, output.cross_entropy(&x, &targets, &mut scratch, None));
            [vec![T::of(loss)], lists.concat()].concat()
        })
    }

    #[test]
    fn cross_entropy_after_a_linear_layer() {
        let cases = [([1, 1, 1], 1), ([1, 3, 5], 4), ([7, 5, 11], 2), ([5, 1, 2], 3), ([6, 4, 600], 100)];
        let cases = cases.into_iter().chain([([150, 33, 700], 64)]);
        let cases = cases.flat_map(|case| [None, Some(2.5)].map(|cap| (case, cap)));
        for ((sizes @ [rows, width, vocabulary], block), cap) in cases {
            let out = run::<f64>(sizes, block, cap);
            let (x, weight) = (list::<f64>(1, rows * width), list::<f64>(2, vocabulary * width));
            let (bias, targets) = (list::<f64>(3, vocabulary), targets(rows, vocabulary));
            let loss = |x: &[f64], weight: &[f64], bias: &[f64]| {
                let mut logits = vec![0.0; rows * vocabulary];
                linear::forward(x, weight, Some(bias), None, &mut logits, sizes);
                if let Some(cap) = cap {
                    logits.iter_mut().for_each(|z| *z = cap * (*z / cap).tanh());
                }
                naive(&logits, vocabulary, &targets)
            };
            assert!((out[0] - loss(&x, &weight, &bias)).abs() < 1e-12, "{sizes:?}");
            let twice: Vec<f64> = out[1..].iter().map(|d| 2.0 * d).collect();
            let (dx, rest) = twice.split_at(x.len());
            let (dweight, dbias) = rest.split_at(weight.len());
            gradient("x", &x, dx, |x| loss(x, &weight, &bias));
            gradient("weight", &weight, dweight, |weight| loss(&x, weight, &bias));
            gradient("bias", &bias, dbias, |bias| loss(&x, &weight, bias));
            let single = run::<f32>(sizes, block, cap);
            // Logits of some width·1.5² are rounded, and the softmax turns that into relative error.
            let units = 4.0 * width as f64 + 16.0;
            let (inputs, parameters) = (1 + x.len(), 1 + x.len() + weight.len());
            for part in [0..1, 1..inputs, inputs..parameters, parameters..out.len()] {
                close(&format!("{sizes:?} {part:?}"), &single[part.clone()], &out[part], units);
            }
        }
    }

    #[test]
    fn gradients_are_added_and_parameters_may_go_without_bias() {
        let (x, weight) = ([0.3, -0.2, 0.9, 0.4], [0.5, -1.0, 0.25, 2.0, 1.0, 0.0]);
        let output = Output { weight: &weight, bias: None, width: 2, vocabulary: 3, cap: None };
        let run = |start: f64| {
            let (mut dx, mut dweight) = ([start; 4], [start; 6]);
            let gradients = Gradients { x: &mut dx, weight: &mut dweight, bias: None, scale: 1.0 };
            let loss = output.cross_entropy(&x, &[2, 0], &mut [9.0; 7], Some(gradients));
            (loss, dx, dweight.map(|d| d - start))
        };
        let ((a, dx, dw), (b, dx_again, dw_again)) = (run(0.0), run(1.0));
        assert!(a == b && dx == dx_again);
        assert!(dw.iter().zip(dw_again).all(|(a, b)| (a - b).abs() < 1e-15));
        let logits = [0.3 * 0.5 + 0.2, 0.075 - 0.4, 0.3, 0.45 - 0.4, 0.225 + 0.8, 0.9];
        assert!((a - naive(&logits, 3, &[2, 0])).abs() < 1e-14);
    }

    #[test]
    fn without_rows_that_count_all_is_zero() {
        let (mut dx, mut dweight, mut dbias) = ([5.0f32; 4], [0.0; 6], [0.0; 3]);
        let gradients = Gradients { x: &mut dx, weight: &mut dweight, bias: Some(&mut dbias), scale: 1.0 };
        let output = Output { weight: &[1.0; 6], bias: None, width: 2, vocabulary: 3, cap: None };
        assert_eq!(output.cross_entropy(&[1.0; 4], &[IGNORE; 2], &mut [], Some(gradients)), 0.0);
        assert_eq!((dx, dweight, dbias), ([0.0; 4], [0.0; 6], [0.0; 3]));
        let mut dlogits = [5.0f32; 4];
        assert_eq!(softmax_cross_entropy(&[1.0; 4], 2, &[IGNORE; 2], Some((&mut dlogits, 1.0))), 0.0);
        assert_eq!(dlogits, [0.0; 4]);
    }

    #[test]
    fn cross_entropy_of_logits() {
        fn run<T: Real>(rows: usize, classes: usize) -> Vec<T> {
            let (logits, mut dlogits) = (list::<T>(5, rows * classes), vec![T::ONE; rows * classes]);
            let targets = targets(rows, classes);
            let loss = softmax_cross_entropy(&logits, classes, &targets, Some((&mut dlogits, 1.0)));
            assert_eq!(loss, softmax_cross_entropy(&logits, classes, &targets, None));
            [vec![T::of(loss)], dlogits].concat()
        }
        for (rows, classes) in [(1, 1), (1, 2), (5, 3), (9, 17), (2, 1100)] {
            let (out, logits) = (run::<f64>(rows, classes), list::<f64>(5, rows * classes));
            let targets = targets(rows, classes);
            assert!((out[0] - naive(&logits, classes, &targets)).abs() < 1e-13);
            gradient("logits", &logits, &out[1..], |logits| naive(logits, classes, &targets));
            close("f32", &run::<f32>(rows, classes), &out, 16.0);
        }
        // Logits whose exponentials no number holds.
        let loss = softmax_cross_entropy(&[1000.0f32, 998.0, -1000.0], 3, &[1], None);
        assert!((loss - (2.0 + (-2f64).exp().ln_1p())).abs() < 1e-6, "{loss}");
    }

    #[test]
    #[should_panic(expected = "a target beyond 3 classes")]
    fn a_target_beyond_the_classes_is_refused() {
        softmax_cross_entropy(&[0.0f32; 3], 3, &[3], None);
    }

    #[test]
    fn squared_errors() {
        fn run<T: Real>(len: usize) -> Vec<T> {
            let (x, y) = (list::<T>(1, len), list::<T>(2, len));
            on_any_threads(|| {
                let mut dx = vec![T::ONE; len];
                let loss = mean_squared_error(&x, &y, Some((&mut dx, 1.0)));
                [vec![T::of(loss)], dx].concat()
            })
        }
        for len in [0, 1, 7, 50_000] {
            let (out, x, y) = (run::<f64>(len), list::<f64>(1, len), list::<f64>(2, len));
            let value =
                |x: &[f64]| x.iter().zip(&y).map(|(x, y)| (x - y).powi(2)).sum::<f64>() / len.max(1) as f64;
            assert!((out[0] - value(&x)).abs() < 1e-13);
            gradient("x", &x, &out[1..], value);
            close("f32", &run::<f32>(len), &out, 4.0);
        }
    }
}
