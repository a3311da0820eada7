//! From results to pictures.

use super::digest::{Group, Mean, groups};
use crate::LEARNED;
use crate::chart::{Axis, Figure, HeatMap, HeatRow, Level, Panel, Point, Range, Series, number};
use crate::results::{Results, TaskResult, Timings};
use roformer::language::Language;

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
    /// Its name in the page's own language of attributes.
    pub(super) fn name(self) -> &'static str {
        self.shown(Language::English)
    }

    /// As it is written on the page.
    pub(super) fn shown(self, language: Language) -> &'static str {
        match self {
            Against::Steps => language.of("steps", "步数"),
            Against::Tokens => language.of("tokens", "token 数"),
            Against::Seconds => language.of("seconds", "秒数"),
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
fn shown(language: Language, mean: &Mean) -> String {
    let seeds: Vec<String> =
        mean.seeds.iter().filter(|seed| seed.is_finite()).take(12).map(|&seed| number(seed)).collect();
    match seeds.len() {
        0 | 1 => number(mean.mean),
        _ => {
            let (mean, seeds) = (number(mean.mean), seeds.join(", "));
            language.of(format!("{mean} (seeds {seeds})"), format!("{mean}（各种子：{seeds}）"))
        }
    }
}

fn titled(title: String, mut panel: Panel) -> Option<Figure> {
    panel.series.retain(|series| !series.points.is_empty());
    (!panel.series.is_empty()).then(|| Figure::of(title, panel))
}

/// Exact answers, or loss, by length.
pub(super) fn by_length(language: Language, results: &Results, task: &TaskResult) -> Option<Figure> {
    let steps = number(task.steps as f64);
    let unlearned =
        language.of(format!("did not learn it in {steps} steps"), format!("{steps} 步内没有学会"));
    let lines = groups(results, task).into_iter().map(|group| {
        let is_faded = !group.has_learned(task);
        let label = group.label;
        let tip = |mean: &Mean| {
            let (at, shown) = (mean.at, shown(language, mean));
            language.of(format!("{label}, length {at}: {shown}"), format!("{label}，长度 {at}：{shown}"))
        };
        let series = series(&group, group.by_length(task), is_faded, 1.0, tip);
        Series { note: if is_faded { unlearned.clone() } else { String::new() }, ..series }
    });
    let y = match task.is_language {
        true => Axis::new(language.of("loss (nats per token)", "损失（每个 token 的 nat）")),
        false => Axis::new(language.of("answers that are exactly right", "完全正确的答案所占比例"))
            .including([0.0, 1.0]),
    };
    let panel = Panel {
        x: Axis::new(language.of("length", "长度"))
            .whole()
            .including(task.test_lengths.iter().map(|&length| length as f64)),
        y,
        height: 360.0,
        ranges: vec![Range {
            from: f64::MIN,
            to: task.train_length as f64,
            label: language.of("trained lengths", "训练长度").into(),
        }],
        levels: if task.is_language { vec![] } else { vec![Level { y: LEARNED, label: String::new() }] },
        series: lines.collect(),
        ..Panel::default()
    };
    let what = measured(language, task);
    let title = language.of(
        format!("{}: {what} by length, one line for each encoding", task.name),
        format!("{}：{what}随长度的变化，每种位置编码一条线", task.name),
    );
    titled(title, panel)
}

/// What a task measures.
pub(super) fn measured(language: Language, task: &TaskResult) -> &'static str {
    if task.is_language {
        language.of("loss", "损失")
    } else {
        language.of("exact answers", "完全正确率")
    }
}

/// The loss as it fell. Against seconds, only those encodings whose times are known.
pub(super) fn by_step(
    language: Language,
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
        Against::Steps => language.of("step", "步"),
        Against::Tokens => language.of("token", " token"),
        Against::Seconds => language.of("second", "秒"),
    };
    let lines = groups(results, task).into_iter().filter_map(|group| {
        let (scale, label) = (scale(&group)?, group.label);
        let tip = |mean: &Mean| {
            let (at, shown) = (number(mean.at * scale), shown(language, mean));
            language.of(
                format!("{label}, {unit} {at}: {shown}"),
                format!("{label}，第 {at} {}：{shown}", unit.trim()),
            )
        };
        Some(series(&group, group.by_step(), !group.has_learned(task), scale, tip))
    });
    let x = match against {
        Against::Steps | Against::Tokens => Axis::new(against.shown(language)).whole(),
        Against::Seconds => {
            Axis::new(language.of("seconds of training, measured on this machine", "训练秒数（在本机测得）"))
        }
    };
    let panel = Panel {
        x: x.including([0.0]),
        y: Axis::new(language.of("training loss (nats per token)", "训练损失（每个 token 的 nat）"))
            .including([0.0]),
        height: 360.0,
        series: lines.collect(),
        ..Panel::default()
    };
    let title = language.of(
        format!("{}: training loss by {unit}, one line for each encoding", task.name),
        format!("{}：训练损失随{unit}的变化，每种位置编码一条线", task.name),
    );
    titled(title, panel)
}

/// The loss of fixed targets by context.
pub(super) fn by_context(language: Language, results: &Results, task: &TaskResult) -> Option<Figure> {
    let lines = groups(results, task).into_iter().map(|group| {
        let label = group.label;
        let tip = |mean: &Mean| {
            let (at, shown) = (mean.at, shown(language, mean));
            language.of(
                format!("{label}, {at} tokens of context: {shown}"),
                format!("{label}，上下文 {at} 个 token：{shown}"),
            )
        };
        series(&group, group.by_context(), !group.has_learned(task), 1.0, tip)
    });
    let panel = Panel {
        x: Axis::new(language.of(
            "tokens of context before the first target (logarithmic)",
            "第一个目标之前的上下文 token 数（对数刻度）",
        ))
        .log(),
        y: Axis::new(
            language.of("loss of the same targets (nats per token)", "同样目标的损失（每个 token 的 nat）"),
        ),
        height: 340.0,
        ranges: vec![Range {
            from: 0.0,
            to: task.train_length as f64,
            label: language.of("trained lengths", "训练长度").into(),
        }],
        series: lines.collect(),
        ..Panel::default()
    };
    let title = language.of(
        format!("{}: loss of the same targets by context", task.name),
        format!("{}：同样目标的损失随上下文的变化", task.name),
    );
    titled(title, panel)
}

/// Mean attention by distance: a row for each encoding and layer.
pub(super) fn attention(language: Language, results: &Results, task: &TaskResult) -> Option<HeatMap> {
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
                label: language.of(
                    format!("{}, layer {}", group.label, layer + 1),
                    format!("{}，第 {} 层", group.label, layer + 1),
                ),
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
        title: language.of(
            format!("{}: mean attention by distance, for each encoding and layer", task.name),
            format!("{}：平均注意力随相对距离的变化，每种位置编码的每一层一行", task.name),
        ),
        columns_label: language.of("tokens back", "回看的 token 数").into(),
        columns: (0..longest.div_ceil(joined)).map(column).collect(),
        value_label: language.of("mean attention", "平均注意力").into(),
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
pub(super) fn learned(language: Language, results: &Results) -> Option<Figure> {
    let mut panels = Vec::new();
    for task in &results.tasks {
        for name in learned_names(task) {
            let lines = groups(results, task).into_iter().map(|group| {
                let label = group.label;
                let tip = |mean: &Mean| {
                    let (at, shown) = (mean.at, shown(language, mean));
                    language.of(
                        format!("{label}, {}, {name} of layer {at}: {shown}", task.name),
                        format!("{label}，{}，第 {at} 层的 {name}：{shown}", task.name),
                    )
                };
                series(&group, group.by_layer(name), false, 1.0, tip)
            });
            let runs = results.tasks.iter().flat_map(|task| &task.runs).flat_map(|run| &run.learned);
            let all = runs
                .filter(|learned| learned.name == name)
                .flat_map(|learned| learned.layers.iter().copied());
            let panel = Panel {
                title: format!("{}{}{name}", task.name, language.of(": ", "：")),
                x: Axis::new(language.of("layer", "层")).whole(),
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
    let title =
        language.of("What encodings learned, by layer and task", "各位置编码学到的参数，按层和任务").into();
    (!panels.is_empty()).then_some(Figure { title, columns: 2, panels })
}
