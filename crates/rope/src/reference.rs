//! Rotary embedding in a few lines of `f64`, obviously right: the oracle for everything fast.
//!
//! `x` holds the rotary features of one head at one position, two for every frequency. A vector of another length gives
//! an empty one.

use crate::pairing::Pairing;

/// a·R·x for one vector of one head at one position: pair j of `x` turned by position·`theta[j]` and scaled by `factor`.
pub fn rotate(x: &[f64], position: f64, theta: &[f64], factor: f64, pairing: Pairing) -> Vec<f64> {
    let pairs = theta.len();
    if x.len() != 2 * pairs {
        return Vec::new();
    }
    let mut y = x.to_vec();
    for (j, theta) in theta.iter().enumerate() {
        let (cos, sin) = ((position * theta).cos(), (position * theta).sin());
        let (a, b) = pairing.input().features(j, pairs);
        let (c, d) = pairing.output().features(j, pairs);
        y[c] = factor * (x[a] * cos - x[b] * sin);
        y[d] = factor * (x[b] * cos + x[a] * sin);
    }
    y
}

/// The same as a product with the block-diagonal matrix R, written out.
pub fn rotate_by_matrix(x: &[f64], position: f64, theta: &[f64], pairing: Pairing) -> Vec<f64> {
    let (pairs, dim) = (theta.len(), 2 * theta.len());
    if x.len() != dim {
        return Vec::new();
    }
    let mut matrix = vec![vec![0.0; dim]; dim];
    for (j, theta) in theta.iter().enumerate() {
        let (cos, sin) = ((position * theta).cos(), (position * theta).sin());
        let (a, b) = pairing.input().features(j, pairs);
        let (c, d) = pairing.output().features(j, pairs);
        (matrix[c][a], matrix[c][b]) = (cos, -sin);
        (matrix[d][a], matrix[d][b]) = (sin, cos);
    }
    matrix.iter().map(|row| row.iter().zip(x).map(|(r, x)| r * x).sum()).collect()
}

/// The same as a product of complex numbers: (x₀ + i·x₁)·e^{i·position·θ}.
pub fn rotate_by_complex(x: &[f64], position: f64, theta: &[f64], pairing: Pairing) -> Vec<f64> {
    let pairs = theta.len();
    if x.len() != 2 * pairs {
        return Vec::new();
    }
    let mut y = x.to_vec();
    for (j, theta) in theta.iter().enumerate() {
        let (a, b) = pairing.input().features(j, pairs);
        let (c, d) = pairing.output().features(j, pairs);
        let (radius, angle) = (x[a].hypot(x[b]), x[b].atan2(x[a]) + position * theta);
        (y[c], y[d]) = (radius * angle.cos(), radius * angle.sin());
    }
    y
}
