//! The GPU against the f64 reference.

use crate::common::*;
use rope::cuda::{Table, ViewMut};
use rope::{Pairing, Positions, Turn, bf16, f16, reference};

fn near_reference<T: Bits>() {
    let Some((device, stream)) = gpu() else { return };
    for (batch, length, heads, pairs, first) in [
        (1, 1, 1, 1, 0),
        (2, 33, 5, 48, 100_000),
        (3, 17, 32, 64, 1 << 20),
        (1, 5, 3, 33, 7),
        (1, 257, 8, 20, 0),
    ] {
        for pairing in PAIRINGS {
            for scaled in [false, true] {
                let rope = rope_of(0, pairs, 0, pairing, scaled);
                let host = rope.table::<f32>(first..first + length as i64, None).unwrap();
                let (theta, factor) = (host.frequencies().inv_freq(), host.frequencies().attention_factor());
                let table = Table::new(&device, &host).unwrap();
                let x: Vec<T> = moderate(batch * length * heads * 2 * pairs, 3);
                let mut buffer = device.upload(&x).unwrap();
                let mut view = ViewMut::blhd(&mut buffer, [batch, length, heads, 2 * pairs]).unwrap();
                let rows = table.at(Positions::From(first)).unwrap();
                rows.rotate(&stream, Turn::Forward, &mut view).unwrap();
                let y = buffer.download(&stream).unwrap();
                // Inputs are below 2, so a pair is below 2√2·a; the table, two products and a sum round to f32.
                let bound = 2.83 * factor * (T::ROUNDING + 4.0 * f32::ROUNDING);
                for (index, (x, y)) in x.chunks(2 * pairs).zip(y.chunks(2 * pairs)).enumerate() {
                    let position = (first + (index / heads % length) as i64) as f64;
                    let x: Vec<f64> = x.iter().map(|x| x.value()).collect();
                    let exact = reference::rotate(&x, position, theta, factor, pairing);
                    for (exact, got) in exact.iter().zip(y) {
                        let error = (exact - got.value()).abs();
                        assert!(error <= bound, "{got:?} where {exact} is right, {pairs} pairs, {pairing}");
                    }
                }
            }
        }
    }
}

#[test]
fn f32_is_near_the_reference() {
    near_reference::<f32>();
}

#[test]
fn f16_is_near_the_reference() {
    near_reference::<f16>();
}

#[test]
fn bf16_is_near_the_reference() {
    near_reference::<bf16>();
}

/// y = a·R·x turned back by `Inverse` is x, and the score of a rotated pair depends on the distance alone.
#[test]
fn turned_back_it_is_what_it_was() {
    let Some((device, stream)) = gpu() else { return };
    for pairing in PAIRINGS {
        let rope = rope_of(8, 64, 8, pairing, true);
        let table = Table::new(&device, &rope.table(0..64, None).unwrap()).unwrap();
        let x: Vec<f32> = moderate(2 * 64 * 3 * 144, 5);
        let mut buffer = device.upload(&x).unwrap();
        let rows = table.at(Positions::From(0)).unwrap();
        for turn in [Turn::Forward, Turn::Inverse] {
            let mut view = ViewMut::bhld(&mut buffer, [2, 3, 64, 144]).unwrap();
            rows.rotate(&stream, turn, &mut view).unwrap();
        }
        let y = buffer.download(&stream).unwrap();
        for (x, y) in x.iter().zip(&y) {
            // Eight roundings of numbers below 2√2.
            assert!((x - y).abs() <= 8.0 * 2.83 * f32::ROUNDING as f32, "{y} where {x} was");
        }
    }
}

/// What one pairing gives is what the other gives on permuted features.
#[test]
fn pairings_are_one_rotation() {
    let Some((device, stream)) = gpu() else { return };
    let x: Vec<bf16> = moderate(40 * 128, 9);
    let rotated = |pairing: Pairing, x: &[bf16]| {
        let rope = rope_of(0, 64, 0, pairing, false);
        let table = Table::new(&device, &rope.table(0..40, None).unwrap()).unwrap();
        let mut buffer = device.upload(x).unwrap();
        let mut view = ViewMut::blhd(&mut buffer, [1, 40, 1, 128]).unwrap();
        table.at(Positions::From(0)).unwrap().rotate(&stream, Turn::Forward, &mut view).unwrap();
        buffer.download(&stream).unwrap()
    };
    let halves = |x: &[bf16]| -> Vec<bf16> {
        let half = |x: &[bf16]| (0..128).map(|j| x[j % 64 * 2 + j / 64]).collect::<Vec<_>>();
        x.chunks(128).flat_map(half).collect()
    };
    let expected = rotated(Pairing::Half, &halves(&x));
    same(&rotated(Pairing::InterleavedToHalf, &x), &expected, "interleaved to half");
    same(&halves(&rotated(Pairing::Interleaved, &x)), &expected, "interleaved");
}
