//! How many seeds: a number of each encoding on each task, or more where a comparison is undecided.
//!
//! Where seeds are added, every encoding begins with those of the first look. After each round the undecided ones that would
//! become decided soonest, if their means and deviations stayed, go on to their next look. So seeds go where they decide
//! most; that it looks where to look costs nothing, since the p-values of [`Looks`] hold whatever made somebody stop.

use super::results::Comparison;
use super::statistics::{LEVEL, Look, Looks, Verdict, t_tail};

/// Where seeds are added and nothing is said of it: the work of so many of each is the most that is done. With it the quick preset
/// ends within four minutes on two cores; two more of each decide nothing there that these do not.
pub(super) const BUDGET: usize = 8;

/// How many seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// So many of each encoding on each task, judged once.
    Fixed(usize),
    /// A few of each at first, then more where something is undecided, until the work of so many of each is done.
    Added {
        /// So many.
        budget: usize,
    },
}

impl Seeds {
    /// When comparisons are judged.
    pub fn looks(self) -> Looks {
        match self {
            Seeds::Fixed(count) => Looks::once(count),
            Seeds::Added { .. } => Looks::several(),
        }
    }

    /// Those that each has at first.
    pub fn first(self) -> usize {
        self.looks().all()[0].seeds
    }

    /// Those that each has on average, at most.
    pub fn mean(self) -> usize {
        match self {
            Seeds::Fixed(count) => count,
            Seeds::Added { budget } => budget,
        }
    }
}

/// The runs of an encoding on a task, as the choice of what to run next sees them.
pub(super) struct Row {
    pub task: usize,
    /// Whether it is what the others of its task are compared with: it has at least as many seeds as any of them.
    pub is_baseline: bool,
    /// Seeds that it has.
    pub seeds: usize,
    /// Work of one more.
    pub work: f64,
    /// What is undecided of it.
    pub open: Vec<Open>,
}

/// A comparison that is undecided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Open {
    mean: f64,
    /// Of the differences.
    deviation: f64,
    margin: f64,
    /// What its p-value must be below, for Holm's correction to call it different.
    level: f64,
}

impl Open {
    /// A comparison of those of its task and measure, if it is undecided.
    pub fn new(comparison: &Comparison, family: &[&Comparison]) -> Option<Self> {
        let is_open = |row: &Comparison| row.not_judged.is_none() && row.verdict == Verdict::Unclear;
        if !is_open(comparison) {
            return None;
        }
        let Comparison { mean, margin, ref differences, .. } = *comparison;
        let squares: f64 = differences.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = (squares / (differences.len() as f64 - 1.0)).sqrt();
        let others = family.iter().filter(|row| row.p_holm >= LEVEL).count();
        Some(Open { mean, deviation, margin, level: LEVEL / others.max(1) as f64 })
    }

    /// Whether it would be decided at a look, if its mean and deviation stayed as they are.
    fn is_decided_at(&self, look: Look) -> bool {
        let (count, size) = (look.seeds as f64, self.mean.abs());
        let tail = |mean: f64| t_tail(mean * count.sqrt() / self.deviation, count - 1.0) / look.weight;
        2.0 * tail(size) < self.level || tail(self.margin - size) < LEVEL
    }
}

/// Those that get more seeds, and how many each has then, the baseline's among them; none where nothing is undecided or the
/// work that is left is too little.
pub(super) fn next(rows: &[Row], looks: &Looks, left: f64) -> Vec<(usize, usize)> {
    let baseline = |task: usize| rows.iter().position(|row| row.is_baseline && row.task == task);
    // The work of bringing a row, and its baseline where it has fewer, to so many seeds.
    let cost = |row: &Row, seeds: usize| {
        let of = |row: &Row| seeds.saturating_sub(row.seeds) as f64 * row.work;
        of(row) + baseline(row.task).map_or(0.0, |index| of(&rows[index]))
    };
    // What a row may come to: comparisons decided per work, by the best look that can be had.
    let worth = |row: &Row| {
        let ahead = looks.all().iter().filter(|look| look.seeds > row.seeds);
        let can_be = ahead.take_while(|look| cost(row, look.seeds) <= left);
        let decided = |look: &Look| row.open.iter().filter(|open| open.is_decided_at(*look)).count() as f64;
        can_be.map(|look| decided(look) / cost(row, look.seeds)).fold(0.0, f64::max)
    };
    let is_open = |row: &&(usize, &Row)| !row.1.open.is_empty() && !row.1.is_baseline;
    let open: Vec<(usize, &Row)> = rows.iter().enumerate().collect::<Vec<_>>();
    let mut open: Vec<(usize, &Row, f64)> =
        open.iter().filter(is_open).map(|&(index, row)| (index, row, worth(row))).collect();
    open.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    // Those that are worth about as much as the best; where none seems worth anything, all.
    let best = open.first().map_or(0.0, |first| first.2);
    open.retain(|(_, _, worth)| *worth >= best / 2.0);

    let (mut wanted, mut left) = (Vec::<(usize, usize)>::new(), left);
    let mut given: Vec<usize> = rows.iter().map(|row| row.seeds).collect();
    for (index, row, _) in open {
        let Some(look) = looks.after(row.seeds) else { continue };
        let needs = [Some(index), baseline(row.task)].into_iter().flatten();
        let needs: Vec<usize> = needs.filter(|&row| given[row] < look.seeds).collect();
        let work: f64 = needs.iter().map(|&row| (look.seeds - given[row]) as f64 * rows[row].work).sum();
        if work <= left {
            left -= work;
            needs.iter().for_each(|&row| given[row] = look.seeds);
        }
    }
    wanted.extend(given.into_iter().enumerate().filter(|&(index, seeds)| seeds > rows[index].seeds));
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(mean: f64, deviation: f64) -> Open {
        Open { mean, deviation, margin: 0.05, level: 0.01 }
    }

    fn row(task: usize, is_baseline: bool, seeds: usize, open: &[Open]) -> Row {
        Row { task, is_baseline, seeds, work: 1.0, open: open.to_vec() }
    }

    #[test]
    fn seeds_go_where_they_decide_most() {
        let looks = Looks::several();
        let plain = || row(0, true, 5, &[]);
        // The second will be decided at ten seeds, the third at forty at best; the baseline goes along.
        let rows = [plain(), row(0, false, 5, &[open(0.4, 0.2)]), row(0, false, 5, &[open(0.05, 0.1)])];
        assert_eq!(next(&rows, &looks, 1000.0), [(0, 10), (1, 10)]);
        // Nothing is done beyond the work that is left: ten runs bring a row and its baseline to the next look.
        assert_eq!(next(&rows, &looks, 10.0), [(0, 10), (1, 10)]);
        assert!(next(&rows, &looks, 9.0).is_empty());
        // Where nothing seems to come of it, what is left is spent all the same.
        assert_eq!(next(&[plain(), row(0, false, 5, &[open(0.05, 9.0)])], &looks, 20.0), [(0, 10), (1, 10)]);
        // A baseline that has them already costs nothing; what is decided gets nothing.
        let rows = [row(0, true, 20, &[]), row(0, false, 10, &[open(0.4, 0.2)]), row(0, false, 5, &[])];
        assert_eq!(next(&rows, &looks, 10.0), [(1, 20)]);
        // Each task has a baseline of its own.
        let rows =
            [plain(), row(0, false, 5, &[]), row(1, true, 5, &[]), row(1, false, 5, &[open(0.0, 0.05)])];
        assert_eq!(next(&rows, &looks, 10.0), [(2, 10), (3, 10)]);
        // With a number of seeds there is no second look.
        assert!(next(&[plain(), row(0, false, 5, &[open(0.4, 0.2)])], &Looks::once(5), 1e9).is_empty());
    }

    #[test]
    fn what_is_decided_or_not_judged_is_not_open() {
        use crate::analysis::{compared, judge};
        use crate::results::Measure;
        let looks = Looks::several();
        let of = |differences: &[f64]| compared(Measure::Beyond, differences.to_vec(), 0.05, &looks);
        let mut family = [
            of(&[0.5, 0.51, 0.5, 0.49, 0.5]),
            of(&[0.0, 0.001, -0.001, 0.0, 0.0]),
            of(&[0.1, -0.3, 0.2, 0.4, -0.1]),
            of(&[0.1, -0.3, 0.2, 0.4, -0.1]),
        ];
        family[3].not_judged = Some("it was not learned".into());
        judge(&mut family, false, &looks);
        assert_eq!([family[0].verdict, family[1].verdict], [Verdict::Better, Verdict::Tie]);
        let all: Vec<&Comparison> = family.iter().collect();
        let found: Vec<bool> = family.iter().map(|row| Open::new(row, &all).is_some()).collect();
        assert_eq!(found, [false, false, true, false]);
        // What is not judged counts among those that could have been: Holm's first factor is 4.
        assert_eq!(family[0].p_holm, 4.0 * family[0].p);
        let level = Open::new(&family[2], &all).unwrap().level;
        assert_eq!(level, LEVEL / 3.0);
    }
}
