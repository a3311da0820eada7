//! Paired comparisons over seeds: Student's t, Holm's correction, equivalence, and what could have been seen at all.
//!
//! The seed is the unit. Two encodings have the same first weights and the same batches at a seed, so what is judged is the
//! difference at each seed: its mean, with the interval of Student's t for so few. A difference is claimed where Holm's
//! p-value is below 5 %; a tie only where the two one-sided tests for equivalence (Schuirmann 1987) both reject a difference
//! of the margin or more. Where neither can be claimed there are not enough seeds to say.
//!
//! ```text
//! student.rs     Student's t
//! looks.rs       when it is judged, where seeds are added on the way
//! ranks.rs       which places each of several may have
//! ```

mod looks;
mod ranks;
mod student;

pub use looks::{Look, Looks};
pub use ranks::ranks;
pub use student::{t_quantile, t_tail};

use serde::{Deserialize, Serialize};

/// The chance of a false alarm that is accepted.
pub const LEVEL: f64 = 0.05;

/// The chance that a difference of the smallest detectable size is found.
pub const POWER: f64 = 0.8;

/// What the differences of some seeds say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Their mean.
    pub mean: f64,
    /// The lower end of the interval of 95 %.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The size of the effect: the mean in standard deviations of the differences, less what few seeds add to it by chance
    /// (Hedges 1981). None of two seeds, nor where they are all the same and not 0.
    pub effect: Option<f64>,
    /// The smallest mean that so many seeds would show with a chance of 80 %.
    pub detectable: f64,
    /// How likely they are.
    pub chances: Chances,
}

/// How likely differences are under two hypotheses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chances {
    /// The p-value of a mean of 0, before any correction over comparisons.
    pub p: f64,
    /// The p-value of a mean beyond the margin on either side: small where they are equal for all purposes.
    pub p_equal: f64,
    /// Whether the mean was above 0 where `p` was smallest.
    is_above: bool,
}

/// The mean of some numbers, with what is needed to judge it.
struct Mean {
    mean: f64,
    deviation: f64,
    /// Its standard error.
    error: f64,
    degrees: f64,
}

impl Mean {
    fn new(numbers: &[f64]) -> Self {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Mean { mean, deviation: variance.sqrt(), error: (variance / count).sqrt(), degrees: count - 1.0 }
    }

    /// The chance of a mean as far above 0 as this.
    fn tail(&self, mean: f64) -> f64 {
        t_tail(ratio(mean, self.error), self.degrees)
    }

    /// With a part of the chance of an error that is accepted in all.
    fn chances(&self, margin: f64, weight: f64) -> Chances {
        let spent = |p: f64| (p / weight).min(1.0);
        Chances {
            p: spent(2.0 * self.tail(self.mean.abs())),
            // The larger of the p-values of mean ≥ margin and of mean ≤ −margin.
            p_equal: spent(self.tail(margin - self.mean.abs())),
            is_above: self.mean > 0.0,
        }
    }
}

/// In standard errors or deviations; none where it is 0, any number where nothing varies.
fn ratio(mean: f64, of: f64) -> f64 {
    if mean == 0.0 { 0.0 } else { mean / of }
}

impl Chances {
    /// Of the differences at every look that there have been seeds for: the smallest p-values so far.
    pub fn over(differences: &[f64], margin: f64, looks: &Looks) -> Self {
        let reached = looks.all().iter().filter(|look| look.seeds <= differences.len());
        let judged = reached.map(|look| Mean::new(&differences[..look.seeds]).chances(margin, look.weight));
        let smallest = |before: Chances, now: Chances| Chances {
            p: now.p.min(before.p),
            p_equal: now.p_equal.min(before.p_equal),
            is_above: if before.p < now.p { before.is_above } else { now.is_above },
        };
        // Before the first look nothing is shown.
        judged.reduce(smallest).unwrap_or(Chances { p: 1.0, p_equal: 1.0, is_above: false })
    }

    /// What may be said, given the p-value after correction: a tie where the difference is surely smaller than the margin,
    /// however sure its sign; else better or worse; else nothing.
    pub fn verdict(&self, p_holm: f64, is_lower_better: bool) -> Verdict {
        if self.p_equal < LEVEL {
            return Verdict::Tie;
        }
        if p_holm >= LEVEL {
            return Verdict::Unclear;
        }
        match self.is_above != is_lower_better {
            true => Verdict::Better,
            false => Verdict::Worse,
        }
    }
}

impl Paired {
    /// Judges the differences of two seeds or more, once. Where all are the same nothing is left to chance.
    pub fn new(differences: &[f64], margin: f64) -> Self {
        Self::over(differences, margin, &Looks::once(differences.len()))
    }

    /// Judges them at every look that there have been seeds for. The p-values are the smallest so far, the rest is that of the
    /// last look.
    pub fn over(differences: &[f64], margin: f64, looks: &Looks) -> Self {
        let reached = looks.all().iter().rev().find(|look| look.seeds <= differences.len());
        let (seeds, weight) = reached.map_or((differences.len(), 1.0), |look| (look.seeds, look.weight));
        let Mean { mean, deviation, error, degrees } = Mean::new(&differences[..seeds]);
        let half = t_quantile(1.0 - weight * LEVEL / 2.0, degrees) * error;
        Paired {
            mean,
            low: mean - half,
            high: mean + half,
            effect: Some(ratio(mean, deviation) * (1.0 - 3.0 / (4.0 * degrees - 1.0)))
                .filter(|effect| effect.is_finite() && degrees > 1.0),
            detectable: half + t_quantile(POWER, degrees) * error,
            chances: Chances::over(differences, margin, looks),
        }
    }
}

/// What may be said of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// As good as the baseline, within the margin.
    Tie,
    /// Not enough seeds to say.
    Unclear,
}

impl Verdict {
    /// As it is written in results.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Tie => "tie",
            Verdict::Unclear => "unclear",
        }
    }
}

/// Holm's correction: each p-value times the number of those that are not smaller, never below a smaller one's, at most 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let (mut out, mut largest) = (vec![0.0; p.len()], 0.0f64);
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        out[index] = largest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::graph::mix;

    /// By hand: 1, 2, 3, 6 has mean 3, standard deviation √(14/3), standard error 1.0801.
    #[test]
    fn an_interval_is_that_of_the_formula() {
        let paired = Paired::new(&[1.0, 2.0, 3.0, 6.0], 10.0);
        let error = (14.0f64 / 12.0).sqrt();
        assert_eq!(paired.mean, 3.0);
        assert!((paired.high - (3.0 + 3.182_446_305 * error)).abs() < 1e-8);
        assert!((paired.low - (3.0 - 3.182_446_305 * error)).abs() < 1e-8);
        assert!((paired.chances.p - 2.0 * t_tail(3.0 / error, 3.0)).abs() < 1e-15);
        assert!((paired.chances.p - 0.069_0).abs() < 1e-3, "{:?}", paired.chances);
        assert!((paired.chances.p_equal - t_tail(7.0 / error, 3.0)).abs() < 1e-15);
        assert!((paired.detectable - (3.182_446_305 + 0.978_472_312) * error).abs() < 1e-8);
        // 3/√(14/3), with Hedges's factor for three degrees of freedom, 1 − 3/11.
        let effect = 3.0 / (14.0f64 / 3.0).sqrt() * 8.0 / 11.0;
        assert!((paired.effect.unwrap() - effect).abs() < 1e-12);
        assert_eq!(Paired::new(&[0.0, 0.0, 0.0], 1.0).effect, Some(0.0));
        assert_eq!(Paired::new(&[-2.0, -2.0, -2.0], 1.0).effect, None);
        assert_eq!(Paired::new(&[-2.0, -1.0], 1.0).effect, None);
    }

    #[test]
    fn verdicts_are_those_of_the_rules() {
        let verdict = |differences: &[f64], lower| {
            let chances = Paired::new(differences, 0.05).chances;
            chances.verdict(chances.p, lower)
        };
        assert_eq!(verdict(&[0.0, 0.0, 0.0], false), Verdict::Tie);
        assert_eq!(verdict(&[-0.008, -0.008, -0.008], false), Verdict::Tie);
        assert_eq!(verdict(&[-1.0, -1.0, -1.0], false), Verdict::Worse);
        assert_eq!(verdict(&[0.3, 0.31, 0.32], false), Verdict::Better);
        assert_eq!(verdict(&[0.3, 0.31, 0.32], true), Verdict::Worse);
        assert_eq!(verdict(&[0.3, -0.2, 0.5], false), Verdict::Unclear);
        // At the margin itself nothing is equal.
        let edge = Paired::new(&[0.05, 0.05], 0.05);
        assert_eq!(edge.chances.p_equal, 0.5);
        assert_eq!(Paired::new(&[0.3, 0.31, 0.32], 0.05).chances.verdict(0.06, false), Verdict::Unclear);
    }

    #[test]
    fn holm_is_that_of_a_worked_example() {
        let close = |got: Vec<f64>, wanted: &[f64]| {
            assert!(got.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-15), "{got:?} but {wanted:?}");
        };
        // Sorted: 0.005·4, 0.01·3, 0.03·2, 0.04·1, the last raised to the one before.
        close(holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        close(holm(&[0.9, 0.8]), &[1.0, 1.0]);
        close(holm(&[]), &[]);
    }

    fn normal(key: u64) -> f64 {
        let unit = |key: u64| ((mix(key) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-2.0 * unit(2 * key).ln()).sqrt() * (std::f64::consts::TAU * unit(2 * key + 1)).cos()
    }

    /// 2,000 comparisons of an encoding with itself: about one in twenty is called different before correction, and almost
    /// none of a family of seven after it.
    #[test]
    fn of_equal_things_one_in_twenty_is_called_different() {
        for seeds in [3, 5, 10] {
            let (mut different, mut families) = (0, 0);
            let mut p = Vec::new();
            for trial in 0..2000u64 {
                let key = |seed: u64, side: u64| mix(seeds ^ mix(trial)) ^ (2 * seed + side);
                let differences: Vec<f64> =
                    (0..seeds).map(|seed| normal(key(seed, 0)) - normal(key(seed, 1))).collect();
                let paired = Paired::new(&differences, 0.05).chances;
                different += usize::from(paired.p < LEVEL);
                p.push(paired.p);
                if p.len() == 7 {
                    families += usize::from(holm(&p).iter().any(|&p| p < LEVEL));
                    p.clear();
                }
            }
            assert!((60..=140).contains(&different), "{different} of 2000 with {seeds} seeds");
            assert!(families <= 26, "{families} of 285 families with {seeds} seeds");
        }
    }

    /// A difference of the smallest detectable size is found about as often as promised.
    #[test]
    fn the_smallest_detectable_difference_is_detected() {
        let (seeds, mut found, mut sizes) = (5u64, 0, 0.0);
        for trial in 0..2000u64 {
            let noise: Vec<f64> = (0..seeds).map(|seed| normal(mix(trial) ^ seed)).collect();
            sizes += Paired::new(&noise, 0.1).detectable;
        }
        let size = sizes / 2000.0;
        for trial in 0..2000u64 {
            let noise: Vec<f64> = (0..seeds).map(|seed| size + normal(mix(trial + 9999) ^ seed)).collect();
            found += usize::from(Paired::new(&noise, 0.1).chances.p < LEVEL);
        }
        assert!((1480..=1760).contains(&found), "{found} of 2000");
    }
}
