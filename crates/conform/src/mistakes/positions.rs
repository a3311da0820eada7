//! Which angle a token is turned by: its position, and what becomes of it.

use super::{Mistake, mistake};
use crate::plan::Plan;

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "nothing-turned",
        "leaves q and k as they are",
        "call the rotation, and use what it returns",
        |_, plan| leave(plan, &[0, 1]),
    ),
    mistake("keys-not-turned", "turns q and leaves k as it is", "rotate k as well", |_, plan| {
        leave(plan, &[1])
    }),
    mistake("queries-not-turned", "turns k and leaves q as it is", "rotate q as well", |_, plan| {
        leave(plan, &[0])
    }),
    mistake(
        "position-plus-one",
        "counts positions from 1",
        "the first token of a sequence is at position 0",
        |_, plan| each(plan, |at| at + 1.0),
    ),
    mistake(
        "position-minus-one",
        "is one position behind",
        "with a cache of n tokens the next one is at position n",
        |_, plan| each(plan, |at| at - 1.0),
    ),
    mistake(
        "positions-ignored",
        "counts tokens from 0 and does not look at the positions that it was given",
        "take the angles of the given positions: caches, padding and packed texts need it",
        |_, plan| {
            plan.positions.iter_mut().for_each(|row| {
                row.iter_mut().enumerate().for_each(|(token, at)| *at = token as f64);
            });
            true
        },
    ),
    mistake(
        "heads-for-tokens",
        "takes the axis of heads for that of tokens: every token of head h is turned as token h",
        "transpose to [batch, heads, length, features], or broadcast the table over the other axis",
        |_, plan| {
            plan.by_head = true;
            true
        },
    ),
    mistake(
        "position-clamped",
        "turns positions beyond the trained length as the last one within: its table ends there",
        "make a longer table, or form angles as they are needed; refuse what the table does not have",
        |meaning, plan| match meaning.longest {
            Some(longest) => each(plan, |at| at.min(longest as f64 - 1.0)),
            None => false,
        },
    ),
    mistake(
        "position-wrapped",
        "begins again at 0 beyond the trained length",
        "make a longer table; a position modulo its length is another position",
        |meaning, plan| match meaning.longest {
            Some(longest) => each(plan, |at| at % longest as f64),
            None => false,
        },
    ),
    mistake(
        "position-in-i32",
        "holds positions in 32 bits with a sign, so that 2^31 is −2^31",
        "hold positions in 64 bits",
        |_, plan| each(plan, |at| f64::from(at as i64 as i32)),
    ),
    mistake(
        "axes-time-only",
        "turns every pair by the time axis, as text",
        "take height and width for the pairs that the sections give them",
        |_, plan| axes(plan, |_| 0),
    ),
    mistake(
        "axes-height-width-swapped",
        "has exchanged height and width",
        "rows of positions are time, height, width",
        |_, plan| axes(plan, |axis| [0, 2, 1][axis % 3]),
    ),
    mistake(
        "axes-sections-for-interleaved",
        "gives the axes whole sections of pairs, where this model gives them in turn",
        "with mrope_interleaved, pair j turns by axis j mod 3 as far as its section reaches",
        |meaning, plan| match meaning.rope.axes() {
            rope::Axes::Interleaved(sections) => sectioned(plan, sections),
            _ => false,
        },
    ),
    mistake(
        "axes-interleaved-for-sections",
        "gives the axes to pairs in turn, where this model gives them whole sections",
        "without mrope_interleaved the first section of pairs turns by time, the next by height, the last by width",
        |meaning, plan| match meaning.rope.axes() {
            rope::Axes::Sections(sections) => {
                let count = sections.len();
                for (j, pair) in plan.pairs.iter_mut().enumerate() {
                    let axis = j % count;
                    pair.axis = if j / count < sections[axis] { axis } else { 0 };
                }
                true
            }
            _ => false,
        },
    ),
    mistake(
        "axes-rest-not-turned",
        "turns the pairs that are left over beyond the interleaved sections by a fourth position, which is 0",
        "pairs that no section reaches turn by time",
        |meaning, plan| match meaning.rope.axes() {
            rope::Axes::Interleaved(sections) if sections.len() == 3 => {
                plan.positions.push(vec![0.0; plan.positions[0].len()]);
                for (j, pair) in plan.pairs.iter_mut().enumerate() {
                    if j / 3 >= sections[j % 3] {
                        pair.axis = 3;
                    }
                }
                true
            }
            _ => false,
        },
    ),
];

fn leave(plan: &mut Plan, sides: &[usize]) -> bool {
    sides.iter().for_each(|&side| plan.sides[side].turns = false);
    true
}

fn each(plan: &mut Plan, change: impl Fn(f64) -> f64) -> bool {
    plan.positions.iter_mut().flatten().for_each(|at| *at = change(*at));
    true
}

fn axes(plan: &mut Plan, change: impl Fn(usize) -> usize) -> bool {
    plan.pairs.iter_mut().for_each(|pair| pair.axis = change(pair.axis));
    plan.positions.len() > 1
}

fn sectioned(plan: &mut Plan, sections: &[usize]) -> bool {
    let list = sections.iter().enumerate().flat_map(|(axis, &size)| std::iter::repeat_n(axis, size));
    plan.pairs.iter_mut().zip(list).for_each(|(pair, axis)| pair.axis = axis);
    true
}
