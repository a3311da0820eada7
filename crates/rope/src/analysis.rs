//! What a set of frequencies does: decay, wavelengths, scores against distance, the receptive field.
//!
//! Plain functions in `f64` on frequencies θ_j `[pairs]`, as
//! [`Frequencies::inv_freq`](crate::Frequencies::inv_freq) gives them, fastest first. A distance is Δ = m − n
//! for a query at position m and a key at position n. Nothing here is on the way of a model; for plots,
//! reports and tests.
//!
//! ```
//! use rope::{Rope, analysis};
//!
//! let frequencies = Rope::builder(128).build()?.frequencies(None);
//! let theta = frequencies.inv_freq();
//! assert_eq!(analysis::decay_bound(theta, 0.0), 32.5);
//! assert_eq!(analysis::first_negative(theta, 4096), Some(1707));
//! assert_eq!(analysis::never_turning(theta, 4096), 18); // of 64 pairs
//! # Ok::<(), rope::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::pairing::Pairing;
use std::f64::consts::TAU;

/// The RoFormer paper's bound on how large a score can be at a distance: the mean over j = 1, …, pairs of
/// |S_j|, with S_j = Σ_{i<j} e^{i·Δ·θ_i}.
///
/// For fixed q and k a score is at most this times a constant of q and k. It falls on the whole and
/// oscillates on the way; and it is a bound: the score itself need not fall (see [`random_score`]). 0 if
/// there are no pairs.
pub fn decay_bound(theta: &[f64], distance: f64) -> f64 {
    let (mut real, mut imaginary, mut sum) = (0.0f64, 0.0f64, 0.0);
    for theta in theta {
        let (sin, cos) = (distance * theta).sin_cos();
        (real, imaginary) = (real + cos, imaginary + sin);
        sum += real.hypot(imaginary);
    }
    sum / theta.len().max(1) as f64
}

/// Σ_j cos(Δ·θ_j): the score of a query and a key all of whose pairs are alike and of length 1, and the inner
/// product of two sinusoidal position codes Δ apart.
pub fn cosine_sum(theta: &[f64], distance: f64) -> f64 {
    theta.iter().map(|theta| (distance * theta).cos()).sum()
}

/// The first whole distance from 0 to `limit` at which [`cosine_sum`] is negative: there a key like the query
/// scores less than an unrelated key does on average, which is 0. `None` if there is no such distance.
///
/// The sum does not fall steadily, so every distance counts: the time grows with `limit` · pairs, some 15 ms for a
/// million distances and 64 pairs. Where slow pairs outweigh the fast ones, many distances at a time are passed over.
pub fn first_negative(theta: &[f64], limit: u64) -> Option<u64> {
    let mut waves: Vec<Wave> = theta.iter().map(|&theta| Wave::new(theta)).collect();
    let steepest = theta.iter().map(|theta| theta.abs()).sum::<f64>();
    let mut start = 0u64;
    while start <= limit {
        waves.iter_mut().for_each(|wave| wave.set(start));
        // What rounding can have done to the angles so far out, and to a sum of so many in `f32`.
        let slack = 1e-12 * theta.len() as f64 + (start as f64 + SPAN as f64) * steepest * f64::EPSILON;
        let close = (slack + ((theta.len() + 4) * theta.len()) as f64 * f64::from(f32::EPSILON)) as f32;
        let safe = safe_distance(&waves, 4.0 * slack);
        if safe >= SPAN as f64 {
            start = start.checked_add(safe as u64)?;
            continue;
        }
        for block in (start..=limit).step_by(BLOCK).take(SPAN / BLOCK) {
            let mut sums = [0.0f32; BLOCK];
            waves.iter_mut().for_each(|wave| wave.add_block(&mut sums));
            // Where rounding could have decided the sign, `cosine_sum` does.
            for (distance, sum) in (block..=limit).zip(sums) {
                if sum < close && cosine_sum(theta, distance as f64) < 0.0 {
                    return Some(distance);
                }
            }
        }
        start = start.checked_add(SPAN as u64)?;
    }
    None
}

/// Distances that are summed at once.
const BLOCK: usize = 16;
/// Distances after which a wave is set anew, so that no rounding adds up.
const SPAN: usize = 64 * BLOCK;

/// The cosine of one pair over distances, a block at a time by cos(a + b) = cos a · cos b − sin a · sin b.
struct Wave {
    theta: f64,
    /// At the distance reached.
    sin: f64,
    cos: f64,
    /// At the distances of a block, from its start.
    block_sin: [f32; BLOCK],
    block_cos: [f32; BLOCK],
    /// A block further.
    step: (f64, f64),
}

impl Wave {
    fn new(theta: f64) -> Wave {
        let block_sin = std::array::from_fn(|distance| (distance as f64 * theta).sin() as f32);
        let block_cos = std::array::from_fn(|distance| (distance as f64 * theta).cos() as f32);
        Wave { theta, sin: 0.0, cos: 1.0, block_sin, block_cos, step: (BLOCK as f64 * theta).sin_cos() }
    }

    fn set(&mut self, distance: u64) {
        (self.sin, self.cos) = (distance as f64 * self.theta).sin_cos();
    }

    /// Adds the cosines of a block and goes on to the next.
    #[inline]
    fn add_block(&mut self, sums: &mut [f32; BLOCK]) {
        let (sin, cos) = (self.sin as f32, self.cos as f32);
        for ((sum, block_sin), block_cos) in sums.iter_mut().zip(&self.block_sin).zip(&self.block_cos) {
            *sum += cos * block_cos - sin * block_sin;
        }
        let (sin, cos) = (self.sin, self.cos);
        let (step_sin, step_cos) = self.step;
        (self.sin, self.cos) = (sin * step_cos + cos * step_sin, cos * step_cos - sin * step_sin);
    }
}

/// How much further the sum of all cosines stays positive for sure. However the pairs are parted into fast and slow, the
/// fast ones together are at least −1 each, and the slow ones fall by at most the sum of their θ a step.
fn safe_distance(waves: &[Wave], slack: f64) -> f64 {
    let (mut sum, mut steepness, mut safe) = (-slack, 0.0, 0.0f64);
    for (fast, wave) in waves.iter().enumerate().rev() {
        sum += wave.cos;
        // A little more, for what rounding can do on the way.
        steepness += wave.theta.abs() * (1.0 + 1e-12);
        safe = safe.max((sum - fast as f64) / steepness);
    }
    safe
}

/// The score of a query and a key at distance Δ = m − n: the inner product of q turned by m and k turned by
/// n, as Σ_j ⟨q_j, k_j⟩·cos(Δθ_j) + ⟨q_j⊥, k_j⟩·sin(Δθ_j), where q_j is pair j of q and (q₀, q₁)⊥ = (−q₁,
/// q₀).
///
/// `q` and `k` are `[2 · pairs]`, not yet turned, in the order in which the pairing reads a vector.
///
/// ```
/// use rope::{Pairing, analysis};
///
/// let score = analysis::score(&[1.0, 2.0], &[3.0, 4.0], &[1.0], -1.0, Pairing::Interleaved)?;
/// assert!((score - 7.62626733416533).abs() < 1e-14); // q at position 1, k at position 2
/// # Ok::<(), rope::Error>(())
/// ```
pub fn score(q: &[f64], k: &[f64], theta: &[f64], distance: f64, pairing: Pairing) -> Result<f64> {
    check_lengths("score", q, k, theta)?;
    Ok(turned_products(q, k, theta, pairing, |theta| distance * theta).0)
}

/// What the score of a random query and a random key is on average, and how far it strays from that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomScore {
    /// The expected score.
    pub mean: f64,
    /// The standard deviation of the score. It does not depend on the distance.
    pub deviation: f64,
}

/// The score at distance Δ of a query and a key that are independent of each other, each with a mean `[2 ·
/// pairs]` and independent features of standard deviation `deviation_q` and `deviation_k`.
///
/// The mean is the score of the means, so for means of zero the expected score is 0 at **every** distance:
/// without something that q and k share there is no long-term decay. A rotation keeps lengths, so the
/// variance is σ_q²·|mean_k|² + σ_k²·|mean_q|² + σ_q²·σ_k²·2·pairs whatever the distance.
///
/// ```
/// use rope::{Pairing, analysis};
///
/// let (zero, theta) = ([0.0; 4], [1.0, 0.01]);
/// let score = analysis::random_score((&zero, 1.0), (&zero, 1.0), &theta, 50.0, Pairing::Half)?;
/// assert_eq!((score.mean, score.deviation), (0.0, 2.0));
/// # Ok::<(), rope::Error>(())
/// ```
pub fn random_score(
    (mean_q, deviation_q): (&[f64], f64),
    (mean_k, deviation_k): (&[f64], f64),
    theta: &[f64],
    distance: f64,
    pairing: Pairing,
) -> Result<RandomScore> {
    let mean = score(mean_q, mean_k, theta, distance, pairing)?;
    let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
    let (q, k) = (deviation_q * deviation_q, deviation_k * deviation_k);
    let variance = q * square(mean_k) + k * square(mean_q) + q * k * mean_q.len() as f64;
    Ok(RandomScore { mean, deviation: variance.sqrt() })
}

/// What one pair does within a context. Made by [`pairs`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairReport {
    /// The index of the pair.
    pub pair: usize,
    /// Its frequency θ, in radians per position.
    pub theta: f64,
    /// Positions a full turn takes, 2π/|θ|: infinite for a pair that does not turn.
    pub wavelength: f64,
    /// Full turns within the context, context·|θ|/2π.
    pub turns: f64,
    /// The part of the circle that the pair passes through within the context, min(1, turns). With the
    /// trained length as context: what is missing from 1 are angles that the model has never seen.
    pub coverage: f64,
}

/// What each pair does within a context of this many positions: `[pairs]`, in the order of `theta`.
///
/// ```
/// use rope::analysis;
///
/// let reports = analysis::pairs(&[1.0, 0.0], 100);
/// assert_eq!(reports[0].turns.floor(), 15.0);
/// assert_eq!((reports[1].wavelength, reports[1].coverage), (f64::INFINITY, 0.0));
/// ```
pub fn pairs(theta: &[f64], context: u64) -> Vec<PairReport> {
    let report = |(pair, &theta): (usize, &f64)| {
        let turns = context as f64 * theta.abs() / TAU;
        PairReport { pair, theta, wavelength: TAU / theta.abs(), turns, coverage: turns.min(1.0) }
    };
    theta.iter().enumerate().map(report).collect()
}

/// How many pairs do not finish a single turn within a context: beyond it they reach angles they have never
/// been at.
pub fn never_turning(theta: &[f64], context: u64) -> usize {
    pairs(theta, context).iter().filter(|report| report.turns < 1.0).count()
}

/// The two parts of a score under the receptive-field rule θ*_j = φ + (1−α)·θ_j, φ = α/10000^ρ, at one
/// distance Δ: the real and the imaginary part of Σ_j q_j·k_j*·e^{iΔ(1−α)θ_j}, with the pairs as complex
/// numbers.
///
/// As functions of Δ they are a Hilbert pair (b is the Hilbert transform of a) only where every (1−α)·θ_j is
/// positive: for α < 1. At α = 1 both are constants, and the transform of a constant is 0; above 1 the
/// transform is −b. Made by [`receptive_field`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HilbertPair {
    /// a′(Δ), the real part: the score under linear interpolation by 1/(1−α).
    pub a: f64,
    /// b′(Δ), the imaginary part.
    pub b: f64,
}

impl HilbertPair {
    /// The score under the whole rule, a*(Δ) = cos(Δφ)·a′(Δ) − sin(Δφ)·b′(Δ), for φ from [`shared_frequency`]
    /// and the distance at which the pair was taken.
    pub fn score(self, phi: f64, distance: f64) -> f64 {
        let (sin, cos) = (distance * phi).sin_cos();
        cos * self.a - sin * self.b
    }
}

/// The frequency that all pairs share under the receptive-field rule: φ = α/10000^ρ.
pub fn shared_frequency(alpha: f64, rho: f64) -> f64 {
    alpha * 10_000f64.powf(-rho)
}

/// a′(Δ) and b′(Δ) of a query and a key `[2 · pairs]`, for the usual frequencies `theta` (those before the
/// rule).
///
/// ```
/// use rope::{Pairing, Rope, Schedule, analysis};
///
/// let (q, k, alpha, rho, distance) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], 0.25, 0.5, 3.0);
/// let usual = Rope::builder(4).build()?.frequencies(None);
/// let parts = analysis::receptive_field(&q, &k, usual.inv_freq(), alpha, distance, Pairing::Half)?;
/// let score = parts.score(analysis::shared_frequency(alpha, rho), distance);
///
/// // The same as a rope with the rule's frequencies:
/// let rope = Rope::builder(4).schedule(Schedule::ReceptiveField { alpha, rho }).build()?;
/// let theta = rope.frequencies(None);
/// let expected = analysis::score(&q, &k, theta.inv_freq(), distance, Pairing::Half)?;
/// assert!((score - expected).abs() < 1e-13);
/// # Ok::<(), rope::Error>(())
/// ```
pub fn receptive_field(
    q: &[f64],
    k: &[f64],
    theta: &[f64],
    alpha: f64,
    distance: f64,
    pairing: Pairing,
) -> Result<HilbertPair> {
    check_lengths("receptive_field", q, k, theta)?;
    let (a, b) = turned_products(q, k, theta, pairing, |theta| distance * (1.0 - alpha) * theta);
    Ok(HilbertPair { a, b })
}

/// Σ_j q_j·k_j*·e^{i·angle(θ_j)}, real and imaginary part.
fn turned_products(
    q: &[f64],
    k: &[f64],
    theta: &[f64],
    pairing: Pairing,
    angle: impl Fn(f64) -> f64,
) -> (f64, f64) {
    let pairs = theta.len();
    let (mut real, mut imaginary) = (0.0, 0.0);
    for (pair, &theta) in theta.iter().enumerate() {
        let (first, second) = pairing.input().features(pair, pairs);
        let along = q[first] * k[first] + q[second] * k[second];
        let across = q[first] * k[second] - q[second] * k[first];
        let (sin, cos) = angle(theta).sin_cos();
        real += along * cos + across * sin;
        imaginary += along * sin - across * cos;
    }
    (real, imaginary)
}

/// Checks that q and k have two features for every frequency.
fn check_lengths(what: &'static str, q: &[f64], k: &[f64], theta: &[f64]) -> Result<()> {
    let pairs = theta.len();
    if [q, k].iter().all(|x| x.len() % 2 == 0 && x.len() / 2 == pairs) {
        return Ok(());
    }
    let got = format!("a query of {} and a key of {} features", q.len(), k.len());
    Err(Error::shape(what, got, format!("two features for each of the {pairs} frequencies")))
}
