//! Rules that follow the length of the sequence: dynamic NTK, and LongRoPE's two lists.

use super::{Mistake, mistake, rules::swap};
use crate::case::Meaning;
use crate::plan::Plan;
use rope::{LongRope, Schedule};

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "dynamic-constant",
        "enlarges the base by factor^(d/(d−2)) whatever the length",
        "the base grows with the sequence beyond the trained length, and not before it",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::DynamicNtk { factor, .. } => {
                swap(meaning, plan, &Schedule::NtkAware { factor: *factor })
            }
            _ => false,
        },
    ),
    mistake(
        "dynamic-by-capacity",
        "computes the base once, for factor times the trained length",
        "compute it for the sequence at hand",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::DynamicNtk { factor, trained_length } => {
                at_length(meaning, plan, (*factor * *trained_length as f64) as u64)
            }
            _ => false,
        },
    ),
    mistake(
        "dynamic-divided",
        "divides every frequency by factor^(d/(d−2)), where the base is to grow",
        "multiply the base by the power, and take the length of the sequence into it",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::DynamicNtk { factor, .. } => {
                let dim = meaning.rope.rotary_dim() as f64;
                swap(meaning, plan, &Schedule::Linear { factor: factor.powf(dim / (dim - 2.0)) })
            }
            _ => false,
        },
    ),
    mistake(
        "dynamic-never",
        "has the base of the trained length at every length",
        "compute the frequencies again when the sequence outgrows the trained length",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::DynamicNtk { .. } => swap(meaning, plan, &Schedule::Default),
            _ => false,
        },
    ),
    mistake(
        "dynamic-not-reset",
        "keeps the base of the longest sequence that it has seen",
        "the frequencies of a sequence depend on its own length; go back when a shorter one comes",
        |meaning, plan| match (meaning.rope.schedule(), meaning.case.before) {
            (Schedule::DynamicNtk { .. }, Some(before)) => at_length(meaning, plan, before),
            _ => false,
        },
    ),
    mistake(
        "dynamic-below-the-trained-length",
        "makes the base smaller for sequences that are shorter than the trained length",
        "take the larger of the two lengths",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::DynamicNtk { factor, trained_length } => {
                let (factor, trained) = (*factor, *trained_length as f64);
                let dim = meaning.rope.rotary_dim() as f64;
                let rows = |side: usize| {
                    let rows = meaning.lengths[side].iter().map(|&length| {
                        let growth = factor * length as f64 / trained - (factor - 1.0);
                        let base = meaning.rope.base() * growth.powf(dim / (dim - 2.0));
                        (0..meaning.rope.pairs()).map(|j| (base.powf(-2.0 * j as f64 / dim), 0.0)).collect()
                    });
                    rows.collect::<Vec<Vec<_>>>()
                };
                let rows = [rows(0), rows(1)];
                let finite = rows.iter().flatten().flatten().all(|theta| theta.0.is_finite());
                plan.set_theta(rows);
                finite
            }
            _ => false,
        },
    ),
    mistake(
        "longrope-by-capacity",
        "has the long factors for short sequences too, because the model can be long",
        "choose by the length of the sequence at hand, and compute cached keys again when it changes",
        |meaning, plan| longrope(meaning, plan, |long| long.short.clone_from(&long.long)),
    ),
    mistake(
        "longrope-always-short",
        "has the short factors for long sequences too",
        "choose by the length of the sequence at hand",
        |meaning, plan| longrope(meaning, plan, |long| long.long.clone_from(&long.short)),
    ),
    mistake(
        "longrope-one-early",
        "has the long factors at exactly the original length",
        "the long factors are for sequences that are longer than it",
        |meaning, plan| longrope(meaning, plan, |long| long.original_length -= 1),
    ),
    mistake(
        "longrope-by-position",
        "has the short factors for tokens within the original length and the long ones for those beyond it, in one sequence",
        "all tokens of a sequence have the factors of its length",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::LongRope(_) => {
                let lengths: Vec<u64> = meaning.case.positions[0].iter().map(|&at| at as u64 + 1).collect();
                let Some(rows) = crate::case::per_token(&meaning.rope, &lengths) else { return false };
                plan.set_theta([rows.clone(), rows]);
                true
            }
            _ => false,
        },
    ),
    mistake(
        "cached-keys-not-turned-again",
        "leaves keys in the cache as they were turned when they came, although the frequencies have changed since",
        "turn cached keys again, or read the text again, when the long factors begin",
        |meaning, plan| {
            let Some(rows) = crate::case::per_token(&meaning.rope, &meaning.lengths[0]) else { return false };
            plan.sides[1].theta = rows;
            meaning.lengths[0] != meaning.lengths[1]
        },
    ),
];

/// The rule as if the sequence had this length.
fn at_length(meaning: &Meaning, plan: &mut Plan, length: u64) -> bool {
    let lengths = vec![length; meaning.tokens()];
    let Some(rows) = crate::case::per_token(&meaning.rope, &lengths) else { return false };
    plan.set_theta([rows.clone(), rows]);
    true
}

fn longrope(meaning: &Meaning, plan: &mut Plan, change: impl Fn(&mut LongRope)) -> bool {
    match meaning.rope.schedule() {
        Schedule::LongRope(long) => {
            // The attention factor is the plan's, so the original length may move.
            let mut wrong = LongRope { attention_factor: Some(1.0), ..long.clone() };
            change(&mut wrong);
            swap(meaning, plan, &Schedule::LongRope(wrong))
        }
        _ => false,
    }
}
