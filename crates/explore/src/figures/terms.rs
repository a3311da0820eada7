//! The four terms of a score when codes of positions are added to words: (x + p)·W·(x + p)ᵀ multiplied out.

use super::check::within;
use super::sentence::{self, FEATURES, KEY, QUERY};
use crate::error::Result;
use roformer::encoding::sinusoid;
use serde::{Deserialize, Serialize};

/// W, what stands between a query and a key.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Between {
    /// W_Q·W_Kᵀ/√d of two random projections, as before training.
    #[default]
    Random,
    /// 1/√d times the identity.
    Identity,
}

/// A sentence, and what its words and places go through.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// The sentence.
    pub text: String,
    /// W.
    pub between: Between,
    /// What the codes are multiplied by before they are added.
    pub strength: f64,
}

impl Default for Ask {
    fn default() -> Self {
        let text = "the dog bites the old man".to_string();
        Ask { text, between: Between::default(), strength: 1.0 }
    }
}

/// The score of every query m with every key n, `[words, words]` each.
#[derive(Clone, Debug, Serialize)]
pub struct Terms {
    /// The words.
    pub words: Vec<String>,
    /// x_m·W·x_nᵀ: word to word.
    pub content_content: Vec<Vec<f64>>,
    /// x_m·W·p_nᵀ: word to place.
    pub content_position: Vec<Vec<f64>>,
    /// p_m·W·x_nᵀ: place to word.
    pub position_content: Vec<Vec<f64>>,
    /// p_m·W·p_nᵀ: place to place.
    pub position_position: Vec<Vec<f64>>,
    /// (x_m + p_m)·W·(x_n + p_n)ᵀ, by adding first.
    pub score: Vec<Vec<f64>>,
}

/// The four terms and the score.
pub fn terms(ask: &Ask) -> Result<Terms> {
    let words = sentence::words(&ask.text)?;
    let strength = within("strength", ask.strength, 0.0..=4.0)?;
    let count = words.len();
    let x = sentence::vectors(&words);
    let p: Vec<f64> = (0..count)
        .flat_map(|m| (0..FEATURES).map(move |feature| strength * sinusoid(m as f64, feature, FEATURES)))
        .collect();
    let both: Vec<f64> = x.iter().zip(&p).map(|(x, p)| x + p).collect();
    let projected = |vectors: &[f64], seed: u64| match ask.between {
        Between::Random => sentence::project(vectors, &sentence::projection(seed)),
        Between::Identity => vectors.to_vec(),
    };
    let scores = |queries: &[f64], keys: &[f64]| {
        let (q, k) = (projected(queries, QUERY), projected(keys, KEY));
        sentence::rows(&sentence::products(&q, &k, (FEATURES as f64).sqrt().recip()), count)
    };
    Ok(Terms {
        content_content: scores(&x, &x),
        content_position: scores(&x, &p),
        position_content: scores(&p, &x),
        position_position: scores(&p, &p),
        score: scores(&both, &both),
        words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_terms_add_up() {
        for between in [Between::Random, Between::Identity] {
            let terms = terms(&Ask { between, strength: 1.5, ..Ask::default() }).unwrap();
            for (m, n) in (0..6).flat_map(|m| (0..6).map(move |n| (m, n))) {
                let parts = [
                    &terms.content_content,
                    &terms.content_position,
                    &terms.position_content,
                    &terms.position_position,
                ];
                let sum: f64 = parts.iter().map(|part| part[m][n]).sum();
                assert!((sum - terms.score[m][n]).abs() < 1e-13, "{m} {n}");
                assert!(parts.iter().all(|part| part[m][n] != 0.0));
            }
            // The same word at two places: what it asks of words and of places is the same, what its places ask is not.
            let differs = |part: &[Vec<f64>]| (part[0][1] - part[3][1]).abs() > 1e-14;
            assert!(!differs(&terms.content_content) && !differs(&terms.content_position));
            assert!(differs(&terms.position_content) && differs(&terms.position_position));
        }
    }

    #[test]
    fn place_to_place_depends_on_the_distance_alone_for_the_identity_and_not_in_general() {
        let theta = rope::Rope::builder(FEATURES).build().unwrap().frequencies(None);
        let identity =
            terms(&Ask { between: Between::Identity, ..Ask::default() }).unwrap().position_position;
        let random = terms(&Ask::default()).unwrap().position_position;
        for (m, n) in (0..6).flat_map(|m| (0..6).map(move |n| (m, n))) {
            let wanted = rope::analysis::cosine_sum(theta.inv_freq(), m as f64 - n as f64) / 4.0;
            assert!((identity[m][n] - wanted).abs() < 1e-14);
        }
        assert!((random[0][0] - random[5][5]).abs() > 0.01);
    }

    #[test]
    fn without_strength_only_words_are_left() {
        let terms = terms(&Ask { strength: 0.0, ..Ask::default() }).unwrap();
        assert_eq!(terms.score, terms.content_content);
        assert!(terms.position_position.iter().flatten().all(|&term| term == 0.0));
    }

    #[test]
    fn absurd_asks_are_refused() {
        for strength in [f64::NAN, f64::INFINITY, -1.0, 5.0] {
            assert!(terms(&Ask { strength, ..Ask::default() }).is_err());
        }
        assert!(terms(&Ask { text: " ".into(), ..Ask::default() }).is_err());
        assert!(terms(&Ask { text: "one two ".repeat(7), ..Ask::default() }).is_err());
    }
}
