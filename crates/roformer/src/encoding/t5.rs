//! T5's bias (Raffel et al. 2020): a learned number for each head and bucket of distances. Near distances have a bucket each,
//! far ones share buckets that widen with the logarithm. All layers share the numbers.

use super::{Encode, Sizes, Terms, by_distance, check_rows};
use crate::blueprint::BUCKETS;
use crate::error::{Error, Result};
use crate::graph::{Builder, Init, TableTerm};
use crate::ops::Real;

/// T5's bias by buckets of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct T5 {
    /// Buckets.
    pub buckets: usize,
    /// The distance from which on all share the last bucket.
    pub furthest: usize,
    /// Whether scores are divided by √head_dim, which T5 itself leaves to the first values of its weights.
    pub is_scaled: bool,
}

impl Default for T5 {
    fn default() -> Self {
        T5 { buckets: 32, furthest: 128, is_scaled: true }
    }
}

impl<T: Real> Encode<T> for T5 {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        check_rows("the number of buckets", self.buckets)?;
        // Half of the buckets of a direction are for one distance each.
        let exact = self.buckets / if sizes.is_causal { 2 } else { 4 };
        if self.buckets < 4 || self.furthest <= exact {
            let value = format!("{} for distances to {}", self.buckets, self.furthest);
            let expected = "at least 4, and distances beyond those that have a bucket each";
            return Err(Error::input("the number of buckets", value, expected));
        }
        Ok(())
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let shape = [sizes.heads, self.buckets];
        let name = BUCKETS;
        let table = match (layer, builder.parameters().find(name)) {
            (1.., Some(table)) => table,
            _ => builder.parameters().add(name, &shape, Init::Normal(0.02)),
        };
        let table = builder.lift(table, shape[0], shape[1]);
        let index = by_distance(sizes.length, |distance| {
            bucket(distance, sizes.is_causal, self.buckets, self.furthest)
        });
        let scale = (!self.is_scaled).then_some(1.0);
        Terms { bias: Some(TableTerm { table, index }), scale, ..Terms::default() }
    }
}

/// The bucket of the distance i − j. Without a causal mask half of the buckets are for keys to the right of the query.
pub fn bucket(distance: i64, is_causal: bool, buckets: usize, furthest: usize) -> u32 {
    let (first, buckets, distance) = match is_causal {
        true => (0, buckets, distance.max(0) as u64),
        false => (if distance < 0 { buckets / 2 } else { 0 }, buckets / 2, distance.unsigned_abs()),
    };
    let exact = buckets / 2;
    if distance < exact as u64 {
        return (first + distance as usize) as u32;
    }
    // How many whole steps of the logarithm: counted in whole numbers, so that powers of two land where they should.
    let steps = buckets - exact;
    let reached = |step: usize| {
        let bound = exact as f64 * (furthest as f64 / exact as f64).powf(step as f64 / steps as f64);
        distance as f64 >= bound * (1.0 - 1e-12)
    };
    let step = (1..steps).take_while(|&step| reached(step)).count();
    (first + exact + step) as u32
}
