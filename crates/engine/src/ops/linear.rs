//! A linear layer with weights that change from step to step: y = x·Wᵀ + b and its gradients.

use super::multiply::{Onto, PARALLEL, Strided, Threads, multiply, multiply_onto};
use super::real::Real;
use super::reduce;

/// y = (x·Wᵀ + b) + residual: x `[rows, inputs]`, W `[outputs, inputs]`, b `[outputs]`, residual and y `[rows, outputs]`.
pub fn forward<T: Real>(
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    residual: Option<&[T]>,
    y: &mut [T],
    sizes @ [rows, inputs, outputs]: [usize; 3],
) {
    check(sizes, x.len(), weight.len(), y.len());
    let (x, weight) = (Strided::rows(x, inputs), Strided::rows(weight, inputs).transposed());
    let onto = Onto::These { bias, rows: residual };
    multiply_onto((y, outputs), onto, x, weight, [rows, outputs, inputs], 1.0, Threads::All);
}

/// Where the gradients of a linear layer go.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// dx `[rows, inputs]`, and whether it is added to, or else set.
    pub x: (&'a mut [T], bool),
    /// Added to: dW `[outputs, inputs]`.
    pub weight: &'a mut [T],
    /// Added to: db `[outputs]`.
    pub bias: Option<&'a mut [T]>,
}

/// All gradients from dy `[rows, outputs]`, x `[rows, inputs]` and W `[outputs, inputs]`: dx and dW at the same time, where
/// they are worth it.
pub fn backward<T: Real>(dy: &[T], x: &[T], weight: &[T], gradients: Gradients<T>, sizes: [usize; 3]) {
    let Gradients { x: (dx, accumulate), weight: dweight, bias: dbias } = gradients;
    let mut input = || backward_input(dy, weight, dx, sizes, accumulate);
    let parameters = || {
        backward_weight(dy, x, dweight, sizes);
        if let Some(dbias) = dbias {
            reduce::add_rows(dy, dbias);
        }
    };
    if sizes.iter().product::<usize>() < PARALLEL {
        input();
        parameters();
    } else {
        rayon::join(input, parameters);
    }
}

/// dx = dy·W, or dx += dy·W where `accumulate`: dy `[rows, outputs]`, W `[outputs, inputs]`, dx `[rows, inputs]`.
fn backward_input<T: Real>(
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
fn backward_weight<T: Real>(
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
            forward(&x, &weight, Some(&bias), None, &mut y, sizes);
            let gradients = Gradients { x: (&mut dx, true), weight: &mut dweight, bias: Some(&mut dbias) };
            backward(&dy, &x, &weight, gradients, sizes);
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
                forward(x, weight, bias, None, &mut y, sizes);
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
            let residual = list::<f64>(5, rows * outputs);
            let mut onto = vec![7.0; rows * outputs];
            forward(&x, &weight, None, Some(&residual), &mut onto, sizes);
            assert!((dot(&onto, &dy) - without - dot(&residual, &dy)).abs() < 1e-10);
            let mut alone = vec![7.0; rows * inputs];
            backward_input(&dy, &weight, &mut alone, sizes, false);
            assert!(alone.iter().zip(dx).all(|(a, b)| (a - b).abs() < 1e-12));
            close("f32", &run::<f32>(sizes), &out, 64.0);
        }
    }

    #[test]
    fn no_rows_are_nothing() {
        let mut dweight = vec![1.0f32; 6];
        forward(&[], &[0.5; 6], Some(&[1.0; 2]), None, &mut [], [0, 3, 2]);
        let gradients = Gradients { x: (&mut [], false), weight: &mut dweight, bias: None };
        backward(&[], &[], &[0.5; 6], gradients, [0, 3, 2]);
        assert_eq!(dweight, [1.0; 6]);
    }
}
