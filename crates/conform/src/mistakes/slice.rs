//! Which features of a head turn.

use super::{Mistake, mistake};
use crate::case::{Meaning, Theta};
use crate::plan::Plan;
use rope::{Rope, Schedule};

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "partial-dropped",
        "turns the whole head, where only a part of it turns",
        "read partial_rotary_factor (or rotary_pct, rotary_dim) and leave the other features alone",
        |meaning, plan| {
            let rope = &meaning.rope;
            rope.rotary_dim() < rope.head_dim() && part(meaning, plan, rope.head_dim(), 0)
        },
    ),
    mistake(
        "partial-at-the-wrong-end",
        "turns features at the other end of the head",
        "the rotary features come first, unless the model says otherwise (DeepSeek-V4, Mistral 4)",
        |meaning, plan| {
            let rope = &meaning.rope;
            let offset = if rope.rotary_offset() == 0 { rope.head_dim() - rope.rotary_dim() } else { 0 };
            rope.rotary_dim() < rope.head_dim() && part(meaning, plan, rope.rotary_dim(), offset)
        },
    ),
    mistake(
        "partial-twice",
        "takes the part of a part: the partial factor is applied two times",
        "apply it to the width of the head once",
        |meaning, plan| {
            let rope = &meaning.rope;
            let dim = rope.rotary_dim() * rope.rotary_dim() / rope.head_dim();
            let is_part = rope.rotary_dim() < rope.head_dim() && dim >= 2 && dim.is_multiple_of(2);
            is_part && part(meaning, plan, dim, rope.rotary_offset())
        },
    ),
    mistake(
        "partial-as-proportional",
        "pairs across the whole head and leaves the slow pairs still, where a slice of the head turns",
        "a partial rotary embedding turns the first features, with exponents of that slice alone",
        |meaning, plan| {
            let rope = &meaning.rope;
            if rope.rotary_dim() >= rope.head_dim() || *rope.schedule() != Schedule::Default {
                return false;
            }
            let fraction = rope.rotary_dim() as f64 / rope.head_dim() as f64;
            whole(meaning, plan, rope.head_dim(), Schedule::Proportional { fraction, factor: 1.0 })
        },
    ),
    mistake(
        "proportional-as-partial",
        "turns a slice of the head, with exponents of that slice, where pairs of the whole head turn",
        "with rope_type proportional, pairs reach across the head, exponents divide by its width, slow pairs stand still",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Proportional { fraction, factor } => {
                let dim = 2 * (fraction * meaning.rope.rotary_dim() as f64 / 2.0).floor() as usize;
                dim >= 2 && whole(meaning, plan, dim, Schedule::Linear { factor: *factor })
            }
            _ => false,
        },
    ),
    mistake(
        "proportional-in-a-slice",
        "turns with the right frequencies, but pairs within a slice of the head, where pairs reach across it",
        "with rope_type proportional, feature j is paired with j + head_dim/2",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Proportional { fraction, .. } => {
                let pairs = (fraction * meaning.rope.rotary_dim() as f64 / 2.0).floor() as usize;
                plan.place(meaning.rope.pairing(), 0, pairs, &[]);
                plan.sides.iter_mut().flat_map(|side| &mut side.theta).for_each(|row| row.truncate(pairs));
                pairs > 0
            }
            _ => false,
        },
    ),
    mistake(
        "proportional-all-turn",
        "turns every pair, where the slow ones of a proportional rule stand still",
        "read partial_rotary_factor: frequencies beyond it are 0",
        |meaning, plan| match meaning.rope.schedule() {
            Schedule::Proportional { factor, .. } => {
                whole(meaning, plan, meaning.rope.rotary_dim(), Schedule::Linear { factor: *factor })
            }
            _ => false,
        },
    ),
];

/// The same rule over another slice.
fn part(meaning: &Meaning, plan: &mut Plan, dim: usize, offset: usize) -> bool {
    if dim == meaning.rope.rotary_dim() {
        plan.place(meaning.rope.pairing(), offset, dim / 2, &meaning.rope.axis_of_pairs());
        return true;
    }
    let changed = whole(meaning, plan, dim, meaning.rope.schedule().clone());
    let axes: Vec<usize> = plan.pairs.iter().map(|pair| pair.axis).collect();
    plan.place(meaning.rope.pairing(), offset, dim / 2, &axes);
    changed
}

/// Another rule over the first features; with several axes, sections as wide as they were and the rest by time.
fn whole(meaning: &Meaning, plan: &mut Plan, dim: usize, schedule: Schedule) -> bool {
    let Ok(rope) = Rope::builder(dim).base(meaning.rope.base()).schedule(schedule).build() else {
        return false;
    };
    let rows = |side: usize| -> Vec<Vec<Theta>> {
        crate::case::per_token(&rope, &meaning.lengths[side]).unwrap_or_default()
    };
    plan.set_theta([rows(0), rows(1)]);
    let mut axes = meaning.rope.axis_of_pairs();
    axes.resize(dim / 2, 0);
    plan.place(meaning.rope.pairing(), 0, dim / 2, &axes);
    true
}
