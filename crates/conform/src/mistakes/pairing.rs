//! Which features form a pair, and what is made of one.

use super::{Mistake, mistake};
use crate::case::Meaning;
use crate::plan::{Plan, Turn};
use rope::Pairing;

pub(super) const MISTAKES: &[Mistake] = &[
    mistake(
        "pairing-half",
        "pairs feature j with j + d/2, where this model pairs neighbours 2j and 2j + 1",
        "rotate x[..., 0::2] with x[..., 1::2], or permute the projections of q and k once",
        |meaning, plan| repair(meaning, plan, Pairing::Half),
    ),
    mistake(
        "pairing-interleaved",
        "pairs neighbours 2j and 2j + 1, where this model pairs feature j with j + d/2",
        "rotate the first half of the rotary features with the second, or permute the projections of q and k once",
        |meaning, plan| repair(meaning, plan, Pairing::Interleaved),
    ),
    mistake(
        "pairing-to-half",
        "reads neighbours and writes them apart, as halves, where this model leaves features in their places",
        "write pair j back to where it was read; apply_rotary_pos_emb_interleave is DeepSeek's alone",
        |meaning, plan| repair(meaning, plan, Pairing::InterleavedToHalf),
    ),
    mistake(
        "turned-backwards",
        "turns by −angle: the inverse rotation, or sines of the other sign",
        "y0 = x0·cos − x1·sin and y1 = x1·cos + x0·sin",
        |_, plan| turn(plan, Turn::Backward),
    ),
    mistake(
        "sine-for-cosine",
        "has exchanged the cosines and the sines",
        "look at the order in which the table holds or returns them",
        |_, plan| turn(plan, Turn::Swapped),
    ),
    mistake(
        "minus-missing",
        "adds x1·sin to the first feature of a pair, where it is to be subtracted",
        "rotate_half is cat(−x2, x1)",
        |_, plan| turn(plan, Turn::Unsigned),
    ),
    mistake(
        "turned-twice",
        "turns by twice the angle: vectors that were turned already are turned again",
        "rotate q and k once; look for a kernel that rotates what the model has rotated",
        |_, plan| turn(plan, Turn::Twice),
    ),
];

fn repair(meaning: &Meaning, plan: &mut Plan, pairing: Pairing) -> bool {
    if pairing == meaning.rope.pairing() {
        return false;
    }
    let axes: Vec<usize> = plan.pairs.iter().map(|pair| pair.axis).collect();
    let offset = plan.pairs.iter().map(|pair| pair.read.0).min().unwrap_or(0);
    plan.place(pairing, offset, axes.len(), &axes);
    true
}

fn turn(plan: &mut Plan, turn: Turn) -> bool {
    plan.turn = turn;
    true
}
