//! The property that RoPE was made for: a score depends on how far apart two tokens are, not on where they stand.
//!
//! Reads the config.json of RoFormer (pairs side by side, base 10000), rotates one query and one key to many positions
//! and compares their scores with the formula Re Σ q_j·k_j*·e^{i(m−n)θ_j}, which knows m−n alone.
//!
//! `cargo run --release -p rope --example roformer`

use rope::{Pairing, Positions, Rope, Table, Turn, ViewMut};

const CONFIG: &str = r#"{
    "model_type": "roformer", "hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 1536,
    "rotary_value": false
}"#;

/// The vector as it stands at a position.
fn at(table: &Table<f64>, vector: &[f64], position: i64) -> rope::Result<Vec<f64>> {
    let mut rotated = vector.to_vec();
    let mut view = ViewMut::blhd(&mut rotated, [1, 1, 1, vector.len()])?;
    table.at(Positions::From(position))?.rotate(Turn::Forward, &mut view)?;
    Ok(rotated)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn main() -> rope::Result<()> {
    let set = Rope::from_hf(CONFIG.as_bytes())?;
    let rope = set.only()?;
    assert_eq!((rope.head_dim(), rope.base(), rope.pairing()), (64, 10_000.0, Pairing::Interleaved));
    let table = rope.table::<f64>(0..1536, None)?;
    println!("{table}\n");

    let query: Vec<f64> = (0..64).map(|i| (i as f64 * 1.3).sin()).collect();
    let key: Vec<f64> = (0..64).map(|i| (i as f64 * 0.7).cos()).collect();
    // Pair j as the complex number x_2j + i·x_2j+1: Re[q·k*·e^{iα}] = (q·k)·cos α + (q × k)·sin α.
    let frequencies = rope.frequencies(None);
    let formula = |distance: i64| -> f64 {
        let pairs = query.chunks(2).zip(key.chunks(2)).zip(frequencies.inv_freq());
        pairs
            .map(|((q, k), theta)| {
                let (sin, cos) = (distance as f64 * theta).sin_cos();
                (q[0] * k[0] + q[1] * k[1]) * cos + (q[0] * k[1] - q[1] * k[0]) * sin
            })
            .sum()
    };

    println!("score of a query at m and a key at n");
    println!("{:>6} {:>14} {:>14} {:>14} {:>14}", "m-n", "n = 0", "n = 7", "n = 1000", "formula");
    let mut worst: f64 = 0.0;
    for distance in [0, 1, 2, 5, 20, 100, 500] {
        let mut line = format!("{distance:>6}");
        for n in [0, 7, 1000] {
            let score = dot(&at(&table, &query, n + distance)?, &at(&table, &key, n)?);
            worst = worst.max((score - formula(distance)).abs());
            line += &format!(" {score:>14.9}");
        }
        println!("{line} {:>14.9}", formula(distance));
    }
    let ahead = dot(&at(&table, &query, 0)?, &at(&table, &key, 20)?);
    println!("{:>6} {ahead:>14.9} (the key ahead of the query: another score than at +20)", -20);

    println!("\nlargest difference from the formula: {worst:.1e}");
    assert!(worst < 1e-12 && (ahead - formula(-20)).abs() < 1e-12);
    assert!((ahead - formula(20)).abs() > 1e-3);
    Ok(())
}
