//! What a question may ask for: numbers within limits, so that no figure takes longer than a moment.

use crate::error::{Error, Result};
use rope::{Rope, Schedule};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The most features of a head.
pub const MAX_DIM: usize = 512;
/// The furthest position.
pub const MAX_POSITION: i64 = 1 << 31;

/// Checks that a number is within limits; NaN is not.
pub fn within<T: PartialOrd + Display>(name: &str, value: T, limits: RangeInclusive<T>) -> Result<T> {
    if limits.contains(&value) {
        return Ok(value);
    }
    let (low, high) = limits.into_inner();
    Err(Error::refused(
        format!("{name} is {value}; expected a number from {low} to {high}"),
        format!("{name} 是 {value}；应为 {low} 到 {high} 之间的数"),
    ))
}

/// The rope with this many features per head and this base, everything else as usual.
pub fn rope(dim: usize, base: f64) -> Result<Rope> {
    within("dim", dim, 2..=MAX_DIM)?;
    within("base", base, 2.0..=1e12)?;
    Ok(Rope::builder(dim).base(base).build()?)
}

/// The same with a receptive field: every frequency moved towards one that all share.
pub fn field(dim: usize, base: f64, alpha: f64, rho: f64) -> Result<Rope> {
    within("dim", dim, 2..=MAX_DIM)?;
    within("base", base, 2.0..=1e12)?;
    let alpha = within("alpha", alpha, 0.0..=2.0)?;
    let rho = within("rho", rho, 0.0..=4.0)?;
    Ok(Rope::builder(dim).base(base).schedule(Schedule::ReceptiveField { alpha, rho }).build()?)
}

/// A position.
pub fn position(name: &str, value: i64) -> Result<i64> {
    within(name, value, 0..=MAX_POSITION)
}

/// Numbers as they stand in an address: `1,2.5,-3`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<f64>);

impl List {
    /// The most numbers of a list.
    pub const MAX: usize = 1024;
}

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(List::default());
        }
        let numbers = text.split(',').take(List::MAX + 1).map(|number| match number.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(serde::de::Error::custom(format!(
                "{number:?} in a list is not a number; expected numbers with commas between them"
            ))),
        });
        let numbers = numbers.collect::<std::result::Result<Vec<_>, _>>()?;
        if numbers.len() > List::MAX {
            return Err(serde::de::Error::custom(format!("a list has more than {} numbers", List::MAX)));
        }
        Ok(List(numbers))
    }
}

impl Serialize for List {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.iter().map(f64::to_string).collect::<Vec<_>>().join(","))
    }
}

/// `[count]` numbers as from a normal distribution, the same ones for the same seed.
pub fn normal(seed: u64, count: usize) -> Vec<f64> {
    let uniform = |index: usize| {
        let bits = roformer::graph::mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64);
        ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    (0..count)
        .map(|index| {
            let (radius, turn) = (uniform(2 * index), uniform(2 * index + 1));
            (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
        })
        .collect()
}
