//! The rules that stretch a context: linear, YaRN, Llama 3, LongRoPE's divisors.

use super::{Mistake, mistake};
use crate::case::Meaning;
use crate::plan::Plan;
use rope::{Llama3, LongRope, Ramp, Schedule, Yarn};
use std::f64::consts::TAU;

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "rule-ignored",
        "has the frequencies of the base alone, without the rule that stretches them",
        "read rope_parameters (rope_scaling before transformers 5), with rope_type or type",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Default | Schedule::Proportional { .. } => false,
            _ => {
                // Whoever ignores a rule ignores its attention factor.
                plan.sides.iter_mut().for_each(|side| side.factor = 1.0);
                swap(meaning, plan, &Schedule::Default)
            }
        },
    ),
    mistake(
        "rule-ignored-factor-kept",
        "has the frequencies of the base alone, and multiplies by the rule's attention factor",
        "apply the rule to the frequencies as well",
        |meaning, plan| {
            meaning.rope.schedule().attention_factor() != 1.0 && swap(meaning, plan, &Schedule::Default)
        },
    ),
    mistake(
        "rule-as-linear",
        "divides every frequency by the factor, where the rule spares the fast pairs",
        "look at rope_type before factor",
        |meaning, plan| match factor(meaning.rope.schedule()) {
            Some(factor) if !matches!(meaning.rope.schedule(), Schedule::Linear { .. }) => {
                swap(meaning, plan, &Schedule::Linear { factor })
            }
            _ => false,
        },
    ),
    mistake(
        "rule-as-ntk",
        "enlarges the base by factor^(d/(d−2)), where the configuration names another rule",
        "look at rope_type before factor",
        |meaning, plan| match (meaning.rope.schedule(), factor(meaning.rope.schedule())) {
            (Schedule::Linear { .. } | Schedule::Yarn(_) | Schedule::Llama3(_), Some(factor)) => {
                plan.sides.iter_mut().for_each(|side| side.factor = 1.0);
                swap(meaning, plan, &Schedule::NtkAware { factor })
            }
            _ => false,
        },
    ),
    mistake(
        "linear-multiplied",
        "multiplies frequencies by the factor",
        "divide by it: positions are pressed together",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Linear { factor } => swap(meaning, plan, &Schedule::Linear { factor: 1.0 / factor }),
            _ => false,
        },
    ),
    mistake(
        "yarn-ramp-rounded",
        "rounds the ends of YaRN's ramp to whole pairs, where truncate is false",
        "read truncate (gpt-oss has it false)",
        |meaning, plan| {
            yarn(meaning, plan, |yarn| Some(Yarn { ramp: Ramp::Index { truncate: true }, ..yarn }))
        },
    ),
    mistake(
        "yarn-ramp-not-rounded",
        "does not round the ends of YaRN's ramp to whole pairs",
        "floor the lower end and ceil the upper one, unless truncate is false",
        |meaning, plan| {
            yarn(meaning, plan, |yarn| Some(Yarn { ramp: Ramp::Index { truncate: false }, ..yarn }))
        },
    ),
    mistake(
        "yarn-ramp-by-turns",
        "has YaRN's ramp linear in the number of turns, as the paper has it, and not in the index of the pair",
        "the released code and every engine have it linear in the index",
        |meaning, plan| yarn(meaning, plan, |yarn| Some(Yarn { ramp: Ramp::Rotations, ..yarn })),
    ),
    mistake(
        "yarn-ramp-clamped-to-pairs",
        "ends YaRN's ramp at the last pair, d/2 − 1",
        "the upper end is at most d − 1, so that a long ramp is not steeper",
        |meaning, plan| {
            ramp(meaning, plan, |dim, base, yarn| {
                let (low, high) = ends(dim, base, yarn, yarn.original_length as f64);
                (low, high.min(dim / 2.0 - 1.0))
            })
        },
    ),
    mistake(
        "yarn-ramp-of-base-10000",
        "places YaRN's ramp by the base 10000, whatever the configuration's is",
        "find_correction_dim takes the base of the model",
        |meaning, plan| {
            ramp(meaning, plan, |dim, _, yarn| ends(dim, 10_000.0, yarn, yarn.original_length as f64))
        },
    ),
    mistake(
        "yarn-ramp-of-the-long-length",
        "places YaRN's ramp by max_position_embeddings",
        "the ramp is that of original_max_position_embeddings",
        |meaning, plan| match meaning.longest {
            Some(longest) => ramp(meaning, plan, |dim, base, yarn| ends(dim, base, yarn, longest as f64)),
            None => false,
        },
    ),
    mistake(
        "yarn-ramp-inverted",
        "keeps the slow pairs and divides the fast ones: the ramp is upside down",
        "fast pairs keep their frequency, slow pairs are divided by the factor",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Yarn(yarn) => {
                let (dim, base) = (meaning.rope.rotary_dim() as f64, meaning.rope.base());
                let (low, high) = ends(dim, base, yarn, yarn.original_length as f64);
                blend(meaning, plan, yarn.factor, |j, _| 1.0 - (j - low) / (high - low))
            }
            _ => false,
        },
    ),
    mistake(
        "yarn-betas-swapped",
        "has exchanged beta_fast and beta_slow",
        "beta_fast is the larger: pairs that turn more often are kept",
        |meaning, plan| {
            ramp(meaning, plan, |dim, base, yarn| {
                let swapped = Yarn { beta_fast: yarn.beta_slow, beta_slow: yarn.beta_fast, ..yarn.clone() };
                ends(dim, base, &swapped, yarn.original_length as f64)
            })
        },
    ),
    mistake(
        "llama3-bands-swapped",
        "divides the fast pairs and keeps the slow ones",
        "wavelengths below original/high_freq_factor are kept, those above original/low_freq_factor divided",
        |meaning, plan| {
            llama3(meaning, plan, |llama, turns| {
                1.0 - (llama.high_freq_factor - turns) / (llama.high_freq_factor - llama.low_freq_factor)
            })
        },
    ),
    mistake(
        "llama3-not-smooth",
        "has no ramp between the bands: pairs in the middle are divided by the factor",
        "between the two wavelengths the frequency is blended",
        |meaning, plan| {
            llama3(meaning, plan, |llama, turns| if turns < llama.high_freq_factor { 1.0 } else { 0.0 })
        },
    ),
    mistake(
        "llama3-middle-kept",
        "has no ramp between the bands: pairs in the middle are kept as they are",
        "between the two wavelengths the frequency is blended",
        |meaning, plan| {
            llama3(meaning, plan, |llama, turns| if turns < llama.low_freq_factor { 1.0 } else { 0.0 })
        },
    ),
    mistake(
        "llama3-ramp-inverted",
        "blends the middle band the wrong way round",
        "smooth is 1 at the fast end, where the frequency is kept",
        |meaning, plan| {
            llama3(meaning, plan, |llama, turns| {
                let slow =
                    (llama.high_freq_factor - turns) / (llama.high_freq_factor - llama.low_freq_factor);
                if (0.0..=1.0).contains(&slow) { 1.0 - slow } else { slow }
            })
        },
    ),
    mistake(
        "llama3-of-the-long-length",
        "takes max_position_embeddings for the original length",
        "the bands are those of original_max_position_embeddings",
        |meaning, plan| match (meaning.longest, meaning.rope.schedule()) {
            (Some(longest), Schedule::Llama3(llama)) => {
                swap(meaning, plan, &Schedule::Llama3(Llama3 { original_length: longest, ..llama.clone() }))
            }
            _ => false,
        },
    ),
    mistake(
        "longrope-multiplied",
        "multiplies frequencies by LongRoPE's factors",
        "divide by them",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::LongRope(long) => {
                let invert = |list: &[f64]| list.iter().map(|value| 1.0 / value).collect();
                let (short, long_list) = (invert(&long.short), invert(&long.long));
                swap(meaning, plan, &Schedule::LongRope(LongRope { short, long: long_list, ..long.clone() }))
            }
            _ => false,
        },
    ),
];

/// The factor that a rule names.
fn factor(schedule: &Schedule) -> Option<f64> {
    match schedule {
        Schedule::Linear { factor } | Schedule::DynamicNtk { factor, .. } => Some(*factor),
        Schedule::Yarn(yarn) => Some(yarn.factor),
        Schedule::Llama3(llama) => Some(llama.factor),
        _ => None,
    }
}

/// Another rule; its attention factor is the plan's.
pub(super) fn swap(meaning: &Meaning, plan: &mut Plan, schedule: &Schedule) -> bool {
    let at = |side: usize| meaning.frequencies(meaning.rope.base(), schedule, &meaning.lengths[side]);
    let (Some(q), Some(k)) = (at(0), at(1)) else { return false };
    plan.set_theta([q, k]);
    schedule != meaning.rope.schedule()
}

fn yarn(meaning: &Meaning, plan: &mut Plan, change: impl Fn(Yarn) -> Option<Yarn>) -> bool {
    match meaning.rope.schedule() {
        Schedule::Yarn(yarn) => {
            change(yarn.clone()).is_some_and(|yarn| swap(meaning, plan, &Schedule::Yarn(yarn)))
        }
        _ => false,
    }
}

/// The ends of YaRN's ramp over this length.
fn ends(dim: f64, base: f64, yarn: &Yarn, length: f64) -> (f64, f64) {
    let index = |turns: f64| dim * (length / (turns * TAU)).ln() / (2.0 * base.ln());
    let (mut low, mut high) = (index(yarn.beta_fast), index(yarn.beta_slow));
    if yarn.ramp == (Ramp::Index { truncate: true }) {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, mut high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    (low, high)
}

/// YaRN with its ramp between other ends.
fn ramp(meaning: &Meaning, plan: &mut Plan, ends: impl Fn(f64, f64, &Yarn) -> (f64, f64)) -> bool {
    match meaning.rope.schedule() {
        Schedule::Yarn(yarn) => {
            let (low, high) = ends(meaning.rope.rotary_dim() as f64, meaning.rope.base(), yarn);
            blend(meaning, plan, yarn.factor, |j, _| (j - low) / (high - low))
        }
        _ => false,
    }
}

fn llama3(meaning: &Meaning, plan: &mut Plan, slow: impl Fn(&Llama3, f64) -> f64) -> bool {
    match meaning.rope.schedule() {
        Schedule::Llama3(llama) => {
            let length = llama.original_length as f64;
            blend(meaning, plan, llama.factor, |_, theta| slow(llama, length * theta / TAU))
        }
        _ => false,
    }
}

/// Frequencies divided by the factor where `slow(j, θ)` is 1, kept where it is 0.
fn blend(meaning: &Meaning, plan: &mut Plan, factor: f64, slow: impl Fn(f64, f64) -> f64) -> bool {
    let Some(mut rows) = meaning.frequencies(meaning.rope.base(), &Schedule::Default, &meaning.lengths[0])
    else {
        return false;
    };
    for (j, theta) in rows.iter_mut().flat_map(|row| row.iter_mut().enumerate()) {
        let slow = slow(j as f64, theta.0).clamp(0.0, 1.0);
        *theta = (theta.0 / factor * slow + theta.0 * (1.0 - slow), 0.0);
    }
    plan.set_theta([rows.clone(), rows]);
    true
}
