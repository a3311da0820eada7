//! Views of memory.

use crate::common::*;
use proptest::prelude::*;
use rope::{Positions, Turn, View, ViewMut};

/// Where the vectors of a strided view begin.
fn starts(shape: [usize; 4], strides: [usize; 3]) -> Vec<usize> {
    let [batch, length, heads, head_dim] = shape;
    let mut list = Vec::new();
    for b in 0..batch {
        for l in 0..length {
            for h in 0..heads {
                list.push(b * strides[0] + l * strides[1] + h * strides[2]);
            }
        }
    }
    if head_dim == 0 { Vec::new() } else { list }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn views_reach_into_their_slice_alone(
        shape in [0..4usize, 0..4, 0..4, 0..5],
        strides in [0..20usize, 0..20, 0..20],
        len in 0..60usize,
    ) {
        let mut data = vec![0.0f32; len];
        let starts = starts(shape, strides);
        let within = starts.iter().all(|start| start + shape[3] <= len);
        prop_assert_eq!(View::strided(&data, shape, strides).is_ok(), within);
        if ViewMut::strided(&mut data, shape, strides).is_ok() {
            prop_assert!(within);
            let mut elements: Vec<usize> =
                starts.iter().flat_map(|&start| start..start + shape[3]).collect();
            let count = elements.len();
            elements.sort_unstable();
            elements.dedup();
            prop_assert_eq!(elements.len(), count, "vectors overlap");
        }
        let size: usize = shape.iter().product();
        prop_assert_eq!(View::blhd(&data, shape).is_ok(), size == len);
        prop_assert_eq!(View::bhld(&data, shape).is_ok(), size == len);
        prop_assert_eq!(ViewMut::blhd(&mut data, shape).is_ok(), size == len);
        prop_assert_eq!(ViewMut::bhld(&mut data, shape).is_ok(), size == len);
    }

    #[test]
    fn views_of_any_size_never_overflow(
        shape in prop::array::uniform4(size()),
        strides in prop::array::uniform3(size()),
    ) {
        let mut data = [1.0f32; 8];
        let end = |axis: usize| (shape[axis].max(1) as u128 - 1) * strides[axis] as u128;
        let end = end(0).saturating_add(end(1)).saturating_add(end(2)).saturating_add(shape[3] as u128);
        let within = shape.contains(&0) || end <= 8;
        prop_assert_eq!(View::strided(&data, shape, strides).is_ok(), within);
        prop_assert!(within || ViewMut::strided(&mut data, shape, strides).is_err());
        let full = shape.iter().try_fold(1u128, |all, &size| all.checked_mul(size as u128)) == Some(8);
        prop_assert!(full || View::blhd(&data, shape).is_err());
        prop_assert!(full || ViewMut::bhld(&mut data, shape).is_err());
        let _ = View::blhd(&data[..0], shape);
        let _ = ViewMut::bhld(&mut data[..0], shape);
        // A shape without elements is turned without touching anything, however long its other axes are.
        let table = plain().table::<f32>(0..4, None).unwrap();
        if let Ok(mut view) = ViewMut::strided(&mut data, shape, strides) && shape.contains(&0) {
            let _ = table.at(Positions::From(0)).unwrap().rotate(Turn::Forward, &mut view);
            let copy = [0.0f32; 8];
            let source = View::strided(&copy, shape, strides).unwrap();
            let _ = table.at(Positions::From(0)).unwrap().rotate_to(Turn::Forward, &source, &mut view);
            let _ = table.at(Positions::packed(&[2, 4])).unwrap().rotate(Turn::Forward, &mut view);
            prop_assert_eq!(data, [1.0; 8]);
        }
        // SAFETY: nothing is read or written through these views; they are made and dropped.
        unsafe {
            let dangling = std::ptr::NonNull::<f32>::dangling().as_ptr();
            let reach = end <= (isize::MAX as u128) / 4 || shape.contains(&0);
            prop_assert_eq!(View::from_raw(dangling, shape, strides).is_ok(), reach);
            prop_assert!(reach || ViewMut::from_raw(dangling, shape, strides).is_err());
        }
    }
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..5usize,
        1 => Just(HUGE),
        1 => Just(HUGE / 2 + 1),
        1 => Just(1 << 32),
        1 => any::<usize>()
    ]
}

/// A few numbers that repeat may have any shape, for which there is no room.
#[test]
fn new_memory_that_cannot_be_had_is_refused() {
    let table = plain().table::<f32>(0..4, None).unwrap();
    let rows = table.at(Positions::From(0)).unwrap();
    let head_dim = plain().head_dim();
    let data = vec![1.0f32; head_dim];
    for heads in [1 << 45, HUGE / head_dim, HUGE] {
        let x = View::strided(&data, [1, 1, heads, head_dim], [0, 0, 0]).unwrap();
        refused(rows.rotated_blhd(Turn::Forward, &x), &["a shape that fits in memory"], "too large");
        refused(rows.rotated_bhld(Turn::Forward, &x), &["a shape that fits in memory"], "too large");
    }
    let x = View::strided(&data, [1, 1, 3, head_dim], [0, 0, 0]).unwrap();
    assert_eq!(rows.rotated_bhld(Turn::Forward, &x).unwrap().len(), 3 * head_dim);
    let none = View::strided(&data, [1, 0, 3, head_dim], [0, 0, 0]).unwrap();
    assert_eq!(rows.rotated_blhd(Turn::Forward, &none).unwrap().len(), 0);
}

#[test]
fn errors_about_views_name_the_sizes() {
    let mut data = [0.0f32; 16];
    refused(View::blhd(&data, [1, 1, 1, 4]), &["16 elements", "head_dim 4"], "too long");
    refused(View::bhld(&data, [2, 3, 4, 4]), &["16 elements", "length 4, heads 3"], "too short");
    refused(View::blhd(&data, [HUGE, 2, 1, 4]), &["overflow"], "overflow");
    refused(View::strided(&data, [2, 2, 2, 4], [8, 8, 4]), &["16 elements", "at least 24"], "too short");
    refused(View::strided(&data, [2, HUGE, 2, 4], [8, 8, 4]), &["overflow"], "overflow");
    for (shape, strides) in [
        ([2, 1, 1, 4], [0, 0, 0]),
        ([1, 2, 1, 4], [0, 3, 0]),
        ([1, 1, 2, 4], [0, 0, 3]),
        ([2, 2, 1, 4], [4, 4, 0]),
        ([1, 2, 2, 4], [0, 4, 8]),
        ([1, 2, 3, 2], [0, 3, 2]),
    ] {
        let result = ViewMut::strided(&mut data, shape, strides).map(|_| ());
        match (shape, strides) {
            // Tokens inside heads: no overlap.
            (_, [0, 4, 8]) => result.unwrap(),
            _ => refused(result, &["overlap"], (shape, strides)),
        }
    }
}
