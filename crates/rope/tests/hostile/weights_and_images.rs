//! Weights and image grids.

use crate::common::*;
use proptest::prelude::*;
use rope::{Error, HeadLayout, Pairing, image_grid, permute_projection};

#[test]
fn projections_that_do_not_fit_are_refused() {
    let head = HeadLayout { heads: 2, head_dim: 4, rotary_dim: 4, rotary_offset: 0 };
    let weight = [1.0f32; 24];
    let try_it = |head: HeadLayout, columns: usize, length: usize, word: &str| {
        let mut out = vec![7.0f32; length];
        let result =
            permute_projection(&weight, &mut out, columns, head, Pairing::Interleaved, Pairing::Half);
        refused(result, &[word], (head, columns, length));
        assert!(out.iter().all(|&x| x == 7.0));
    };
    for (columns, length) in [(3, 23), (3, 0), (2, 24), (0, 24), (HUGE, 24), (3, 25)] {
        try_it(head, columns, length, "permute_projection");
    }
    for heads in [0, 1, 3, HUGE, HUGE / 2 + 1] {
        try_it(HeadLayout { heads, ..head }, 3, 24, "permute_projection");
    }
    for rotary_dim in [1, 3, HUGE] {
        try_it(HeadLayout { rotary_dim, ..head }, 3, 24, "rotary_dim");
    }
    try_it(HeadLayout { rotary_dim: 6, ..head }, 3, 24, "rotary_dim");
    for rotary_offset in [1, 4, HUGE, HUGE - 3] {
        try_it(HeadLayout { rotary_offset, ..head }, 3, 24, "rotary_offset");
    }
    try_it(HeadLayout { head_dim: HUGE, ..head }, 3, 24, "permute_projection");
}

#[test]
fn projections_of_nothing_take_no_time() {
    for (heads, head_dim, columns) in [(0, 4, 3), (HUGE, 0, 3), (1 << 60, 4, 0), (HUGE, 0, 0), (2, 4, 0)] {
        in_time(&format!("{heads} heads of {head_dim} features, {columns} columns"), move || {
            let head = HeadLayout { heads, head_dim, rotary_dim: head_dim, rotary_offset: 0 };
            let mut out = [0.0f32; 0];
            permute_projection(&[], &mut out, columns, head, Pairing::Interleaved, Pairing::Half).unwrap();
        });
    }
}

#[test]
fn image_grids_are_made_or_refused() {
    for (height, width) in [(HUGE, HUGE), (HUGE, 1), (1 << 32, 1 << 32), (1 << 20, 1 << 20), (3, HUGE)] {
        let Err(Error::Memory { bytes }) = image_grid(height, width) else { panic!("{height} × {width}") };
        assert!(bytes >= height as u128 * width as u128, "{height} × {width}: {bytes} bytes");
    }
    for (height, width) in [(0, 5), (5, 0), (0, 0), (0, HUGE), (HUGE, 0)] {
        assert!(image_grid(height, width).unwrap().is_empty(), "{height} × {width}");
    }
    assert_eq!(image_grid(2, 2).unwrap(), [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_pairing_is_one_of_three_names(name in prop_oneof!["[a-z_]{0,24}", ".{0,60}", "(Half|half ?)"]) {
        let known = ["interleaved", "half", "interleaved_to_half"];
        match name.parse::<Pairing>() {
            Ok(pairing) => prop_assert_eq!(pairing.name(), name),
            Err(error) => {
                prop_assert!(!known.contains(&name.as_str()));
                let message = error.to_string();
                prop_assert!(message.contains("pairing") && known.iter().all(|name| message.contains(name)));
            }
        }
    }
}
