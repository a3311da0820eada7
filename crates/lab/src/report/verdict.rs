//! Verdicts in plain words. Each follows from the statistics of a comparison and says no more than they do.

use super::digest;
use super::words::{clauses, finding, is_different, is_judged_as, names_of, quoted, sentence, tally};
use crate::results::{Comparison, Measure, Results, TaskResult};
use crate::statistics::Verdict;
use roformer::language::Language;

/// A sentence, and the task whose table it can be checked in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sentence {
    pub text: String,
    pub task: Option<usize>,
}

/// The sentences that open a report: within the trained lengths, beyond them, and how far to trust it.
pub(super) fn opening(language: Language, results: &Results) -> Vec<Sentence> {
    if results.tasks.iter().all(|task| task.runs.is_empty()) {
        return vec![Sentence {
            text: language
                .of(
                    "No runs are in these results, so nothing can be said.",
                    "这些结果里没有任何一次训练，因此什么也说不了。",
                )
                .into(),
            task: None,
        }];
    }
    vec![within(language, results), beyond(language, results), trust(language, results)]
}

/// Who learned what, and who learned it faster.
fn within(language: Language, results: &Results) -> Sentence {
    let baseline = &quoted(digest::baseline(language, results));
    let mut parts = Vec::new();
    let judged: Vec<&TaskResult> = results.tasks.iter().filter(|task| !task.is_language).collect();
    if !judged.is_empty() {
        parts.push(learned(language, results, &judged));
    }
    let tasks = |is_control: bool| {
        results.tasks.iter().enumerate().filter(move |(_, task)| task.is_control == is_control)
    };
    let speed = strongest(tasks(false), Measure::Speed)
        .map(|found| (language.of("speed of learning", "学习速度"), found));
    let found = speed.or_else(|| {
        [Measure::InRange, Measure::Loss]
            .into_iter()
            .find_map(|measure| strongest(tasks(false), measure))
            .map(|found| {
                (language.of("what is learned within the trained lengths", "训练长度之内的成绩"), found)
            })
    });
    let mut task = None;
    match found {
        Some((what, (index, comparison))) => {
            let name = quoted(&results.tasks[index].name);
            let finding = finding(language, &results.tasks[index], comparison, baseline);
            parts.push(language.of(
                format!("the largest difference in {what} that can be shown is on {name}: {finding}"),
                format!("在{what}上，能够证实的最大差异出现在 {name}：{finding}"),
            ));
            task = Some(index);
        }
        None => {
            let rows: Vec<&Comparison> =
                tasks(false).flat_map(|(_, task)| rows(task, Measure::Speed)).collect();
            if !rows.is_empty() {
                let counts = tally(language, &rows);
                parts.push(language.of(
                    format!("in speed of learning no encoding could be told from {baseline}: {counts}"),
                    format!("在学习速度上，没有一种位置编码能与 {baseline} 区分开：{counts}"),
                ));
            }
        }
    }
    if parts.is_empty() {
        parts.push(
            language
                .of(
                    "in what was compared within the trained lengths, nothing was found",
                    "在训练长度之内的比较中，没有发现什么",
                )
                .into(),
        );
    }
    let task = task.or_else(|| (!results.tasks.is_empty()).then_some(0));
    Sentence { text: sentence(language, &parts.join(language.of("; ", "；"))), task }
}

/// Which encodings reached the line within the trained lengths, on which tasks.
fn learned(language: Language, results: &Results, tasks: &[&TaskResult]) -> String {
    let mut missed: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for task in tasks {
        for group in digest::groups(results, task) {
            if !seen.contains(&group.label) {
                seen.push(group.label);
            }
            if !group.has_learned(task) {
                match missed.iter_mut().find(|(label, _)| *label == group.label) {
                    Some((_, names)) => names.push(&task.name),
                    None => missed.push((group.label, vec![&task.name])),
                }
            }
        }
    }
    let every = match tasks {
        [task] => language.of("", " ").to_string() + &quoted(&task.name),
        _ => language.of("every task", "所有任务").into(),
    };
    let line = crate::LEARNED;
    // Those that missed the same tasks are said together.
    let mut together: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (label, names) in &missed {
        match together.iter_mut().find(|(_, known)| known == names) {
            Some((labels, _)) => labels.push(label),
            None => together.push((vec![label], names.clone())),
        }
    }
    let misses = together.iter().map(|(labels, names)| {
        let (labels, names) = (names_of(language, labels), names_of(language, names));
        language.of(format!("{labels} on {names}"), format!("{names} 上的 {labels}"))
    });
    let misses: Vec<String> = misses.collect();
    // A sentence that is read aloud names a few, and counts where there are more.
    let is_long = missed.len() > NAMED;
    let misses = if is_long { vec![hardest(language, results, tasks, seen.len())] } else { misses };
    match (seen.len(), missed.len()) {
        (all, some) if is_long => {
            let (rest, misses) = (all - some, misses.concat());
            let who = if rest == 0 { "none".into() } else { rest.to_string() };
            language.of(
                format!(
                    "{who} of {all} encodings learn {every} within the lengths they were trained on ({line} of the answers right); {misses}"
                ),
                format!(
                    "{all} 种位置编码中有 {rest} 种在训练长度之内学会了{every}（答案正确率达到 {line}）；{misses}"
                ),
            )
        }
        (all, 0) => language.of(
            format!(
                "all {all} encodings learn {every} within the lengths they were trained on ({line} of the answers right)"
            ),
            format!("全部 {all} 种位置编码都在训练长度之内学会了{every}（答案正确率达到 {line}）"),
        ),
        (all, some) => {
            let rest = all - some;
            language.of(
                format!(
                    "{rest} of {all} encodings learn {every} within the lengths they were trained on ({line} of the answers right), but not {}",
                    misses.join(", nor ")
                ),
                format!(
                    "{all} 种位置编码中有 {rest} 种在训练长度之内学会了{every}（答案正确率达到 {line}），没有学会的是 {}",
                    misses.join("，以及 ")
                ),
            )
        }
    }
}

/// The most encodings that a sentence names.
const NAMED: usize = 4;

/// The tasks that the fewest of `all` encodings learned: one, or two.
fn hardest(language: Language, results: &Results, tasks: &[&TaskResult], all: usize) -> String {
    let learned = |task: &TaskResult| {
        digest::groups(results, task).iter().filter(|group| group.has_learned(task)).count()
    };
    let mut counts: Vec<(usize, &str)> = tasks.iter().map(|task| (learned(task), &task.name[..])).collect();
    counts.retain(|(count, _)| *count < all);
    counts.sort_by_key(|(count, _)| *count);
    let of = |&(count, name): &(usize, &str)| {
        let name = quoted(name);
        language.of(format!("{name}, by {count} of {all}"), format!("{name}（{all} 种中的 {count} 种）"))
    };
    let named: Vec<String> = counts.iter().take(2).map(of).collect();
    language.of(
        format!("the fewest learn {}", named.join(", and ")),
        format!("学会的最少的是 {}", named.join("和 ")),
    )
}

/// What holds beyond the trained lengths.
fn beyond(language: Language, results: &Results) -> Sentence {
    let baseline = &quoted(digest::baseline(language, results));
    let tasks = || results.tasks.iter().enumerate().filter(|(_, task)| !task.is_control);
    let all: Vec<&Comparison> = tasks().flat_map(|(_, task)| rows(task, Measure::Beyond)).collect();
    if all.is_empty() {
        let text = language
            .of(
                "No encoding was compared beyond the lengths it was trained on.",
                "没有在训练长度之外比较任何位置编码。",
            )
            .into();
        return Sentence { text, task: None };
    }
    let counts = tally(language, &all);
    let first =
        tasks().find(|(_, task)| rows(task, Measure::Beyond).next().is_some()).map(|(index, _)| index);
    let (text, task) = match strongest(tasks(), Measure::Beyond) {
        Some((index, comparison)) => {
            let task = &results.tasks[index];
            let (name, what) = (quoted(&task.name), finding(language, task, comparison, baseline));
            let text = language.of(
                format!("beyond the lengths they were trained on, the largest difference that can be shown is on {name}: {what}; {counts}"),
                format!("在训练长度之外（外推），能够证实的最大差异出现在 {name}：{what}；{counts}"),
            );
            (text, Some(index))
        }
        None => {
            let text = language.of(
                format!("beyond the lengths they were trained on, no encoding could be told from {baseline}; {counts}"),
                format!("在训练长度之外（外推），没有一种位置编码能与 {baseline} 区分开；{counts}"),
            );
            (text, first)
        }
    };
    Sentence { text: sentence(language, &text), task }
}

/// What the control and the A/A rows say of all the rest.
fn trust(language: Language, results: &Results) -> Sentence {
    let baseline = &quoted(digest::baseline(language, results));
    let control = results.tasks.iter().enumerate().find(|(_, task)| task.is_control);
    let mut parts = Vec::new();
    match control {
        None => parts.push(language.of("no control task was run", "没有运行对照任务").into()),
        Some((_, task)) => {
            let all: Vec<&Comparison> = rows(task, Measure::InRange).collect();
            let different: Vec<&str> =
                all.iter().filter(|row| is_different(row)).map(|row| row.encoding.as_str()).collect();
            let what = match (
                all.len(),
                all.iter().filter(|row| is_judged_as(row, Verdict::Tie)).count(),
                different.len(),
            ) {
                (0, _, _) => language.of("nothing was compared", "没有作任何比较").into(),
                (all, ties, 0) if ties == all => language.of(
                    format!(
                        "all {all} encodings tie with {baseline} within the trained lengths, as they should"
                    ),
                    format!("全部 {all} 种位置编码在训练长度之内都与 {baseline} 持平，理应如此"),
                ),
                (_, _, 0) => {
                    let counts = tally(language, &all);
                    language.of(
                        format!("no encoding is told from {baseline}, as it should be: {counts}"),
                        format!("没有一种位置编码与 {baseline} 有别，理应如此：{counts}"),
                    )
                }
                _ => {
                    let names = match different.len() > NAMED {
                        true => {
                            let count = different.len();
                            language.of(format!("{count} encodings"), format!("{count} 种位置编码"))
                        }
                        false => names_of(language, &different),
                    };
                    let are = if different.len() == 1 { "is" } else { "are" };
                    language.of(
                        format!("{names} {are} called different from {baseline} although nothing is there to be found, so take the rest with care"),
                        format!("{names} 被判为与 {baseline} 不同，而这里本没有差异可言，因此其余结论要谨慎看待"),
                    )
                }
            };
            let name = quoted(&task.name);
            parts.push(language.of(
                format!("on {name}, the control where order carries no information, {what}"),
                format!("在对照任务 {name} 上（次序不含任何信息），{what}"),
            ));
        }
    }
    let again: Vec<&Comparison> =
        results.tasks.iter().flat_map(|task| &task.comparisons).filter(|row| row.is_again).collect();
    let different = again.iter().filter(|row| is_different(row)).count();
    let against = language.of(
        format!("{baseline} against itself with another order of data (A/A)"),
        format!("{baseline} 与换一种数据次序的自己相比（A/A）"),
    );
    parts.push(match (again.len(), different) {
        (0, _) => language.of("no A/A row was run", "没有运行 A/A 对照").into(),
        (all, 0) => language.of(
            format!("{against} is called different in none of {all} rows"),
            format!("{against}，{all} 行中没有一行被判为不同"),
        ),
        (all, some) => language.of(
            format!("{against} is called different in {some} of {all} rows, so a difference of that size may be chance"),
            format!("{against}，{all} 行中有 {some} 行被判为不同，因此这么大的差异可能只是偶然"),
        ),
    });
    let with_again = || results.tasks.iter().position(|task| task.comparisons.iter().any(|row| row.is_again));
    let task = control.map(|(index, _)| index).or_else(with_again);
    Sentence { text: sentence(language, &parts.join(language.of("; ", "；"))), task }
}

/// What is said above the plot of a task's accuracy by length.
pub(super) fn by_length(language: Language, results: &Results, task: &TaskResult) -> String {
    let longest = task.test_lengths.iter().copied().filter(|&length| length > task.train_length).max();
    let beyond = longest.map_or(String::new(), |length| {
        language.of(format!(" (up to {length})"), format!("（直到 {length}）"))
    });
    let ranges = [
        (
            Measure::InRange,
            language.of(
                format!("within the trained lengths (up to {})", task.train_length),
                format!("训练长度之内（不超过 {}）", task.train_length),
            ),
        ),
        (Measure::Beyond, language.of(format!("beyond them{beyond}"), format!("训练长度之外{beyond}"))),
    ];
    said(language, results, task, &ranges)
}

/// What is said above the plot of a task's loss.
pub(super) fn by_step(language: Language, results: &Results, task: &TaskResult) -> String {
    let measures = [
        (Measure::Loss, language.of("in loss at the end", "在最终的损失上").into()),
        (Measure::Speed, language.of("in steps to the same loss", "在达到同样损失所需的步数上").into()),
    ];
    said(language, results, task, &measures)
}

fn said(language: Language, results: &Results, task: &TaskResult, measures: &[(Measure, String)]) -> String {
    let of = |(measure, place): &(Measure, String)| {
        let baseline = quoted(digest::baseline(language, results));
        let clauses = clauses(language, rows(task, *measure), &baseline);
        let comma = language.of(", ", "，");
        (!clauses.is_empty()).then(|| sentence(language, &format!("{place}{comma}{clauses}")))
    };
    measures.iter().filter_map(of).collect::<Vec<_>>().join(language.of(" ", ""))
}

/// The largest difference among those that were found. Answers come before losses, which are not of the same measure.
fn strongest<'a>(
    tasks: impl Iterator<Item = (usize, &'a TaskResult)>,
    measure: Measure,
) -> Option<(usize, &'a Comparison)> {
    let found = tasks.flat_map(|(index, task)| {
        let rows = rows(task, measure).filter(|row| is_different(row));
        rows.map(move |row| (task.is_language, index, row))
    });
    let found = found.reduce(|best, next| {
        let is_larger = next.2.mean.abs() > best.2.mean.abs();
        if (best.0 && !next.0) || (best.0 == next.0 && is_larger) { next } else { best }
    });
    found.map(|(_, index, row)| (index, row))
}

/// The rows of a measure without the A/A row.
fn rows(task: &TaskResult, measure: Measure) -> impl Iterator<Item = &Comparison> {
    task.comparisons.iter().filter(move |row| row.measure == measure && !row.is_again)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
