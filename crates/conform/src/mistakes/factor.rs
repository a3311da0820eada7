//! The attention factor of YaRN and LongRoPE.

use super::{Mistake, mistake};
use crate::case::Meaning;
use crate::plan::Plan;
use rope::Schedule;

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "factor-missing",
        "does not multiply by the attention factor",
        "multiply cosines and sines by it: YaRN's is 0.1·ln(factor) + 1 if the configuration names no other",
        |meaning, plan| set(meaning, plan, [1.0, 1.0]),
    ),
    mistake(
        "factor-squared",
        "multiplies by the attention factor two times",
        "multiply cosines and sines by it and leave the softmax scale alone, or the other way round",
        |meaning, plan| {
            let factor = meaning.rope.schedule().attention_factor();
            set(meaning, plan, [factor * factor; 2])
        },
    ),
    mistake(
        "factor-queries-only",
        "multiplies q by the attention factor and not k",
        "both q and k are multiplied by it, so that scores grow by its square",
        |meaning, plan| set(meaning, plan, [meaning.rope.schedule().attention_factor(), 1.0]),
    ),
    mistake(
        "factor-keys-only",
        "multiplies k by the attention factor and not q",
        "both q and k are multiplied by it, so that scores grow by its square",
        |meaning, plan| set(meaning, plan, [1.0, meaning.rope.schedule().attention_factor()]),
    ),
    mistake("factor-inverted", "divides by the attention factor", "multiply by it", |meaning, plan| {
        set(meaning, plan, [1.0 / meaning.rope.schedule().attention_factor(); 2])
    }),
    mistake(
        "factor-of-the-rule",
        "takes 0.1·ln(factor) + 1 for the attention factor, where the configuration says otherwise",
        "attention_factor replaces it; mscale and mscale_all_dim make a quotient",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Yarn(yarn) => set(meaning, plan, [0.1 * yarn.factor.ln() + 1.0; 2]),
            _ => false,
        },
    ),
    mistake(
        "factor-multiplied",
        "multiplies attention_factor by 0.1·ln(factor) + 1, which it is to replace",
        "a given attention_factor is the whole factor",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Yarn(yarn) => {
                set(meaning, plan, [yarn.attention_factor() * (0.1 * yarn.factor.ln() + 1.0); 2])
            }
            _ => false,
        },
    ),
    mistake(
        "factor-of-mscale-alone",
        "takes 0.1·mscale·ln(factor) + 1 for the attention factor and does not divide by that of mscale_all_dim",
        "with both given the factor is m(mscale) / m(mscale_all_dim)",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Yarn(yarn) if yarn.mscale_all_dim.is_some() => {
                set(meaning, plan, [0.1 * yarn.mscale.unwrap_or(1.0) * yarn.factor.ln() + 1.0; 2])
            }
            _ => false,
        },
    ),
    mistake(
        "factor-on-all-features",
        "multiplies features that do not turn by the attention factor too",
        "multiply cosines and sines by it, not q and k",
        |meaning, plan| {
            let factor = meaning.rope.schedule().attention_factor();
            plan.sides.iter_mut().for_each(|side| side.rest = factor);
            meaning.rope.rotary_dim() < meaning.rope.head_dim()
        },
    ),
];

fn set(meaning: &Meaning, plan: &mut Plan, factors: [f64; 2]) -> bool {
    plan.sides.iter_mut().zip(factors).for_each(|(side, factor)| side.factor = factor);
    factors != [meaning.rope.schedule().attention_factor(); 2]
}
