//! How large the models were: in words, and what the pilot reached that chose by task.

use super::tables::table;
use crate::LEARNED;
use crate::chart::{escape, number};
use crate::results::{Piloted, Results, TaskResult};
use roformer::language::Language;

/// Layers, width and heads of the models of a task.
pub(super) fn of_task(results: &Results, task: &TaskResult) -> [usize; 3] {
    let plan = &results.plan;
    task.size
        .map_or([plan.layers, plan.width, plan.heads], |size| [size.layers(), size.width(), size.heads()])
}

/// Every size that there is, the smallest first.
fn all(results: &Results) -> Vec<[usize; 3]> {
    let plan = &results.plan;
    let mut sizes: Vec<[usize; 3]> = results.tasks.iter().map(|task| of_task(results, task)).collect();
    if sizes.is_empty() {
        sizes.push([plan.layers, plan.width, plan.heads]);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The sizes in one phrase, such as `2 layers of width 64`, or `2 to 4 layers of width 64 to 128 by task`.
pub(super) fn said(language: Language, results: &Results) -> String {
    let sizes = all(results);
    let range = |of: fn(&[usize; 3]) -> usize| {
        let (least, most) =
            (sizes.iter().map(of).min().unwrap_or(0), sizes.iter().map(of).max().unwrap_or(0));
        match least == most {
            true => least.to_string(),
            false => language.of(format!("{least} to {most}"), format!("{least} 到 {most}")),
        }
    };
    let (layers, width) = (range(|size| size[0]), range(|size| size[1]));
    let noun = if layers == "1" { "layer" } else { "layers" };
    let by_task = if sizes.len() > 1 { language.of(" by task", "，因任务而异") } else { "" };
    language.of(
        format!("{layers} {noun} of width {width}{by_task}"),
        format!("{layers} 层，宽度 {width}{by_task}"),
    )
}

/// The sizes with their heads, one after the other.
pub(super) fn listed(language: Language, results: &Results) -> Vec<String> {
    let said = |[layers, width, heads]: [usize; 3]| {
        language.of(
            format!("{layers} layers of width {width} with {heads} heads"),
            format!("{layers} 层、宽度 {width}、{heads} 个头"),
        )
    };
    all(results).into_iter().map(said).collect()
}

/// What the pilot reached on each task with each size that it tried; nothing where there was none.
pub(super) fn pilots(language: Language, results: &Results) -> String {
    let sizes = &results.plan.sizes;
    if sizes.is_empty() || results.tasks.iter().all(|task| task.pilots.is_empty()) {
        return String::new();
    }
    let mut body = String::from("<tbody>\n");
    for task in &results.tasks {
        let cell = |size| match task.pilots.iter().find(|pilot| pilot.size == size) {
            Some(Piloted { reached, rate, .. }) => {
                let reached = format!("{} <span class=\"soft\">({})</span>", number(*reached), number(*rate));
                if task.size == Some(size) { format!("<b>{reached}</b>") } else { reached }
            }
            None if task.size == Some(size) => format!("<b>{}</b>", language.of("chosen", "选用")),
            None => "–".into(),
        };
        let cells: String = sizes.iter().map(|&size| format!("<td>{}</td>", cell(size))).collect();
        body += &format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&task.name));
    }
    let titles: Vec<String> =
        sizes.iter().map(|size| format!("{}×{}", size.layers(), size.width())).collect();
    let head: Vec<&str> =
        std::iter::once(language.of("task", "任务")).chain(titles.iter().map(String::as_str)).collect();
    let caption = language.of(
        "The pilot: exact answers of rotary within the trained lengths, with its learning rate, by layers × width",
        "试训：rotary 在训练长度之内的完全正确率及其学习率，按层数 × 宽度",
    );
    let said = language.of(
        format!("Before anything was compared, rotary learned each task on a seed of its own, in the smallest models first. The first size that reached {LEARNED} is the task\'s (bold), for every encoding; where none did, the best. Larger ones were then not tried (–). A language model has no such line, and has the smallest."),
        format!("在作比较之前，rotary 先用另外的种子学习每个任务，从最小的模型开始。第一个达到 {LEARNED} 的规模就是这个任务的规模（粗体），所有位置编码都用它；都没有达到时取最好的。更大的不再尝试（–）。语言模型没有这样的标准，用最小的规模。"),
    );
    format!("{}<p class=\"soft\">{said}</p>\n", table(caption, &head, &(body + "</tbody>")))
}
