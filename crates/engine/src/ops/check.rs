//! What the tests of gradients share: numbers, differences, threads.

use super::Real;

/// `len` numbers in (−1.5, 1.5) without a pattern, the same for every type up to rounding.
pub(crate) fn list<T: Real>(seed: u64, len: usize) -> Vec<T> {
    let key = super::dropout::key(seed, 0, 0);
    let number = |i: usize| {
        let bits = [0, 1].map(|half| f64::from(super::dropout::bits(key, 2 * i as u64 + half)));
        // All bits of an f64, so that no sum is exact and its order shows.
        T::of(3.0 * (bits[0] + (bits[1] + 0.5) / 4_294_967_296.0) / 4_294_967_296.0 - 1.5)
    };
    (0..len).map(number).collect()
}

/// Σ x·y: a loss whose gradient with respect to x is y.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    assert_eq!(x.len(), y.len());
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Checks dL/dx at `x` by central differences; where there are many numbers, at some 40 of them.
///
/// With h = 1e-5 the difference is off by h²/6·L''' ≈ 2e-11·L''' and by the rounding of L over h, 1e-11·|L| and a little
/// more for long sums: 1e-7 of the largest number in play leaves room for third derivatives of 1000.
pub(crate) fn gradient(what: &str, x: &[f64], analytic: &[f64], loss: impl Fn(&[f64]) -> f64) {
    assert_eq!(x.len(), analytic.len(), "{what}");
    let largest = analytic.iter().fold(loss(x).abs(), |a, b| a.max(b.abs()));
    let mut moved = x.to_vec();
    let step = if x.len() <= 200 { 1 } else { x.len() / 40 };
    for index in (0..x.len()).step_by(step) {
        let h = 1e-5 * x[index].abs().max(1.0);
        moved[index] = x[index] + h;
        let above = loss(&moved);
        moved[index] = x[index] - h;
        let below = loss(&moved);
        moved[index] = x[index];
        let numeric = (above - below) / (2.0 * h);
        let error = (numeric - analytic[index]).abs();
        assert!(
            error <= 1e-7 * largest + 1e-9,
            "{what} at {index} of {}: {} but {numeric} by differences",
            x.len(),
            analytic[index]
        );
    }
}

/// The result, which has the same bits with 1, 2 and 3 threads.
pub(crate) fn on_any_threads<T: Real>(run: impl Fn() -> Vec<T> + Sync) -> Vec<T> {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let one = pool(1).install(&run);
    for threads in [2, 3] {
        let more = pool(threads).install(&run);
        assert_eq!(one.len(), more.len());
        let same = one.iter().zip(&more).all(|(a, b)| a.to_f64().to_bits() == b.to_f64().to_bits());
        assert!(same, "{threads} threads change bits");
    }
    one
}

/// Checks `f32` results against those of `f64`: within `units` of rounding of the largest.
pub(crate) fn close(what: &str, single: &[f32], double: &[f64], units: f64) {
    assert_eq!(single.len(), double.len(), "{what}");
    let largest = double.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    for (index, (&a, &b)) in single.iter().zip(double).enumerate() {
        let error = (f64::from(a) - b).abs();
        assert!(error <= units * f64::from(f32::EPSILON) * largest, "{what} at {index}: {a} but {b} in f64");
    }
}
