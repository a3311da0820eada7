//! Timings: medians over alternating rounds, beside the floor that the memory sets, with the results checked.

pub mod attention;
pub mod generate;
pub mod model;
pub mod rope;
pub mod train;

use std::time::Instant;

/// The seconds that a call takes.
pub fn seconds(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

/// The median of some measurements; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this part of the measurements lies; NaN if there are none.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let index = (part * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
