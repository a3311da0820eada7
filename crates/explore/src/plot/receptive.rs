//! The receptive field: the two parts of a score, a′ and b′, and the frequencies that make them.

use super::WIDTH;
use crate::error::Result;
use crate::figures::receptive::{Ask, Parts, Vectors, receptive};
use lab::chart::{Axis, Figure, Level, Mark, Panel, Series, number};

/// Above, a′(Δ) and b′(Δ) under the rule θ*ⱼ = φ + (1−α)·θⱼ with φ = α/10000^ρ, the score a* that they make, and the score without
/// the rule. Below, the frequencies of all pairs before and after.
#[derive(Clone, Debug)]
pub struct Receptive {
    /// How far the frequencies are moved.
    pub alpha: f64,
    /// Towards 10000^(−ρ).
    pub rho: f64,
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// The furthest distance.
    pub reach: f64,
    /// Which random query and key; without it all their pairs are alike and of length 1.
    pub seed: Option<u64>,
}

impl Receptive {
    pub(super) fn draw(&self) -> Result<String> {
        let Receptive { alpha, rho, dim, base, reach, seed } = *self;
        let vectors = if seed.is_some() { Vectors::Random } else { Vectors::Alike };
        let seed = seed.unwrap_or(1);
        let shown = receptive(&Ask { alpha, rho, dim, base, vectors, seed, reach, at: 0.0 })?;
        let line = |look: usize, label: &str, value: fn(&Parts) -> f64| Series {
            label: label.into(),
            look,
            mark: Mark::None,
            points: shown
                .distances
                .iter()
                .zip(&shown.parts)
                .map(|(&x, parts)| (x, value(parts)).into())
                .collect(),
            ..Series::default()
        };
        // A frequency that is negative turns the other way, as fast.
        let dots = |look: usize, label: &str, theta: &[f64]| Series {
            label: label.into(),
            look,
            points: theta.iter().enumerate().map(|(pair, theta)| (pair as f64, theta.abs()).into()).collect(),
            ..Series::default()
        };
        let name = format!("α = {}, ρ = {}, d = {dim}, base {}", number(alpha), number(rho), number(base));
        let which = match vectors {
            Vectors::Alike => "q = k, every pair of length 1".to_string(),
            Vectors::Random => format!("q and k random, seed {seed}"),
        };
        let after = if alpha > 1.0 { "|θ*ⱼ|" } else { "θ*ⱼ" };
        let panels = vec![
            Panel {
                title: format!("The score and its two parts, {which}; {name}"),
                x: Axis::new("distance Δ = m − n").including([0.0, reach]),
                y: Axis::new("score"),
                height: 360.0,
                levels: vec![Level { y: 0.0, label: String::new() }],
                series: vec![
                    line(5, "without the rule", |parts| parts.usual),
                    line(1, "b′", |parts| parts.b),
                    line(0, "a′", |parts| parts.a),
                    line(3, "a* = cos(Δφ)·a′ − sin(Δφ)·b′", |parts| parts.score),
                ],
                ..Panel::default()
            },
            Panel {
                title: format!(
                    "Frequencies: all move towards one that they share, φ = α / 10000^ρ = {}",
                    number(shown.phi)
                ),
                x: Axis::new("pair j").whole(),
                y: Axis::new("radians per position").log(),
                height: 230.0,
                series: vec![dots(5, "θⱼ", &shown.theta), dots(3, after, &shown.moved)],
                ..Panel::default()
            },
        ];
        Ok(Figure { title: format!("Rotary embedding with a receptive field, {name}"), columns: 1, panels }
            .file(WIDTH))
    }
}
