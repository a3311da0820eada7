//! What is said above plots that no statistic judges: it is shown, not tested, and the sentence says so.

use super::digest::{self, Group};
use super::figures::learned_names;
use super::verdict::{list, quoted, sentence};
use crate::chart::{fixed, number};
use crate::results::{Results, Rule, TaskResult};

/// Attention by distance: who looks near and who far.
pub(super) fn of_attention(groups: &[Group]) -> String {
    let mean_distance = |group: &Group| {
        digest::mean(group.attention().iter().map(|layer| {
            let (sum, weight) =
                layer.iter().fold((0.0, 0.0), |(sum, weight), at| (sum + at.at * at.mean, weight + at.mean));
            sum / weight
        }))
    };
    let mut far: Vec<(String, f64)> =
        groups.iter().filter_map(|group| Some((quoted(group.label), mean_distance(group)?))).collect();
    far.sort_by(|a, b| a.1.total_cmp(&b.1));
    match far.as_slice() {
        [] => String::new(),
        [(label, distance)] => {
            format!("{label} looks {} tokens back on average over its layers.", fixed(*distance, 1, false))
        }
        [(near, short), .., (label, long)] => format!(
            "On average over layers, {near} looks nearest ({} tokens back) and {label} farthest ({}). Shown, not tested.",
            fixed(*short, 1, false),
            fixed(*long, 1, false)
        ),
    }
}

/// The loss of fixed targets: for whom more context than was trained on is of use.
pub(super) fn of_context(task: &TaskResult, groups: &[Group]) -> String {
    let (mut falls, mut rises, mut from, mut to) = (Vec::new(), Vec::new(), 0.0f64, 0.0f64);
    for group in groups {
        let points = group.by_context();
        let trained = points.iter().rev().find(|point| point.at <= task.train_length as f64);
        let (Some(trained), Some(last)) = (trained, points.last()) else { continue };
        if last.at <= trained.at {
            continue;
        }
        (from, to) = (from.max(trained.at), to.max(last.at));
        let change = last.mean - trained.mean;
        let sign = if change > 0.0 { "+" } else { "" };
        let side = if change > 0.0 { &mut rises } else { &mut falls };
        side.push(format!("{} ({sign}{})", quoted(group.label), fixed(change, 2, false)));
    }
    let mut parts = Vec::new();
    for (labels, verb) in [(falls, "falls or stays"), (rises, "rises")] {
        if !labels.is_empty() {
            parts.push(format!("{verb} for {}", list(&labels)));
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    let (from, to) = (number(from), number(to));
    let start = format!(
        "from {from} to {to} tokens of context, the loss of the same targets {}",
        parts.join(" and ")
    );
    sentence(&start) + " Shown, not tested."
}

/// What each encoding learned under each name, over layers and tasks.
pub(super) fn of_learned(results: &Results) -> String {
    let mut parts = Vec::new();
    for label in digest::labels(results) {
        let mut names: Vec<&str> = Vec::new();
        let mut means: Vec<(&str, f64)> = Vec::new();
        for task in &results.tasks {
            for group in digest::groups(results, task).iter().filter(|group| group.label == label) {
                for name in learned_names(task) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                    means.extend(group.by_layer(name).iter().map(|layer| (name, layer.mean)));
                }
            }
        }
        let range = |name: &&str| {
            let of_name = || means.iter().filter(|(other, _)| other == name).map(|(_, mean)| *mean);
            let (low, high) = (of_name().reduce(f64::min)?, of_name().reduce(f64::max)?);
            Some(format!("{name} ends between {} and {}", fixed(low, 2, false), fixed(high, 2, false)))
        };
        let ranges: Vec<String> = names.iter().filter_map(range).collect();
        if !ranges.is_empty() {
            parts.push(format!("with {}, {}", quoted(label), list(&ranges)));
        }
    }
    if parts.is_empty() {
        String::new()
    } else {
        sentence(&format!("over layers and tasks, {}", parts.join("; ")))
    }
}

/// Which rule does best at the longest length, for each encoding that was tested with others.
pub(super) fn of_swaps(task: &TaskResult) -> String {
    let Some(longest) = task.swaps.iter().map(|swap| swap.length).max() else { return String::new() };
    let mut labels: Vec<&str> = Vec::new();
    for swap in &task.swaps {
        if !labels.contains(&swap.trained.as_str()) {
            labels.push(&swap.trained);
        }
    }
    let mut parts = Vec::new();
    for label in labels {
        let name = quoted(label);
        let swaps = task.swaps.iter().filter(|swap| swap.trained == label && swap.length == longest);
        let values: Vec<(Rule, f64)> = swaps
            .filter_map(|swap| Some((swap.tested, digest::mean(swap.values.iter().copied())?)))
            .collect();
        let better = |a: f64, b: f64| if task.is_language { a < b } else { a > b };
        let best =
            values.iter().copied().reduce(|best, next| if better(next.1, best.1) { next } else { best });
        let trained = values.iter().find(|(tested, _)| *tested == Rule::AsTrained);
        match (best, trained) {
            (Some((Rule::AsTrained, value)), _) => {
                parts.push(format!("{name} does best as it was trained ({})", fixed(value, 2, false)));
            }
            (Some((rule, value)), Some((_, plain))) => parts.push(format!(
                "{name} does best when tested with {} ({} against {} as trained)",
                rule.name(),
                fixed(value, 2, false),
                fixed(*plain, 2, false)
            )),
            _ => {}
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    sentence(&format!("at length {longest}, {}", parts.join("; "))) + " Shown, not tested."
}
