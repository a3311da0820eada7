//! Positions of every kind.

use crate::common::*;
use proptest::prelude::*;
use rope::{Ids, Positions, Table, Turn, View, ViewMut};
use std::fmt::Debug;

/// Position ids of one of the three types.
#[derive(Clone, Debug)]
enum Owned {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
}

impl Owned {
    fn ids(&self) -> Ids<'_> {
        match self {
            Owned::I32(ids) => ids.into(),
            Owned::I64(ids) => ids.into(),
            Owned::U32(ids) => ids.into(),
        }
    }

    fn values(&self) -> Vec<i128> {
        match self {
            Owned::I32(ids) => ids.iter().map(|&id| id.into()).collect(),
            Owned::I64(ids) => ids.iter().map(|&id| id.into()).collect(),
            Owned::U32(ids) => ids.iter().map(|&id| id.into()).collect(),
        }
    }
}

fn ids() -> impl Strategy<Value = Owned> {
    let vec = |element: BoxedStrategy<i64>| prop::collection::vec(element, 0..7);
    let small = (-1..6i64).boxed();
    let wide = prop_oneof![8 => 0..5i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => any::<i64>()].boxed();
    // Cumulative lengths are seldom met by chance.
    let sorted = vec((0..5i64).boxed()).prop_map(|mut ids| {
        ids.sort_unstable();
        Owned::I64(ids)
    });
    prop_oneof![
        vec(small.clone()).prop_map(|ids| Owned::I32(ids.into_iter().map(|id| id as i32).collect())),
        vec((0..6i64).boxed()).prop_map(|ids| Owned::U32(ids.into_iter().map(|id| id as u32).collect())),
        vec(wide.clone()).prop_map(|ids| Owned::I32(ids.into_iter().map(|id| id as i32).collect())),
        vec(wide.clone()).prop_map(|ids| Owned::U32(ids.into_iter().map(|id| id as u32).collect())),
        vec(wide).prop_map(Owned::I64),
        vec(small).prop_map(Owned::I64),
        sorted,
    ]
}

/// Whether positions have a row for every token, worked out the slow way.
fn fit(
    positions: &Positions,
    ids: &Owned,
    covered: &[i128],
    listed: bool,
    batch: usize,
    length: usize,
) -> bool {
    let (ids, there) = (ids.values(), |position: i128| covered.contains(&position));
    match positions {
        Positions::Rows => listed && covered.len() == length,
        Positions::BatchRows => listed && covered.len() == batch * length,
        _ if listed => false,
        Positions::From(start) => (0..length).all(|token| there(i128::from(*start) + token as i128)),
        Positions::Ids(_) => ids.len() == length && ids.iter().all(|&id| there(id)),
        Positions::BatchIds(_) => ids.len() == batch * length && ids.iter().all(|&id| there(id)),
        Positions::Packed { .. } => {
            let starts = std::iter::once(0).chain(ids.iter().copied());
            let mut sequences = starts.zip(&ids);
            batch <= 1
                && ids.last().copied().unwrap_or(0) == length as i128
                && sequences.all(|(start, &end)| start <= end && (0..end - start).take(20).all(there))
        }
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn positions_are_taken_if_and_only_if_they_fit(
        (start, rows, listed) in (-2..3i64, 0..6usize, any::<bool>()),
        (kind, from, ids) in (0..6u8, prop_oneof![6 => -1..6i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)], ids()),
        [batch, length, heads] in [0..3usize, 0..5, 0..3],
        head_dim in prop_oneof![8 => Just(4usize), 1 => 0..7usize],
    ) {
        let rope = plain();
        let table: Table<f32> = match listed {
            true => rope.table_of(&vec![1.0; rows], None).unwrap(),
            false => rope.table(start..start + rows as i64, None).unwrap(),
        };
        let covered: Vec<i128> = (0..rows).map(|row| i128::from(start) + row as i128).collect();
        let positions = match kind {
            0 => Positions::From(from),
            1 => Positions::Ids(ids.ids()),
            2 => Positions::BatchIds(ids.ids()),
            3 => Positions::Packed { ends: ids.ids() },
            4 => Positions::Rows,
            _ => Positions::BatchRows,
        };
        let fits = head_dim == 4 && fit(&positions, &ids, &covered, listed, batch, length);
        let before: Vec<f32> = (0..batch * length * heads * head_dim).map(|x| x as f32 + 1.0).collect();
        let (mut q, mut k) = (before.clone(), before.clone());
        let shape = [batch, length, heads, head_dim];
        let mut view = ViewMut::blhd(&mut q, shape).unwrap();
        let rotated = table.at(positions).and_then(|rows| rows.rotate(Turn::Forward, &mut view));
        let copied = table.at(positions).and_then(|rows| {
            rows.rotate_to(Turn::Forward, &View::blhd(&before, shape)?, &mut ViewMut::blhd(&mut k, shape)?)
        });
        prop_assert_eq!(&rotated, &copied);
        // Without a single vector, positions that do not fit may be refused or passed over.
        if fits || !before.is_empty() || head_dim != 4 {
            prop_assert_eq!(rotated.is_ok(), fits, "{:?}", rotated);
        }
        if rotated.is_err() {
            prop_assert_eq!(&q, &before);
            prop_assert_eq!(&k, &before);
        } else {
            prop_assert_eq!(&q, &k);
        }
    }
}

#[test]
fn errors_about_positions_name_them() {
    let rope = plain();
    let (range, list) = (rope.table::<f32>(0..8, None).unwrap(), rope.table_of::<f32>(&[0.0], None).unwrap());
    for id in [-1, 8, i64::MIN, i64::MAX] {
        let word = id.to_string();
        refused(range.at(Positions::ids(&[0, id])), &[&word, "0..8"], id);
        refused(range.at(Positions::batch_ids(&[id, 3])), &[&word, "0..8"], id);
        let mut x = [0.0f32; 4];
        let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 4]).unwrap();
        let at = range.at(Positions::From(id));
        refused(at.and_then(|rows| rows.rotate(Turn::Forward, &mut view)), &[&word, "0..8"], id);
    }
    refused(range.at(Positions::packed(&[2, 1])), &["ends", "1 after 2"], "decreasing");
    refused(range.at(Positions::packed(&[-1])), &["ends", "-1"], "negative");
    refused(range.at(Positions::packed(&[i64::MIN, i64::MAX])), &["ends"], "extremes");
    refused(range.at(Positions::packed(&[0, i64::MAX])), &["0..8"], "too long");
    refused(range.at(Positions::packed(&[u32::MAX])), &["0..8"], "too long");
    refused(range.at(Positions::Rows), &["positions"], "rows of a range");
    refused(range.at(Positions::BatchRows), &["positions"], "rows of a range");
    refused(list.at(Positions::From(0)), &["positions"], "a range of listed rows");
    refused(list.at(Positions::ids(&[0])), &["positions"], "ids of listed rows");
    refused(list.at(Positions::packed(&[1])), &["positions"], "sequences of listed rows");
}
