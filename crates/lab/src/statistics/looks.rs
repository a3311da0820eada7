//! When comparisons are judged. Once, after all seeds; or several times as seeds are added, so that what is clear early costs
//! few of them and what is not gets more.
//!
//! Whoever judges again and again, each time at 5 %, finds a difference in the end where there is none. So each look has a
//! part of those 5 %, its weight, and the weights of all looks that there could ever be sum to 1. A p-value is then the
//! smallest of p/weight over the looks so far. Under the hypothesis that it tests, the chance that it ever falls below u is at
//! most Σ weight·u = u (Bonferroni's inequality over the looks), whatever made somebody stop: Holm's correction over such
//! p-values keeps its promise, and so does an interval at the level of its look. Seeds may go where they decide most.
//!
//! Boundaries that use how the looks hang together (O'Brien and Fleming, Lan and DeMets) gain next to nothing here: with so few
//! seeds a large t comes of a small deviation, which the next look no longer has.

/// After how many seeds it is judged, and the part of the accepted chance of an error that is spent then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Seeds.
    pub seeds: usize,
    /// The part.
    pub weight: f64,
}

/// When comparisons are judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks(Vec<Look>);

/// The seeds of the first look, where there are several. With fewer, an encoding that fails on every second seed would too
/// often be taken for one that always does: what is clear should be, and not look so.
const FIRST: usize = 5;

/// The most seeds.
const MOST: usize = 1000;

impl Looks {
    /// Once, after so many seeds.
    pub fn once(seeds: usize) -> Self {
        Looks(vec![Look { seeds, weight: 1.0 }])
    }

    /// After 5 seeds, and again whenever there are twice as many. A quarter is spent at the first look, which is for what
    /// is plain; half at the second, which most that is not plain gets to; then always half of what is left.
    pub fn several() -> Self {
        let doubled = |&seeds: &usize| (2 * seeds <= MOST).then_some(2 * seeds);
        let mut left = 1.0;
        let look = |(index, seeds): (usize, usize)| {
            let weight = [0.25, 0.5].get(index).copied().unwrap_or(left / 2.0);
            left -= weight;
            Look { seeds, weight }
        };
        Looks(std::iter::successors(Some(FIRST), doubled).enumerate().map(look).collect())
    }

    /// The looks, in order.
    pub fn all(&self) -> &[Look] {
        &self.0
    }

    /// The first look after so many seeds.
    pub fn after(&self, seeds: usize) -> Option<Look> {
        self.0.iter().copied().find(|look| look.seeds > seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LEVEL, Paired, Verdict, t_quantile};
    use super::*;

    #[test]
    fn no_more_is_spent_than_there_is() {
        let looks = Looks::several();
        let first: Vec<(usize, f64)> = looks.all().iter().map(|look| (look.seeds, look.weight)).collect();
        assert_eq!(first[..4], [(5, 0.25), (10, 0.5), (20, 0.125), (40, 0.0625)]);
        assert!(looks.all().iter().map(|look| look.weight).sum::<f64>() <= 1.0);
        assert!(looks.all().iter().all(|look| look.seeds <= MOST && look.weight > 0.0));
        assert_eq!(looks.after(5).map(|look| look.seeds), Some(10));
        assert_eq!(looks.after(MOST), None);
    }

    /// By hand: the smallest of 4·p₅ and 2·p₁₀, and the interval of the second look at a level of 1 − 0.025.
    #[test]
    fn p_values_are_the_smallest_and_intervals_the_last() {
        let differences = [0.3, 0.31, 0.29, 0.3, 0.31, -0.2, 0.9, 0.1, 0.6, -0.4];
        let over = |count: usize| Paired::over(&differences[..count], 0.05, &Looks::several());
        let (early, late) = (over(5), over(10));
        let [five, ten] = [5, 10].map(|count| Paired::new(&differences[..count], 0.05));
        assert_eq!(early.chances.p, 4.0 * five.chances.p);
        assert!(late.chances.p == early.chances.p && 2.0 * ten.chances.p > late.chances.p);
        assert_eq!((late.mean, late.effect), (ten.mean, ten.effect));
        let error = (ten.high - ten.mean) / t_quantile(0.975, 9.0);
        assert!((late.high - late.mean - t_quantile(1.0 - 0.25 * LEVEL, 9.0) * error).abs() < 1e-12);
        // Seeds between two looks wait for the next.
        assert_eq!(over(7), early);
        // What was claimed stays claimed, with its sign, whatever the mean is later.
        let turned: Vec<f64> = differences[..5].iter().copied().chain([-0.9; 5]).collect();
        let turned = Paired::over(&turned, 0.05, &Looks::several());
        assert!(turned.mean < 0.0 && turned.chances.verdict(turned.chances.p, false) == Verdict::Better);
    }
}
