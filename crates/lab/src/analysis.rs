//! From finished runs to what may be said of them.

use super::plan::{Plan, PlannedTask};
use super::results::{Accuracy, Comparison, Measure, Place, Ranking, RunResult, Swap, Swept, TaskResult};
use super::size::Sizes;
use super::statistics::{Chances, Looks, Paired, Verdict, holm, ranks};
use super::store::Finished;

/// Exact answers within the trained lengths from which on a task counts as learned.
pub const LEARNED: f64 = 0.95;

/// Differences of exact answers, or of losses, that are of no account.
const MARGIN: f64 = 0.05;

/// The same of steps, as a part of all steps.
const MARGIN_OF_STEPS: f64 = 0.05;

/// All that was found on one task: `finished` are the runs of each encoding in turn, the baseline's twice.
pub(super) fn analyse(
    plan: &Plan,
    planned: &PlannedTask,
    finished: Vec<Finished>,
    sweep: Vec<Swept>,
) -> TaskResult {
    let task = &*planned.task;
    let tokens_per_step = finished
        .first()
        .map_or(0, |run| (run.settings.batch * task.tokens(run.settings.train_length)) as u64);
    let swaps = swaps(&finished);
    let mut result = TaskResult {
        name: task.name().into(),
        isolates: task.isolates().into(),
        is_control: task.is_control(),
        is_language: task.is_language(),
        train_length: planned.train_length,
        test_lengths: planned.test_lengths.clone(),
        symbols: planned.symbols,
        steps: planned.steps,
        tokens_per_step,
        size: (plan.sizes == Sizes::Pilot).then_some(planned.size),
        pilots: planned.pilots.clone(),
        runs: finished.into_iter().map(|run| run.result).collect(),
        comparisons: Vec::new(),
        rankings: Vec::new(),
        swaps,
        sweep,
    };
    let floor = 0.1 * (task.vocabulary() as f64).ln();
    for measure in Measure::ALL {
        let mut comparisons = compare(plan, &result, measure, floor);
        result.comparisons.append(&mut comparisons);
        result.rankings.extend(rank(plan, &result, measure, floor));
    }
    result
}

/// Each encoding against the first on one measure, and the first against itself.
fn compare(plan: &Plan, task: &TaskResult, measure: Measure, floor: f64) -> Vec<Comparison> {
    let of = |label: &str, is_again: bool| -> Vec<&RunResult> {
        task.runs.iter().filter(|run| run.encoding == label && run.is_again == is_again).collect()
    };
    let baseline = &plan.encodings[0].0;
    let others = plan.encodings[1..].iter().map(|(label, _)| (&label[..], false));
    let pairs: Vec<(&str, bool)> = others.chain([(&baseline[..], true)]).collect();
    let (is_lower_better, margin) = terms(task, measure);
    let looks = plan.seeds.looks();
    let mut comparisons: Vec<Comparison> = Vec::new();
    for (label, is_again) in pairs {
        let runs = of(label, is_again);
        let base = of(baseline, false);
        let pairs = runs.iter().zip(&base).map(|(run, base)| values(task, measure, run, base, floor));
        let differences: Option<Vec<f64>> =
            pairs.map(|pair| pair.map(|[ours, theirs]| ours - theirs)).collect();
        // Where no length is beyond those of training there is nothing to compare.
        let Some(differences) = differences else { continue };
        let not_judged = (measure == Measure::Beyond && !task.is_language)
            .then(|| not_learned(task, baseline, &base).or_else(|| not_learned(task, label, &runs)))
            .flatten();
        let compared = compared(measure, differences, margin, &looks);
        comparisons.push(Comparison { encoding: label.into(), is_again, not_judged, ..compared });
    }
    judge(&mut comparisons, is_lower_better, &looks);
    comparisons
}

/// What the differences of one encoding show by themselves, before they are judged among those of the others.
pub(super) fn compared(measure: Measure, differences: Vec<f64>, margin: f64, looks: &Looks) -> Comparison {
    let Paired { mean, low, high, effect, detectable, chances } = Paired::over(&differences, margin, looks);
    Comparison {
        encoding: String::new(),
        is_again: false,
        measure,
        differences,
        mean,
        effect,
        low,
        high,
        p: chances.p,
        p_holm: 1.0,
        detectable,
        margin,
        p_equal: chances.p_equal,
        verdict: Verdict::Unclear,
        not_judged: None,
    }
}

/// Judges the comparisons of one task and measure.
pub(super) fn judge(comparisons: &mut [Comparison], is_lower_better: bool, looks: &Looks) {
    // Which are judged is a matter of chance too, so those that are not count among those that could have been.
    let p = |row: &Comparison| if row.not_judged.is_none() { row.p } else { 1.0 };
    let corrected = holm(&comparisons.iter().map(p).collect::<Vec<_>>());
    for (comparison, p_holm) in comparisons.iter_mut().zip(corrected) {
        comparison.p_holm = p_holm;
        if comparison.not_judged.is_none() {
            let chances = Chances::over(&comparison.differences, comparison.margin, looks);
            comparison.verdict = chances.verdict(p_holm, is_lower_better);
        }
    }
}

/// Whether less is better on a measure, and the margin of no account.
fn terms(task: &TaskResult, measure: Measure) -> (bool, f64) {
    match measure {
        // Losses and steps are better the lower they are; exact answers are not.
        Measure::InRange | Measure::Beyond => (task.is_language, MARGIN),
        Measure::Loss => (true, MARGIN),
        Measure::Speed => (true, MARGIN_OF_STEPS * task.steps as f64),
    }
}

/// The places of encodings among each other on one measure; `None` where there are not two to compare.
fn rank(plan: &Plan, task: &TaskResult, measure: Measure, floor: f64) -> Option<Ranking> {
    let of = |label: &str| -> Vec<&RunResult> {
        task.runs.iter().filter(|run| run.encoding == label && !run.is_again).collect()
    };
    let all = plan.encodings.iter().map(|(label, _)| (&label[..], of(label)));
    let is_judged = |(label, runs): &(&str, Vec<&RunResult>)| {
        measure != Measure::Beyond || task.is_language || not_learned(task, label, runs).is_none()
    };
    let ranked: Vec<(&str, Vec<&RunResult>)> = all.filter(is_judged).collect();
    let differences = |a: usize, b: usize| -> Option<Vec<f64>> {
        let pairs = ranked[a].1.iter().zip(&ranked[b].1);
        pairs.map(|(a, b)| values(task, measure, a, b, floor).map(|[a, b]| a - b)).collect()
    };
    if ranked.len() < 2 || differences(0, 1).is_none() {
        return None;
    }
    let (is_lower_better, margin) = terms(task, measure);
    let differences = |a, b| differences(a, b).unwrap_or_default();
    let bounds = ranks(ranked.len(), differences, margin, is_lower_better, &plan.seeds.looks());
    let place = |((label, _), [first, last]): (&(&str, _), [usize; 2])| Place {
        encoding: label.to_string(),
        first,
        last,
    };
    let mut places: Vec<Place> = ranked.iter().zip(bounds).map(place).collect();
    places.sort_by_key(|place| (place.first + place.last, place.first));
    Some(Ranking { measure, places })
}

/// What a run and the baseline's of the same seed have on a measure; `None` where there is nothing to measure.
fn values(
    task: &TaskResult,
    measure: Measure,
    run: &RunResult,
    base: &RunResult,
    floor: f64,
) -> Option<[f64; 2]> {
    let both = |of: &dyn Fn(&RunResult) -> Option<f64>| Some([of(run)?, of(base)?]);
    match measure {
        Measure::InRange => both(&|run| mean(run, task, true)),
        Measure::Beyond => both(&|run| mean(run, task, false)),
        Measure::Loss => both(&|run| last(run)),
        Measure::Speed => {
            // The steps that each took to the loss at which the worse of the two ended, or to a tenth of ignorance: what
            // comes after that is noise.
            let wanted = last(run)?.max(last(base)?).max(floor);
            both(&|run| run.curve.iter().find(|point| point.loss <= wanted).map(|point| point.step as f64))
        }
    }
}

fn last(run: &RunResult) -> Option<f64> {
    run.curve.last().map(|point| point.loss)
}

/// The mean over the lengths within those of training, or beyond: of exact answers, or of the loss of a language model.
pub fn mean(run: &RunResult, task: &TaskResult, is_in_range: bool) -> Option<f64> {
    let is_its = |at: &&Accuracy| (at.length <= task.train_length) == is_in_range;
    let value = |at: &Accuracy| if task.is_language { at.loss } else { at.exact };
    let values: Vec<f64> = run.accuracy.iter().filter(is_its).map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Why lengths beyond training are not judged: the encoding did not learn the task within them, as the mean of its seeds.
fn not_learned(task: &TaskResult, label: &str, runs: &[&RunResult]) -> Option<String> {
    let reached = runs.iter().filter_map(|run| mean(run, task, true)).sum::<f64>() / runs.len() as f64;
    (reached < LEARNED).then(|| format!("{label} did not learn it in {} steps", task.steps))
}

/// What the runs of each encoding reached with other rules, a number for each seed.
fn swaps(finished: &[Finished]) -> Vec<Swap> {
    let mut swaps: Vec<Swap> = Vec::new();
    for run in finished {
        for swapped in &run.swaps {
            let is_same = |swap: &&mut Swap| {
                (&swap.trained, swap.tested, swap.length)
                    == (&run.result.encoding, swapped.tested, swapped.length)
            };
            match swaps.iter_mut().find(is_same) {
                Some(swap) => swap.values.push(swapped.value),
                None => swaps.push(Swap {
                    trained: run.result.encoding.clone(),
                    tested: swapped.tested,
                    length: swapped.length,
                    values: vec![swapped.value],
                }),
            }
        }
    }
    swaps
}
