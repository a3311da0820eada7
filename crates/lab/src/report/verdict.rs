//! Verdicts in plain words. Each follows from the statistics of a comparison and says no more than they do.

use super::digest;
use crate::chart::{fixed, number};
use crate::results::{Comparison, Measure, Results, TaskResult};
use crate::statistics::Verdict;

/// A sentence, and the task whose table it can be checked in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sentence {
    pub text: String,
    pub task: Option<usize>,
}

/// The sentences that open a report: within the trained lengths, beyond them, and how far to trust it.
pub(super) fn opening(results: &Results) -> Vec<Sentence> {
    if results.tasks.iter().all(|task| task.runs.is_empty()) {
        return vec![Sentence {
            text: "No runs are in these results, so nothing can be said.".into(),
            task: None,
        }];
    }
    vec![within(results), beyond(results), trust(results)]
}

/// Who learned what, and who learned it faster.
fn within(results: &Results) -> Sentence {
    let baseline = &quoted(digest::baseline(results));
    let mut parts = Vec::new();
    let judged: Vec<&TaskResult> = results.tasks.iter().filter(|task| !task.is_language).collect();
    if !judged.is_empty() {
        parts.push(learned(results, &judged));
    }
    let tasks = |is_control: bool| {
        results.tasks.iter().enumerate().filter(move |(_, task)| task.is_control == is_control)
    };
    let speed = strongest(tasks(false), Measure::Speed).map(|found| ("speed of learning", found));
    let found = speed.or_else(|| {
        [Measure::InRange, Measure::Loss]
            .into_iter()
            .find_map(|measure| strongest(tasks(false), measure))
            .map(|found| ("what is learned within the trained lengths", found))
    });
    let mut task = None;
    match found {
        Some((what, (index, comparison))) => {
            parts.push(format!(
                "the largest difference in {what} that can be shown is on {}: {}",
                quoted(&results.tasks[index].name),
                finding(&results.tasks[index], comparison, baseline)
            ));
            task = Some(index);
        }
        None => {
            let rows: Vec<&Comparison> =
                tasks(false).flat_map(|(_, task)| rows(task, Measure::Speed)).collect();
            if !rows.is_empty() {
                let counts = tally(&rows);
                parts.push(format!(
                    "in speed of learning no encoding could be told from {baseline}: {counts}"
                ));
            }
        }
    }
    if parts.is_empty() {
        parts.push("in what was compared within the trained lengths, nothing was found".into());
    }
    let task = task.or_else(|| (!results.tasks.is_empty()).then_some(0));
    Sentence { text: sentence(&parts.join("; ")), task }
}

/// Which encodings reached the line within the trained lengths, on which tasks.
fn learned(results: &Results, tasks: &[&TaskResult]) -> String {
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
    let every = if tasks.len() == 1 { quoted(&tasks[0].name) } else { "every task".into() };
    let line = format!("({} of the answers right)", crate::LEARNED);
    // Those that missed the same tasks are said together.
    let mut together: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (label, names) in &missed {
        match together.iter_mut().find(|(_, known)| known == names) {
            Some((labels, _)) => labels.push(label),
            None => together.push((vec![label], names.clone())),
        }
    }
    let misses: Vec<String> = together
        .iter()
        .map(|(labels, names)| format!("{} on {}", names_of(labels), names_of(names)))
        .collect();
    match (seen.len(), missed.len()) {
        (all, 0) => {
            format!("all {all} encodings learn {every} within the lengths they were trained on {line}")
        }
        (all, some) => format!(
            "{} of {all} encodings learn {every} within the lengths they were trained on {line}, but not {}",
            all - some,
            misses.join(", nor ")
        ),
    }
}

/// What holds beyond the trained lengths.
fn beyond(results: &Results) -> Sentence {
    let baseline = &quoted(digest::baseline(results));
    let tasks = || results.tasks.iter().enumerate().filter(|(_, task)| !task.is_control);
    let all: Vec<&Comparison> = tasks().flat_map(|(_, task)| rows(task, Measure::Beyond)).collect();
    if all.is_empty() {
        let text = "No encoding was compared beyond the lengths it was trained on.".into();
        return Sentence { text, task: None };
    }
    let counts = tally(&all);
    let first =
        tasks().find(|(_, task)| rows(task, Measure::Beyond).next().is_some()).map(|(index, _)| index);
    let (text, task) = match strongest(tasks(), Measure::Beyond) {
        Some((index, comparison)) => {
            let task = &results.tasks[index];
            let what = finding(task, comparison, baseline);
            let text = format!(
                "beyond the lengths they were trained on, the largest difference that can be shown is on {}: {what}; {counts}",
                quoted(&task.name)
            );
            (text, Some(index))
        }
        None => {
            let text = "beyond the lengths they were trained on, no encoding could be told from";
            (format!("{text} {baseline}; {counts}"), first)
        }
    };
    Sentence { text: sentence(&text), task }
}

/// What the control and the A/A rows say of all the rest.
fn trust(results: &Results) -> Sentence {
    let baseline = &quoted(digest::baseline(results));
    let control = results.tasks.iter().enumerate().find(|(_, task)| task.is_control);
    let mut parts = Vec::new();
    match control {
        None => parts.push("no control task was run".into()),
        Some((_, task)) => {
            let all: Vec<&Comparison> = rows(task, Measure::InRange).collect();
            let different: Vec<&str> =
                all.iter().filter(|row| is_different(row)).map(|row| row.encoding.as_str()).collect();
            let what = match (
                all.len(),
                all.iter().filter(|row| is_judged_as(row, Verdict::Tie)).count(),
                different.len(),
            ) {
                (0, _, _) => "nothing was compared".into(),
                (all, ties, 0) if ties == all => {
                    format!(
                        "all {all} encodings tie with {baseline} within the trained lengths, as they should"
                    )
                }
                (_, _, 0) => format!("no encoding is told from {baseline}, as it should be: {}", tally(&all)),
                _ => format!(
                    "{} {} called different from {baseline} although nothing is there to be found, so take the rest with care",
                    names_of(&different),
                    if different.len() == 1 { "is" } else { "are" },
                ),
            };
            parts.push(format!(
                "on {}, the control where order carries no information, {what}",
                quoted(&task.name)
            ));
        }
    }
    let again: Vec<&Comparison> =
        results.tasks.iter().flat_map(|task| &task.comparisons).filter(|row| row.is_again).collect();
    let different = again.iter().filter(|row| is_different(row)).count();
    let against = format!("{baseline} against itself with another order of data (A/A)");
    parts.push(match (again.len(), different) {
        (0, _) => "no A/A row was run".into(),
        (all, 0) => format!("{against} is called different in none of {all} rows"),
        (all, some) => format!("{against} is called different in {some} of {all} rows, so a difference of that size may be chance"),
    });
    let with_again = || results.tasks.iter().position(|task| task.comparisons.iter().any(|row| row.is_again));
    let task = control.map(|(index, _)| index).or_else(with_again);
    Sentence { text: sentence(&parts.join("; ")), task }
}

/// What is said above the plot of a task's accuracy by length.
pub(super) fn by_length(results: &Results, task: &TaskResult) -> String {
    let longest = task.test_lengths.iter().copied().filter(|&length| length > task.train_length).max();
    let ranges = [
        (Measure::InRange, format!("within the trained lengths (up to {})", task.train_length)),
        (
            Measure::Beyond,
            format!("beyond them{}", longest.map_or(String::new(), |length| format!(" (up to {length})"))),
        ),
    ];
    said(results, task, &ranges)
}

/// What is said above the plot of a task's loss.
pub(super) fn by_step(results: &Results, task: &TaskResult) -> String {
    said(
        results,
        task,
        &[(Measure::Loss, "in loss at the end".into()), (Measure::Speed, "in steps to the same loss".into())],
    )
}

fn said(results: &Results, task: &TaskResult, measures: &[(Measure, String)]) -> String {
    let of = |(measure, place): &(Measure, String)| {
        let clauses = clauses(rows(task, *measure), &quoted(digest::baseline(results)));
        (!clauses.is_empty()).then(|| sentence(&format!("{place}, {clauses}")))
    };
    measures.iter().filter_map(of).collect::<Vec<_>>().join(" ")
}

/// Encodings by their verdict, such as `alibi and t5 are better than rotary; learned ties with rotary within ±0.02`.
fn clauses<'a>(rows: impl Iterator<Item = &'a Comparison>, baseline: &str) -> String {
    let rows: Vec<&Comparison> = rows.collect();
    let of = |verdict: Verdict| -> Vec<&str> {
        rows.iter().filter(|row| is_judged_as(row, verdict)).map(|row| row.encoding.as_str()).collect()
    };
    let mut parts = Vec::new();
    for verdict in [Verdict::Better, Verdict::Worse] {
        let labels = of(verdict);
        if !labels.is_empty() {
            let verb = if labels.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {verb} {} than {baseline}", names_of(&labels), verdict.name()));
        }
    }
    let ties = of(Verdict::Tie);
    if !ties.is_empty() {
        let verb = if ties.len() == 1 { "ties" } else { "tie" };
        let margin = rows
            .iter()
            .filter(|row| is_judged_as(row, Verdict::Tie))
            .map(|row| row.margin)
            .fold(0.0, f64::max);
        parts.push(format!("{} {verb} with {baseline} within ±{}", names_of(&ties), number(margin)));
    }
    let unclear = of(Verdict::Unclear);
    if !unclear.is_empty() {
        parts.push(format!("for {} there are not enough seeds to say", names_of(&unclear)));
    }
    // Those that were not judged, by their reason.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &rows {
        if let Some(reason) = &row.not_judged {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, labels)) => labels.push(&row.encoding),
                None => reasons.push((reason, vec![&row.encoding])),
            }
        }
    }
    for (reason, labels) in reasons {
        // `did not learn it in 500 steps` goes on where the labels end.
        let joined = if reason.starts_with("did ") { " " } else { " not judged: " };
        parts.push(format!("{}{joined}{reason}", names_of(&labels)));
    }
    parts.join("; ")
}

/// The last cell of a comparison's row.
pub(super) fn of_row(row: &Comparison, baseline: &str) -> String {
    if let Some(reason) = &row.not_judged {
        return format!("not judged: {reason}");
    }
    match (row.verdict, row.is_again) {
        (Verdict::Better | Verdict::Worse, true) => "called different, though it is the same encoding".into(),
        (Verdict::Tie, true) => format!("tie within ±{}, as it should be", number(row.margin)),
        (Verdict::Better, false) => format!("better than {baseline}"),
        (Verdict::Worse, false) => format!("worse than {baseline}"),
        (Verdict::Tie, false) => format!("tie within ±{}", number(row.margin)),
        (Verdict::Unclear, _) => "not enough seeds to say".into(),
    }
}

/// What one row found, such as `alibi gets 0.31 more of the answers right than rotary (95 % interval 0.22 to 0.40, 3 seeds)`.
fn finding(task: &TaskResult, row: &Comparison, baseline: &str) -> String {
    let encoding = quoted(&row.encoding);
    let is_more = row.mean > 0.0;
    // The interval of what the sentence says, which is the difference without its sign.
    let (size, low, high) =
        if is_more { (row.mean, row.low, row.high) } else { (-row.mean, -row.high, -row.low) };
    let decimals = if size >= 10.0 { 0 } else { 2 + usize::from(size < 0.1) };
    let [size, low, high] = [size, low, high].map(|value| fixed(value, decimals, false));
    let what = match row.measure {
        Measure::Speed => {
            let more = if is_more { "more" } else { "fewer" };
            format!("{encoding} needs {size} steps {more} than {baseline} to reach the same loss")
        }
        Measure::InRange | Measure::Beyond if !task.is_language => {
            let more = if is_more { "more" } else { "less" };
            format!("{encoding} gets {size} {more} of the answers right than {baseline}")
        }
        Measure::InRange | Measure::Beyond | Measure::Loss => {
            let higher = if is_more { "higher" } else { "lower" };
            format!("the loss of {encoding} is {size} {higher} than that of {baseline}")
        }
    };
    let seeds = row.differences.len();
    format!("{what} (95 % interval {low} to {high}, {seeds} {})", if seeds == 1 { "seed" } else { "seeds" })
}

/// How many were judged as what.
fn tally(rows: &[&Comparison]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| is_judged_as(row, verdict)).count();
    let not_judged = rows.iter().filter(|row| row.not_judged.is_some()).count();
    let counts = [
        (count(Verdict::Better), "better"),
        (count(Verdict::Worse), "worse"),
        (count(Verdict::Tie), "tied"),
        (count(Verdict::Unclear), "unclear because there are too few seeds"),
        (not_judged, "not judged"),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let noun = if rows.len() == 1 { "comparison" } else { "comparisons" };
    format!("of {} {noun}, {}", rows.len(), list(&parts))
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

fn is_judged_as(row: &Comparison, verdict: Verdict) -> bool {
    row.not_judged.is_none() && row.verdict == verdict
}

fn is_different(row: &Comparison) -> bool {
    is_judged_as(row, Verdict::Better) || is_judged_as(row, Verdict::Worse)
}

/// The name of an encoding or a task, told apart from the words around it: one is called `learned`.
pub(super) fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// Names, each quoted.
fn names_of(names: &[&str]) -> String {
    list(&names.iter().map(|name| quoted(name)).collect::<Vec<_>>())
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => "none".into(),
        [one] => (*one).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Capital and full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
