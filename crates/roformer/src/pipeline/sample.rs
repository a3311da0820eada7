//! Choosing the next token.

use super::Generate;
use crate::graph::mix;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Chooses one of the tokens that these scores leave: the likeliest at temperature 0, else by chance among the `top_k`
/// likeliest and, of those, the fewest whose probabilities sum to `top_p`. The choice depends on `seed`, `row` and `step`
/// alone. `None` if every score is −∞ or not a number.
pub(super) fn choose(scores: &[f32], options: &Generate, row: u64, step: u64) -> Option<u32> {
    let usable = |score: &f32| *score > f32::NEG_INFINITY;
    let mut candidates: BinaryHeap<Candidate> = scores
        .iter()
        .enumerate()
        .filter(|(_, score)| usable(score))
        .map(|(id, &score)| Candidate { score, id: id as u32 })
        .collect();
    let best = candidates.peek()?;
    let (largest, temperature) = (f64::from(best.score), f64::from(options.temperature));
    if temperature <= 0.0 || !best.score.is_finite() {
        return Some(best.id);
    }
    let weight = |score: f32| ((f64::from(score) - largest) / temperature).exp();
    let limit = if options.top_k == 0 { usize::MAX } else { options.top_k };
    // The heap gives tokens from the likeliest on: few of many are sorted.
    let mut kept = Vec::new();
    let top_p = f64::from(options.top_p);
    let total: f64 = match limit < candidates.len() {
        false => candidates.iter().map(|candidate| weight(candidate.score)).sum(),
        true => {
            let first: Vec<Candidate> = std::iter::from_fn(|| candidates.pop()).take(limit).collect();
            let total = first.iter().map(|candidate| weight(candidate.score)).sum();
            candidates = first.into();
            total
        }
    };
    let mut sum: f64 = 0.0;
    while let Some(candidate) = candidates.pop() {
        sum += weight(candidate.score);
        kept.push((sum, candidate.id));
        if sum >= top_p * total {
            break;
        }
    }
    let target = unit(options.seed, row, step) * sum;
    kept.iter().find(|(sum, _)| *sum > target).or(kept.last()).map(|&(_, id)| id)
}

/// A token and its score; the greater score is greater, and of equal ones the lower id.
#[derive(PartialEq)]
struct Candidate {
    score: f32,
    id: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.id.cmp(&self.id))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A number in [0, 1) from three: SplitMix64 over each in turn.
fn unit(seed: u64, row: u64, step: u64) -> f64 {
    let bits = [row, step].iter().fold(mix(seed), |state, &value| mix(state ^ value));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(temperature: f32, top_k: usize, top_p: f32) -> Generate {
        Generate { temperature, top_k, top_p, ..Generate::default() }
    }

    #[test]
    fn the_likeliest_at_temperature_zero() {
        let scores = [0.5, 2.0, f32::NEG_INFINITY, 2.0, f32::NAN];
        assert_eq!(choose(&scores, &options(0.0, 0, 1.0), 0, 0), Some(1));
        assert_eq!(choose(&scores, &options(1.0, 1, 1.0), 3, 9), Some(1));
        assert_eq!(choose(&[f32::NEG_INFINITY, f32::NAN], &options(1.0, 0, 1.0), 0, 0), None);
        assert_eq!(choose(&[], &options(1.0, 0, 1.0), 0, 0), None);
    }

    /// The share of each token over many draws is its probability; what top-k and top-p leave out never comes.
    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
        let scores: Vec<f32> = [0.5f32, 0.25, 0.15, 0.1].iter().map(|p| p.ln()).collect();
        let shares = |options: Generate| {
            let mut counts = [0.0; 4];
            for step in 0..20_000 {
                counts[choose(&scores, &options, 1, step).unwrap() as usize] += 1.0 / 20_000.0;
            }
            counts
        };
        let near = |got: [f64; 4], wanted: [f64; 4]| {
            // Five standard deviations of a share of a half.
            got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 5.0 * 0.5 / 20_000f64.sqrt())
        };
        assert!(near(shares(options(1.0, 0, 1.0)), [0.5, 0.25, 0.15, 0.1]));
        assert!(near(shares(options(1.0, 2, 1.0)), [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]));
        assert!(near(shares(options(1.0, 0, 0.7)), [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]));
        let total: f64 = [0.5f64, 0.25, 0.15, 0.1].iter().map(|p| p * p).sum();
        assert!(near(shares(options(0.5, 0, 1.0)), [0.5, 0.25, 0.15, 0.1].map(|p: f64| p * p / total)));
        assert_eq!(shares(options(1.0, 2, 1.0))[2..], [0.0, 0.0]);
    }
}
