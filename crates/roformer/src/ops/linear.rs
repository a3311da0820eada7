//! A linear layer with weights that change from step to step: y = x·Wᵀ + b and its gradients.

use super::multiply::{Strided, Threads, multiply};
use super::real::Real;
use super::reduce::{self, PARALLEL};
use rayon::prelude::*;

/// y = x·Wᵀ + b: x `[rows, inputs]`, W `[outputs, inputs]`, b `[outputs]`, y `[rows, outputs]`.
pub fn forward<T: Real>(
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    y: &mut [T],
    sizes @ [rows, inputs, outputs]: [usize; 3],
) {
    check(sizes, x.len(), weight.len(), y.len());
    if y.is_empty() {
        return;
    }
    if let Some(bias) = bias {
        assert_eq!(bias.len(), outputs, "the bias of a linear layer");
        if y.len() < PARALLEL {
            y.chunks_exact_mut(outputs).for_each(|y| y.copy_from_slice(bias));
        } else {
            y.par_chunks_exact_mut(outputs).with_min_len(8).for_each(|y| y.copy_from_slice(bias));
        }
    }
    let weight = Strided::rows(weight, inputs).transposed();
    let sizes = [rows, outputs, inputs];
    multiply((y, outputs), Strided::rows(x, inputs), weight, sizes, 1.0, bias.is_some(), Threads::All);
}

/// dx = dy·W, or dx += dy·W where `accumulate`: dy `[rows, outputs]`, W `[outputs, inputs]`, dx `[rows, inputs]`.
pub fn backward_input<T: Real>(
    dy: &[T],
    weight: &[T],
    dx: &mut [T],
    sizes @ [rows, inputs, outputs]: [usize; 3],
    accumulate: bool,
) {
    check(sizes, dx.len(), weight.len(), dy.len());
    let (dy, weight) = (Strided::rows(dy, outputs), Strided::rows(weight, inputs));
    multiply((dx, inputs), dy, weight, [rows, inputs, outputs], 1.0, accumulate, Threads::All);
}

/// dW += dyᵀ·x: dy `[rows, outputs]`, x `[rows, inputs]`, dW `[outputs, inputs]`.
pub fn backward_weight<T: Real>(
    dy: &[T],
    x: &[T],
    dweight: &mut [T],
    sizes @ [rows, inputs, outputs]: [usize; 3],
) {
    check(sizes, x.len(), dweight.len(), dy.len());
    let dy = Strided::rows(dy, outputs).transposed();
    let sizes = [outputs, inputs, rows];
    multiply((dweight, inputs), dy, Strided::rows(x, inputs), sizes, 1.0, true, Threads::All);
}

/// db += the sum of the rows of dy: dy `[rows, outputs]`, db `[outputs]`.
pub fn backward_bias<T: Real>(dy: &[T], dbias: &mut [T]) {
    reduce::add_rows(dy, dbias);
}

fn check([rows, inputs, outputs]: [usize; 3], x: usize, weight: usize, y: usize) {
    let wanted = (rows * inputs, outputs * inputs, rows * outputs);
    assert_eq!((x, weight, y), wanted, "shapes of a linear layer");
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, dot, gradient, list, on_any_threads};
    use super::*;

    /// y, dx, dW and db one after another; the gradients are added to ones.
    fn run<T: Real>(sizes: [usize; 3]) -> Vec<T> {
        let [rows, inputs, outputs] = sizes;
        let (x, weight) = (list::<T>(1, rows * inputs), list::<T>(2, outputs * inputs));
        let (bias, dy) = (list::<T>(3, outputs), list::<T>(4, rows * outputs));
        on_any_threads(|| {
            let (mut y, mut dx) = (vec![T::ONE; rows * outputs], vec![T::ONE; rows * inputs]);
            let (mut dweight, mut dbias) = (vec![T::ONE; outputs * inputs], vec![T::ONE; outputs]);
            forward(&x, &weight, Some(&bias), &mut y, sizes);
            backward_input(&dy, &weight, &mut dx, sizes, true);
            backward_weight(&dy, &x, &mut dweight, sizes);
            backward_bias(&dy, &mut dbias);
            [y, dx, dweight, dbias].concat()
        })
    }

    #[test]
    fn gradients_are_those_of_the_products() {
        for sizes in [[1, 1, 1], [3, 5, 7], [1, 8, 9], [9, 1, 4], [6, 4, 1], [130, 70, 65], [300, 20, 130]] {
            let [rows, inputs, outputs] = sizes;
            let out = run::<f64>(sizes);
            let (x, weight) = (list::<f64>(1, rows * inputs), list::<f64>(2, outputs * inputs));
            let (bias, dy) = (list::<f64>(3, outputs), list::<f64>(4, rows * outputs));
            let loss = |x: &[f64], weight: &[f64], bias: Option<&[f64]>| {
                let mut y = vec![7.0; rows * outputs];
                forward(x, weight, bias, &mut y, sizes);
                dot(&y, &dy)
            };
            let (y, rest) = out.split_at(rows * outputs);
            assert!((dot(y, &dy) - loss(&x, &weight, Some(&bias))).abs() < 1e-10);
            let rest: Vec<f64> = rest.iter().map(|d| d - 1.0).collect();
            let (dx, rest) = rest.split_at(rows * inputs);
            let (dweight, dbias) = rest.split_at(outputs * inputs);
            gradient("x", &x, dx, |x| loss(x, &weight, Some(&bias)));
            gradient("weight", &weight, dweight, |weight| loss(&x, weight, Some(&bias)));
            gradient("bias", &bias, dbias, |bias| loss(&x, &weight, Some(bias)));
            let without = loss(&x, &weight, None);
            assert!((without + dot(dbias, &bias) - loss(&x, &weight, Some(&bias))).abs() < 1e-10);
            let mut alone = vec![7.0; rows * inputs];
            backward_input(&dy, &weight, &mut alone, sizes, false);
            assert!(alone.iter().zip(dx).all(|(a, b)| (a - b).abs() < 1e-12));
            close("f32", &run::<f32>(sizes), &out, 64.0);
        }
    }

    #[test]
    fn no_rows_are_nothing() {
        let mut dweight = vec![1.0f32; 6];
        forward(&[], &[0.5; 6], Some(&[1.0; 2]), &mut [], [0, 3, 2]);
        backward_input(&[], &[0.5; 6], &mut [], [0, 3, 2], false);
        backward_weight(&[], &[], &mut dweight, [0, 3, 2]);
        assert_eq!(dweight, [1.0; 6]);
    }
}
