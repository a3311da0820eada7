//! From results to pictures.

use super::digest::{Group, Mean, groups};
use crate::LEARNED;
use crate::chart::{Axis, Figure, HeatMap, HeatRow, Level, Panel, Point, Range, Series, number};
use crate::results::{Results, TaskResult, Timings};

/// The most columns of a heat map; more distances are joined.
const COLUMNS: usize = 64;

/// What a loss is drawn against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Against {
    Steps,
    Tokens,
    Seconds,
}

impl Against {
    /// As it is written on the page.
    pub(super) fn name(self) -> &'static str {
        match self {
            Against::Steps => "steps",
            Against::Tokens => "tokens",
            Against::Seconds => "seconds",
        }
    }
}

/// A line of means with its seeds behind it; `tip` says what a point is.
fn series(
    group: &Group,
    means: Vec<Mean>,
    is_faded: bool,
    scale: f64,
    tip: impl Fn(&Mean) -> String,
) -> Series {
    let seeds = means.iter().map(|point| point.seeds.len()).max().unwrap_or(0);
    let of_seed = |seed: usize| {
        let points = means.iter().filter_map(move |point| Some((point.at * scale, *point.seeds.get(seed)?)));
        points.collect()
    };
    let behind = if seeds > 1 { (0..seeds).map(of_seed).collect() } else { Vec::new() };
    let point = |mean: &Mean| Point { x: mean.at * scale, y: mean.mean, tip: tip(mean) };
    Series {
        label: group.label.into(),
        key: group.label.into(),
        look: group.look,
        is_faded,
        points: means.iter().map(point).collect(),
        behind,
        ..Series::default()
    }
}

/// The mean and, if there are several, each seed's number.
fn shown(mean: &Mean) -> String {
    let seeds: Vec<String> =
        mean.seeds.iter().filter(|seed| seed.is_finite()).take(12).map(|&seed| number(seed)).collect();
    match seeds.len() {
        0 | 1 => number(mean.mean),
        _ => format!("{} (seeds {})", number(mean.mean), seeds.join(", ")),
    }
}

fn titled(title: String, mut panel: Panel) -> Option<Figure> {
    panel.series.retain(|series| !series.points.is_empty());
    (!panel.series.is_empty()).then(|| Figure::of(title, panel))
}

/// Exact answers, or loss, by length.
pub(super) fn by_length(results: &Results, task: &TaskResult) -> Option<Figure> {
    let unlearned = format!("did not learn it in {} steps", number(task.steps as f64));
    let lines = groups(results, task).into_iter().map(|group| {
        let is_faded = !group.has_learned(task);
        let label = group.label;
        let tip = |mean: &Mean| format!("{label}, length {}: {}", mean.at, shown(mean));
        let series = series(&group, group.by_length(task), is_faded, 1.0, tip);
        Series { note: if is_faded { unlearned.clone() } else { String::new() }, ..series }
    });
    let y = match task.is_language {
        true => Axis::new("loss (nats per token)"),
        false => Axis::new("answers that are exactly right").including([0.0, 1.0]),
    };
    let panel = Panel {
        x: Axis::new("length").whole().including(task.test_lengths.iter().map(|&length| length as f64)),
        y,
        height: 360.0,
        ranges: vec![Range { from: f64::MIN, to: task.train_length as f64, label: "trained lengths".into() }],
        levels: if task.is_language { vec![] } else { vec![Level { y: LEARNED, label: String::new() }] },
        series: lines.collect(),
        ..Panel::default()
    };
    let what = if task.is_language { "loss" } else { "exact answers" };
    titled(format!("{}: {what} by length, one line for each encoding", task.name), panel)
}

/// The loss as it fell. Against seconds, only those encodings whose times are known.
pub(super) fn by_step(
    results: &Results,
    task: &TaskResult,
    timings: &Timings,
    against: Against,
) -> Option<Figure> {
    let scale = |group: &Group| match against {
        Against::Steps => Some(1.0),
        Against::Tokens => Some(task.tokens_per_step as f64),
        // A run's seconds, spread evenly over its steps.
        Against::Seconds => group.seconds(task, timings).map(|seconds| seconds / task.steps.max(1) as f64),
    };
    let unit = match against {
        Against::Steps => "step",
        Against::Tokens => "token",
        Against::Seconds => "second",
    };
    let lines = groups(results, task).into_iter().filter_map(|group| {
        let (scale, label) = (scale(&group)?, group.label);
        let tip = |mean: &Mean| format!("{label}, {unit} {}: {}", number(mean.at * scale), shown(mean));
        Some(series(&group, group.by_step(), !group.has_learned(task), scale, tip))
    });
    let x = match against {
        Against::Steps => Axis::new("steps").whole(),
        Against::Tokens => Axis::new("tokens").whole(),
        Against::Seconds => Axis::new("seconds of training, measured on this machine"),
    };
    let panel = Panel {
        x: x.including([0.0]),
        y: Axis::new("training loss (nats per token)").including([0.0]),
        height: 360.0,
        series: lines.collect(),
        ..Panel::default()
    };
    titled(format!("{}: training loss by {unit}, one line for each encoding", task.name), panel)
}

/// The loss of fixed targets by context.
pub(super) fn by_context(results: &Results, task: &TaskResult) -> Option<Figure> {
    let lines = groups(results, task).into_iter().map(|group| {
        let label = group.label;
        let tip = |mean: &Mean| format!("{label}, {} tokens of context: {}", mean.at, shown(mean));
        series(&group, group.by_context(), !group.has_learned(task), 1.0, tip)
    });
    let panel = Panel {
        x: Axis::new("tokens of context before the first target (logarithmic)").log(),
        y: Axis::new("loss of the same targets (nats per token)"),
        height: 340.0,
        ranges: vec![Range { from: 0.0, to: task.train_length as f64, label: "trained lengths".into() }],
        series: lines.collect(),
        ..Panel::default()
    };
    titled(format!("{}: loss of the same targets by context", task.name), panel)
}

/// Mean attention by distance: a row for each encoding and layer.
pub(super) fn attention(results: &Results, task: &TaskResult) -> Option<HeatMap> {
    let mut rows = Vec::new();
    let longest = task.runs.iter().flat_map(|run| &run.attention).map(Vec::len).max().unwrap_or(0);
    let joined = longest.div_ceil(COLUMNS).max(1);
    for group in groups(results, task) {
        for (layer, means) in group.attention().into_iter().enumerate() {
            let mut values = vec![(0.0, 0usize); longest.div_ceil(joined)];
            for mean in &means {
                let (sum, count) = &mut values[mean.at as usize / joined];
                (*sum, *count) = (*sum + mean.mean, *count + 1);
            }
            // Of distances that are joined, the mean; NaN, an empty place, where there is none.
            let values = values.into_iter().map(|(sum, count)| sum / count as f64).collect();
            rows.push(HeatRow {
                label: format!("{}, layer {}", group.label, layer + 1),
                key: group.label.into(),
                values,
            });
        }
    }
    let column = |index: usize| match joined {
        1 => index.to_string(),
        _ => format!("{}–{}", index * joined, (index * joined + joined).min(longest) - 1),
    };
    (longest > 0 && !rows.is_empty()).then(|| HeatMap {
        title: format!("{}: mean attention by distance, for each encoding and layer", task.name),
        columns_label: "tokens back".into(),
        columns: (0..longest.div_ceil(joined)).map(column).collect(),
        value_label: "mean attention".into(),
        rows,
    })
}

/// The names under which encodings learned something on a task.
pub(super) fn learned_names(task: &TaskResult) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for learned in task.runs.iter().filter(|run| !run.is_again).flat_map(|run| &run.learned) {
        if !names.contains(&learned.name.as_str()) {
            names.push(&learned.name);
        }
    }
    names
}

/// What encodings learned, by layer: a panel for each task and name, on one scale for each name.
pub(super) fn learned(results: &Results) -> Option<Figure> {
    let mut panels = Vec::new();
    for task in &results.tasks {
        for name in learned_names(task) {
            let lines = groups(results, task).into_iter().map(|group| {
                let label = group.label;
                let tip = |mean: &Mean| {
                    format!("{label}, {}, {name} of layer {}: {}", task.name, mean.at, shown(mean))
                };
                series(&group, group.by_layer(name), false, 1.0, tip)
            });
            let runs = results.tasks.iter().flat_map(|task| &task.runs).flat_map(|run| &run.learned);
            let all = runs
                .filter(|learned| learned.name == name)
                .flat_map(|learned| learned.layers.iter().copied());
            let panel = Panel {
                title: format!("{}: {name}", task.name),
                x: Axis::new("layer").whole(),
                y: Axis::new("").including(all),
                height: 190.0,
                series: lines.filter(|series| !series.points.is_empty()).collect(),
                ..Panel::default()
            };
            if !panel.series.is_empty() {
                panels.push(panel);
            }
        }
    }
    let title = "What encodings learned, by layer and task".into();
    (!panels.is_empty()).then_some(Figure { title, columns: 2, panels })
}
