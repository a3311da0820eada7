//! Linear attention, and weights that are permuted.

use super::*;

/// With the numerator turned and the denominator not, the weights of linear attention no longer add up to 1,
/// and some are negative.
#[test]
fn a_turned_numerator_gives_weights_that_are_not_a_distribution() -> Result<()> {
    let feature =
        |x: Vec<f64>| x.iter().map(|&x| if x > 0.0 { x + 1.0 } else { x.exp() }).collect::<Vec<_>>();
    let mut random = Random(11);
    let rope = Rope::builder(4).build()?;
    let q = feature(random.vector(4));
    let keys: Vec<Vec<f64>> = (0..16).map(|_| feature(random.vector(4))).collect();
    let denominator: f64 = keys.iter().map(|k| dot(&q, k)).sum();
    let weights = |turned: bool| -> Result<Vec<f64>> {
        let weight = |(n, k): (usize, &Vec<f64>)| {
            let n = if turned { n as f64 } else { 15.0 };
            Ok(score(&rope, &q, 15.0, k, n)? / denominator)
        };
        keys.iter().enumerate().map(weight).collect()
    };
    close(weights(false)?.iter().sum(), 1.0, rounding(16.0));
    let turned = weights(true)?;
    assert!((turned.iter().sum::<f64>() - 1.0).abs() > 0.1);
    assert!(turned.iter().any(|&weight| weight < 0.0));
    Ok(())
}

/// A random q or k projection `[heads · head_dim, columns]` with its bias.
#[derive(Clone, PartialEq, Debug)]
struct Projection {
    head: HeadLayout,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

const COLUMNS: usize = 12;

impl Projection {
    fn random(random: &mut Random, head: HeadLayout) -> Self {
        let rows = head.heads * head.head_dim;
        Projection { head, weight: random.vector(rows * COLUMNS), bias: random.vector(rows) }
    }

    fn permuted(&self, from: Pairing, to: Pairing) -> Result<Self> {
        let mut other = self.clone();
        permute_projection(&self.weight, &mut other.weight, COLUMNS, self.head, from, to)?;
        permute_projection(&self.bias, &mut other.bias, 1, self.head, from, to)?;
        Ok(other)
    }

    /// Tokens `[length, columns]` to rotated vectors `[length, heads, head_dim]`.
    fn apply(&self, tokens: &[f64], rope: &Rope) -> Result<Vec<f64>> {
        let row = |token: &[f64], row: usize| {
            dot(token, &self.weight[row * COLUMNS..(row + 1) * COLUMNS]) + self.bias[row]
        };
        let rows = 0..self.bias.len();
        let mut x: Vec<f64> =
            tokens.chunks(COLUMNS).flat_map(|token| rows.clone().map(move |r| row(token, r))).collect();
        let length = tokens.len() / COLUMNS;
        let table = rope.table::<f64>(0..length as i64, None)?;
        let shape = [1, length, self.head.heads, self.head.head_dim];
        table.at(Positions::From(0))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut x, shape)?)?;
        Ok(x)
    }
}

/// All scores `[length, heads of q, length]`; each key head serves heads_q / heads_k query heads.
fn scores(q: &Projection, k: &Projection, tokens: &[f64], rope: &Rope) -> Result<Vec<f64>> {
    let (queries, keys) = (q.apply(tokens, rope)?, k.apply(tokens, rope)?);
    let (dim, group) = (q.head.head_dim, q.head.heads / k.head.heads);
    let mut scores = Vec::new();
    for (index, query) in queries.chunks(dim).enumerate() {
        let key_head = index % q.head.heads / group;
        scores.extend(keys.chunks(dim).skip(key_head).step_by(k.head.heads).map(|key| dot(query, key)));
    }
    Ok(scores)
}

/// The two pairings are one model once the q and k projections are permuted, biases too: with grouped heads,
/// and with heads that turn in part.
#[test]
fn permuted_weights_make_the_pairings_equal() -> Result<()> {
    let mut random = Random(12);
    for (rotary_dim, rotary_offset) in [(16, 0), (8, 0), (8, 8), (12, 3)] {
        let head = |heads| HeadLayout { heads, head_dim: 16, rotary_dim, rotary_offset };
        let (q, k) = (Projection::random(&mut random, head(6)), Projection::random(&mut random, head(2)));
        let tokens = random.vector(5 * COLUMNS);
        let rope = |pairing| {
            Rope::builder(16).rotary_dim(rotary_dim).rotary_offset(rotary_offset).pairing(pairing).build()
        };
        let (interleaved, half) = (rope(Pairing::Interleaved)?, rope(Pairing::Half)?);
        let before = scores(&q, &k, &tokens, &interleaved)?;
        assert_eq!(before.len(), 5 * 6 * 5);
        // 16 features of up to 13 each, summed in another order.
        let tolerance = 16.0 * rounding(13.0 * 13.0);

        let to_half = |p: &Projection| p.permuted(Pairing::Interleaved, Pairing::Half);
        let (q_half, k_half) = (to_half(&q)?, to_half(&k)?);
        all_close(&scores(&q_half, &k_half, &tokens, &half)?, &before, tolerance);
        // Without the permutation, or with one of two, it is another model.
        let farthest =
            |scores: Vec<f64>| scores.iter().zip(&before).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(farthest(scores(&q, &k, &tokens, &half)?) > 0.1);
        assert!(farthest(scores(&q_half, &k, &tokens, &half)?) > 0.1);
        // Back again: to the bit.
        assert_eq!(q_half.permuted(Pairing::Half, Pairing::Interleaved)?, q);
        assert_eq!(k_half.permuted(Pairing::Half, Pairing::Interleaved)?, k);
        // Read interleaved and written in halves: the weights of the one, the scores of either.
        assert_eq!(q.permuted(Pairing::Interleaved, Pairing::InterleavedToHalf)?, q);
        all_close(&scores(&q, &k, &tokens, &rope(Pairing::InterleavedToHalf)?)?, &before, tolerance);
    }
    Ok(())
}
