//! Axes: from values to places, with ticks at round numbers.

use super::number::{compact, number, ticks};

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm: values above zero only.
    Log,
}

/// One axis of a panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// How it is spread.
    pub scale: Scale,
    /// Whether only whole numbers have a meaning: ticks are then whole.
    pub is_whole: bool,
    /// Values that are in the picture whatever the data.
    pub includes: Vec<f64>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>) -> Self {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// The same axis in whole numbers.
    pub fn whole(mut self) -> Self {
        self.is_whole = true;
        self
    }

    /// The same axis, with these values in the picture.
    pub fn including(mut self, values: impl IntoIterator<Item = f64>) -> Self {
        self.includes.extend(values);
        self
    }

    /// The same axis by logarithms.
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    /// Whether a value has a place on it.
    pub(super) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The axis for this data between two places, with about so many ticks; ends are moved out to ticks if `is_rounded`.
    pub(super) fn place(
        &self,
        values: impl Iterator<Item = f64>,
        (start, end): (f64, f64),
        wanted: usize,
        is_rounded: bool,
    ) -> Placed {
        let inner = |value: f64| if self.scale == Scale::Log { value.log10() } else { value };
        let values =
            values.chain(self.includes.iter().copied()).filter(|&value| self.takes(value)).map(inner);
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (mut low, mut high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        // The span of numbers near the largest is not finite.
        let limit = f64::MAX / 8.0;
        (low, high) = (low.clamp(-limit, limit), high.clamp(-limit, limit));
        let size = low.abs().max(high.abs());
        if high - low <= size * 1e-9 || high - low < 1e-290 {
            // One value: it gets the middle.
            let room = if size < 1e-280 || self.scale == Scale::Log { 0.5 } else { size * 0.1 };
            (low, high) = (low - room, high + room);
        }
        let mut step = round_step((high - low) / wanted.max(1) as f64);
        if self.is_whole || self.scale == Scale::Log {
            step = step.max(1.0);
        }
        if is_rounded && self.scale == Scale::Linear {
            low = (low / step + 1e-9).floor() * step;
            high = (high / step - 1e-9).ceil() * step;
        }
        let mut placed = Placed { scale: self.scale, low, high, start, end, ticks: Vec::new() };
        placed.ticks = placed.label(step, wanted);
        placed
    }
}

/// The round number that is nearest above: 1, 2 or 5 times a power of ten.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|&step| step >= rough * 0.999)
        .unwrap_or(rough)
}

/// An axis with its data and its place.
pub(super) struct Placed {
    scale: Scale,
    /// The ends, as logarithms if it is a logarithmic axis.
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    /// Values and labels.
    pub ticks: Vec<(f64, String)>,
}

impl Placed {
    /// The place of a value, between the two ends also if the value is not.
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Log { value.log10() } else { value };
        let part = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.start + part * (self.end - self.start)
    }

    fn label(&self, step: f64, wanted: usize) -> Vec<(f64, String)> {
        let (first, last) = ((self.low / step - 1e-9).ceil(), (self.high / step + 1e-9).floor());
        // A handful always; the bound is for steps that rounding made useless.
        let count = (last - first).clamp(-1.0, 50.0) as i64 + 1;
        let values: Vec<f64> = (0..count).map(|index| (first + index as f64) * step).collect();
        match self.scale {
            Scale::Linear => {
                let labels = ticks(&values, step);
                values.into_iter().zip(labels).collect()
            }
            Scale::Log => {
                // Within few decades, their halves and fifths too.
                let is_fine = step <= 1.0 && count * 3 <= wanted as i64 + 3;
                let digits: &[f64] = if is_fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (0..count + 2).map(|index| (first + index as f64 - 1.0) * step);
                let values =
                    powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powf(power)));
                let inside = |value: &f64| {
                    (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10()) && value.is_finite()
                };
                let label = |value: f64| if value >= 1e4 { compact(value) } else { number(value) };
                values.filter(inside).map(|value| (value, label(value))).collect()
            }
        }
    }
}
