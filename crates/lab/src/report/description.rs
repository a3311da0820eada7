//! What is said above plots that no statistic judges: it is shown, not tested, and the sentence says so.

use super::digest::{self, Group};
use super::figures::learned_names;
use super::words::{list, quoted, rule_name, sentence};
use crate::chart::{fixed, number};
use crate::results::{Results, Rule, TaskResult};
use roformer::language::Language;

/// What ends a sentence that no statistic judges.
fn untested(language: Language) -> &'static str {
    language.of(" Shown, not tested.", "仅供观察，未作检验。")
}

/// Attention by distance: who looks near and who far.
pub(super) fn of_attention(language: Language, groups: &[Group]) -> String {
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
            let distance = fixed(*distance, 1, false);
            language.of(
                format!("{label} looks {distance} tokens back on average over its layers."),
                format!("{label} 各层平均回看 {distance} 个 token。"),
            )
        }
        [(near, short), .., (label, long)] => {
            let (short, long) = (fixed(*short, 1, false), fixed(*long, 1, false));
            let said = language.of(
                format!("On average over layers, {near} looks nearest ({short} tokens back) and {label} farthest ({long})."),
                format!("按各层平均，{near} 看得最近（回看 {short} 个 token），{label} 看得最远（{long} 个）。"),
            );
            said + untested(language)
        }
    }
}

/// The loss of fixed targets: for whom more context than was trained on is of use.
pub(super) fn of_context(language: Language, task: &TaskResult, groups: &[Group]) -> String {
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
        let (open, close) = language.of((" (", ")"), ("（", "）"));
        side.push(format!("{}{open}{sign}{}{close}", quoted(group.label), fixed(change, 2, false)));
    }
    let mut parts = Vec::new();
    for (labels, english, chinese) in [(falls, "falls or stays", "下降或不变"), (rises, "rises", "上升")]
    {
        if !labels.is_empty() {
            let labels = list(language, &labels);
            parts.push(language.of(format!("{english} for {labels}"), format!("{labels}{chinese}")));
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    let (from, to) = (number(from), number(to));
    let said = language.of(
        format!(
            "from {from} to {to} tokens of context, the loss of the same targets {}",
            parts.join(" and ")
        ),
        format!("上下文从 {from} 个 token 增加到 {to} 个时，同样目标的损失：{}", parts.join("；")),
    );
    sentence(language, &said) + untested(language)
}

/// What each encoding learned under each name, over layers and tasks.
pub(super) fn of_learned(language: Language, results: &Results) -> String {
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
            let (low, high) = (fixed(low, 2, false), fixed(high, 2, false));
            Some(language.of(
                format!("{name} ends between {low} and {high}"),
                format!("{name} 最终在 {low} 与 {high} 之间"),
            ))
        };
        let ranges: Vec<String> = names.iter().filter_map(range).collect();
        if !ranges.is_empty() {
            let (label, said) = (quoted(label), list(language, &ranges));
            parts.push(
                language.of(format!("with {label}, {said}"), format!("{label} 的 {}", ranges.join("，"))),
            );
        }
    }
    if parts.is_empty() {
        String::new()
    } else {
        let said = language.of(
            format!("over layers and tasks, {}", parts.join("; ")),
            format!("在各层和各任务中，{}", parts.join("；")),
        );
        sentence(language, &said)
    }
}

/// Which rule does best at the longest length, for each encoding that was tested with others.
pub(super) fn of_swaps(language: Language, task: &TaskResult) -> String {
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
                let value = fixed(value, 2, false);
                parts.push(language.of(
                    format!("{name} does best as it was trained ({value})"),
                    format!("{name} 按训练时的规则效果最好（{value}）"),
                ));
            }
            (Some((rule, value)), Some((_, plain))) => {
                let (value, plain) = (fixed(value, 2, false), fixed(*plain, 2, false));
                let rule = rule_name(language, rule);
                parts.push(language.of(
                    format!("{name} does best when tested with {rule} ({value} against {plain} as trained)"),
                    format!("{name} 换用 {rule} 测试时效果最好（{value}，按训练时的规则为 {plain}）"),
                ));
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    let said = language.of(
        format!("at length {longest}, {}", parts.join("; ")),
        format!("长度为 {longest} 时，{}", parts.join("；")),
    );
    sentence(language, &said) + untested(language)
}
