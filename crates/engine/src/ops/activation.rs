//! Activations, element by element: loops without branches, so that they vectorise.

use super::dispatch::vectorised;
use super::real::Real;
use super::reduce::{BLOCK, PARALLEL};
use rayon::prelude::*;

/// What is done to each number after a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x
    Identity,
    /// x·Φ(x) with the error function: Hugging Face's `gelu`.
    Gelu,
    /// Its approximation by a hyperbolic tangent: `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// max(x, 0)
    Relu,
    /// x / (1 + e^(−x)): `silu`, `swish`.
    Silu,
    /// tanh x
    Tanh,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 6] = [
        Activation::Identity,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Relu,
        Activation::Silu,
        Activation::Tanh,
    ];

    /// The activation of this name in a configuration (`hidden_act`).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            "silu" | "swish" => Activation::Silu,
            "tanh" => Activation::Tanh,
            "linear" => Activation::Identity,
            _ => return None,
        })
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Identity => "linear",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_new",
            Activation::Relu => "relu",
            Activation::Silu => "silu",
            Activation::Tanh => "tanh",
        }
    }

    /// Applies it to every number, on the calling thread.
    pub fn apply<T: Real>(self, x: &mut [T]) {
        apply(self, x);
    }

    /// y = activation(x), number by number, over the threads.
    pub fn forward<T: Real>(self, x: &[T], y: &mut [T]) {
        assert_eq!(x.len(), y.len(), "shapes of an activation");
        let block = |(x, y): (&[T], &mut [T])| {
            y.copy_from_slice(x);
            apply(self, y);
        };
        if x.len() < PARALLEL {
            block((x, y));
        } else {
            x.par_chunks(BLOCK).zip(y.par_chunks_mut(BLOCK)).for_each(block);
        }
    }

    /// y = activation(x) and x ← activation'(x), number by number, over the threads: what the way back needs, while all of
    /// it is at hand.
    pub fn forward_with_derivatives<T: Real>(self, x: &mut [T], y: &mut [T]) {
        assert_eq!(x.len(), y.len(), "shapes of an activation");
        if x.len() < PARALLEL {
            with_derivatives(self, x, y);
        } else {
            let blocks = x.par_chunks_mut(BLOCK).zip(y.par_chunks_mut(BLOCK));
            blocks.for_each(|(x, y)| with_derivatives(self, x, y));
        }
    }
}

/// dy ← dy·derivative, number by number, over the threads, for derivatives from [`Activation::forward_with_derivatives`]: the gradient of y
/// becomes that of x.
pub fn backward<T: Real>(derivatives: &[T], dy: &mut [T]) {
    assert_eq!(derivatives.len(), dy.len(), "shapes of an activation");
    if dy.len() < PARALLEL {
        multiply(derivatives, dy);
    } else {
        let blocks = dy.par_chunks_mut(BLOCK).zip(derivatives.par_chunks(BLOCK));
        blocks.for_each(|(dy, derivatives)| multiply(derivatives, dy));
    }
}

/// y = activation(gate)·up: the rows of x `[rows, 2 · width]` are a gate and, beside it, what it lets through; y
/// `[rows, width]`.
pub fn gate<T: Real>(x: &[T], width: usize, activation: Activation, y: &mut [T]) {
    assert!(x.len() == 2 * y.len() && y.len().is_multiple_of(width), "shapes of a gate");
    if y.is_empty() {
        return;
    }
    let row = |(x, y): (&[T], &mut [T])| gated(activation, &x[..width], &x[width..], y);
    if x.len() < PARALLEL {
        x.chunks_exact(2 * width).zip(y.chunks_exact_mut(width)).for_each(row);
    } else {
        x.par_chunks_exact(2 * width).zip(y.par_chunks_exact_mut(width)).with_min_len(4).for_each(row);
    }
}

/// The gradient of [`gate`]: dx `[rows, 2 · width]` from x, of the same shape, and dy `[rows, width]`.
pub fn gate_backward<T: Real>(x: &[T], width: usize, activation: Activation, dy: &[T], dx: &mut [T]) {
    assert!(x.len() == 2 * dy.len() && x.len() == dx.len(), "shapes of a gate");
    assert!(dy.len().is_multiple_of(width), "shapes of a gate");
    if dy.is_empty() {
        return;
    }
    let row = |((x, dy), dx): ((&[T], &[T]), &mut [T])| {
        let (dgate, dup) = dx.split_at_mut(width);
        gated_backward(activation, &x[..width], &x[width..], dy, dgate, dup);
    };
    if x.len() < PARALLEL {
        let rows = x.chunks_exact(2 * width).zip(dy.chunks_exact(width));
        rows.zip(dx.chunks_exact_mut(2 * width)).for_each(row);
    } else {
        let rows = x.par_chunks_exact(2 * width).zip(dy.par_chunks_exact(width));
        rows.zip(dx.par_chunks_exact_mut(2 * width)).with_min_len(4).for_each(row);
    }
}

vectorised! { fn apply<T>(activation: Activation, x: &mut [T]) = all }
vectorised! { fn with_derivatives<T>(activation: Activation, x: &mut [T], y: &mut [T]) = all_with_derivatives }
vectorised! { fn multiply<T>(derivatives: &[T], dy: &mut [T]) = multiply_all }
vectorised! { fn gated<T>(activation: Activation, gate: &[T], up: &[T], y: &mut [T]) = gate_row }
vectorised! {
    fn gated_backward<T>(activation: Activation, gate: &[T], up: &[T], dy: &[T], dgate: &mut [T], dup: &mut [T]) =
        gate_derivatives
}

#[inline(always)]
fn all<T: Real>(activation: Activation, x: &mut [T]) {
    match activation {
        Activation::Identity => {}
        Activation::Gelu => x.iter_mut().for_each(|x| *x = gelu(*x).0),
        Activation::GeluTanh => x.iter_mut().for_each(|x| *x = gelu_tanh(*x).0),
        Activation::Relu => x.iter_mut().for_each(|x| *x = relu(*x).0),
        Activation::Silu => x.iter_mut().for_each(|x| *x = silu(*x).0),
        Activation::Tanh => x.iter_mut().for_each(|x| *x = tanh(*x).0),
    }
}

#[inline(always)]
fn all_with_derivatives<T: Real>(activation: Activation, x: &mut [T], y: &mut [T]) {
    let numbers = x.iter_mut().zip(y);
    match activation {
        Activation::Identity => numbers.for_each(|(x, y)| (*y, *x) = (*x, T::ONE)),
        Activation::Gelu => numbers.for_each(|(x, y)| (*y, *x) = gelu(*x)),
        Activation::GeluTanh => numbers.for_each(|(x, y)| (*y, *x) = gelu_tanh(*x)),
        Activation::Relu => numbers.for_each(|(x, y)| (*y, *x) = relu(*x)),
        Activation::Silu => numbers.for_each(|(x, y)| (*y, *x) = silu(*x)),
        Activation::Tanh => numbers.for_each(|(x, y)| (*y, *x) = tanh(*x)),
    }
}

#[inline(always)]
fn multiply_all<T: Real>(derivatives: &[T], dy: &mut [T]) {
    dy.iter_mut().zip(derivatives).for_each(|(dy, &derivative)| *dy *= derivative);
}

/// x·Φ(x) and its derivative Φ(x) + x·φ(x): from the tail on the far side, so that small results keep their digits.
#[inline(always)]
fn gelu<T: Real>(x: T) -> (T, T) {
    let (tail, density) = x.abs().normal();
    let below = if x > T::ZERO { T::ONE - tail } else { tail };
    (x * below, below + x * density)
}

/// x·½·(1 + tanh u) with u = √(2/π)·(x + 0.044715·x³), and its derivative.
#[inline(always)]
fn gelu_tanh<T: Real>(x: T) -> (T, T) {
    let (a, b) = (T::of((2.0 / std::f64::consts::PI).sqrt()), T::of(0.044715));
    let inner = a * (x + b * x * x * x);
    let inner_derivative = a * (T::ONE + T::of(3.0) * b * x * x);
    // s = ½·(1 + tanh u) = 1 / (1 + e^(−2u)) has the derivative 2·s·(1 − s)·u', and 1 − s = e^(−2u)·s loses no digits.
    let e = (-(inner + inner)).exp();
    let s = T::ONE / (T::ONE + e);
    (x * s, s + x * s * (e * s) * (inner_derivative + inner_derivative))
}

/// max(x, 0) and its derivative.
#[inline(always)]
fn relu<T: Real>(x: T) -> (T, T) {
    (if x < T::ZERO { T::ZERO } else { x }, if x > T::ZERO { T::ONE } else { T::ZERO })
}

/// x / (1 + e^(−x)) and its derivative.
#[inline(always)]
fn silu<T: Real>(x: T) -> (T, T) {
    let e = (-x).exp();
    let s = T::ONE / (T::ONE + e);
    (x * s, s + x * s * (e * s))
}

/// tanh x and its derivative, 1 − tanh² = 4·e^(−2|x|) / (1 + e^(−2|x|))².
#[inline(always)]
fn tanh<T: Real>(x: T) -> (T, T) {
    let e = (-(x.abs() + x.abs())).exp();
    let s = T::ONE / (T::ONE + e);
    let y = (T::ONE - e) * s;
    (if x < T::ZERO { -y } else { y }, T::of(4.0) * e * s * s)
}

#[inline(always)]
fn gate_row<T: Real>(activation: Activation, gate: &[T], up: &[T], y: &mut [T]) {
    y.copy_from_slice(gate);
    all(activation, y);
    multiply_all(up, y);
}

#[inline(always)]
fn gate_derivatives<T: Real>(
    activation: Activation,
    gate: &[T],
    up: &[T],
    dy: &[T],
    dgate: &mut [T],
    dup: &mut [T],
) {
    // For now the derivatives, and the values.
    dgate.copy_from_slice(gate);
    all_with_derivatives(activation, dgate, dup);
    for (((dgate, dup), &up), &dy) in dgate.iter_mut().zip(dup).zip(up).zip(dy) {
        *dgate *= dy * up;
        *dup *= dy;
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, dot, gradient, list, on_any_threads};
    use super::*;

    /// Numbers in (−6, 6), none within 0.001 of the corner at 0.
    fn wide<T: Real>(seed: u64, len: usize) -> Vec<T> {
        let away = |x: f64| if x.abs() < 0.001 { 0.5 } else { x };
        list::<f64>(seed, len).into_iter().map(|x| T::of(away(4.0 * x))).collect()
    }

    fn run<T: Real>(activation: Activation, len: usize) -> Vec<T> {
        let (x, dy) = (wide::<T>(1, len), list::<T>(2, len));
        on_any_threads(|| {
            let (mut y, mut dx, mut same) = (vec![T::ONE; len], dy.clone(), vec![T::ONE; len]);
            let mut derivatives = x.clone();
            activation.forward_with_derivatives(&mut derivatives, &mut y);
            activation.forward(&x, &mut same);
            assert_eq!(y, same);
            backward(&derivatives, &mut dx);
            [y, dx].concat()
        })
    }

    #[test]
    fn derivatives_are_those_of_the_activations() {
        for (activation, len) in
            Activation::ALL.into_iter().flat_map(|a| [(a, 1), (a, 77), (a, 100), (a, 40_001)])
        {
            let out = run::<f64>(activation, len);
            let (y, dx) = out.split_at(len);
            let (x, dy) = (wide::<f64>(1, len), list::<f64>(2, len));
            // One at a time: among many, a loss would hide small derivatives.
            let value = |x: f64| {
                let mut y = [x];
                activation.apply(&mut y);
                y[0]
            };
            for index in (0..len).step_by(if len > 100 { 97 } else { 1 }) {
                assert_eq!(y[index], value(x[index]));
                let what = format!("{activation:?} at {}", x[index]);
                gradient(&what, &x[index..][..1], &dx[index..][..1], |x| value(x[0]) * dy[index]);
            }
            close(&format!("{activation:?}"), &run::<f32>(activation, len), &out, 8.0);
        }
    }

    #[test]
    fn derivatives_far_out_are_those_of_the_asymptotes() {
        for activation in Activation::ALL {
            let (mut x, mut y, mut dx) = ([-1e4f32, 1e4], [7.0; 2], [1.0; 2]);
            activation.forward_with_derivatives(&mut x, &mut y);
            backward(&x, &mut dx);
            let wanted = match activation {
                Activation::Identity => [1.0, 1.0],
                Activation::Tanh => [0.0, 0.0],
                _ => [0.0, 1.0],
            };
            assert!(dx.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-20), "{activation:?}: {dx:?}");
        }
    }

    #[test]
    fn gates_and_their_gradients() {
        fn run<T: Real>(rows: usize, width: usize, activation: Activation) -> Vec<T> {
            let (x, dy) = (wide::<T>(3, 2 * rows * width), list::<T>(4, rows * width));
            on_any_threads(|| {
                let (mut y, mut dx) = (vec![T::ONE; dy.len()], vec![T::ONE; x.len()]);
                gate(&x, width, activation, &mut y);
                gate_backward(&x, width, activation, &dy, &mut dx);
                [y, dx].concat()
            })
        }
        for ((rows, width), activation) in [(1, 1), (3, 5), (1, 33), (5, 1), (70, 300)].into_iter().zip([
            Activation::Silu,
            Activation::Gelu,
            Activation::GeluTanh,
            Activation::Relu,
            Activation::Silu,
        ]) {
            let out = run::<f64>(rows, width, activation);
            let (x, dy) = (wide::<f64>(3, 2 * rows * width), list::<f64>(4, rows * width));
            let value = |x: &[f64]| -> Vec<f64> {
                let at = |row: usize, i: usize| x[2 * row * width + i];
                let one = |row: usize, i: usize| {
                    let mut value = [at(row, i)];
                    activation.apply(&mut value);
                    value[0] * at(row, width + i)
                };
                (0..rows).flat_map(|row| (0..width).map(move |i| (row, i))).map(|(r, i)| one(r, i)).collect()
            };
            let (y, dx) = out.split_at(rows * width);
            assert!(y.iter().zip(value(&x)).all(|(a, b)| (a - b).abs() < 1e-14));
            gradient(&format!("{rows} × {width} {activation:?}"), &x, dx, |x| dot(&value(x), &dy));
            close("f32", &run::<f32>(rows, width, activation), &out, 16.0);
        }
    }
}
