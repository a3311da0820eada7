//! Linear attention: what it costs beside softmax attention, and what rotary embedding does to its weights.

use super::check::{self, within};
use crate::error::{Error, Result};
use roformer::attention::linear::{Inputs, Map, Options, Shape, Shift, Workspace, attend};
use rope::{Positions, Turn, ViewMut};
use serde::{Deserialize, Serialize};

/// How long, how wide, and which query of the example.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Tokens.
    pub length: f64,
    /// d: numbers of a query, a key or a value of one head.
    pub dim: usize,
    /// D: features that φ makes of a query or a key.
    pub features: usize,
    /// The base of the frequencies, in the example.
    pub base: f64,
    /// The query of the example.
    pub query: usize,
    /// Which numbers the example has.
    pub seed: u64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { length: 4096.0, dim: 64, features: 64, base: 10_000.0, query: 8, seed: 3 }
    }
}

/// Products of two numbers that one head takes for a text.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// 2·L²·d: all scores, and all values weighed by them.
    pub softmax: f64,
    /// 2·L·D·(d + 1): S and z summed up, and each query multiplied with both.
    pub linear: f64,
}

/// The weights of one query in the example.
#[derive(Clone, Debug, Serialize)]
pub struct Weights {
    /// `[TOKENS]`
    pub weights: Vec<f64>,
    /// Their sum.
    pub sum: f64,
    /// The smallest.
    pub least: f64,
    /// The sum of each query's weights, `[TOKENS]`.
    pub sums: Vec<f64>,
    /// How many of all weights are negative.
    pub negative: usize,
}

/// Costs against the length, and the example.
#[derive(Clone, Debug, Serialize)]
pub struct Linear {
    /// `[points]`
    pub lengths: Vec<f64>,
    /// `[points]`
    pub costs: Vec<Cost>,
    /// At the length that was asked for.
    pub cost: Cost,
    /// Where both cost the same: D·(d + 1)/d.
    pub crossing: f64,
    /// What both cost there.
    pub crossing_cost: f64,
    /// Without positions: φ(q_i)·φ(k_j) over its sum.
    pub plain: Weights,
    /// The numerator rotated, the denominator not: RoFormer's Eq. 19.
    pub rotated: Weights,
    /// What the denominator would be if it were rotated too, and what it is.
    pub denominators: [f64; 2],
}

/// Tokens of the example.
pub const TOKENS: usize = 16;
/// Features of its queries and keys.
pub const WIDTH: usize = 4;
/// The longest text.
const LONGEST: f64 = 1e7;

/// What both attentions cost, and an example of the weights.
pub fn linear(ask: &Ask) -> Result<Linear> {
    let length = within("length", ask.length, 1.0..=LONGEST)?;
    let dim = within("dim", ask.dim, 1..=1024)?;
    let features = within("features", ask.features, 1..=4096)?;
    let query = within("query", ask.query, 0..=TOKENS - 1)?;
    let cost = |length: f64| Cost {
        softmax: 2.0 * length * length * dim as f64,
        linear: 2.0 * length * (features * (dim + 1)) as f64,
    };
    let crossing = (features * (dim + 1)) as f64 / dim as f64;
    let lengths: Vec<f64> = (0..=60).map(|point| 10f64.powf(6.0 * f64::from(point) / 60.0)).collect();

    let rope = check::rope(WIDTH, ask.base)?;
    let example = |which: u64| {
        let numbers = check::normal(ask.seed.wrapping_mul(2).wrapping_add(which), TOKENS * WIDTH);
        let mut mapped = vec![0.0; numbers.len()];
        Map::Elu1.forward([1, TOKENS, 1], &numbers, Shift::None, &mut mapped);
        mapped
    };
    let table = rope.table::<f64>(0..TOKENS as i64, None)?;
    let turned = |x: &[f64]| -> Result<Vec<f64>> {
        let mut x = x.to_vec();
        let mut view = ViewMut::blhd(&mut x, [1, TOKENS, 1, WIDTH])?;
        table.at(Positions::From(0))?.rotate(Turn::Forward, &mut view)?;
        Ok(x)
    };
    let (q, k) = (example(0), example(1));
    let (q_turned, k_turned) = (turned(&q)?, turned(&k)?);
    let row = |x: &[f64], token: usize| x[token * WIDTH..][..WIDTH].to_vec();
    let total = |q: &[f64], k: &[f64]| {
        let q = row(q, query);
        (0..TOKENS).map(|key| q.iter().zip(row(k, key)).map(|(q, k)| q * k).sum::<f64>()).sum::<f64>()
    };
    Ok(Linear {
        costs: lengths.iter().map(|&length| cost(length)).collect(),
        lengths,
        cost: cost(length),
        crossing,
        crossing_cost: cost(crossing).softmax,
        plain: weights([&q, &k, &q, &k], query)?,
        rotated: weights([&q_turned, &k_turned, &q, &k], query)?,
        denominators: [total(&q_turned, &k_turned), total(&q, &k)],
    })
}

/// The weights that linear attention gives every value: values that pick out one key each. Features `[TOKENS, WIDTH]` of queries
/// and keys in the numerator, then in the denominator.
fn weights([qn, kn, qd, kd]: [&[f64]; 4], query: usize) -> Result<Weights> {
    let shape = Shape { batch: 1, length: TOKENS, heads: 1, features: WIDTH, value_dim: TOKENS };
    let v: Vec<f64> =
        (0..TOKENS * TOKENS).map(|place| if place % (TOKENS + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let mut out = vec![0.0; v.len()];
    let options = Options { eps: 0.0, ..Options::default() };
    let no_memory = || Error::refused("there is not enough memory for the example", "内存不够计算这个例子");
    let mut workspace = Workspace::new().ok_or_else(no_memory)?;
    if !attend(&shape, &Inputs { qn, kn, qd, kd, v: &v }, &options, &mut out, &mut workspace) {
        return Err(no_memory());
    }
    let sum = |weights: &[f64]| weights.iter().sum::<f64>();
    let own = out[query * TOKENS..][..TOKENS].to_vec();
    Ok(Weights {
        sum: sum(&own),
        least: own.iter().copied().fold(f64::INFINITY, f64::min),
        sums: out.chunks_exact(TOKENS).map(sum).collect(),
        negative: out.iter().filter(|&&weight| weight < 0.0).count(),
        weights: own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_cross_at_as_many_tokens_as_features() {
        for (dim, features) in [(64, 64), (128, 256), (1, 1)] {
            let shown = linear(&Ask { dim, features, ..Ask::default() }).unwrap();
            let there =
                linear(&Ask { dim, features, length: shown.crossing, ..Ask::default() }).unwrap().cost;
            assert!((there.softmax / there.linear - 1.0).abs() < 1e-12);
        }
        let shown = linear(&Ask::default()).unwrap();
        assert_eq!((shown.crossing, shown.crossing_cost), (65.0, 2.0 * 65.0 * 65.0 * 64.0));
        assert_eq!(shown.cost.softmax, 2.0 * 4096.0 * 4096.0 * 64.0);
        assert_eq!(shown.cost.linear, 2.0 * 4096.0 * 64.0 * 65.0);
    }

    #[test]
    fn a_rotated_numerator_makes_weights_that_are_none() {
        for seed in 1..20 {
            let shown = linear(&Ask { seed, ..Ask::default() }).unwrap();
            assert!(shown.plain.sums.iter().all(|sum| (sum - 1.0).abs() < 1e-12));
            assert_eq!(shown.plain.negative, 0);
            assert!(shown.plain.least > 0.0);
            assert!(shown.rotated.sums.iter().all(|sum| (sum - 1.0).abs() > 1e-3));
            assert!(shown.rotated.negative > 0, "{seed}");
            // The sum is what a rotated denominator would be, over what it is.
            let [rotated, plain] = shown.denominators;
            assert!((shown.rotated.sum - rotated / plain).abs() < 1e-12);
        }
    }

    #[test]
    fn a_token_weighs_itself_as_without_positions() {
        let shown = linear(&Ask::default()).unwrap();
        assert!((shown.rotated.weights[8] - shown.plain.weights[8]).abs() < 1e-12);
        assert!((shown.rotated.weights[7] - shown.plain.weights[7]).abs() > 1e-6);
    }

    #[test]
    fn hostile_questions_are_refused() {
        let refused = |ask: Ask| linear(&ask).unwrap_err().to_string();
        assert!(refused(Ask { length: f64::NAN, ..Ask::default() }).contains("length is NaN"));
        assert!(refused(Ask { length: 0.0, ..Ask::default() }).contains("length is 0"));
        assert!(refused(Ask { dim: 0, ..Ask::default() }).contains("dim is 0"));
        assert!(refused(Ask { features: usize::MAX, ..Ask::default() }).contains("features"));
        assert!(refused(Ask { query: 16, ..Ask::default() }).contains("query is 16"));
        assert!(refused(Ask { base: -1.0, ..Ask::default() }).contains("base is -1"));
    }
}
