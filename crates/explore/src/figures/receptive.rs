//! The receptive-field variant: every frequency moved towards one that all share, and what that does to a score.

use super::check::{self, within};
use super::decay::distances;
use crate::error::Result;
use rope::{Pairing, analysis};
use serde::{Deserialize, Serialize};

/// Which query and key.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Vectors {
    /// All pairs alike and of length 1.
    #[default]
    Alike,
    /// Drawn by chance.
    Random,
}

/// The rule's two numbers, the vectors, and how far.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// α: how far the frequencies are moved.
    pub alpha: f64,
    /// ρ: towards 10000^(−ρ).
    pub rho: f64,
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// Which query and key.
    pub vectors: Vectors,
    /// Which random ones.
    pub seed: u64,
    /// The last distance.
    pub reach: f64,
    /// The distance to read the curves at.
    pub at: f64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask {
            alpha: 0.5,
            rho: 0.5,
            dim: 128,
            base: 10_000.0,
            vectors: Vectors::Alike,
            seed: 1,
            reach: 1000.0,
            at: 200.0,
        }
    }
}

/// The two parts of a score and the whole.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parts {
    /// a′, the real part: the score under linear interpolation by 1/(1−α).
    pub a: f64,
    /// b′, the imaginary part.
    pub b: f64,
    /// The Hilbert transform of a′.
    pub transform: f64,
    /// a* = cos(Δφ)·a′ − sin(Δφ)·b′.
    pub score: f64,
    /// The score without the rule.
    pub usual: f64,
}

/// Frequencies and curves.
#[derive(Clone, Debug, Serialize)]
pub struct Receptive {
    /// φ = α/10000^ρ.
    pub phi: f64,
    /// 1/(1−α): what positions are divided by where φ is 0. Nothing at α = 1.
    pub stretch: Option<f64>,
    /// Whether b′ is the Hilbert transform of a′.
    pub is_hilbert_pair: bool,
    /// `[pairs]`: the usual frequencies.
    pub theta: Vec<f64>,
    /// `[pairs]`: those of the rule.
    pub moved: Vec<f64>,
    /// `[points]`
    pub distances: Vec<f64>,
    /// `[points]`
    pub parts: Vec<Parts>,
    /// At the distance that was asked for.
    pub here: Parts,
    /// The score there by plain rotary embedding with the moved frequencies.
    pub by_rotation: f64,
}

/// Curves and frequencies under the rule.
pub fn receptive(ask: &Ask) -> Result<Receptive> {
    let reach = within("reach", ask.reach, 1.0..=1e6)?;
    let at = within("at", ask.at, 0.0..=1e6)?;
    let rope = check::rope(ask.dim, ask.base)?;
    let (alpha, rho) = (ask.alpha, ask.rho);
    let moved = check::field(ask.dim, ask.base, alpha, rho)?.frequencies(None);
    let frequencies = rope.frequencies(None);
    let theta = frequencies.inv_freq();
    let (q, k): (Vec<f64>, Vec<f64>) = match ask.vectors {
        Vectors::Alike => {
            let ones = [1.0, 0.0].repeat(theta.len());
            (ones.clone(), ones)
        }
        Vectors::Random => {
            let normal = |which: u64| check::normal(ask.seed.wrapping_mul(2).wrapping_add(which), ask.dim);
            (normal(0), normal(1))
        }
    };
    let pairing = Pairing::Interleaved;
    let phi = analysis::shared_frequency(alpha, rho);
    // A part of frequency (1−α)·θ has ±itself, turned by a quarter, as its transform: the sign is that of the frequency.
    let sign = if alpha == 1.0 { 0.0 } else { (1.0 - alpha).signum() };
    let parts = |distance: f64| -> Result<Parts> {
        let pair = analysis::receptive_field(&q, &k, theta, alpha, distance, pairing)?;
        Ok(Parts {
            a: pair.a,
            b: pair.b,
            transform: sign * pair.b,
            score: pair.score(phi, distance),
            usual: analysis::score(&q, &k, theta, distance, pairing)?,
        })
    };
    let distances = distances(reach, 4 * theta.len());
    Ok(Receptive {
        phi,
        stretch: (alpha != 1.0).then(|| 1.0 / (1.0 - alpha)),
        is_hilbert_pair: alpha < 1.0,
        moved: moved.inv_freq().to_vec(),
        parts: distances.iter().map(|&distance| parts(distance)).collect::<Result<_>>()?,
        here: parts(at)?,
        by_rotation: analysis::score(&q, &k, moved.inv_freq(), at, pairing)?,
        theta: theta.to_vec(),
        distances,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    #[test]
    fn the_parts_give_what_rotation_gives() {
        for (alpha, rho, at) in [(0.0, 0.5, 7.0), (0.25, 0.5, 3.0), (1.0, 0.1, 50.0), (1.5, 2.0, 999.0)] {
            for vectors in [Vectors::Alike, Vectors::Random] {
                let shown = receptive(&Ask { alpha, rho, at, vectors, ..Ask::default() }).unwrap();
                assert!((shown.here.score - shown.by_rotation).abs() < 1e-9, "{alpha} {rho} {at}");
                assert!((shown.phi - alpha / 1e4f64.powf(rho)).abs() < 1e-15);
                let first = shown.phi + (1.0 - alpha) * shown.theta[0];
                assert!((shown.moved[0] - first).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn without_a_shared_frequency_it_is_linear_interpolation() {
        // φ = 0.75/10000^4 is nothing; positions are divided by 4.
        let shown = receptive(&Ask { alpha: 0.75, rho: 4.0, at: 40.0, ..Ask::default() }).unwrap();
        let usual = receptive(&Ask { alpha: 0.0, at: 10.0, ..Ask::default() }).unwrap();
        assert_eq!(shown.stretch, Some(4.0));
        assert!((shown.here.a - usual.here.usual).abs() < 1e-9);
        assert!((shown.here.score - shown.here.a).abs() < 1e-6);
    }

    /// A discrete Hilbert transform by Fourier sums, of a signal that repeats.
    fn transform(signal: &[f64]) -> Vec<f64> {
        let count = signal.len();
        let mut out = vec![0.0; count];
        for frequency in 1..count / 2 {
            let angle = |place: usize| TAU * (frequency * place % count) as f64 / count as f64;
            let sums =
                signal.iter().enumerate().map(|(place, x)| (x * angle(place).cos(), x * angle(place).sin()));
            let (cos, sin) = sums.fold((0.0, 0.0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
            let scale = 2.0 / count as f64;
            for (place, out) in out.iter_mut().enumerate() {
                *out += scale * (cos * angle(place).sin() - sin * angle(place).cos());
            }
        }
        out
    }

    #[test]
    fn a_hilbert_pair_below_one_alone() {
        // Frequencies of whole turns within 128 distances, so that the curves repeat.
        let (theta, q, k) =
            ([TAU * 24.0 / 128.0, TAU * 4.0 / 128.0], [0.3, -1.0, 0.8, 0.5], [1.1, 0.4, -0.2, 0.9]);
        for (alpha, sign) in [(0.5, 1.0), (1.0, 0.0), (1.5, -1.0)] {
            let pairs: Vec<_> = (0..128)
                .map(|distance| {
                    analysis::receptive_field(
                        &q,
                        &k,
                        &theta,
                        alpha,
                        f64::from(distance),
                        Pairing::Interleaved,
                    )
                    .unwrap()
                })
                .collect();
            let transformed = transform(&pairs.iter().map(|pair| pair.a).collect::<Vec<_>>());
            for (transformed, pair) in transformed.iter().zip(&pairs) {
                assert!((transformed - sign * pair.b).abs() < 1e-9, "{alpha}");
            }
            let shown = receptive(&Ask { alpha, ..Ask::default() }).unwrap();
            assert_eq!(shown.is_hilbert_pair, sign == 1.0);
            assert!(shown.parts.iter().all(|parts| parts.transform == sign * parts.b));
        }
    }

    #[test]
    fn hostile_questions_are_refused() {
        let refused = |ask: Ask| receptive(&ask).unwrap_err().to_string();
        assert!(refused(Ask { alpha: f64::NAN, ..Ask::default() }).contains("alpha is NaN"));
        assert!(refused(Ask { alpha: -0.1, ..Ask::default() }).contains("alpha is -0.1"));
        assert!(refused(Ask { rho: 1e9, ..Ask::default() }).contains("rho"));
        assert!(refused(Ask { reach: 0.0, ..Ask::default() }).contains("reach is 0"));
        assert!(refused(Ask { at: f64::INFINITY, ..Ask::default() }).contains("at is inf"));
        assert!(refused(Ask { dim: 0, ..Ask::default() }).contains("dim is 0"));
        let most = Ask {
            dim: 512,
            base: 2.0,
            alpha: 2.0,
            rho: 0.0,
            reach: 1e6,
            at: 1e6,
            vectors: Vectors::Random,
            ..Ask::default()
        };
        assert!(receptive(&most).unwrap().parts.iter().all(|parts| parts.score.is_finite()));
    }
}
