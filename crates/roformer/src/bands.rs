//! What a rule does to each band of frequencies, and where single precision gives out.

use rope::{AnglePrecision, Frequencies, Rope, Schedule};

/// Neighbouring pairs that a rule treats alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// The first pair.
    pub first: usize,
    /// The last pair.
    pub last: usize,
    /// What the rule does to them.
    pub change: Change,
}

/// What a rule does to a pair, beside θ_j = base^(−2j/d).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Turns as without the rule.
    Kept,
    /// Turns slower by this factor.
    Slowed(f64),
    /// Slower by a factor that grows or falls along the band.
    Blended {
        /// At the first pair.
        from: f64,
        /// At the last pair.
        to: f64,
    },
    /// Does not turn.
    Still,
}

/// By how much a rule slows each pair: θ_j without the rule over θ_j with it, as the rope's `frequencies` at some length are;
/// infinite for a pair that stands still.
pub fn slowdown(rope: &Rope, frequencies: &Frequencies) -> Vec<f64> {
    plain(rope).iter().zip(frequencies.inv_freq()).map(|(plain, ruled)| plain / ruled).collect()
}

/// θ_j without the rule.
fn plain(rope: &Rope) -> Vec<f64> {
    let plain = rope.clone().without_rule().with_angle_precision(AnglePrecision::Exact);
    plain.frequencies(None).inv_freq().to_vec()
}

/// The angles that a model has seen in training.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The length of the training sequences.
    pub length: u64,
    /// How far each pair turned within it, in radians.
    pub angles: Vec<f64>,
}

impl Seen {
    /// Rules that stretch a trained model name its `original` length, at which it turned without the rule (LongRoPE: by
    /// the short list). Otherwise the model is taken to be trained under its rule, at the longest it takes.
    pub fn new(rope: &Rope, original: Option<u64>, longest: Option<u64>) -> Option<Seen> {
        let (length, theta) = match (rope.schedule(), original) {
            (Schedule::Yarn(_) | Schedule::Llama3(_), Some(original)) => (original, plain(rope)),
            (_, original) => {
                let length = original.or(longest)?;
                (length, rope.frequencies(length).inv_freq().to_vec())
            }
        };
        Some(Seen { length, angles: theta.iter().map(|theta| theta * length as f64).collect() })
    }

    /// Pairs that turn but never completed a turn.
    pub fn never_turned(&self) -> usize {
        self.angles.iter().filter(|&&angle| angle > 0.0 && angle < std::f64::consts::TAU).count()
    }

    /// Whether a pair that turns this far leaves all that it has seen: one that completed a turn has seen every angle.
    pub fn is_left(&self, pair: usize, angle: f64) -> bool {
        self.angles.get(pair).is_some_and(|&then| then < std::f64::consts::TAU && angle > then * (1.0 + 1e-9))
    }

    /// Pairs that frequencies `[pairs]` take beyond all that they have seen within a context: to angles that a model cannot
    /// know.
    pub fn unseen(&self, theta: &[f64], context: u64) -> usize {
        let angles = theta.iter().map(|theta| theta * context as f64);
        angles.enumerate().filter(|&(pair, angle)| self.is_left(pair, angle)).count()
    }

    /// The part of the circle that a pair has seen.
    pub fn coverage(&self, pair: usize) -> f64 {
        (self.angles[pair] / std::f64::consts::TAU).min(1.0)
    }
}

/// The bands that a rule makes of all pairs, fastest first.
pub fn bands(slowdown: &[f64]) -> Vec<Band> {
    let same = |a: f64, b: f64| a == b || (a / b - 1.0).abs() < 1e-9;
    let kind = |factor: f64| match factor {
        _ if factor.is_infinite() => Change::Still,
        _ if same(factor, 1.0) => Change::Kept,
        _ => Change::Slowed(factor),
    };
    let mut bands: Vec<Band> = Vec::new();
    for (pair, &factor) in slowdown.iter().enumerate() {
        let change = kind(factor);
        let alone = |band: &Band| band.first == band.last;
        match bands.last_mut() {
            Some(band) if is_alike(band.change, change, same) => band.last = pair,
            // A run of factors that differ is one blended band, unless the next two are alike.
            Some(band)
                if matches!(change, Change::Slowed(_))
                    && (matches!(band.change, Change::Blended { .. })
                        || (alone(band) && matches!(band.change, Change::Slowed(_))))
                    && !slowdown.get(pair + 1).is_some_and(|&next| same(next, factor)) =>
            {
                let from = match band.change {
                    Change::Blended { from, .. } | Change::Slowed(from) => from,
                    _ => 1.0,
                };
                *band = Band { first: band.first, last: pair, change: Change::Blended { from, to: factor } };
            }
            _ => bands.push(Band { first: pair, last: pair, change }),
        }
    }
    bands
}

fn is_alike(a: Change, b: Change, same: impl Fn(f64, f64) -> bool) -> bool {
    match (a, b) {
        (Change::Slowed(a), Change::Slowed(b)) => same(a, b),
        (a, b) => a == b && matches!(a, Change::Kept | Change::Still),
    }
}

/// The largest error of an angle formed in `f32`, as Hugging Face decoders form it, over the last positions before
/// `length`, in radians.
pub fn single_precision_error(rope: &Rope, length: u64) -> f64 {
    let exact = rope.clone().with_angle_precision(AnglePrecision::Exact).frequencies(length);
    let single = rope.clone().with_angle_precision(AnglePrecision::F32).frequencies(length);
    let last = length.min(1 << 53);
    (last.saturating_sub(64)..last)
        .flat_map(|position| {
            exact.inv_freq().iter().zip(single.inv_freq()).map(move |(e, s)| (position, e, s))
        })
        .map(|(position, exact, single)| {
            let angle = position as f32 * *single as f32;
            // exact is an f64: enough to judge an error of 1e-7 and more.
            (f64::from(angle) - position as f64 * exact).abs()
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::{Llama3, Yarn};

    fn of(schedule: Schedule, base: f64) -> Vec<Band> {
        let rope = Rope::builder(128).base(base).schedule(schedule).build().unwrap();
        bands(&slowdown(&rope, &rope.frequencies(None)))
    }

    #[test]
    fn rules_make_the_bands_they_are_said_to() {
        assert_eq!(of(Schedule::Default, 1e4), [Band { first: 0, last: 63, change: Change::Kept }]);
        let linear = of(Schedule::Linear { factor: 8.0 }, 1e4);
        assert!(
            matches!(linear[..], [Band { first: 0, last: 63, change: Change::Slowed(f) }] if (f - 8.0).abs() < 1e-9)
        );
        // YaRN at base 10000, trained at 4096: the ramp runs from pair 20 to pair 46.
        let yarn = of(Schedule::Yarn(Yarn::new(16.0, 4096)), 1e4);
        assert_eq!(
            yarn.iter().map(|band| (band.first, band.last)).collect::<Vec<_>>(),
            [(0, 20), (21, 45), (46, 63)]
        );
        assert!(
            matches!(yarn[1].change, Change::Blended { from, to } if from > 1.0 && to < 16.0 && from < to)
        );
        let llama =
            Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: 8192 };
        let llama = of(Schedule::Llama3(llama), 5e5);
        assert_eq!(llama.len(), 3);
        let proportional = of(Schedule::Proportional { fraction: 0.25, factor: 1.0 }, 1e6);
        assert_eq!(proportional[1], Band { first: 16, last: 63, change: Change::Still });
        let ntk = of(Schedule::NtkAware { factor: 4.0 }, 1e4);
        assert_eq!(ntk.len(), 2, "the first pair is kept, the others slowed more and more");
    }

    #[test]
    fn what_is_unseen_begins_where_training_ended() {
        let rope = Rope::builder(128).build().unwrap();
        let (seen, frequencies) = (Seen::new(&rope, None, Some(4096)).unwrap(), rope.frequencies(None));
        let theta = frequencies.inv_freq();
        // Pairs with a wavelength above 4096: base^(2j/128)·2π > 4096 from j = 46 on.
        let unseen = [64, 4096, 4097, 1 << 31].map(|context| seen.unseen(theta, context));
        assert_eq!((unseen, seen.never_turned()), ([0, 0, 18, 18], 18));
        let halved: Vec<f64> = theta.iter().map(|theta| theta / 2.0).collect();
        assert_eq!([8192, 8193].map(|context| seen.unseen(&halved, context)), [0, 18]);
    }

    #[test]
    fn single_precision_gives_out_where_it_is_known_to() {
        let rope = Rope::builder(128).base(5e5).build().unwrap();
        let error = single_precision_error(&rope, 1 << 20);
        assert!((1e-2..1e-1).contains(&error), "{error}");
        assert!(single_precision_error(&rope, 1) == 0.0);
    }
}
