//! The runs of a task by encoding, and what is shown of them: means over seeds.

use crate::LEARNED;
use crate::results::{Results, RunResult, TaskResult, Timings};
use roformer::language::Language;
use std::collections::BTreeMap;

/// The runs of one encoding on one task.
pub(super) struct Group<'a> {
    pub label: &'a str,
    /// Its place in the plan: its colour and marker everywhere.
    pub look: usize,
    pub runs: Vec<&'a RunResult>,
}

/// A value at a place, as the mean over seeds and each seed's.
pub(super) struct Mean {
    pub at: f64,
    pub mean: f64,
    /// One for each run, NaN where it has none.
    pub seeds: Vec<f64>,
}

/// Encodings in the order of the plan, then those of runs that it does not know.
pub(super) fn labels(results: &Results) -> Vec<&str> {
    let planned = results.plan.encodings.iter().map(|encoding| encoding.label.as_str());
    let run = results.tasks.iter().flat_map(|task| task.runs.iter().map(|run| run.encoding.as_str()));
    let mut labels: Vec<&str> = Vec::new();
    for label in planned.chain(run) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// What the others are compared with.
pub(super) fn baseline(language: Language, results: &Results) -> &str {
    let nameless = language.of("the first encoding", "第一种位置编码");
    results.plan.encodings.first().map_or(nameless, |encoding| &encoding.label)
}

/// The runs of a task by encoding, without the A/A row. Encodings without runs are left out.
pub(super) fn groups<'a>(results: &'a Results, task: &'a TaskResult) -> Vec<Group<'a>> {
    let of = |label: &str| task.runs.iter().filter(|run| run.encoding == label && !run.is_again).collect();
    let groups = labels(results).into_iter().enumerate();
    let groups = groups.map(|(look, label)| Group { label, look, runs: of(label) });
    groups.filter(|group| !group.runs.is_empty()).collect()
}

impl Group<'_> {
    /// Exact answers by length; losses where the task is a language model.
    pub fn by_length(&self, task: &TaskResult) -> Vec<Mean> {
        means(self.runs.iter().map(|run| {
            run.accuracy
                .iter()
                .map(|point| (point.length as f64, if task.is_language { point.loss } else { point.exact }))
        }))
    }

    /// Loss by step.
    pub fn by_step(&self) -> Vec<Mean> {
        means(self.runs.iter().map(|run| run.curve.iter().map(|point| (point.step as f64, point.loss))))
    }

    /// The loss of fixed targets by context.
    pub fn by_context(&self) -> Vec<Mean> {
        means(self.runs.iter().map(|run| run.context.iter().map(|point| (point.context as f64, point.loss))))
    }

    /// What it learned under a name, by layer.
    pub fn by_layer(&self, name: &str) -> Vec<Mean> {
        means(self.runs.iter().map(|run| {
            let learned = run.learned.iter().find(|learned| learned.name == name);
            learned.into_iter().flat_map(|learned| (1..).map(f64::from).zip(learned.layers.iter().copied()))
        }))
    }

    /// Mean attention by distance, for each layer.
    pub fn attention(&self) -> Vec<Vec<Mean>> {
        let layers = self.runs.iter().map(|run| run.attention.len()).max().unwrap_or(0);
        let of = |layer: usize| {
            means(self.runs.iter().map(move |run| {
                run.attention
                    .get(layer)
                    .into_iter()
                    .flat_map(|row| (0..).map(f64::from).zip(row.iter().copied()))
            }))
        };
        (0..layers).map(of).collect()
    }

    /// The mean of what was measured within the trained lengths, or beyond them.
    pub fn summary(&self, task: &TaskResult, is_beyond: bool) -> Option<f64> {
        let values = self.by_length(task).into_iter();
        mean(
            values.filter(|value| (value.at > task.train_length as f64) == is_beyond).map(|value| value.mean),
        )
    }

    /// Whether it learned the task. A language model has no such line to cross.
    pub fn has_learned(&self, task: &TaskResult) -> bool {
        task.is_language || self.summary(task, false).is_none_or(|exact| exact >= LEARNED)
    }

    /// Seconds of a run's training, the mean over seeds.
    pub fn seconds(&self, task: &TaskResult, timings: &Timings) -> Option<f64> {
        mean(self.timed(task, timings).map(|timing| timing.0))
    }

    /// Tokens per second of training, the mean over seeds.
    pub fn tokens_s(&self, task: &TaskResult, timings: &Timings) -> Option<f64> {
        mean(self.timed(task, timings).map(|timing| timing.1))
    }

    fn timed(&self, task: &TaskResult, timings: &Timings) -> impl Iterator<Item = (f64, f64)> {
        let mine = |encoding: &str, name: &str| encoding == self.label && name == task.name;
        let timed = timings.runs.iter().filter(move |run| mine(&run.encoding, &run.task) && !run.is_again);
        timed.map(|run| (run.seconds, run.tokens_s))
    }
}

/// The mean of the numbers that are finite, if there are any.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .filter(|value| value.is_finite())
        .fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64).filter(|mean| mean.is_finite())
}

/// Means over seeds at each place, in the order of places. Where a seed has no finite number, it is not counted.
fn means<I: Iterator<Item = (f64, f64)>>(seeds: impl Iterator<Item = I>) -> Vec<Mean> {
    // Places are whole numbers and never negative, so that their bits have their order.
    let mut places: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (index, seed) in seeds.enumerate() {
        for (at, value) in seed.filter(|(_, value)| value.is_finite()) {
            let values = places.entry(at.to_bits()).or_default();
            values.resize(index.max(values.len()), f64::NAN);
            values.truncate(index);
            values.push(value);
        }
    }
    let of = |(bits, seeds): (u64, Vec<f64>)| {
        Some(Mean { at: f64::from_bits(bits), mean: mean(seeds.iter().copied())?, seeds })
    };
    places.into_iter().filter_map(of).collect()
}
