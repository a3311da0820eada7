//! Moving cached keys instead of computing them again.
//!
//! Keys are cached after their rotation. When old tokens are dropped (StreamingLLM), or when a rule whose frequencies
//! depend on the length changes them as the text grows (LongRoPE, dynamic NTK), `Rope::rerotation` gives the table that
//! turns the cached keys from what they are to what they should be.
//!
//! `cargo run --release -p rope --example context_shift`

use rope::{LongRope, Positions, Rope, Schedule, Table, Turn, ViewMut};

const HEADS: usize = 8;
const HEAD_DIM: usize = 64;

/// Rotates keys `[tokens, HEADS, HEAD_DIM]`, one row of the table per token.
fn rotate(table: &Table<f32>, keys: &[f32]) -> rope::Result<Vec<f32>> {
    let mut rotated = keys.to_vec();
    let mut view = ViewMut::blhd(&mut rotated, [1, table.rows(), HEADS, HEAD_DIM])?;
    table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?;
    Ok(rotated)
}

fn positions(range: std::ops::Range<usize>) -> Vec<f64> {
    range.map(|position| position as f64).collect()
}

/// Prints and returns the largest difference between moved and recomputed keys.
fn compare(name: &str, stale: &[f32], moved: &[f32], recomputed: &[f32]) -> f32 {
    let worst = |a: &[f32]| a.iter().zip(recomputed).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{name:<34} left as they were: {:.1e} off; moved: {:.1e} off", worst(stale), worst(moved));
    worst(moved)
}

fn main() -> rope::Result<()> {
    let tokens = 2000;
    let row = HEADS * HEAD_DIM;
    let keys: Vec<f32> = (0..tokens * row).map(|i| (i as f32 * 0.37).sin()).collect();
    let mut worst = Vec::new();

    // Four first tokens stay, 900 are dropped, the others move up.
    let rope = Rope::builder(HEAD_DIM).build()?;
    let cache = rotate(&rope.table_of(&positions(0..tokens), None)?, &keys)?;
    let (sinks, dropped) = (4, 900);
    let (from, to) = (positions(sinks + dropped..tokens), positions(sinks..tokens - dropped));
    let shift = rope.rerotation::<f32>(&from, None, &rope, &to, None)?;
    let rest = (sinks + dropped) * row..;
    let moved = rotate(&shift, &cache[rest.clone()])?;
    let recomputed = rotate(&rope.table_of(&to, None)?, &keys[rest.clone()])?;
    worst.push(compare("900 of 2000 tokens dropped", &cache[rest], &moved, &recomputed));

    // LongRoPE and dynamic NTK: the text outgrows the original length, and all frequencies change.
    let divisors = |most: f64| (0..32).map(|pair| 1.0 + most * f64::from(pair) / 31.0).collect();
    let long = LongRope {
        short: divisors(0.1),
        long: divisors(40.0),
        original_length: 2000,
        factor: 32.0,
        attention_factor: None,
    };
    for (name, schedule) in [
        ("LongRoPE beyond 2000 tokens", Schedule::LongRope(long)),
        ("dynamic NTK, 2000 to 2500 tokens", Schedule::DynamicNtk { factor: 4.0, trained_length: 1000 }),
    ] {
        let rope = Rope::builder(HEAD_DIM).schedule(schedule).build()?;
        let all = positions(0..tokens);
        let cache = rotate(&rope.table_of(&all, 2000)?, &keys)?;
        let change = rope.rerotation::<f32>(&all, 2000, &rope, &all, 2500)?;
        let moved = rotate(&change, &cache)?;
        let recomputed = rotate(&rope.table_of(&all, 2500)?, &keys)?;
        worst.push(compare(name, &cache, &moved, &recomputed));
    }

    // Two rotations round twice: a few units of the last place of numbers of about 1.
    assert!(worst.iter().all(|&difference| difference < 1e-6), "{worst:?}");
    println!("moved keys are the recomputed ones to the last places of f32");
    Ok(())
}
