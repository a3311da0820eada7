//! What the tests of the mathematics share: comparisons with a stated tolerance.

use rope::Pairing;

/// All of them.
pub const PAIRINGS: [Pairing; 3] = [Pairing::Interleaved, Pairing::Half, Pairing::InterleavedToHalf];

/// A few roundings of numbers of this size.
pub fn rounding(size: f64) -> f64 {
    8.0 * f64::EPSILON * size.max(1.0)
}

/// Demands that two numbers agree.
#[track_caller]
pub fn close(got: f64, expected: f64, tolerance: f64) {
    assert!(
        (got - expected).abs() <= tolerance,
        "{got} is {:e} from {expected}, more than {tolerance:e}",
        got - expected
    );
}

/// Demands that two lists agree, number by number.
#[track_caller]
pub fn all_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    got.iter().zip(expected).for_each(|(&got, &expected)| close(got, expected, tolerance));
}

/// The inner product.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
