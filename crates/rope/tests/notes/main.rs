//! The worked examples and the claims of the notes that this library began with, each under the name of what
//! it shows. Where a note is wrong, the test holds what is right and, if there is one, the wrong number
//! beside it.
//!
//! Tolerances are half a unit of the last printed digit where a number was printed, else a small multiple of
//! the rounding of the sums involved.

mod classes;
#[path = "../common/mod.rs"]
mod common;
mod decay;
mod features;
mod plane;
#[path = "../common/random.rs"]
mod random;
mod receptive;
mod weights;

use common::{PAIRINGS, all_close, close, dot, rounding};
use random::Random;
use rope::reference::{self, rotate_by_complex, rotate_by_matrix};
use rope::{
    AnglePrecision, HeadLayout, Ids, Pairing, Positions, Result, Rope, Schedule, Turn, View, ViewMut,
    analysis, bf16, permute_projection,
};
use std::f64::consts::{FRAC_PI_2, PI, TAU};

/// A rope of given frequencies that turns all of a head.
fn given(theta: &[f64], pairing: Pairing) -> Result<Rope> {
    Rope::builder(2 * theta.len()).schedule(Schedule::Given(theta.to_vec())).pairing(pairing).build()
}

/// One vector of one head at one position, through the public interface with tables in `f64`.
fn turn(rope: &Rope, x: &[f64], position: f64) -> Result<Vec<f64>> {
    let table = rope.table_of::<f64>(&[position], None)?;
    let mut y = x.to_vec();
    let mut view = ViewMut::blhd(&mut y, [1, 1, 1, x.len()])?;
    table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?;
    Ok(y)
}

/// The score of q at m and k at n.
fn score(rope: &Rope, q: &[f64], m: f64, k: &[f64], n: f64) -> Result<f64> {
    Ok(dot(&turn(rope, q, m)?, &turn(rope, k, n)?))
}

fn usual(head_dim: usize) -> Result<Vec<f64>> {
    Ok(Rope::builder(head_dim).build()?.frequencies(None).inv_freq().to_vec())
}
