//! Every kernel once, on small shapes: for compute-sanitizer, under which all else would take too long.

use crate::bits::{Case, check};
use crate::common::*;
use rope::{bf16, f16};

fn every<T: Bits>() {
    let Some((device, stream)) = gpu() else { return };
    // Wide accesses in a warp's lanes, wide ones that are not a power of two, and odd sizes.
    for (pairs, before, after, gaps) in [(64, 0, 0, [0; 4]), (48, 16, 8, [8; 4]), (7, 1, 2, [3, 1, 5, 1])] {
        for pairing in PAIRINGS {
            for turn in TURNS {
                for positions in 0..4 {
                    let case = Case {
                        seed: 2 * pairs as u64,
                        batch: if positions == 3 { 1 } else { 2 },
                        length: 3,
                        heads: [5, 2],
                        pairs,
                        before,
                        after,
                        gaps,
                        heads_inside: positions % 2 == 0,
                        pairing,
                        turn,
                        positions,
                        scaled: true,
                    };
                    check::<T>(&device, &stream, &case);
                }
            }
        }
    }
}

#[test]
fn small_f32() {
    every::<f32>();
}

#[test]
fn small_f16() {
    every::<f16>();
}

#[test]
fn small_bf16() {
    every::<bf16>();
}
