//! ALiBi (Press et al. 2022): a score falls by m_h for every token of distance, with a slope of its own for each head and
//! nothing to learn. Without a causal mask it cannot tell a sentence from its reversal.

use super::{Encode, Sizes, Terms, by_distance};
use crate::graph::{Builder, TableTerm};
use crate::ops::Real;

/// A bias that falls with the distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alibi;

impl<T: Real> Encode<T> for Alibi {
    fn terms(&self, builder: &mut Builder<T>, _layer: usize, sizes: &Sizes) -> Terms {
        let length = sizes.length;
        let row = |slope: f64| (0..length).map(move |distance| -slope * distance as f64);
        let biases: Vec<f64> = slopes(sizes.heads).into_iter().flat_map(row).collect();
        let table = builder.constant(sizes.heads, length, &biases);
        let index = by_distance(length, |distance| distance.unsigned_abs() as u32);
        Terms { bias: Some(TableTerm { table, index }), ..Terms::default() }
    }
}

/// The slopes of the heads: 2^(−8h/H) for h = 1…H where H is a power of two; else those of the next lower power, then every
/// second one of the next higher.
pub(super) fn slopes(heads: usize) -> Vec<f64> {
    let power = |count: usize| (1..=count).map(move |head| 2f64.powf(-8.0 * head as f64 / count as f64));
    if heads.is_power_of_two() {
        return power(heads).collect();
    }
    let lower = heads.next_power_of_two() / 2;
    power(lower).chain(power(2 * lower).step_by(2)).take(heads).collect()
}
