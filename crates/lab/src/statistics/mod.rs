//! Paired comparisons over seeds: Student's t, Holm's correction, equivalence, and what could have been seen at all.
//!
//! The seed is the unit. Two encodings have the same first weights and the same batches at a seed, so what is judged is the
//! difference at each seed: its mean, with the interval of Student's t for so few. A difference is claimed where Holm's
//! p-value is below 5 %; a tie only where the two one-sided tests for equivalence (Schuirmann 1987) both reject a difference
//! of the margin or more. Where neither can be claimed there are not enough seeds to say.

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
    /// The p-value of a mean of 0, before any correction.
    pub p: f64,
    /// The smallest mean that so many seeds would show with a chance of 80 %.
    pub detectable: f64,
    /// The p-value of a mean beyond the margin on either side: small where they are equal for all purposes.
    pub p_equal: f64,
}

impl Paired {
    /// Judges the differences of two seeds or more. Where all are the same nothing is left to chance.
    pub fn new(differences: &[f64], margin: f64) -> Self {
        let count = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / count;
        let degrees = count - 1.0;
        let variance = differences.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / degrees;
        let error = (variance / count).sqrt();
        // A mean in standard errors; of none where it is 0, of any number where nothing varies.
        let ratio = |mean: f64| match mean == 0.0 {
            true => 0.0,
            false => mean / error,
        };
        let half = t_quantile(1.0 - LEVEL / 2.0, degrees) * error;
        // The larger of the p-values of mean ≥ margin and of mean ≤ −margin.
        let p_equal = t_tail(ratio(margin - mean.abs()), degrees);
        Paired {
            mean,
            low: mean - half,
            high: mean + half,
            p: 2.0 * t_tail(ratio(mean.abs()), degrees),
            detectable: half + t_quantile(POWER, degrees) * error,
            p_equal,
        }
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
        match (self.mean > 0.0) != is_lower_better {
            true => Verdict::Better,
            false => Verdict::Worse,
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

/// The chance that Student's t with so many degrees of freedom is above `t`.
pub fn t_tail(t: f64, degrees: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    let both = beta(degrees / (degrees + t * t), degrees / 2.0, 0.5);
    if t > 0.0 { both / 2.0 } else { 1.0 - both / 2.0 }
}

/// The number below which Student's t with so many degrees of freedom is with this chance: found by halving, since the
/// tail is exact and monotonic.
pub fn t_quantile(chance: f64, degrees: f64) -> f64 {
    if chance < 0.5 {
        return -t_quantile(1.0 - chance, degrees);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while t_tail(high, degrees) > 1.0 - chance {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if t_tail(middle, degrees) > 1.0 - chance { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method), on whichever side
/// converges quickly.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    // Keeps divisors away from 0.
    let some = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / some(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / some(1.0 + term * d);
            c = some(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * fraction
}

/// ln Γ(x) for x > 0: Stirling's series from 15 on, and the recurrence below.
fn ln_gamma(x: f64) -> f64 {
    if x < 15.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let inverse = 1.0 / (x * x);
    let series = 1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series / x
}

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::graph::mix;

    #[test]
    fn t_is_that_of_closed_forms() {
        // One degree of freedom is Cauchy's law; two have a closed form too.
        for t in [-40.0f64, -2.0, -0.1, 0.0, 0.3, 1.0, 7.0, 1e6] {
            let one = 0.5 - t.atan() / std::f64::consts::PI;
            let two = 0.5 * (1.0 - t / (2.0 + t * t).sqrt());
            assert!((t_tail(t, 1.0) - one).abs() < 1e-14, "{t}: {} but {one}", t_tail(t, 1.0));
            assert!((t_tail(t, 2.0) - two).abs() < 1e-14, "{t}: {} but {two}", t_tail(t, 2.0));
        }
        assert_eq!((t_tail(f64::INFINITY, 3.0), t_tail(f64::NEG_INFINITY, 3.0)), (0.0, 1.0));
    }

    #[test]
    fn quantiles_are_those_of_tables() {
        for (chance, degrees, wanted) in [
            (0.975, 1.0, 12.706_204_736),
            (0.975, 2.0, 4.302_652_730),
            (0.975, 4.0, 2.776_445_105),
            (0.975, 9.0, 2.262_157_163),
            (0.975, 30.0, 2.042_272_456),
            (0.975, 1000.0, 1.962_339_081),
            (0.95, 2.0, 2.919_985_580),
            (0.8, 4.0, 0.940_964_577),
            (0.995, 5.0, 4.032_142_984),
            (0.5, 3.0, 0.0),
            (0.025, 4.0, -2.776_445_105),
        ] {
            let got = t_quantile(chance, degrees);
            assert!((got - wanted).abs() < 2e-9, "{chance}, {degrees}: {got} but {wanted}");
        }
    }

    #[test]
    fn gamma_is_that_of_factorials() {
        let mut factorial = 1.0f64;
        for n in 1..30 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-12 * factorial.ln().max(1.0), "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-13);
    }

    /// By hand: 1, 2, 3, 6 has mean 3, standard deviation √(14/3), standard error 1.0801.
    #[test]
    fn an_interval_is_that_of_the_formula() {
        let paired = Paired::new(&[1.0, 2.0, 3.0, 6.0], 10.0);
        let error = (14.0f64 / 12.0).sqrt();
        assert_eq!(paired.mean, 3.0);
        assert!((paired.high - (3.0 + 3.182_446_305 * error)).abs() < 1e-8);
        assert!((paired.low - (3.0 - 3.182_446_305 * error)).abs() < 1e-8);
        assert!((paired.p - 2.0 * t_tail(3.0 / error, 3.0)).abs() < 1e-15);
        assert!((paired.p - 0.069_0).abs() < 1e-3, "{}", paired.p);
        assert!((paired.p_equal - t_tail(7.0 / error, 3.0)).abs() < 1e-15);
        assert!((paired.detectable - (3.182_446_305 + 0.978_472_312) * error).abs() < 1e-8);
    }

    #[test]
    fn verdicts_are_those_of_the_rules() {
        let verdict = |differences: &[f64], lower| {
            let paired = Paired::new(differences, 0.05);
            paired.verdict(paired.p, lower)
        };
        assert_eq!(verdict(&[0.0, 0.0, 0.0], false), Verdict::Tie);
        assert_eq!(verdict(&[-0.008, -0.008, -0.008], false), Verdict::Tie);
        assert_eq!(verdict(&[-1.0, -1.0, -1.0], false), Verdict::Worse);
        assert_eq!(verdict(&[0.3, 0.31, 0.32], false), Verdict::Better);
        assert_eq!(verdict(&[0.3, 0.31, 0.32], true), Verdict::Worse);
        assert_eq!(verdict(&[0.3, -0.2, 0.5], false), Verdict::Unclear);
        // At the margin itself nothing is equal.
        let edge = Paired::new(&[0.05, 0.05], 0.05);
        assert_eq!(edge.p_equal, 0.5);
        assert_eq!(Paired::new(&[0.3, 0.31, 0.32], 0.05).verdict(0.06, false), Verdict::Unclear);
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
                let paired = Paired::new(&differences, 0.05);
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
            found += usize::from(Paired::new(&noise, 0.1).p < LEVEL);
        }
        assert!((1480..=1760).contains(&found), "{found} of 2000");
    }
}
