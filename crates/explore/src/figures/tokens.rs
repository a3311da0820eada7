//! Two tokens on a ruler: a query at m and a key at n, both turned, and their score.

use super::check;
use crate::error::Result;
use rope::{Positions, Turn, ViewMut};
use serde::{Deserialize, Serialize};

/// Which tokens, and where they stand.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// Where the query stands.
    pub m: i64,
    /// Where the key stands.
    pub n: i64,
    /// Which query and key: others for another seed.
    pub seed: u64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { dim: 8, base: 10_000.0, m: 3, n: 7, seed: 1 }
    }
}

/// One pair of features of both tokens.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Its frequency, in radians per position.
    pub theta: f64,
    /// The query's two features, before and after it was turned by m·θ.
    pub q: [f64; 2],
    /// After.
    pub q_turned: [f64; 2],
    /// The key's two features.
    pub k: [f64; 2],
    /// After it was turned by n·θ.
    pub k_turned: [f64; 2],
    /// What the pair gives to the score.
    pub score: f64,
}

/// Both tokens, pair by pair.
#[derive(Clone, Debug, Serialize)]
pub struct Tokens {
    /// m − n.
    pub distance: i64,
    /// ⟨R_m q, R_n k⟩, by turning both.
    pub score: f64,
    /// The same from the distance alone: Σ_j ⟨q_j, k_j⟩ cos (m−n)θ_j + ⟨q_j⊥, k_j⟩ sin (m−n)θ_j.
    pub score_of_distance: f64,
    /// ⟨q, k⟩: the score without positions.
    pub unturned: f64,
    /// `[dim / 2]`
    pub pairs: Vec<Pair>,
}

/// The two tokens at their positions.
pub fn tokens(ask: &Ask) -> Result<Tokens> {
    let rope = check::rope(ask.dim, ask.base)?;
    let (m, n) = (check::position("m", ask.m)?, check::position("n", ask.n)?);
    let (q, k) = (check::normal(2 * ask.seed, ask.dim), check::normal(2 * ask.seed + 1, ask.dim));
    let turned = |x: &[f64], position: i64| -> Result<Vec<f64>> {
        let mut x = x.to_vec();
        let table = rope.table::<f64>(position..position + 1, None)?;
        let mut view = ViewMut::blhd(&mut x, [1, 1, 1, ask.dim])?;
        table.at(Positions::From(position))?.rotate(Turn::Forward, &mut view)?;
        Ok(x)
    };
    let (q_turned, k_turned) = (turned(&q, m)?, turned(&k, n)?);
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let frequencies = rope.frequencies(None);
    let theta = frequencies.inv_freq();
    let pair = |pair: usize, theta: f64| {
        let (first, second) = rope.pairing().features(pair, ask.dim / 2);
        let at = |x: &[f64]| [x[first], x[second]];
        let (q_turned, k_turned) = (at(&q_turned), at(&k_turned));
        let score = product(&q_turned, &k_turned);
        Pair { theta, q: at(&q), q_turned, k: at(&k), k_turned, score }
    };
    Ok(Tokens {
        distance: m - n,
        score: product(&q_turned, &k_turned),
        score_of_distance: rope::analysis::score(&q, &k, theta, (m - n) as f64, rope.pairing())?,
        unturned: product(&q, &k),
        pairs: theta.iter().enumerate().map(|(index, &theta)| pair(index, theta)).collect(),
    })
}
