//! Sines and cosines of the position (Vaswani et al. 2017): p(k) = (sin ω_0·k, cos ω_0·k, sin ω_1·k, …),
//! ω_i = 10000^(−2i/d).
//!
//! Moving by Δ is a linear map that does not depend on k: p(k + Δ) = T(Δ)·p(k), T a rotation of each pair by −ω_i·Δ: the
//! pairs are (sine, cosine), and a pair (cosine, sine) would turn by +ω_i·Δ. That is all the codes say of relative positions,
//! and what rotary embedding does to queries and keys instead.

use super::absolute::Merge;
use super::{Encode, Sizes};
use crate::graph::{Builder, Value};
use crate::ops::Real;

/// Fixed sines and cosines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sinusoidal {
    /// How they meet the embeddings.
    pub merge: Merge,
}

impl<T: Real> Encode<T> for Sinusoidal {
    fn codes(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Value, Merge)> {
        let codes = codes(sizes.longest, sizes.codes);
        let table = builder.constant(sizes.longest, sizes.codes, &codes);
        let rows =
            builder.position_rows(table, sizes.length, |position| [(position, 1.0), (0, 0.0), (0, 0.0)]);
        Some((rows, self.merge))
    }
}

/// The codes of the first positions, `[length, width]`.
pub(super) fn codes(length: usize, width: usize) -> Vec<f64> {
    (0..length)
        .flat_map(|position| (0..width).map(move |feature| sinusoid(position as f64, feature, width)))
        .collect()
}

/// Feature `feature` of the code of a position, of `width` features: sine for even ones, cosine for odd.
pub fn sinusoid(position: f64, feature: usize, width: usize) -> f64 {
    let angle = position * 10_000f64.powf(-2.0 * (feature / 2) as f64 / width as f64);
    if feature.is_multiple_of(2) { angle.sin() } else { angle.cos() }
}

/// The code moved by a distance: T(Δ)·p.
///
/// ```
/// use roformer::encoding::{shift, sinusoid};
/// let p = |k: f64| (0..6).map(|feature| sinusoid(k, feature, 6)).collect::<Vec<_>>();
/// for (moved, there) in shift(&p(3.0), 4.0).iter().zip(p(7.0)) {
///     assert!((moved - there).abs() < 1e-12);
/// }
/// ```
pub fn shift(code: &[f64], distance: f64) -> Vec<f64> {
    let width = code.len();
    let mut out = code.to_vec();
    for (pair, values) in out.chunks_exact_mut(2).enumerate() {
        let (sin, cos) = (distance * 10_000f64.powf(-2.0 * pair as f64 / width as f64)).sin_cos();
        let (s, c) = (values[0], values[1]);
        values[0] = s * cos + c * sin;
        values[1] = c * cos - s * sin;
    }
    out
}
