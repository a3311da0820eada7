//! Scores of all positions with all, under rotary embedding and under biases.

use super::matrix::{ABOVE, BELOW, LEFT, Matrix, RIGHT, cell};
use super::{MAX_LENGTH, Subject, within};
use crate::error::Result;
use crate::figures::tokens;
use lab::chart::document;
use roformer::encoding::bucket;
use rope::Pairing;
use rope::analysis::{cosine_sum, score};

/// ALiBi's slope of the head that is shown: 2^(−8h/H), head 4 of 8.
const SLOPE: f64 = 1.0 / 16.0;
/// T5's buckets, and the distance that the last begins at.
const BUCKETS: (usize, usize) = (32, 128);

/// Four matrices of a query at m and a key at n. Rotary: the score of a query and a key that are alike, and of two that are
/// not; each is the same pair of vectors at all positions, so that positions alone make the difference. Beside them what ALiBi
/// adds to a score, and in which bucket T5 looks up what it adds. All four depend on m − n alone.
#[derive(Clone, Debug)]
pub struct Scores {
    /// Whose frequencies.
    pub subject: Subject,
    /// How many positions.
    pub length: usize,
    /// Which query and key: others for another seed, the same as the page's.
    pub seed: u64,
}

impl Scores {
    pub(super) fn draw(&self) -> Result<String> {
        let length = within("length", self.length, 2..=MAX_LENGTH)?;
        let seed = within("seed", self.seed, 0..=1 << 32)?;
        let theta = self.subject.theta(length as u64);
        let pairs = theta.len();
        let tokens =
            tokens::tokens(&tokens::Ask { dim: 2 * pairs, m: 0, n: 0, seed, ..tokens::Ask::default() })?;
        let flat =
            |of: fn(&tokens::Pair) -> [f64; 2]| -> Vec<f64> { tokens.pairs.iter().flat_map(of).collect() };
        let (q, k) = (flat(|pair| pair.q), flat(|pair| pair.k));
        let size = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let sizes = size(&q) * size(&k);

        let distances = 1 - length as i64..length as i64;
        let random: Vec<f64> = distances
            .clone()
            .map(|distance| Ok(score(&q, &k, &theta, distance as f64, Pairing::Interleaved)? / sizes))
            .collect::<Result<_>>()?;
        let alike: Vec<f64> =
            distances.clone().map(|distance| cosine_sum(&theta, distance as f64) / pairs as f64).collect();
        let alibi: Vec<f64> =
            distances.clone().map(|distance| -SLOPE * distance.unsigned_abs() as f64).collect();
        let t5: Vec<f64> =
            distances.map(|distance| f64::from(bucket(distance, false, BUCKETS.0, BUCKETS.1))).collect();
        let strongest = random.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let lowest = -SLOPE * (length - 1) as f64;
        let last = (BUCKETS.0 - 1) as f64;

        let matrix = |title: &str, note: String, by_distance: Vec<f64>, scale: (f64, f64)| Matrix {
            title: title.into(),
            note,
            down: "query m".into(),
            across: "key n".into(),
            columns: length,
            values: toeplitz(&by_distance, length),
            scale,
        };
        let matrices = [
            matrix("Rotary, q = k", format!("score / |q||k|, {}", self.subject.name), alike, (-1.0, 1.0)),
            matrix(
                "Rotary, q and k random",
                format!("score / |q||k|, seed {seed}: no decay"),
                random,
                (-strongest, strongest),
            ),
            matrix("ALiBi", "added to the score, head 4 of 8: −|m − n| / 16".into(), alibi, (lowest, 0.0)),
            matrix("T5", "bucket whose learned number is added".into(), t5, (0.0, last)),
        ];
        let (margin, side) = (16.0, cell(length, 256.0));
        let size = side * length as f64;
        let (across, down) = (LEFT + size + RIGHT, ABOVE + size + BELOW);
        // Headings are as wide as a matrix of the usual size.
        let across = across.max(LEFT + 256.0 + RIGHT);
        let mut body = String::new();
        for (index, matrix) in matrices.iter().enumerate() {
            let (column, row) = ((index % 2) as f64, (index / 2) as f64);
            let place = (margin + LEFT + column * (across + 8.0), margin + ABOVE + row * (down + 8.0));
            matrix.draw(&mut body, place, (side, side));
        }
        let (width, height) = (2.0 * (margin + across) + 8.0, 2.0 * (margin + down) + 8.0);
        Ok(document("Scores by position: rotary embedding, ALiBi, T5", (width, height), &body, true))
    }
}

/// The matrix `[length, length]` of numbers by distance m − n, which are given from 1 − length on.
fn toeplitz(by_distance: &[f64], length: usize) -> Vec<f64> {
    (0..length).flat_map(|m| (0..length).map(move |n| by_distance[m + length - 1 - n])).collect()
}
