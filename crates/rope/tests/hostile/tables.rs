//! Tables: ranges, refills, lists of positions.

use crate::common::*;
use rope::{
    Axes, Error, LongRope, Pairing, Positions, Rope, RopeBuilder, Schedule, Table, Turn, ViewMut, XPos,
};

#[test]
fn ranges_that_cannot_be_are_refused() {
    let rope = plain();
    for range in [
        0..i64::MAX,
        i64::MIN..0,
        i64::MIN..i64::MAX,
        i64::MAX - 1..i64::MAX,
        i64::MIN..i64::MIN + 1,
        i64::MAX..i64::MAX,
        0..(1 << 53) + 2,
    ] {
        refused(rope.table::<f32>(range.clone(), None), &["position"], &range);
        refused(rope.table::<f64>(range.clone(), u64::MAX), &["position"], &range);
    }
    // (Written so that clippy does not take the reversal for a slip.)
    for (start, end) in [(1, 0), (i64::MAX, i64::MIN), (5, -5), (i64::MAX, 0)] {
        refused(rope.table::<f32>(start..end, None), &["positions"], (start, end));
    }
    for range in [0..1 << 52, 0..1 << 40, -(1 << 52)..1 << 52, 0..1 << 30] {
        let result = rope.table::<f32>(range.clone(), None);
        assert!(matches!(result, Err(Error::Memory { .. })), "{range:?}: {:?}", result.map(|_| ()));
    }
    let wide = Rope::builder(8192).build().unwrap();
    refused(wide.table::<f64>(-(1 << 52)..1 << 52, None), &["bytes", "fewer positions"], "8192 features");
    // Nothing asked for is nothing wrong.
    for start in [0, 5, -5, 1 << 52, -(1 << 52)] {
        let table = rope.table::<f32>(start..start, None).unwrap();
        assert_eq!((table.rows(), table.cos().len(), table.sin().len()), (0, 0, 0));
    }
}

/// The bits of a rotation at position 1 and the frequencies that a table reports.
fn state(table: &Table<f32>) -> (Vec<u32>, Vec<f64>, usize, String) {
    let head_dim = table.rope().head_dim();
    let mut bits = Vec::new();
    for turn in [Turn::Forward, Turn::Inverse] {
        let mut x: Vec<f32> = (1..=head_dim).map(|x| x as f32).collect();
        let mut view = ViewMut::blhd(&mut x, [1, 1, 1, head_dim]).unwrap();
        table.at(Positions::From(1)).unwrap().rotate(turn, &mut view).unwrap();
        bits.extend(x.into_iter().map(f32::to_bits));
    }
    (bits, table.frequencies().inv_freq().to_vec(), table.rows(), table.to_string())
}

#[test]
fn a_refill_that_fails_leaves_the_table_as_it_was() {
    // A rule whose frequencies depend on the length, and one with an attention factor: twice as many lists.
    for schedule in [
        Schedule::DynamicNtk { factor: 2.0, trained_length: 16 },
        Schedule::LongRope(LongRope { original_length: 16, ..long_rope() }),
    ] {
        let rope = Rope::builder(8).schedule(schedule).build().unwrap();
        let mut table = rope.table::<f32>(0..8, None).unwrap();
        let before = state(&table);
        let (start, end) = (3, 2);
        for range in [0..i64::MAX, start..end, 0..1 << 53, 0..1 << 40] {
            refused(table.refill(range.clone(), 1 << 20), &[], &range);
            assert_eq!(state(&table), before, "after {range:?}");
        }
    }
}

#[test]
fn frequencies_that_are_given_anew_are_as_if_always_given_or_refused() {
    let given = |list: &[f64]| Rope::builder(6).schedule(Schedule::Given(list.to_vec())).build().unwrap();
    let (first, second) = ([1.0, 0.5, 0.25], [0.9, -0.1, 0.0]);
    for range in [0..8, -3..200] {
        let mut table = given(&first).table::<f32>(range.clone(), None).unwrap();
        table.refill_given(second).unwrap();
        assert_eq!(state(&table), state(&given(&second).table::<f32>(range.clone(), None).unwrap()));
        assert_eq!(table.rope(), &given(&second));
        for (list, word) in [
            (vec![f64::NAN, 1.0, 1.0], "finite"),
            (vec![1.0, f64::INFINITY, 1.0], "finite"),
            (vec![1.0; 2], "one frequency per pair: 3"),
            (vec![], "one frequency per pair: 3"),
            (vec![1e300; 3], "position"),
        ] {
            refused(table.refill_given(list.iter().copied()), &[word], &list);
            assert_eq!(state(&table), state(&given(&second).table::<f32>(range.clone(), None).unwrap()));
            assert_eq!(table.rope(), &given(&second));
        }
    }
    refused(plain().table::<f32>(0..4, None).unwrap().refill_given([1.0, 1.0]), &["given"], "a rule");
    let mut listed = given(&first).table_of::<f32>(&[0.0], None).unwrap();
    refused(listed.refill_given(second), &["positions"], "listed");
}

#[test]
fn a_refill_that_runs_out_of_memory_half_way_leaves_the_table_as_it_was() {
    // With an attention factor there are four lists, so four places to run out.
    let rope = Rope::builder(8).schedule(Schedule::Yarn(yarn())).build().unwrap();
    for large_pieces in 0..4 {
        let mut table = rope.table::<f32>(0..8, None).unwrap();
        let before = state(&table);
        REFUSE_AFTER.set(Some(large_pieces));
        let result = table.refill(0..100_000, None);
        REFUSE_AFTER.set(None);
        refused(result, &["bytes"], large_pieces);
        assert_eq!(state(&table), before, "after {large_pieces} pieces of memory");
    }
}

#[test]
fn lists_of_positions_that_cannot_be_are_refused() {
    let rope = plain();
    for position in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 9007199254740994.0] {
        refused(rope.table_of::<f32>(&[0.0, position], None), &["position"], position);
        refused(rope.table_of::<f64>(&[position], None), &["position"], position);
        refused(rope.rerotation::<f32>(&[position], None, &rope, &[0.0], None), &["position"], position);
        refused(rope.rerotation::<f32>(&[0.0], None, &rope, &[position], None), &["position"], position);
    }
    let axial = Rope::builder(8).axes(Axes::Axial { axes: 2 }).build().unwrap();
    let sections = Rope::builder(8).axes(Axes::Sections(vec![2, 1, 1])).build().unwrap();
    for count in [1, 5, 7] {
        refused(axial.table_of::<f32>(&vec![0.0; count], None), &["table_of", "multiple of 2"], count);
        refused(sections.table_of::<f32>(&vec![0.0; count], None), &["table_of", "multiple of 3"], count);
    }
    for rope in [&rope, &axial, &sections] {
        assert_eq!(rope.table_of::<f32>(&[], None).unwrap().rows(), 0);
    }
}

#[test]
fn xpos_and_plain_tables_are_not_mixed_up() {
    let (plain, scaled) = (plain(), Rope::builder(4).xpos(XPos::default()).build().unwrap());
    refused(plain.xpos_tables::<f32>(0..4, None), &["xPos"], "no xPos");
    refused(scaled.table::<f32>(0..4, None), &["xPos", "xpos_tables"], "table");
    refused(scaled.table_of::<f32>(&[0.0], None), &["xPos", "xpos_tables"], "table_of");
    refused(scaled.xpos_tables::<f32>(0..i64::MAX, None), &["position"], "range");
    refused(scaled.xpos_tables::<f32>(0..1 << 40, None), &["position"], "range");
    let (mut queries, _) = scaled.xpos_tables::<f32>(0..4, None).unwrap();
    let before = state(&queries);
    refused(queries.refill(0..2, None), &["xPos", "xpos_tables"], "refill");
    assert_eq!(state(&queries), before);
    refused(plain.rerotation::<f32>(&[0.0], None, &scaled, &[0.0], None), &["xPos"], "rerotation");
    refused(scaled.rerotation::<f32>(&[0.0], None, &plain, &[0.0], None), &["xPos"], "rerotation");
}

#[test]
fn xpos_scales_are_refused_or_can_be_used() {
    let mut failures = Vec::new();
    let far = 1 << 20;
    for (xpos, range) in [
        (XPos::default(), 0..4),
        (XPos::default(), far..far + 2), // 0.29^2048 is no number of f32, nor is its inverse
        (XPos::default(), (1 << 53) - 2..1 << 53),
        (XPos { reference: 0.0, scale_base: 5e-324 }, 0..4),
        (XPos { reference: 0.0, scale_base: f64::MAX }, 0..4),
        (XPos { reference: 1e308, scale_base: 1.0 }, 0..4),
        (XPos { reference: -1e308, scale_base: 1e-308 }, 0..4),
    ] {
        let Ok(rope) = Rope::builder(4).xpos(xpos).build() else { continue };
        let Ok((queries, keys)) = rope.xpos_tables::<f32>(range.clone(), None) else { continue };
        for (name, table) in [("queries", queries), ("keys", keys)] {
            for turn in [Turn::Forward, Turn::Inverse, Turn::Backward] {
                let mut x = [1.0f32; 4];
                let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 4]).unwrap();
                table.at(Positions::From(range.end - 1)).unwrap().rotate(turn, &mut view).unwrap();
                if x.iter().any(|x| !x.is_finite()) {
                    failures.push(format!("{xpos:?}, {range:?}, {name}, {turn:?}: {x:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "accepted, but:\n{}", failures.join("\n"));
}

#[test]
fn rerotations_that_do_not_match_are_refused() {
    let from = plain();
    let to = |builder: RopeBuilder| builder.build().unwrap();
    for (target, word) in [
        (to(Rope::builder(6)), "target"),
        (to(Rope::builder(4).rotary_dim(2)), "target"),
        (to(Rope::builder(4).pairing(Pairing::Interleaved)), "target"),
        (to(Rope::builder(4).axes(Axes::Sections(vec![1, 1]))), "axes"),
    ] {
        refused(from.rerotation::<f32>(&[1.0], None, &target, &[0.0], None), &[word], &target);
        refused(target.rerotation::<f32>(&[1.0], None, &from, &[0.0], None), &[word], &target);
    }
    refused(from.rerotation::<f32>(&[1.0], None, &from, &[], None), &["rerotation", "0", "1"], "lengths");
    refused(from.rerotation::<f32>(&[], None, &from, &[1.0, 2.0], None), &["rerotation"], "lengths");
    assert_eq!(from.rerotation::<f32>(&[], None, &from, &[], None).unwrap().rows(), 0);
}
