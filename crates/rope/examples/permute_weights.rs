//! Moving a checkpoint from one pairing to another: interleaved weights for code that rotates halves.
//!
//! A small attention with grouped heads (four query heads, two key heads) and partial rotary embedding (8 of 12
//! features). With permuted q and k projections the scores stay; without, it is another model.
//!
//! `cargo run --release -p rope --example permute_weights`

use rope::{HeadLayout, Pairing, Positions, Rope, Turn, ViewMut, permute_projection};

const HIDDEN: usize = 32;
const TOKENS: usize = 6;
const QUERY: HeadLayout = HeadLayout { heads: 4, head_dim: 12, rotary_dim: 8, rotary_offset: 0 };
const KEY: HeadLayout = HeadLayout { heads: 2, ..QUERY };

/// Rotated heads `[TOKENS, heads, head_dim]` of hidden states `[TOKENS, HIDDEN]`.
fn project(hidden: &[f64], weight: &[f64], head: HeadLayout, pairing: Pairing) -> rope::Result<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut out: Vec<f64> = hidden
        .chunks(HIDDEN)
        .flat_map(|token| weight.chunks(HIDDEN).map(move |row| dot(token, row)))
        .collect();
    let rope = Rope::builder(head.head_dim).rotary_dim(head.rotary_dim).pairing(pairing).build()?;
    let table = rope.table::<f64>(0..TOKENS as i64, None)?;
    let mut view = ViewMut::blhd(&mut out, [1, TOKENS, head.heads, head.head_dim])?;
    table.at(Positions::From(0))?.rotate(Turn::Forward, &mut view)?;
    Ok(out)
}

/// Scores `[query heads, TOKENS, TOKENS]`; two query heads share a key head.
fn scores(q: &[f64], k: &[f64]) -> Vec<f64> {
    let (dim, group) = (QUERY.head_dim, QUERY.heads / KEY.heads);
    let mut scores = Vec::new();
    for head in 0..QUERY.heads {
        for query in q.chunks(QUERY.heads * dim) {
            for key in k.chunks(KEY.heads * dim) {
                let (query, key) = (&query[head * dim..][..dim], &key[head / group * dim..][..dim]);
                scores.push(query.iter().zip(key).map(|(q, k)| q * k).sum());
            }
        }
    }
    scores
}

fn main() -> rope::Result<()> {
    let fill =
        |count: usize, step: f64| -> Vec<f64> { (0..count).map(|i| (i as f64 * step).sin()).collect() };
    let hidden = fill(TOKENS * HIDDEN, 0.71);
    let query_weight = fill(QUERY.heads * QUERY.head_dim * HIDDEN, 1.13);
    let key_weight = fill(KEY.heads * KEY.head_dim * HIDDEN, 0.57);

    // The model as it was trained: pairs side by side.
    let run = |query: &[f64], key: &[f64], pairing| -> rope::Result<Vec<f64>> {
        let q = project(&hidden, query, QUERY, pairing)?;
        Ok(scores(&q, &project(&hidden, key, KEY, pairing)?))
    };
    let trained = run(&query_weight, &key_weight, Pairing::Interleaved)?;

    // The same weights in the order of halves.
    let (from, to) = (Pairing::Interleaved, Pairing::Half);
    let (mut query_half, mut key_half) = (vec![0.0; query_weight.len()], vec![0.0; key_weight.len()]);
    permute_projection(&query_weight, &mut query_half, HIDDEN, QUERY, from, to)?;
    permute_projection(&key_weight, &mut key_half, HIDDEN, KEY, from, to)?;
    let permuted = run(&query_half, &key_half, Pairing::Half)?;
    let as_they_were = run(&query_weight, &key_weight, Pairing::Half)?;

    let off = |other: &[f64]| trained.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    println!("score of the last query and the first key, head 0: {:.6} as trained", trained[5 * TOKENS]);
    println!("  in halves, weights permuted:     {:.6}", permuted[5 * TOKENS]);
    println!("  in halves, weights as they were: {:.6}", as_they_were[5 * TOKENS]);
    let (right, wrong) = (off(&permuted), off(&as_they_were));
    println!("largest difference of all {} scores: {right:.1e} permuted, {wrong:.1e} not", trained.len());
    assert!(right < 1e-12 && wrong > 0.1);

    // And back again.
    let mut back = vec![0.0; query_weight.len()];
    permute_projection(&query_half, &mut back, HIDDEN, QUERY, to, from)?;
    assert_eq!(back, query_weight);
    Ok(())
}
