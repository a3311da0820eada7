//! A sentence whose words change places: attention without positions gives every word the output that it had.

use super::check::List;
use super::sentence::{self, FEATURES, KEY, QUERY, VALUE};
use crate::error::{Error, Result};
use roformer::attention::softmax::{Heads, Mask, Reach, Shape, Workspace, attend};
use rope::{Positions, Rope, Turn, ViewMut};
use serde::{Deserialize, Serialize};

/// A sentence, and where its words stand.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// The sentence as it was written.
    pub text: String,
    /// For each place the word that stands there, by its number in the sentence as written; as written if empty.
    pub places: List,
    /// Whether a word sees only itself and what stands before it.
    pub causal: bool,
    /// Whether queries and keys are turned by their places.
    pub rotary: bool,
}

impl Default for Ask {
    fn default() -> Self {
        let text = "the dog bites the old man".to_string();
        Ask { text, places: List::default(), causal: false, rotary: false }
    }
}

/// Attention over the words in one order.
#[derive(Clone, Debug, Serialize)]
pub struct Attention {
    /// QKᵀ/√d `[words, words]`: row m is what the word at place m gives to each word; `None` where it does not see it.
    pub scores: Vec<Vec<Option<f64>>>,
    /// The softmax of each row.
    pub weights: Vec<Vec<f64>>,
    /// The words' values added up with these weights, `[words, features]`.
    pub outputs: Vec<Vec<f64>>,
}

/// The same words in two orders.
#[derive(Clone, Debug, Serialize)]
pub struct Order {
    /// The words as written.
    pub words: Vec<String>,
    /// For each place the word that stands there now.
    pub places: Vec<usize>,
    /// The sentence as written.
    pub written: Attention,
    /// As it stands now.
    pub now: Attention,
    /// The largest difference between QKᵀ now and P·QKᵀ·Pᵀ, the one as written with its rows and columns moved.
    pub scores_change: f64,
    /// For each word, as written, the largest change of any feature of its output.
    pub changes: Vec<f64>,
    /// The largest of them.
    pub largest_change: f64,
}

/// Attention over a sentence as written and as it stands.
pub fn order(ask: &Ask) -> Result<Order> {
    let words = sentence::words(&ask.text)?;
    let places = permutation(&ask.places, words.len())?;
    let as_written: Vec<usize> = (0..words.len()).collect();
    let (written_scores, written) = attention(ask, &words, &as_written)?;
    let (scores, now) = attention(ask, &words, &places)?;
    let count = words.len();
    let moved = |m: usize, n: usize| written_scores[places[m] * count + places[n]];
    let cells = (0..count * count).map(|cell| (scores[cell] - moved(cell / count, cell % count)).abs());
    let scores_change = cells.fold(0.0, f64::max);
    let mut changes = vec![0.0; count];
    for (output, &word) in now.outputs.iter().zip(&places) {
        let pairs = output.iter().zip(&written.outputs[word]);
        changes[word] = pairs.map(|(now, before)| (now - before).abs()).fold(0.0, f64::max);
    }
    let largest_change = changes.iter().copied().fold(0.0, f64::max);
    Ok(Order { words, places, written, now, scores_change, changes, largest_change })
}

/// The places as numbers of words, each once.
fn permutation(places: &List, count: usize) -> Result<Vec<usize>> {
    if places.0.is_empty() {
        return Ok((0..count).collect());
    }
    let mut is_taken = vec![false; count];
    let mut take = |&place: &f64| {
        let taken = is_taken.get_mut(place as usize).filter(|taken| !**taken);
        let taken = taken.filter(|_| place.fract() == 0.0 && place >= 0.0)?;
        *taken = true;
        Some(place as usize)
    };
    let taken: Option<Vec<usize>> = places.0.iter().map(&mut take).collect();
    taken.filter(|taken| taken.len() == count).ok_or_else(|| {
        let (places, last) = (&places.0, count - 1);
        Error::refused(
            format!(
                "places is {places:?}; expected each number from 0 to {last} once, a place for every word"
            ),
            format!("places 是 {places:?}；应为 0 到 {last} 各一次，每个词一个位置"),
        )
    })
}

/// Attention over the words in this order, with all scores `[words, words]`, also those that a mask hides.
fn attention(ask: &Ask, words: &[String], places: &[usize]) -> Result<(Vec<f64>, Attention)> {
    let count = words.len();
    let standing: Vec<String> = places.iter().map(|&word| words[word].clone()).collect();
    let x = sentence::vectors(&standing);
    let [mut q, mut k, v] =
        [QUERY, KEY, VALUE].map(|seed| sentence::project(&x, &sentence::projection(seed)));
    if ask.rotary {
        let table = Rope::builder(FEATURES).build()?.table::<f64>(0..count as i64, None)?;
        let rows = table.at(Positions::From(0))?;
        let shape = [1, count, 1, FEATURES];
        rows.rotate_pair(
            Turn::Forward,
            &mut ViewMut::blhd(&mut q, shape)?,
            &mut ViewMut::blhd(&mut k, shape)?,
        )?;
    }
    let scores = sentence::products(&q, &k, (FEATURES as f64).sqrt().recip());
    // Values that are each 1 in a feature of their own come out as the weights.
    let marks: Vec<f64> = (0..count)
        .flat_map(|n| (0..FEATURES).map(move |feature| f64::from(u8::from(feature == n))))
        .collect();
    let weights = attended(ask.causal, &q, &k, &marks)?;
    let outputs = attended(ask.causal, &q, &k, &v)?;
    let is_seen = |m: usize, n: usize| !ask.causal || n <= m;
    let row = |m: usize| (0..count).map(|n| is_seen(m, n).then_some(scores[m * count + n])).collect();
    let attention = Attention {
        scores: (0..count).map(row).collect(),
        weights: weights.chunks_exact(FEATURES).map(|row| row[..count].to_vec()).collect(),
        outputs: sentence::rows(&outputs, FEATURES),
    };
    Ok((scores, attention))
}

/// softmax(q·kᵀ/√d)·v for rows `[words, FEATURES]`.
fn attended(is_causal: bool, q: &[f64], k: &[f64], v: &[f64]) -> Result<Vec<f64>> {
    let count = q.len() / FEATURES;
    let shape = Shape { batch: 1, queries: count, keys: count, heads: 1, key_heads: 1, head_dim: FEATURES };
    let heads = |data| Heads { data, token: FEATURES, sequence: count * FEATURES };
    let reach = if is_causal { Reach::Causal } else { Reach::All };
    let mask = Mask { reach, ..Mask::default() };
    let mut out = vec![0.0; q.len()];
    let is_done = Workspace::new().is_some_and(|workspace| {
        attend(&shape, (heads(q), heads(k), heads(v)), &mask, None, &mut out, &workspace)
    });
    if is_done {
        Ok(out)
    } else {
        Err(Error::refused("there is not enough memory for this sentence", "内存不够计算这个句子"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAPPED: [f64; 6] = [0.0, 5.0, 2.0, 3.0, 4.0, 1.0];

    fn swapped(causal: bool, rotary: bool) -> Order {
        order(&Ask { places: List(SWAPPED.to_vec()), causal, rotary, ..Ask::default() }).unwrap()
    }

    #[test]
    fn without_positions_rows_move_and_outputs_stay() {
        let order = swapped(false, false);
        assert!(order.scores_change < 1e-13 && order.largest_change < 1e-13, "{order:?}");
        assert_ne!(order.written.outputs, order.now.outputs);
        for (place, &word) in order.places.iter().enumerate() {
            for (other_place, &other) in order.places.iter().enumerate() {
                let (now, written) =
                    (order.now.weights[place][other_place], order.written.weights[word][other]);
                assert!((now - written).abs() < 1e-14);
            }
        }
        // The same word twice gets the same output twice.
        assert!(
            order.written.outputs[0]
                .iter()
                .zip(&order.written.outputs[3])
                .all(|(a, b)| (a - b).abs() < 1e-14)
        );
    }

    #[test]
    fn a_causal_mask_alone_breaks_it() {
        let order = swapped(true, false);
        assert!(order.scores_change < 1e-13, "the scores are the same, the mask hides others");
        assert!(order.largest_change > 0.1, "{}", order.largest_change);
        assert_eq!(order.now.scores[2][3], None);
        assert_eq!(order.now.weights[2][3], 0.0);
        assert_eq!(order.changes[0], 0.0, "the first word sees itself alone in both orders");
    }

    #[test]
    fn rotary_breaks_it() {
        let order = swapped(false, true);
        assert!(order.scores_change > 0.1 && order.largest_change > 0.1);
    }

    /// Attention as it is written on paper, with `rope`'s reference for the turns.
    #[test]
    fn attention_is_the_formula() {
        for (causal, rotary) in [(false, false), (true, false), (false, true), (true, true)] {
            let order = swapped(causal, rotary);
            let standing: Vec<String> = order.places.iter().map(|&word| order.words[word].clone()).collect();
            let x = sentence::vectors(&standing);
            let frequencies = Rope::builder(FEATURES).build().unwrap().frequencies(None);
            let projected = |seed: u64, place: usize| -> Vec<f64> {
                let weights = sentence::projection(seed);
                let x = &x[place * FEATURES..][..FEATURES];
                weights.chunks(FEATURES).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
            };
            let turned = |seed: u64, place: usize| {
                let pairing = Rope::builder(FEATURES).build().unwrap().pairing();
                let by = if rotary { place as f64 } else { 0.0 };
                rope::reference::rotate(&projected(seed, place), by, frequencies.inv_freq(), 1.0, pairing)
            };
            let count = standing.len();
            for m in 0..count {
                let seen = if causal { m + 1 } else { count };
                let score = |n: usize| {
                    turned(QUERY, m).iter().zip(turned(KEY, n)).map(|(q, k)| q * k).sum::<f64>() / 4.0
                };
                let total: f64 = (0..seen).map(|n| score(n).exp()).sum();
                let mut output = vec![0.0; FEATURES];
                for n in 0..seen {
                    let weight = score(n).exp() / total;
                    assert!((order.now.scores[m][n].unwrap() - score(n)).abs() < 1e-13);
                    assert!((order.now.weights[m][n] - weight).abs() < 1e-13);
                    output.iter_mut().zip(projected(VALUE, n)).for_each(|(out, v)| *out += weight * v);
                }
                assert!(order.now.outputs[m].iter().zip(&output).all(|(a, b)| (a - b).abs() < 1e-13));
            }
        }
    }

    #[test]
    fn places_that_are_none_are_refused() {
        let refused =
            |places: &[f64]| order(&Ask { places: List(places.to_vec()), ..Ask::default() }).is_err();
        assert!(
            refused(&[0.0])
                && refused(&[0.0, 1.0, 2.0, 3.0, 4.0, 4.0])
                && refused(&[0.0, 1.0, 2.0, 3.0, 4.0, 6.0])
        );
        assert!(refused(&[0.5, 1.0, 2.0, 3.0, 4.0, 5.0]) && refused(&[-1.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
        assert!(
            refused(&[f64::MAX; 6]) && refused(&[0.0; 1024]) && refused(&[-0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
        );
        assert!(order(&Ask { text: String::new(), ..Ask::default() }).is_err());
        let one = order(&Ask { text: "alone".into(), rotary: true, ..Ask::default() }).unwrap();
        assert_eq!((one.largest_change, one.now.weights[0][0]), (0.0, 1.0));
    }
}
