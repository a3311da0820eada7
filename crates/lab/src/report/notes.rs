//! What a reader must know to judge the numbers: what was run, how, what was not, and where it is.

use super::digest::{baseline, groups};
use super::tables::number_whole;
use super::verdict::{list, quoted};
use crate::LEARNED;
use crate::chart::{escape, number};
use crate::results::{Results, TaskResult, Timings};

/// The line under the title.
pub(super) fn lead(results: &Results) -> String {
    let plan = &results.plan;
    let count =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    format!(
        "{}, {} and {}, each trained from the same start on the same batches: {} of width {}, {} attention.",
        count(plan.encodings.len(), "encoding", "encodings"),
        count(plan.seeds.len(), "seed", "seeds"),
        count(results.tasks.len(), "task", "tasks"),
        count(plan.layers, "layer", "layers"),
        plan.width,
        plan.attention
    )
}

/// Under the plot by length: who is grey and why.
pub(super) fn by_length(results: &Results, task: &TaskResult) -> String {
    let groups = groups(results, task);
    let grey: Vec<&str> =
        groups.iter().filter(|group| !group.has_learned(task)).map(|group| group.label).collect();
    let lengths = format!(
        "Lines are means, thin lines single seeds. Shaded: the lengths that were trained on, up to {}.",
        task.train_length
    );
    match (task.is_language, grey.is_empty()) {
        (true, _) => lengths,
        (false, true) => {
            format!(
                "{lengths} Dotted: {LEARNED}, from which on a task counts as learned. All reached it within the trained lengths."
            )
        }
        (false, false) => format!(
            "{lengths} Dotted: {LEARNED}, from which on a task counts as learned. Grey: {} did not learn it in {} steps, so longer lengths say nothing of the encoding.",
            list(&grey.iter().map(|label| quoted(label)).collect::<Vec<_>>()),
            number_whole(task.steps)
        ),
    }
}

fn items(items: impl IntoIterator<Item = String>) -> String {
    let items: String = items.into_iter().map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    format!("<ul class=\"plain\">\n{items}</ul>")
}

/// The statistics in words.
pub(super) fn method(results: &Results) -> String {
    let baseline = baseline(results);
    items([
        format!("The seed is the unit. An encoding and {baseline} share the initial values and the batches of a seed, so their difference is taken seed by seed, with a paired t interval of 95 %."),
        "An encoding is called better or worse only if p is below 0.05 after Holm's correction over the comparisons of the same task and measure.".into(),
        "A tie is claimed only if an equivalence test shows that the difference is within the margin, however sure its sign.".into(),
        "Everything else is \"not enough seeds to say\". Detectable is the smallest difference that this many seeds show with a chance of 80 %.".into(),
        format!("The A/A row is {baseline} once more with another order of data, analysed like any other row and shown whatever it says."),
        "Answers are counted as right only to the last token, in one pass that sees the right tokens before: the same count as greedy decoding gives.".into(),
        format!("Lengths beyond training are judged only where the encoding reached {LEARNED} within the trained lengths."),
        "Learned tables are as long as the longest test; rows that were never trained stay at their initial values.".into(),
        "Times are shown and never judged: they depend on the machine and on what else runs on it.".into(),
    ])
}

/// What was run.
pub(super) fn settings(results: &Results, timings: &Timings) -> String {
    let plan = &results.plan;
    let numbers = |values: &[f64]| values.iter().map(|&value| number(value)).collect::<Vec<_>>().join(", ");
    let encodings: Vec<&str> = plan.encodings.iter().map(|encoding| encoding.label.as_str()).collect();
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    let mut rows = vec![
        ("preset".to_string(), plan.preset.clone()),
        ("attention".into(), plan.attention.clone()),
        ("encodings".into(), encodings.join(", ")),
        ("seeds".into(), seeds.join(", ")),
        (
            "model".into(),
            format!(
                "causal, norms first; {} layers, width {}, {} heads",
                plan.layers, plan.width, plan.heads
            ),
        ),
        ("texts of a batch".into(), plan.batch.to_string()),
        ("learning rates to choose from".into(), numbers(&plan.rates)),
    ];
    for task in &results.tasks {
        let lengths: Vec<String> = task.test_lengths.iter().map(usize::to_string).collect();
        let text = format!(
            "trained up to length {}, tested at {}; {} steps of {} tokens",
            task.train_length,
            lengths.join(", "),
            number_whole(task.steps),
            number_whole(task.tokens_per_step)
        );
        rows.push((task.name.clone(), text));
    }
    if timings.seconds > 0.0 {
        let text = format!("{} s with {} threads", number(timings.seconds), timings.threads);
        rows.push(("time, measured on this machine".into(), text));
    }
    let rows: String = rows
        .iter()
        .map(|(name, text)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(text)))
        .collect();
    format!("<dl>\n{rows}</dl>")
}

/// What these results say nothing about.
pub(super) fn untested(results: &Results) -> String {
    let plan = &results.plan;
    let mut out = vec![format!(
        "Other sizes than {} layers of width {} with {} heads. What holds here need not hold for large models.",
        plan.layers, plan.width, plan.heads
    )];
    let longest: Vec<String> = results
        .tasks
        .iter()
        .filter_map(|task| Some(format!("{} on {}", task.test_lengths.iter().max()?, task.name)))
        .collect();
    if !longest.is_empty() {
        out.push(format!("Lengths beyond {}.", list(&longest)));
    }
    out.push("More training: an encoding that did not learn a task here might with more steps.".into());
    out.push(
        "Other learning rates, optimisers, initial values and sizes of batches than those under Settings."
            .into(),
    );
    if !results.tasks.iter().any(|task| task.is_language) {
        out.push("Natural text: all tasks here are made up, each to isolate one thing.".into());
    }
    let other = if plan.attention.starts_with("linear") { "Softmax" } else { "Linear" };
    out.push(format!("{other} attention."));
    for left_out in &plan.left_out {
        out.push(format!("{}: {}.", left_out.label, left_out.reason.trim_end_matches('.')));
    }
    items(out)
}

/// How a number can be followed to its file.
pub(super) fn trace(results: &Results) -> String {
    let (version, hash) = (escape(&results.version), escape(&results.hash));
    format!(
        "<p>Every run has a file of its own in <code>runs/</code> beside this page, named by task, encoding and seed, with its configuration, seed, version and hash. <code>results.json</code> holds all numbers of this page but times, which are in <code>timings.json</code>. <code>roformer compare --replay</code> with this folder draws the page again from these files, without training.</p>
<dl>
<dt>version</dt><dd><code>{version}</code></dd>
<dt>hash</dt><dd><code>{hash}</code></dd>
</dl>"
    )
}
