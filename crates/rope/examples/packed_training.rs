//! Training on packed sequences: forward and backward on the q and k part of a fused QKV buffer.
//!
//! Three sequences stand one after another in one row, without padding; `Positions::packed` starts each again at 0. The
//! queries and keys of a token lie side by side, so one view of hq + hk heads turns both in place and leaves the values
//! alone. Loss and gradients are those of the padded batch, and of finite differences.
//!
//! `cargo run --release -p rope --example packed_training`

use rope::{Positions, Rope, Table, Turn, ViewMut};

const DIM: usize = 16;
/// Queries and keys of a token, and the whole row with the values.
const TURNING: usize = (4 + 2) * DIM;
const ROW: usize = TURNING + 2 * DIM;
const LENGTHS: [usize; 3] = [5, 9, 2];
const LONGEST: usize = 9;

/// Rotates queries and keys of `[batch, length]` rows in place.
fn turn(
    table: &Table<f64>,
    positions: Positions,
    turn: Turn,
    qkv: &mut [f64],
    batch: usize,
) -> rope::Result<()> {
    let length = qkv.len() / ROW / batch;
    let mut view = ViewMut::strided(qkv, [batch, length, TURNING / DIM, DIM], [length * ROW, ROW, DIM])?;
    table.at(positions)?.rotate(turn, &mut view)
}

/// A loss that sees directions, not lengths alone: Σ w·y²/2; and its gradient.
fn loss(y: &[f64], weight: &[f64]) -> (f64, Vec<f64>) {
    let pairs = || y.iter().zip(weight);
    (pairs().map(|(y, w)| w * y * y / 2.0).sum(), pairs().map(|(y, w)| w * y).collect())
}

/// Packed rows `[tokens, ROW]` → `[3, LONGEST, ROW]`, with zeros after each sequence.
fn pad(packed: &[f64]) -> Vec<f64> {
    let mut padded = vec![0.0; LENGTHS.len() * LONGEST * ROW];
    let mut rest = packed;
    for (length, target) in LENGTHS.iter().zip(padded.chunks_mut(LONGEST * ROW)) {
        let (sequence, after) = rest.split_at(length * ROW);
        target[..sequence.len()].copy_from_slice(sequence);
        rest = after;
    }
    padded
}

fn main() -> rope::Result<()> {
    let table = Rope::builder(DIM).build()?.table::<f64>(0..LONGEST as i64, None)?;
    let ends = [5, 14, 16]; // cu_seqlens
    let packed = Positions::packed(&ends);
    let x: Vec<f64> = (0..16 * ROW).map(|i| (i as f64 * 0.9).sin()).collect();
    let weight: Vec<f64> = (0..16 * ROW).map(|i| 1.0 + (i as f64 * 0.4).cos()).collect();

    let mut y = x.clone();
    turn(&table, packed, Turn::Forward, &mut y, 1)?;
    let (packed_loss, mut dx) = loss(&y, &weight);
    turn(&table, packed, Turn::Backward, &mut dx, 1)?;
    println!("packed: 1 row of 16 tokens, loss {packed_loss:.6}");

    // The same sequences as a padded batch.
    let mut padded_y = pad(&x);
    turn(&table, Positions::From(0), Turn::Forward, &mut padded_y, 3)?;
    let (padded_loss, mut padded_dx) = loss(&padded_y, &pad(&weight));
    turn(&table, Positions::From(0), Turn::Backward, &mut padded_dx, 3)?;
    println!("padded: 3 rows of {LONGEST} tokens, loss {padded_loss:.6}");

    // And by finite differences, for one feature of every token.
    let (step, mut worst) = (1e-5, 0.0_f64);
    for token in 0..16 {
        let feature = token * ROW + token * 5 % TURNING;
        let moved = |by: f64| -> rope::Result<f64> {
            let mut y = x.clone();
            y[feature] += by;
            turn(&table, packed, Turn::Forward, &mut y, 1)?;
            Ok(loss(&y, &weight).0)
        };
        let difference = (moved(step)? - moved(-step)?) / (2.0 * step);
        worst = worst.max((difference - dx[feature]).abs());
    }
    println!("gradient: largest difference from finite differences {worst:.1e}");

    assert_eq!(pad(&y), padded_y);
    assert_eq!(pad(&dx), padded_dx);
    assert!(worst < 1e-7);
    assert!(x.chunks(ROW).zip(y.chunks(ROW)).all(|(x, y)| x[TURNING..] == y[TURNING..]));
    println!("outputs and gradients have the bits of the padded batch; values were left alone");
    Ok(())
}
