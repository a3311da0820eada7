//! All loops give the bits that the definition gives, on every shape, stride, pairing, turn and number type.

use super::{Bits, Random, element};
use crate::kernel::Level;
use crate::kernel::fresh::{Axes, rotated};
use crate::{Pairing, Positions, Precision, Rope, Schedule, Turn, ViewMut, Yarn, bf16, f16};
use proptest::prelude::*;
use proptest::sample::select;

/// One rotation to try.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    batch: usize,
    length: usize,
    heads: usize,
    pairs: usize,
    before: usize,
    after: usize,
    /// Extra elements between neighbours along each axis, and whether tokens or heads are the finer axis.
    gaps: [usize; 3],
    heads_inside: bool,
    pairing: Pairing,
    turn: Turn,
    positions: u8,
    scaled: bool,
}

prop_compose! {
    fn cases()(
        seed in any::<u64>(),
        (batch, length, heads, pairs) in (0..3usize, 0..7usize, 0..5usize, 1..70usize),
        (before, after) in (0..4usize, 0..4usize),
        gaps in [0..9usize, 0..9, 0..9],
        pairing in select(&[Pairing::Interleaved, Pairing::Half, Pairing::InterleavedToHalf][..]),
        turn in select(&[Turn::Forward, Turn::Inverse, Turn::Backward][..]),
        positions in 0..4u8,
        (heads_inside, scaled) in any::<(bool, bool)>(),
    ) -> Case {
        Case {
            seed, batch, length, heads, pairs, before, after,
            gaps, heads_inside, pairing, turn, positions, scaled,
        }
    }
}

/// The features of pair j, written out once more so that the test does not share the code's own indexing.
fn features(halves: bool, j: usize, pairs: usize) -> (usize, usize) {
    if halves { (j, j + pairs) } else { (2 * j, 2 * j + 1) }
}

fn check<T: Bits>(case: &Case) -> Result<(), TestCaseError> {
    let Case { batch, length, heads, pairs, .. } = *case;
    let head_dim = case.before + 2 * pairs + case.after;
    let yarn = Schedule::Yarn(Yarn::new(4.0, 2048));
    let rope = Rope::builder(head_dim)
        .rotary_dim(2 * pairs)
        .rotary_offset(case.before)
        .pairing(case.pairing)
        .schedule(if case.scaled { yarn } else { Schedule::Default })
        .build()
        .unwrap();
    let table = rope.table::<T::Table>(-3..40, None).unwrap();
    let mut random = Random(case.seed);
    let ids: Vec<i32> = (0..batch * length).map(|_| (random.next() % 43) as i32 - 3).collect();
    let ends: Vec<i64> = [0, length / 3, length / 3, length].map(|end| end as i64).to_vec();
    let positions = match case.positions {
        0 => Positions::From(5),
        1 => Positions::ids(&ids[..length.min(ids.len())]),
        2 => Positions::batch_ids(&ids),
        _ => Positions::packed(&ends),
    };
    let position = |b: usize, l: usize| match case.positions {
        0 => 5 + l as i64,
        1 => ids[l].into(),
        2 => ids[b * length + l].into(),
        _ if l < length / 3 => l as i64,
        _ => (l - length / 3) as i64,
    };
    let strides = if case.heads_inside {
        let h = head_dim + case.gaps[0];
        let l = h * heads + case.gaps[1];
        [l * length + case.gaps[2], l, h]
    } else {
        let l = head_dim + case.gaps[0];
        let h = l * length + case.gaps[1];
        [h * heads + case.gaps[2], l, h]
    };
    let size = strides[0] * batch + 8;
    let input: Vec<T> = (0..size).map(|_| element(&mut random)).collect();

    // The definition, in the table's arithmetic: products rounded, then the sum, then the result.
    let mut expected = input.clone();
    let mut both_nan = vec![false; size];
    let forward = case.turn == Turn::Forward;
    let halves = |output: bool| match case.pairing {
        Pairing::Interleaved => false,
        Pairing::Half => true,
        Pairing::InterleavedToHalf => output,
    };
    let rows = match table.at(positions) {
        Ok(rows) => rows,
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    // The inverse has cosines and sines of its own where there is an attention factor.
    let (trig, _) = rows.turning(case.turn);
    for (b, l, h) in
        (0..batch).flat_map(|b| (0..length).flat_map(move |l| (0..heads).map(move |h| (b, l, h))))
    {
        let at = b * strides[0] + l * strides[1] + h * strides[2] + case.before;
        for j in 0..pairs {
            let entry = (position(b, l) + 3) as usize * pairs + j;
            let (c, s) = (trig.cos[entry], trig.sin[entry]);
            let s = if forward { s } else { -s };
            let (from, to) = (features(halves(!forward), j, pairs), features(halves(forward), j, pairs));
            let (p, q) = (input[at + from.0], input[at + from.1]);
            let (p, q) = (p.widen(), q.widen());
            let nan = |x: T::Table, y: T::Table| x.to_f64().is_nan() && y.to_f64().is_nan();
            both_nan[at + to.0] = nan(p * c, q * s);
            both_nan[at + to.1] = nan(q * c, p * s);
            expected[at + to.0] = T::narrow(p * c - q * s);
            expected[at + to.1] = T::narrow(q * c + p * s);
        }
    }

    let shape = [batch, length, heads, head_dim];
    for level in Level::available() {
        let mut x = input.clone();
        let mut view = ViewMut::strided(&mut x, shape, strides).unwrap();
        if batch > 1 && case.positions == 3 {
            prop_assert!(rows.rotate(case.turn, &mut view).is_err());
            continue;
        }
        if rows.check(view.shape()).is_err() {
            prop_assert!(batch == 0 || length == 0, "{:?}", rows.check(view.shape()));
            continue;
        }
        rows.rotate_at(level, case.turn, &mut view);
        for i in 0..size {
            // Which of two NaN comes out of a sum is not defined; that one comes out is.
            if !both_nan[i] {
                prop_assert_eq!(x[i].bits(), expected[i].bits(), "{:?} at {} in {:?}", level, i, case);
            }
            prop_assert_eq!(x[i].is_nan(), expected[i].is_nan(), "{:?} at {}", level, i);
        }

        // Out of place gives the same bits, copies what does not turn, and leaves the gaps alone.
        let mut y: Vec<T> = (0..size).map(|_| element(&mut random)).collect();
        let before = y.clone();
        let source = crate::View::strided(&input, shape, strides).unwrap();
        let (trig, turning) = rows.turning(case.turn);
        let mut view = ViewMut::strided(&mut y, shape, strides).unwrap();
        crate::kernel::rotate_to(level, &trig, turning, &source, &mut view);
        let mut inside = vec![false; size];
        for (b, l, h) in
            (0..batch).flat_map(|b| (0..length).flat_map(move |l| (0..heads).map(move |h| (b, l, h))))
        {
            let at = b * strides[0] + l * strides[1] + h * strides[2];
            inside[at..at + head_dim].fill(true);
        }
        for i in 0..size {
            let wanted = if inside[i] { x[i] } else { before[i] };
            prop_assert!(both_nan[i] || y[i].bits() == wanted.bits(), "rotate_to, {:?} at {}", level, i);
        }

        // So does new memory, in either order of axes, and all of it is written.
        for axes in [Axes::Blhd, Axes::Bhld] {
            let (trig, turning) = rows.turning(case.turn);
            let new = rotated(level, &trig, turning, &source, axes).unwrap();
            prop_assert_eq!(new.len(), batch * length * heads * head_dim);
            for (index, got) in new.iter().enumerate() {
                let (b, token_head, feature) = (
                    index / (length * heads * head_dim),
                    index / head_dim % (length * heads),
                    index % head_dim,
                );
                let (l, h) = match axes {
                    Axes::Blhd => (token_head / heads, token_head % heads),
                    Axes::Bhld => (token_head % length, token_head / length),
                };
                let at = b * strides[0] + l * strides[1] + h * strides[2] + feature;
                prop_assert!(
                    both_nan[at] || got.bits() == x[at].bits(),
                    "{:?}, {:?} at {}",
                    axes,
                    level,
                    index
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn f32_bits(case in cases()) { check::<f32>(&case)?; }

    #[test]
    fn f64_bits(case in cases()) { check::<f64>(&case)?; }

    #[test]
    fn f16_bits(case in cases()) { check::<f16>(&case)?; }

    #[test]
    fn bf16_bits(case in cases()) { check::<bf16>(&case)?; }
}

/// Every 16-bit pattern goes through every loop unchanged in meaning: rotated by 0 it comes out as it went in.
#[test]
fn every_16_bit_pattern_survives_the_identity() {
    fn every<T: Bits>() {
        let rope = Rope::builder(64).pairing(Pairing::Half).build().unwrap();
        let table = rope.table::<T::Table>(0..1, None).unwrap();
        for level in Level::available() {
            for low in 0..1 << 16 {
                // The partner of each pattern is 0, so that nothing is added to it.
                let mut x: Vec<T> = (0..64).map(|i| T::of_bits(if i < 32 { low } else { 0 })).collect();
                let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 64]).unwrap();
                table.at(Positions::From(0)).unwrap().rotate_at(level, Turn::Forward, &mut view);
                for value in &x[..32] {
                    let same = value.bits() == low || (value.is_nan() && T::of_bits(low).is_nan());
                    assert!(same, "{low:#x} became {:#x} with {level:?}", value.bits());
                }
            }
        }
    }
    every::<f16>();
    every::<bf16>();
}
