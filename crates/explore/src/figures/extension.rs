//! Context extension: what each rule makes of the wavelengths, for a model trained at one length and used at another.

use super::check::{self, List};
use crate::error::{Error, Result};
use roformer::advice::Candidate;
use roformer::bands::Seen;
use rope::{Llama3, LongRope, Rope, Schedule, Yarn};
use serde::{Deserialize, Serialize};

/// Which model, and how far.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// The length of training.
    pub length: u64,
    /// The length to reach.
    pub context: u64,
    /// LongRoPE's divisors, as powers of the stretch, at pairs that are evenly apart: 0 keeps a pair, 1 slows it by the
    /// whole stretch. They never fall from a pair to the next.
    pub powers: List,
}

impl Default for Ask {
    fn default() -> Self {
        let powers = List(vec![0.0, 0.05, 0.45, 1.05, 1.05]);
        Ask { dim: 128, base: 10_000.0, length: 4096, context: 32_768, powers }
    }
}

/// The highest power of the stretch: searched divisors go a little beyond it.
pub const MAX_POWER: f64 = 1.15;

/// One rule.
#[derive(Clone, Debug, Serialize)]
pub struct Method {
    /// Its name in an address.
    pub key: &'static str,
    /// What it does on the whole: `name`, `unseen`, `kept`, `crowding`, `attention_factor`.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// Pairs that are slowed by the whole stretch.
    pub divided: usize,
    /// The base that its frequencies have, where they have one.
    pub base: Option<f64>,
    /// Tokens that a turn takes. `[pairs]`
    pub wavelength: Vec<f64>,
    /// By how much each pair is slowed, θ/θ′. `[pairs]`
    pub slowdown: Vec<f64>,
    /// What training has seen of the angles that the target reaches: 0 all of the circle, 1 part of it and no more is
    /// reached, 2 part of it and more is reached. `[pairs]`
    pub seen: Vec<u8>,
}

/// The dynamic rule at a length on the way.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Tokens so far.
    pub length: u64,
    /// Tokens that a turn takes. `[pairs]`
    pub wavelength: Vec<f64>,
}

/// All rules beside each other.
#[derive(Clone, Debug, Serialize)]
pub struct Extension {
    /// Target length over trained length, at least 1.
    pub stretch: f64,
    /// Pairs that never completed a turn in training.
    pub never_turned: usize,
    /// The pairs at which the powers of LongRoPE's divisors stand.
    pub knots: Vec<f64>,
    /// Plain RoPE first.
    pub methods: Vec<Method>,
    /// The dynamic rule between the two lengths.
    pub steps: Vec<Step>,
}

/// What each rule does from the trained length to the target.
pub fn extension(ask: &Ask) -> Result<Extension> {
    check::within("dim", ask.dim, 4..=check::MAX_DIM)?;
    let longest = check::MAX_POSITION as u64;
    let (length, context) = (
        check::within("length", ask.length, 2..=longest)?,
        check::within("context", ask.context, 1..=longest)?,
    );
    let plain = check::rope(ask.dim, ask.base)?;
    let stretch = (context as f64 / length as f64).max(1.0);
    let pairs = plain.pairs();
    let divisors = divisors(&ask.powers.0, stretch, pairs)?;
    let long = LongRope {
        short: vec![1.0; pairs],
        long: divisors,
        original_length: length,
        factor: stretch,
        attention_factor: None,
    };
    let llama =
        Llama3 { factor: stretch, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: length };
    let dynamic = Schedule::DynamicNtk { factor: 1.0, trained_length: length };
    let rules = [
        ("none", "none", Schedule::Default),
        ("linear", "linear", Schedule::Linear { factor: stretch }),
        ("ntk", "NTK-aware", Schedule::NtkAware { factor: stretch }),
        ("dynamic", "dynamic NTK", dynamic.clone()),
        ("yarn", "YaRN", Schedule::Yarn(Yarn::new(stretch, length))),
        ("longrope", "LongRoPE", Schedule::LongRope(long)),
        ("llama3", "Llama 3", Schedule::Llama3(llama)),
    ];
    let seen = Seen::new(&plain, None, Some(length))
        .ok_or_else(|| Error::refused("the trained length is missing", "缺少训练长度"))?;
    let rope = |schedule: Schedule| Rope::builder(ask.dim).base(ask.base).schedule(schedule).build();
    let methods = rules.into_iter().map(|(key, name, schedule)| {
        let rope = rope(schedule)?;
        Ok(method(key, Candidate::new(name, rope, &seen, context), &seen, stretch, context))
    });
    let dynamic = rope(dynamic)?;
    // A quarter, a half and three quarters of the way, by factors.
    let steps = [0.25, 0.5, 0.75].map(|part| {
        let length = (length as f64 * stretch.powf(part)).round() as u64;
        Step { length, wavelength: wavelengths(dynamic.frequencies(length).inv_freq()) }
    });
    Ok(Extension {
        stretch,
        never_turned: seen.never_turned(),
        knots: (0..ask.powers.0.len()).map(|knot| place(knot, ask.powers.0.len(), pairs)).collect(),
        methods: methods.collect::<Result<_>>()?,
        steps: steps.into(),
    })
}

fn method(key: &'static str, candidate: Candidate, seen: &Seen, stretch: f64, context: u64) -> Method {
    let theta = candidate.frequencies.inv_freq();
    let schedule = candidate.rope.schedule();
    let has_base =
        matches!(schedule, Schedule::Default | Schedule::NtkAware { .. } | Schedule::DynamicNtk { .. });
    let state = |(pair, theta): (usize, &f64)| match seen.coverage(pair) {
        1.0 => 0,
        _ if seen.is_left(pair, theta * context as f64) => 2,
        _ => 1,
    };
    let is_divided = |&&factor: &&f64| (factor / stretch - 1.0).abs() < 1e-9;
    Method {
        key,
        divided: candidate.slowdown.iter().filter(is_divided).count(),
        // θ_1 = base^(−2/d), and d is twice the number of pairs.
        base: has_base.then(|| theta[1].powf(-(theta.len() as f64))),
        wavelength: wavelengths(theta),
        seen: theta.iter().enumerate().map(state).collect(),
        slowdown: candidate.slowdown.clone(),
        candidate,
    }
}

fn wavelengths(theta: &[f64]) -> Vec<f64> {
    rope::analysis::pairs(theta, 0).iter().map(|pair| pair.wavelength).collect()
}

/// The pair at which a power stands; between whole pairs too.
fn place(knot: usize, knots: usize, pairs: usize) -> f64 {
    knot as f64 * (pairs - 1) as f64 / (knots - 1).max(1) as f64
}

/// A divisor for each pair: stretch^power, with powers straight between those given.
fn divisors(powers: &[f64], stretch: f64, pairs: usize) -> Result<Vec<f64>> {
    check::within("the number of powers", powers.len(), 2..=16)?;
    for (index, &power) in powers.iter().enumerate() {
        check::within("a power", power, 0.0..=MAX_POWER)?;
        if index > 0 && power < powers[index - 1] {
            return Err(Error::refused(
                format!(
                    "powers falls from {} to {power}; expected powers that never fall from a pair to the next",
                    powers[index - 1]
                ),
                format!("powers 从 {} 降到 {power}；从一对到下一对应不减小", powers[index - 1]),
            ));
        }
    }
    let power = |pair: usize| {
        let at = pair as f64 * (powers.len() - 1) as f64 / (pairs - 1) as f64;
        let before = (at as usize).min(powers.len() - 2);
        let part = at - before as f64;
        powers[before] * (1.0 - part) + powers[before + 1] * part
    };
    Ok((0..pairs).map(|pair| stretch.powf(power(pair))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::advice::advise;

    fn find<'a>(shown: &'a Extension, key: &str) -> &'a Method {
        shown.methods.iter().find(|method| method.key == key).unwrap()
    }

    #[test]
    fn the_numbers_are_those_of_the_advice() {
        for (base, length, context) in [(1e4, 4096, 32_768), (5e5, 8192, 131_072), (1e6, 32_768, 40_000)] {
            let shown = extension(&Ask { base, length, context, ..Ask::default() }).unwrap();
            let rope = Rope::builder(128).base(base).build().unwrap();
            let seen = Seen::new(&rope, None, Some(length)).unwrap();
            let advice = advise(&rope, None, &seen, Some(length), context);
            assert_eq!(advice.candidates.len(), 5);
            for theirs in &advice.candidates {
                let name = if theirs.name == "the model's own rule" { "none" } else { theirs.name };
                let ours = shown.methods.iter().find(|method| method.candidate.name == name).unwrap();
                let numbers = |candidate: &Candidate| {
                    (candidate.unseen, candidate.kept, candidate.crowding, candidate.attention_factor)
                };
                assert_eq!(numbers(&ours.candidate), numbers(theirs), "{name}");
            }
            for method in &shown.methods {
                let left = method.seen.iter().filter(|&&seen| seen == 2).count();
                assert_eq!(left, method.candidate.unseen, "{}", method.key);
                let part = method.seen.iter().filter(|&&seen| seen > 0).count();
                assert_eq!(part, shown.never_turned);
            }
        }
    }

    #[test]
    fn each_rule_does_what_is_said_of_it() {
        let shown = extension(&Ask::default()).unwrap();
        let ends = |key: &str| {
            let slowdown = &find(&shown, key).slowdown;
            (slowdown[0], slowdown[63])
        };
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        assert_eq!(ends("none"), (1.0, 1.0));
        assert_eq!(find(&shown, "linear").divided, 64);
        for (key, slowest) in
            [("ntk", 8.0), ("dynamic", 8.0), ("yarn", 8.0), ("llama3", 8.0), ("longrope", 8f64.powf(1.05))]
        {
            assert_eq!(ends(key).0, 1.0, "{key}");
            near(ends(key).1, slowest);
        }
        // The base that NTK-aware takes: b·s^(d/(d−2)).
        near(find(&shown, "ntk").base.unwrap(), 1e4 * 8f64.powf(128.0 / 126.0));
        near(find(&shown, "none").base.unwrap(), 1e4);
        // YaRN's ramp from pair 20 to pair 46, and its attention factor; LongRoPE's.
        assert_eq!((find(&shown, "yarn").candidate.kept, find(&shown, "yarn").divided), (21, 18));
        near(find(&shown, "yarn").candidate.attention_factor, 0.1 * 8f64.ln() + 1.0);
        near(find(&shown, "longrope").candidate.attention_factor, (1.0 + 8f64.ln() / 4096f64.ln()).sqrt());
        // On its way the dynamic rule lies between plain and where it ends.
        let (plain, end) = (&find(&shown, "none").wavelength, &find(&shown, "dynamic").wavelength);
        for step in &shown.steps {
            assert!(plain[63] < step.wavelength[63] && step.wavelength[63] < end[63]);
        }
    }

    #[test]
    fn divisors_go_through_the_powers() {
        let ask = Ask { powers: List(vec![0.0, 0.5, 1.0]), dim: 10, ..Ask::default() };
        let shown = extension(&ask).unwrap();
        let slowdown = &find(&shown, "longrope").slowdown;
        for (pair, power) in [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().enumerate() {
            assert!((slowdown[pair] / 8f64.powf(power) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn within_the_trained_length_nothing_changes() {
        let shown = extension(&Ask { context: 1000, ..Ask::default() }).unwrap();
        for method in &shown.methods {
            assert_eq!((method.candidate.unseen, method.candidate.kept), (0, 64), "{}", method.key);
        }
    }

    #[test]
    fn hostile_questions_are_refused() {
        let default = Ask::default();
        let powers = |powers: &[f64]| Ask { powers: List(powers.to_vec()), ..Ask::default() };
        for ask in [
            Ask { dim: 0, ..default.clone() },
            Ask { dim: 2, ..default.clone() },
            Ask { dim: 7, ..default.clone() },
            Ask { dim: usize::MAX, ..default.clone() },
            Ask { base: f64::NAN, ..default.clone() },
            Ask { base: -1.0, ..default.clone() },
            Ask { base: f64::INFINITY, ..default.clone() },
            Ask { length: 0, ..default.clone() },
            Ask { length: u64::MAX, ..default.clone() },
            Ask { context: 0, ..default.clone() },
            Ask { context: u64::MAX, ..default.clone() },
            powers(&[]),
            powers(&[1.0]),
            powers(&[0.5, 0.4]),
            powers(&[-0.1, 0.4]),
            powers(&[0.1, f64::NAN]),
            powers(&[0.1, 9.0]),
            powers(&[0.5; 17]),
        ] {
            assert!(extension(&ask).is_err(), "{ask:?}");
        }
        // The ends of all that is accepted.
        let ends = Ask { dim: 512, base: 1e12, length: 2, context: 1 << 31, powers: List(vec![1.15; 16]) };
        assert!(extension(&ends).is_ok());
        assert!(extension(&Ask { dim: 4, base: 2.0, ..default }).is_ok());
    }
}
