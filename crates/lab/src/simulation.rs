//! Comparisons of numbers by chance in place of models: how often what is said is wrong, and how much is decided.
//!
//! A world is what the quick preset has: three tasks of different work, six encodings and the A/A row against a baseline, four
//! measures. Each trial goes through rounds of seeds as [`super::compare`] does, with the same judge and the same choice of
//! what to run next.

use super::analysis::{compared, judge};
use super::results::{Comparison, Measure};
use super::seeds::{BUDGET, Open, Row, Seeds, next};
use super::statistics::{Chances, LEVEL, Looks, Verdict};
use roformer::graph::mix;

/// The work of a run of each task.
const WORK: [f64; 3] = [700.0, 500.0, 300.0];
const MEASURES: usize = Measure::ALL.len();
/// Rows of a task beside the baseline, which is row 0.
const ROWS: usize = 7;
const MARGIN: f64 = 0.05;

/// What a run of a row has on a measure: of trial, task, row, measure and seed.
type Value<'a> = &'a dyn Fn([u64; 5]) -> f64;

/// A number from 0 to 1 by its key.
fn unit(key: &[u64]) -> f64 {
    let bits = key.iter().fold(7, |hash, &part| mix(hash ^ part));
    ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(key: &[u64]) -> f64 {
    let [a, b] = [1, 2].map(|side| unit(&[key, &[side]].concat()));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// The comparisons of one trial, by task and measure, and the runs that they took.
fn trial(number: u64, value: Value, seeds: Seeds) -> (Vec<Vec<Comparison>>, usize) {
    let looks = seeds.looks();
    let compare = |task: usize, row: usize, measure: usize, count: usize| {
        let of = |row: usize, seed: usize| {
            value([number as usize, task, row, measure, seed].map(|part| part as u64))
        };
        let differences = (0..count).map(|seed| of(row, seed) - of(0, seed)).collect();
        compared(Measure::ALL[measure], differences, MARGIN, &looks)
    };
    let mut rows: Vec<Row> = Vec::new();
    for (task, &work) in WORK.iter().enumerate() {
        rows.extend((0..=ROWS).map(|row| Row {
            task,
            is_baseline: row == 0,
            seeds: 0,
            work,
            open: Vec::new(),
        }));
    }
    let mut left: f64 = rows.iter().map(|row| row.work * seeds.mean() as f64).sum();
    let mut wanted: Vec<(usize, usize)> = (0..rows.len()).map(|index| (index, seeds.first())).collect();
    // By task and measure, a comparison for each row but the baseline.
    let nothing = compared(Measure::Loss, vec![0.0; 2], MARGIN, &looks);
    let mut families = vec![vec![nothing; ROWS]; WORK.len() * MEASURES];
    while !wanted.is_empty() {
        for (index, count) in wanted {
            left -= (count - rows[index].seeds) as f64 * rows[index].work;
            rows[index].seeds = count;
            let (task, row) = (rows[index].task, index % (ROWS + 1));
            for measure in (0..MEASURES).filter(|_| row > 0) {
                families[task * MEASURES + measure][row - 1] = compare(task, row, measure, count);
            }
        }
        families.iter_mut().for_each(|family| judge(family, false, &looks));
        for (index, row) in rows.iter_mut().enumerate().filter(|(_, row)| !row.is_baseline) {
            let own = index % (ROWS + 1) - 1;
            let of_task = families[row.task * MEASURES..].iter().take(MEASURES);
            let open =
                of_task.filter_map(|family| Open::new(&family[own], &family.iter().collect::<Vec<_>>()));
            row.open = open.collect();
        }
        wanted = next(&rows, &looks, left);
    }
    assert!(left >= 0.0, "more than the budget");
    (families, rows.iter().map(|row| row.seeds).sum())
}

/// The part of families in which anything is called different.
fn false_alarms(trials: u64, value: Value, seeds: Seeds) -> f64 {
    let is_different = |row: &Comparison| matches!(row.verdict, Verdict::Better | Verdict::Worse);
    let alarms: usize = (0..trials)
        .map(|number| trial(number, value, seeds).0)
        .map(|families| families.iter().filter(|family| family.iter().any(is_different)).count())
        .sum();
    alarms as f64 / (trials as usize * 3 * MEASURES) as f64
}

const ADDED: Seeds = Seeds::Added { budget: BUDGET };

/// Seven encodings that are all the same: in at most 5 of 100 families of comparisons is any called different, whatever the
/// chance of a run is like. Of 1,800 families, three standard errors are 1.5 %.
#[test]
fn of_equal_encodings_few_are_called_different() {
    let worlds: [(&str, Value); 3] = [
        ("normal", &|key| normal(&key)),
        // Heavy tails: Student's t with three degrees of freedom.
        ("heavy", &|key| {
            let sum: f64 = (1..4).map(|part| normal(&[&key[..], &[part]].concat()).powi(2)).sum();
            normal(&key) / (sum / 3.0).sqrt()
        }),
        // Every second seed fails.
        ("failing", &|key| if unit(&key) < 0.5 { 0.95 } else { 0.05 } + 0.01 * normal(&key)),
    ];
    for (name, value) in worlds {
        for seeds in [Seeds::Fixed(5), ADDED] {
            let rate = false_alarms(150, value, seeds);
            println!("{name}, {seeds:?}: {:.1} % of families", 100.0 * rate);
            assert!(rate < LEVEL + 0.015, "{name}, {seeds:?}: {rate}");
        }
    }
}

/// Judged at 5 % after every look, without parts, it would be wrong more often: the test above can fail.
#[test]
fn looking_often_without_paying_is_wrong_more_often() {
    let wrong = |number: &u64| {
        let differences: Vec<f64> = (0..80).map(|seed| normal(&[*number, seed])).collect();
        let p = |count: usize| Chances::over(&differences[..count], MARGIN, &Looks::once(count)).p;
        [5, 10, 20, 40, 80].into_iter().any(|count| p(count) < LEVEL)
    };
    let rate = (0..1000).filter(wrong).count() as f64 / 1000.0;
    assert!(rate > 0.11, "{rate}");
}

/// Encodings that differ by just the margin are called equal in at most 5 of 100 comparisons.
#[test]
fn what_differs_by_the_margin_is_seldom_called_a_tie() {
    for deviation in [0.01, 0.04, 0.2] {
        let value = |key: [u64; 5]| {
            let shift = if key[2] == 0 { 0.0 } else { MARGIN };
            shift + deviation * normal(&key) / 2f64.sqrt()
        };
        let trials = 100;
        let ties = (0..trials).map(|number| {
            let (families, _) = trial(number, &value, ADDED);
            families.iter().flatten().filter(|row| row.verdict == Verdict::Tie).count()
        });
        let rate = ties.sum::<usize>() as f64 / (trials as usize * 3 * MEASURES * ROWS) as f64;
        println!("deviation {deviation}: {:.1} % of comparisons", 100.0 * rate);
        assert!(rate < LEVEL + 0.01, "{deviation}: {rate}");
    }
}

/// With effects as the quick preset has them, much more is decided than with five seeds of each; with some more work, less of it
/// decides as much as spread evenly.
#[test]
fn seeds_that_are_added_decide_more() {
    // Of each encoding on each measure: its mean and deviation. Most are plain ties or plain differences, some are neither.
    let value = |key: [u64; 5]| {
        let [_, task, row, measure, _] = key;
        let kind = unit(&[task, row, measure, 1]);
        let (mean, deviation) = match row {
            0 => (0.0, 0.004),
            _ if kind < 0.70 => (0.004, 0.006),
            _ if kind < 0.82 => (0.4, 0.04),
            _ => (0.12 * unit(&[task, row, measure, 2]), 0.02 + 0.03 * unit(&[task, row, measure, 3])),
        };
        mean + deviation * normal(&key)
    };
    let decided = |seeds: Seeds| {
        let trials = 60;
        let each = (0..trials).map(|number| {
            let (families, runs) = trial(number, &value, seeds);
            let open = families.iter().flatten().filter(|row| row.verdict == Verdict::Unclear).count();
            [3 * MEASURES * ROWS - open, runs]
        });
        let sums = each.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        let [decided, runs] = sums.map(|sum| sum as f64 / trials as f64);
        println!("{seeds:?}: {decided:.1} of 84 decided, {runs:.0} runs");
        (decided, runs)
    };
    let of_default = [Seeds::Fixed(5), Seeds::Fixed(BUDGET), ADDED];
    let [five, _, added] = of_default.map(decided);
    assert!(added.0 > five.0 + 3.0, "{added:?} but {five:?}");
    let [ten, added] = [Seeds::Fixed(10), Seeds::Added { budget: 10 }].map(decided);
    assert!(added.0 >= ten.0 && added.1 < ten.1, "{added:?} but {ten:?}");
}
