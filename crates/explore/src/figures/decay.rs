//! Score against distance: the paper's bound, what it leaves open, and vectors of one's own.

use super::check::{self, List, MAX_DIM, within};
use crate::error::{Error, Result};
use rope::{Pairing, analysis, reference};
use serde::{Deserialize, Serialize};
use std::f64::consts::{PI, TAU};

/// Which score, or which bound on one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    /// The paper's bound.
    #[default]
    Bound,
    /// A query and a key all of whose pairs are alike and of length 1.
    Ones,
    /// A query and a key drawn by chance.
    Random,
    /// A query and a key that are given.
    Own,
    /// cos Δ + cos 0.3Δ + cos 0.05Δ.
    Three,
    /// A single pair.
    One,
}

/// Which curve, and how far.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Which curve.
    pub curve: Curve,
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// The last distance.
    pub reach: f64,
    /// The distance to read the curve at.
    pub at: f64,
    /// Which random queries and keys.
    pub seed: u64,
    /// The mean that every feature of a random query and key has.
    pub share: f64,
    /// A query of one's own, pair after pair.
    pub q: List,
    /// A key of one's own.
    pub k: List,
    /// The distance at which a key should score highest.
    pub aim: f64,
    /// The frequency of a single pair.
    pub theta: f64,
    /// By how much the key of a single pair is ahead of its query.
    pub phase: f64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask {
            curve: Curve::Bound,
            dim: 128,
            base: 10_000.0,
            reach: 1000.0,
            at: 50.0,
            seed: 1,
            share: 0.0,
            q: List(vec![0.9, 0.4, 0.2, 1.0, -0.6, 0.8, 1.0, 0.1, 0.7, -0.7, 0.5, 0.9]),
            k: List(vec![0.5, -0.8, 1.0, 0.3, 0.9, 0.2, -0.3, 0.9, 0.8, 0.4, 1.0, -0.2]),
            aim: 200.0,
            theta: 0.1,
            phase: 0.0,
        }
    }
}

/// A distance that is worth a look.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mark {
    /// How far.
    pub distance: f64,
    /// The curve there.
    pub value: f64,
}

/// A curve, and what there is to say of it.
#[derive(Clone, Debug, Serialize)]
pub struct Decay {
    /// `[pairs]`: the frequencies.
    pub theta: Vec<f64>,
    /// `[points]`
    pub distances: Vec<f64>,
    /// `[lines][points]`: the curve; for random vectors its expected value, then three examples.
    pub lines: Vec<Vec<f64>>,
    /// The curve at the base 10000, where another was asked for and the head is not wider than 256 features.
    pub usual: Option<Vec<f64>>,
    /// The curve at the distance that was asked for.
    pub value: f64,
    /// How far random scores stray from the expected one.
    pub deviation: Option<f64>,
    /// What the vertical axis must hold.
    pub limits: [f64; 2],
    /// Distances that are worth a look.
    pub marks: Vec<Mark>,
    /// The first whole distance at which the sum of cosines is negative.
    pub first_negative: Option<u64>,
    /// The furthest whole distance that was looked at for it, or for the highest score.
    pub searched: u64,
    /// The key that scores highest at the distance aimed for: the query, turned by it.
    pub aimed: Vec<f64>,
}

impl Decay {
    /// The lowest of all that is drawn, and of 0.
    fn lowest(&self) -> f64 {
        let curves = self.lines.iter().chain(&self.usual).flatten();
        curves.fold(self.value.min(0.0), |low: f64, &value| low.min(value))
    }
}

/// The notes' three frequencies.
const THREE: [f64; 3] = [1.0, 0.3, 0.05];
/// The furthest last distance.
const MAX_REACH: f64 = 1e6;
/// Cosines that a search may take: a few milliseconds' worth.
const SEARCH: u64 = 1 << 21;

/// The curve that was asked for.
pub fn decay(ask: &Ask) -> Result<Decay> {
    let reach = within("reach", ask.reach, 1.0..=MAX_REACH)?;
    let at = within("at", ask.at, 0.0..=MAX_REACH)?;
    // Also what this curve does not use: a question is right or wrong as a whole.
    within("share", ask.share, 0.0..=4.0)?;
    within("aim", ask.aim, 0.0..=MAX_REACH)?;
    within("theta", ask.theta, 1e-6..=PI)?;
    within("phase", ask.phase, -PI..=PI)?;
    within("dim", ask.dim, 2..=MAX_DIM)?;
    within("base", ask.base, 2.0..=1e12)?;
    match ask.curve {
        Curve::Bound => bound(ask, reach, at),
        Curve::Ones => ones(ask, reach, at),
        Curve::Random => random(ask, reach, at),
        Curve::Own => own(ask, reach, at),
        Curve::Three => {
            let sum = |distance: f64| analysis::cosine_sum(&THREE, distance);
            let mut decay = traced(THREE.to_vec(), reach, at, sum);
            decay.marks = marks(&[0.0, 2.0, 20.0, 50.0, 126.0, 377.0], sum);
            decay.limits = [-3.0, 3.0];
            Ok(decay)
        }
        Curve::One => one(ask, reach, at),
    }
}

fn bound(ask: &Ask, reach: f64, at: f64) -> Result<Decay> {
    let theta = frequencies(ask.dim, ask.base)?;
    let most = (theta.len() + 1) as f64 / 2.0;
    let bound = |distance: f64| analysis::decay_bound(&theta, distance);
    let mut decay = traced(theta.clone(), reach, at, bound);
    decay.marks = marks(&[0.0, 10.0, 50.0, 100.0, 250.0, 1000.0], bound);
    decay.limits = [0.0, most];
    decay.usual = usual(ask, |theta| {
        decay.distances.iter().map(|&distance| analysis::decay_bound(theta, distance)).collect()
    })?;
    Ok(decay)
}

fn ones(ask: &Ask, reach: f64, at: f64) -> Result<Decay> {
    let theta = frequencies(ask.dim, ask.base)?;
    let sum = |distance: f64| analysis::cosine_sum(&theta, distance);
    let mut decay = traced(theta.clone(), reach, at, sum);
    decay.searched = SEARCH / theta.len() as u64;
    decay.first_negative = analysis::first_negative(&theta, decay.searched);
    let first = decay.first_negative.map(|distance| distance as f64);
    decay.marks = marks(&[0.0, 10.0, 100.0, 1000.0, 4096.0], sum);
    decay.marks.extend(first.map(|distance| Mark { distance, value: sum(distance) }));
    decay.marks.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    decay.usual = usual(ask, |theta| {
        decay.distances.iter().map(|&distance| analysis::cosine_sum(theta, distance)).collect()
    })?;
    decay.limits = [decay.lowest(), theta.len() as f64];
    Ok(decay)
}

fn random(ask: &Ask, reach: f64, at: f64) -> Result<Decay> {
    let theta = frequencies(ask.dim, ask.base)?;
    let share = ask.share;
    let mean = vec![share; ask.dim];
    let pairing = Pairing::Interleaved;
    let expected =
        |distance: f64| analysis::random_score((&mean, 1.0), (&mean, 1.0), &theta, distance, pairing);
    let deviation = expected(0.0)?.deviation;
    let mut decay = traced(theta.clone(), reach, at, |_| 0.0);
    let expected_line = decay.distances.iter().map(|&distance| Ok(expected(distance)?.mean));
    decay.lines = vec![expected_line.collect::<Result<_>>()?];
    for example in 0..3 {
        let vector = |which: u64| -> Vec<f64> {
            let seed = ask.seed.wrapping_mul(6).wrapping_add(2 * example + which);
            check::normal(seed, ask.dim).iter().map(|x| x + share).collect()
        };
        let (q, k) = (vector(0), vector(1));
        let line = decay
            .distances
            .iter()
            .map(|&distance| Ok(analysis::score(&q, &k, &theta, distance, pairing)?))
            .collect::<Result<_>>()?;
        decay.lines.push(line);
    }
    decay.value = expected(at)?.mean;
    decay.deviation = Some(deviation);
    let mean = expected(0.0)?.mean;
    decay.limits = [-3.2 * deviation, mean + 3.2 * deviation];
    Ok(decay)
}

fn own(ask: &Ask, reach: f64, at: f64) -> Result<Decay> {
    let (q, k) = (&ask.q.0, &ask.k.0);
    if q.len() != k.len() || q.len() % 2 != 0 || !(2..=64).contains(&q.len()) {
        return Err(Error::refused(
            format!(
                "q has {} numbers and k has {}; expected the same count, two for each pair, at most 64",
                q.len(),
                k.len()
            ),
            format!("q 有 {} 个数，k 有 {} 个；两者应一样多，每对两个，最多 64 个", q.len(), k.len()),
        ));
    }
    for &number in q.iter().chain(k) {
        within("a feature of q or k", number, -100.0..=100.0)?;
    }
    let aim = ask.aim;
    let theta = frequencies(q.len(), ask.base)?;
    // Lengths are right: they were counted above.
    let score = |distance: f64| {
        analysis::score(q, k, &theta, distance, Pairing::Interleaved).expect("two features per pair")
    };
    let mut decay = traced(theta.clone(), reach, at, score);
    decay.searched = (reach as u64).min(SEARCH / 16 / theta.len() as u64);
    let whole = (0..=decay.searched).map(|distance| distance as f64);
    let highest = whole.map(|distance| Mark { distance, value: score(distance) });
    decay.marks.extend(highest.max_by(|a, b| a.value.total_cmp(&b.value)));
    let lengths = |x: &[f64]| x.chunks_exact(2).map(|pair| pair[0].hypot(pair[1])).collect::<Vec<_>>();
    let most: f64 = lengths(q).iter().zip(lengths(k)).map(|(q, k)| q * k).sum();
    decay.limits = [decay.lowest(), most.max(1e-9)];
    decay.aimed = reference::rotate(q, aim, &theta, 1.0, Pairing::Interleaved);
    Ok(decay)
}

fn one(ask: &Ask, reach: f64, at: f64) -> Result<Decay> {
    let (theta, phase) = (ask.theta, ask.phase);
    let (q, k) = ([1.0, 0.0], [phase.cos(), phase.sin()]);
    let score = |distance: f64| {
        analysis::score(&q, &k, &[theta], distance, Pairing::Interleaved).expect("two features for one pair")
    };
    let mut decay = traced(vec![theta], reach, at, score);
    // The first peak from 0 on, the trough after it, and the peak that comes back.
    let peak = if phase < 0.0 { phase + TAU } else { phase } / theta;
    decay.marks = marks(&[peak, peak + PI / theta, peak + TAU / theta], score);
    decay.limits = [-1.0, 1.0];
    Ok(decay)
}

/// The usual frequencies.
fn frequencies(dim: usize, base: f64) -> Result<Vec<f64>> {
    Ok(check::rope(dim, base)?.frequencies(None).inv_freq().to_vec())
}

/// A curve at all points and at one distance, with nothing yet to say of it.
fn traced(theta: Vec<f64>, reach: f64, at: f64, curve: impl Fn(f64) -> f64) -> Decay {
    let distances = distances(reach, 3 * theta.len());
    let line = distances.iter().map(|&distance| curve(distance)).collect();
    Decay {
        theta,
        distances,
        lines: vec![line],
        usual: None,
        value: curve(at),
        deviation: None,
        limits: [0.0, 1.0],
        marks: Vec::new(),
        first_negative: None,
        searched: 0,
        aimed: Vec::new(),
    }
}

/// A curve at the base 10000, if that is not the base; heads so wide that a second set of frequencies takes long go without.
fn usual(ask: &Ask, curve: impl FnOnce(&[f64]) -> Vec<f64>) -> Result<Option<Vec<f64>>> {
    let base = Ask::default().base;
    if ask.base == base || ask.dim > 256 {
        return Ok(None);
    }
    Ok(Some(curve(&frequencies(ask.dim, base)?)))
}

fn marks(distances: &[f64], curve: impl Fn(f64) -> f64) -> Vec<Mark> {
    distances.iter().map(|&distance| Mark { distance, value: curve(distance) }).collect()
}

/// Distances from 0 to the last, as many as can be had in a moment where each takes so many cosines. Positions are whole
/// numbers, so distances are too where there are more than enough of them.
pub(super) fn distances(reach: f64, cosines: usize) -> Vec<f64> {
    let points = (90_000 / cosines.max(1)).clamp(160, 1200);
    let distance = |point: usize| reach * point as f64 / (points - 1) as f64;
    let is_whole = reach > points as f64;
    (0..points).map(|point| if is_whole { distance(point).round() } else { distance(point) }).collect()
}

#[cfg(test)]
mod tests;
