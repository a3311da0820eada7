//! Two ways to pair features, on the same numbers: what each makes of a vector, and what the scores are.

use super::check::{self, List};
use crate::error::{Error, Result};
use rope::{HeadLayout, Pairing, Positions, Rope, Turn, ViewMut, permute_projection};
use serde::{Deserialize, Serialize};

/// A query and a key, and where they stand.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// The query: 4 to 16 features, an even number.
    pub q: List,
    /// The key: as many.
    pub k: List,
    /// The base of the frequencies.
    pub base: f64,
    /// Where the query stands.
    pub m: i64,
    /// Where the key stands.
    pub n: i64,
}

impl Default for Ask {
    fn default() -> Self {
        let (q, k) = (List(vec![1.0, 2.0, 3.0, 4.0]), List(vec![2.0, 1.0, -1.0, 1.0]));
        Ask { q, k, base: 10_000.0, m: 2, n: 0 }
    }
}

/// A query under one pairing.
#[derive(Clone, Debug, Serialize)]
pub struct Layout {
    /// The two features of each pair.
    pub pairs: Vec<[usize; 2]>,
    /// The query as this pairing gets it.
    pub q: Vec<f64>,
    /// The query turned.
    pub turned: Vec<f64>,
}

/// Products of the turned query and the turned key.
#[derive(Clone, Debug, Serialize)]
pub struct Scores {
    /// Both interleaved.
    pub interleaved: f64,
    /// Both half, with the same weights: another model.
    pub half: f64,
    /// The query interleaved, the key half.
    pub mixed: f64,
    /// Both half, after the weights were permuted.
    pub permuted: f64,
}

/// The query under both pairings.
#[derive(Clone, Debug, Serialize)]
pub struct Pairings {
    /// The frequency of each pair.
    pub theta: Vec<f64>,
    /// Features 2j and 2j+1.
    pub interleaved: Layout,
    /// Features j and j+d/2 of the same query.
    pub half: Layout,
    /// The same pairing of the query that permuted weights make.
    pub permuted: Layout,
    /// Whether both pairings give every pair the same two numbers, so that nothing shows.
    pub is_alike: bool,
    /// What becomes of the score.
    pub scores: Scores,
}

/// Both pairings of a query and a key.
pub fn pairing(ask: &Ask) -> Result<Pairings> {
    let (List(q), List(k)) = (&ask.q, &ask.k);
    let dim = q.len();
    if !(4..=16).contains(&dim) || dim % 2 != 0 {
        return Err(Error::refused(
            format!("the query has {dim} features; expected an even number from 4 to 16"),
            format!("查询有 {dim} 维；应为 4 到 16 之间的偶数"),
        ));
    }
    if k.len() != dim {
        return Err(Error::refused(
            format!("the key has {} features; expected {dim}, as the query", k.len()),
            format!("键有 {} 维；应与查询一样，{dim} 维", k.len()),
        ));
    }
    for &value in q.iter().chain(k) {
        check::within("a feature", value, -1000.0..=1000.0)?;
    }
    let (m, n) = (check::position("m", ask.m)?, check::position("n", ask.n)?);
    check::rope(dim, ask.base)?;
    let rope = |pairing: Pairing| Rope::builder(dim).base(ask.base).pairing(pairing).build();
    let (interleaved, half) = (rope(Pairing::Interleaved)?, rope(Pairing::Half)?);
    let (permuted_q, permuted_k) = (permuted(q)?, permuted(k)?);
    let layout = |rope: &Rope, q: &[f64]| -> Result<Layout> {
        let features = |pair| rope.pairing().features(pair, dim / 2).into();
        let pairs = (0..dim / 2).map(features).collect();
        Ok(Layout { pairs, q: q.to_vec(), turned: turned(rope, q, m)? })
    };
    let layouts = [layout(&interleaved, q)?, layout(&half, q)?, layout(&half, &permuted_q)?];
    let product = |q: &[f64], k: &[f64]| q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>();
    let (k_interleaved, k_half) = (turned(&interleaved, k, n)?, turned(&half, k, n)?);
    let scores = Scores {
        interleaved: product(&layouts[0].turned, &k_interleaved),
        half: product(&layouts[1].turned, &k_half),
        mixed: product(&layouts[0].turned, &k_half),
        permuted: product(&layouts[2].turned, &turned(&half, &permuted_k, n)?),
    };
    let [interleaved, half, permuted] = layouts;
    let theta = rope(Pairing::Half)?.frequencies(None).inv_freq().to_vec();
    Ok(Pairings { theta, is_alike: *q == permuted_q, interleaved, half, permuted, scores })
}

/// A vector that interleaved weights made, as it comes out of the permuted ones: a vector is a weight of one column.
fn permuted(x: &[f64]) -> Result<Vec<f64>> {
    let mut out = vec![0.0; x.len()];
    let head = HeadLayout { heads: 1, head_dim: x.len(), rotary_dim: x.len(), rotary_offset: 0 };
    permute_projection(x, &mut out, 1, head, Pairing::Interleaved, Pairing::Half)?;
    Ok(out)
}

fn turned(rope: &Rope, x: &[f64], position: i64) -> Result<Vec<f64>> {
    let mut x = x.to_vec();
    let table = rope.table::<f64>(position..position + 1, None)?;
    let mut view = ViewMut::blhd(&mut x, [1, 1, 1, rope.head_dim()])?;
    table.at(Positions::From(position))?.rotate(Turn::Forward, &mut view)?;
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 5e-5)
    }

    #[test]
    fn a_vector_that_the_permutation_leaves_alone_hides_the_difference() {
        let alike = pairing(&Ask { q: List(vec![1.0, 0.0, 0.0, 1.0]), ..Ask::default() }).unwrap();
        assert!(alike.is_alike);
        // The same four numbers, in another order.
        assert!(close(&alike.interleaved.turned, &[-0.4161, 0.9093, -0.02, 0.9998]), "{alike:?}");
        assert!(close(&alike.half.turned, &[-0.4161, -0.02, 0.9093, 0.9998]));
        let other = pairing(&Ask::default()).unwrap();
        assert!(!other.is_alike);
        let mut sorted = [other.interleaved.turned.clone(), other.half.turned.clone()];
        sorted.iter_mut().for_each(|turned| turned.sort_by(f64::total_cmp));
        assert!(!close(&sorted[0], &sorted[1]), "{sorted:?}");
        assert_eq!(other.permuted.q, [1.0, 3.0, 2.0, 4.0]);
    }

    #[test]
    fn permuted_weights_give_the_score_back_and_unpermuted_ones_do_not() {
        let ask = Ask { n: 5, ..Ask::default() };
        let Scores { interleaved, half, mixed, permuted } = pairing(&ask).unwrap().scores;
        let score = |pairing| {
            let theta = [1.0, 0.01];
            rope::analysis::score(&ask.q.0, &ask.k.0, &theta, -3.0, pairing).unwrap()
        };
        assert!((interleaved - score(Pairing::Interleaved)).abs() < 1e-12);
        assert!((half - score(Pairing::Half)).abs() < 1e-12);
        assert!((permuted - interleaved).abs() < 1e-12);
        assert!((half - interleaved).abs() > 0.1 && (mixed - interleaved).abs() > 0.1);
        // Four features are permuted back by the same permutation; six are not.
        let (q, k) = (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![2.0, 1.0, -1.0, 1.0, 0.5, -2.0]);
        let six = pairing(&Ask { q: List(q), k: List(k), ..ask }).unwrap();
        assert_eq!(six.permuted.q, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        assert!((six.scores.permuted - six.scores.interleaved).abs() < 1e-12);
        // At the same position both give the plain product.
        let scores = pairing(&Ask { n: 2, ..Ask::default() }).unwrap().scores;
        assert!((scores.interleaved - 5.0).abs() < 1e-12 && (scores.half - 5.0).abs() < 1e-12);
        assert!((scores.mixed - 5.0).abs() > 0.1);
    }

    #[test]
    fn what_cannot_be_shown_is_refused_by_name() {
        let refused = |ask: Ask, name: &str| {
            let message = pairing(&ask).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        refused(Ask { q: List(vec![]), ..Ask::default() }, "the query has 0 features");
        refused(Ask { q: List(vec![1.0; 5]), ..Ask::default() }, "the query has 5 features");
        refused(Ask { q: List(vec![1.0; 18]), ..Ask::default() }, "the query has 18 features");
        refused(Ask { k: List(vec![1.0; 6]), ..Ask::default() }, "the key has 6 features");
        refused(Ask { q: List(vec![1e300; 4]), ..Ask::default() }, "a feature is 1");
        refused(Ask { m: -1, ..Ask::default() }, "m is -1");
        refused(Ask { base: 0.0, ..Ask::default() }, "base is 0");
    }
}
