//! The base and the exponent of the frequencies.

use super::{Mistake, mistake};
use crate::case::Meaning;
use crate::plan::Plan;
use rope::Schedule;

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "base-10000",
        "takes 10000 for the base, whatever the configuration says",
        "read rope_theta; transformers 5 keeps it within rope_parameters",
        |meaning, plan| rebase(meaning, plan, 10_000.0),
    ),
    mistake(
        "exponent-halved",
        "has base^(−j/d) for the frequency of pair j: half the exponent",
        "the exponent of pair j is −2j/d: arange(0, d, 2) / d",
        |meaning, plan| rebase(meaning, plan, meaning.rope.base().sqrt()),
    ),
    mistake(
        "exponent-doubled",
        "has base^(−4j/d) for the frequency of pair j: twice the exponent",
        "the exponent of pair j is −2j/d: divide by the rotary dimension, not by the number of pairs",
        |meaning, plan| rebase(meaning, plan, meaning.rope.base().powi(2)),
    ),
    mistake(
        "exponent-by-head",
        "divides the exponent by the width of the head, where only a part of it turns",
        "divide by the rotary dimension, partial_rotary_factor · head_dim",
        |meaning, plan| {
            let part = meaning.rope.rotary_dim() as f64 / meaning.rope.head_dim() as f64;
            rebase(meaning, plan, meaning.rope.base().powf(part))
        },
    ),
    mistake(
        "exponent-from-one",
        "counts pairs from 1: the fastest pair has the frequency of the second",
        "the first pair turns by one radian a token",
        |meaning, plan| {
            let step = meaning.rope.base().powf(-2.0 / meaning.rope.rotary_dim() as f64);
            scale(plan, step);
            *meaning.rope.schedule() == Schedule::Default
        },
    ),
    mistake(
        "exponent-to-the-end",
        "spreads the exponents from 0 to 1 with both ends: −2j/(d − 2)",
        "the last pair's exponent is −(d − 2)/d",
        |meaning, plan| {
            let dim = meaning.rope.rotary_dim() as f64;
            dim > 2.0 && rebase(meaning, plan, meaning.rope.base().powf(dim / (dim - 2.0)))
        },
    ),
    mistake(
        "frequency-per-turn",
        "has frequencies in turns, not in radians: angles are 2π times too large",
        "an angle is position · base^(−2j/d), in radians",
        |_, plan| {
            scale(plan, std::f64::consts::TAU);
            true
        },
    ),
];

/// The same rule with another base. The rules' own bands are left where that base puts them.
fn rebase(meaning: &Meaning, plan: &mut Plan, base: f64) -> bool {
    if base == meaning.rope.base() {
        return false;
    }
    let at = |side: usize| meaning.frequencies(base, meaning.rope.schedule(), &meaning.lengths[side]);
    let (Some(q), Some(k)) = (at(0), at(1)) else { return false };
    plan.set_theta([q, k]);
    true
}

fn scale(plan: &mut Plan, by: f64) {
    for theta in plan.sides.iter_mut().flat_map(|side| &mut side.theta).flatten() {
        *theta = (theta.0 * by, theta.1 * by);
    }
}
