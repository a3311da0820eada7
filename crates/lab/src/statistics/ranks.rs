//! Which places several things may have among each other, for all that their differences show.
//!
//! Every two are compared, with Holm's correction over all pairs. What is surely beaten by two others has the third place or a
//! later one; what surely beats four of ten has the sixth or an earlier one. Where no pair is called different wrongly, which is
//! in 95 of 100 cases, every true place is within its bounds (Mogstad, Romano, Shaikh and Wilhelm, Review of Economic Studies
//! 91, 2024, show that more generally).

use super::{Chances, Looks, Verdict, holm};

/// The first and the last place that each of `count` may have, from 1 on. `differences` are those of two, the first less the
/// second, seed by seed.
pub fn ranks(
    count: usize,
    differences: impl Fn(usize, usize) -> Vec<f64>,
    margin: f64,
    is_lower_better: bool,
    looks: &Looks,
) -> Vec<[usize; 2]> {
    let pairs: Vec<(usize, usize)> = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
    let judged: Vec<Chances> =
        pairs.iter().map(|&(a, b)| Chances::over(&differences(a, b), margin, looks)).collect();
    let corrected = holm(&judged.iter().map(|chances| chances.p).collect::<Vec<_>>());
    let mut places = vec![[1, count]; count];
    for ((&(a, b), chances), p_holm) in pairs.iter().zip(&judged).zip(corrected) {
        let (winner, loser) = match chances.verdict(p_holm, is_lower_better) {
            Verdict::Better => (a, b),
            Verdict::Worse => (b, a),
            Verdict::Tie | Verdict::Unclear => continue,
        };
        places[winner][1] -= 1;
        places[loser][0] += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[[f64; 5]], is_lower_better: bool) -> Vec<[usize; 2]> {
        let differences = |a: usize, b: usize| values[a].iter().zip(&values[b]).map(|(a, b)| a - b).collect();
        ranks(values.len(), differences, 0.05, is_lower_better, &Looks::once(5))
    }

    /// One far ahead, two that cannot be told apart, two that are equal, one far behind.
    #[test]
    fn places_are_bounded_by_what_is_sure() {
        let values = [
            [0.50, 0.51, 0.49, 0.50, 0.52],
            [0.99, 0.98, 0.99, 1.00, 0.99],
            [0.30, 0.60, 0.20, 0.70, 0.45],
            [0.01, 0.00, 0.02, 0.01, 0.00],
        ];
        assert_eq!(of(&values, false), [[2, 3], [1, 1], [2, 3], [4, 4]]);
        assert_eq!(of(&values, true), [[2, 3], [4, 4], [2, 3], [1, 1]]);
        assert_eq!(of(&[values[1], values[1], values[3]], false), [[1, 2], [1, 2], [3, 3]]);
        // A sure but tiny difference is a tie.
        assert_eq!(of(&[[0.30; 5], [0.31; 5]], false), [[1, 2], [1, 2]]);
        assert_eq!(of(&values[..1], false), [[1, 1]]);
        assert!(of(&[], false).is_empty());
    }
}
