//! The tables of a report, as HTML.

use super::digest::{self, Group, groups, labels};
use super::figures;
use super::words::{self, rule_name};
use crate::chart::{self, Interval, compact, escape, fixed, interval, number};
use crate::results::{Comparison, Measure, Ranking, Results, Rule, TaskResult, Timings};
use crate::statistics::Verdict;
use roformer::language::Language;
use std::fmt::Write;

/// A table that scrolls by itself where it is too wide.
pub(super) fn table(caption: &str, head: &[&str], body: &str) -> String {
    let caption = escape(caption);
    let head: String = head.iter().map(|title| format!("<th scope=\"col\">{}</th>", escape(title))).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption><span>{caption}</span></caption>\n<thead><tr>{head}</tr></thead>\n{body}</table></div>\n"
    )
}

/// A row whose first cell is an encoding, with its marker.
fn row(label: &str, look: Option<usize>, cells: &[String]) -> String {
    row_of(label, look, "", cells)
}

/// The same with another class beside its own.
fn row_of(label: &str, look: Option<usize>, class: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    let (key, name) = (escape(label), named(label, look));
    format!("<tr class=\"series{class}\" data-series=\"{key}\"><th scope=\"row\">{name}</th>{cells}</tr>\n")
}

/// What shows some rows and lines alone: those of encodings by a part of their names, and of comparisons by their verdict.
pub(super) fn filter(language: Language) -> String {
    let [show, hint, all] = language.of(
        ["Show", "some encodings, such as rot ali", "all verdicts"],
        ["显示", "部分编码，例如 rot ali", "所有结论"],
    );
    let not_judged = language.of("not judged", "未作判断");
    let verdicts = [
        (Verdict::Better.name(), language.of("better", "更好")),
        (Verdict::Worse.name(), language.of("worse", "更差")),
        (Verdict::Tie.name(), language.of("tie", "持平")),
        (Verdict::Unclear.name(), language.of("not enough seeds to say", "种子太少，无法判断")),
        (NOT_JUDGED, not_judged),
    ];
    let option = |(value, name): (&str, &str)| format!("<option value=\"{value}\">{name}</option>");
    let options: String = verdicts.into_iter().map(option).collect();
    format!(
        "<div class=\"filter\"><input type=\"search\" aria-label=\"{show}\" placeholder=\"{hint}\"> <select aria-label=\"{show}\"><option value=\"\">{all}</option>{options}</select></div>\n"
    )
}

/// The class of a row that was not judged; others have that of their verdict, which the filter of a page goes by.
const NOT_JUDGED: &str = "unjudged";

/// An encoding's name with its marker.
pub(super) fn named(label: &str, look: Option<usize>) -> String {
    let Some(look) = look else { return escape(label) };
    let (d, look, label) = (chart::marker(look, 7.0, 7.0, 4.2), look % chart::LOOKS, escape(label));
    format!(
        "<span class=\"named s{look}\"><svg class=\"key\" viewBox=\"0 0 14 14\" width=\"14\" height=\"14\" aria-hidden=\"true\"><path class=\"marker\" d=\"{d}\"/></svg>{label}</span>"
    )
}

fn section(title: &str, columns: usize) -> String {
    format!(
        "<tr class=\"section\"><th colspan=\"{columns}\" scope=\"rowgroup\"><span>{}</span></th></tr>\n",
        escape(title)
    )
}

/// Tasks beside each other in a table: as many as a page is wide.
const BESIDE: usize = 3;

/// Every encoding on every task: within the trained lengths and beyond, with how it was judged. Where there are many tasks, a
/// few to a table, so that none is cut off at the edge of the page.
pub(super) fn glance(language: Language, results: &Results) -> String {
    let tables = results.tasks.chunks(BESIDE);
    tables.map(|tasks| glance_of(language, results, tasks)).collect()
}

fn glance_of(language: Language, results: &Results, tasks: &[TaskResult]) -> String {
    let mut head = vec![language.of("encoding", "位置编码").to_string()];
    for task in tasks {
        let what = if task.is_language { language.of(", loss", "，损失") } else { "" };
        let (name, trained) = (&task.name, task.train_length);
        head.push(
            language.of(format!("{name}{what}, up to {trained}"), format!("{name}{what}，不超过 {trained}")),
        );
        head.push(language.of("beyond", "更长").into());
    }
    let mut body = String::from("<tbody>\n");
    for (look, label) in labels(results).into_iter().enumerate() {
        let mut cells = Vec::new();
        for task in tasks {
            let groups = groups(results, task);
            let group = groups.iter().find(|group| group.label == label);
            cells.extend([(false, Measure::InRange), (true, Measure::Beyond)].map(|(is_beyond, measure)| {
                let Some(group) = group else { return "–".into() };
                glance_cell(
                    language,
                    task,
                    group,
                    is_beyond,
                    task.comparisons
                        .iter()
                        .find(|row| row.encoding == label && row.measure == measure && !row.is_again),
                )
            }));
        }
        body += &row(label, Some(look), &cells);
    }
    body += "</tbody>";
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let caption = language.of(
        "Part of the answers that are exactly right, mean over lengths and seeds",
        "完全正确的答案所占比例，对长度和种子取平均",
    );
    table(caption, &head, &body)
}

fn glance_cell(
    language: Language,
    task: &TaskResult,
    group: &Group,
    is_beyond: bool,
    judged: Option<&Comparison>,
) -> String {
    let Some(value) = group.summary(task, is_beyond) else { return "–".into() };
    let judged = judged.filter(|row| row.not_judged.is_none());
    let (sign, class, words) = match judged.map(|row| row.verdict) {
        Some(Verdict::Better) => ("▲", "better", language.of("better", "更好")),
        Some(Verdict::Worse) => ("▼", "worse", language.of("worse", "更差")),
        Some(Verdict::Tie) => ("=", "tie", language.of("tie", "持平")),
        Some(Verdict::Unclear) => ("?", "not", language.of("not enough seeds to say", "种子太少，无法判断")),
        None => ("", "", ""),
    };
    let sign = match sign {
        "" => String::from("<span class=\"sign\"></span>"),
        _ => format!(
            "<span class=\"sign {class}\" title=\"{words}\">{sign}<span class=\"spoken\"> {words}</span></span>"
        ),
    };
    let faded = if group.has_learned(task) { "" } else { " faded" };
    let bar = match task.is_language {
        true => String::new(),
        false => format!(
            "<span class=\"bar s{}{faded}\" style=\"--v:{:.3}\"></span>",
            group.look % chart::LOOKS,
            value.clamp(0.0, 1.0)
        ),
    };
    format!("<span class=\"value\">{value:.2}</span>{sign}{bar}")
}

/// Each encoding against the baseline, and the A/A row, by measure.
pub(super) fn comparisons(language: Language, results: &Results, task: &TaskResult) -> String {
    let (baseline, labels) = (digest::baseline(language, results), labels(results));
    let head = language.of(
        [
            "encoding",
            "verdict",
            "mean difference",
            "",
            "95 % interval",
            "effect",
            "p",
            "p (Holm)",
            "detectable",
            "margin",
            "seeds",
        ],
        [
            "位置编码",
            "结论",
            "平均差异",
            "",
            "95 % 置信区间",
            "效应量",
            "p",
            "p（Holm）",
            "可检出",
            "容许差",
            "种子",
        ],
    );
    let mut measures: Vec<Measure> = Vec::new();
    for row in &task.comparisons {
        if !measures.contains(&row.measure) {
            measures.push(row.measure);
        }
    }
    if measures.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    for measure in measures {
        let rows = || task.comparisons.iter().filter(|row| row.measure == measure);
        let ends = rows().flat_map(|row| [row.low.abs(), row.high.abs(), row.margin.abs()]);
        let reach = ends.filter(|end| end.is_finite()).fold(0.0, f64::max);
        // One number of decimals for a measure, so that they stand under each other.
        let decimals = if reach >= 100.0 { 0 } else { 3 };
        let plain = |value: f64| fixed(value, decimals, false);
        let difference = |value: f64| {
            let text = plain(value);
            let is_above = value > 0.0 && text.contains(|digit: char| ('1'..='9').contains(&digit));
            if is_above { format!("+{text}") } else { text }
        };
        let _ = write!(body, "<tbody>\n{}", section(&measured(language, task, measure), head.len()));
        for comparison in rows() {
            let Comparison { mean, low, high, margin, .. } = *comparison;
            let picture = interval(Interval { low, mean, high, margin, reach });
            let cells = [
                escape(&words::of_row(language, comparison, baseline)),
                difference(mean),
                picture,
                format!("{}{}{}", difference(low), language.of(" to ", " 到 "), difference(high)),
                comparison.effect.map_or("–".into(), |effect| fixed(effect, 1, false)),
                probability(comparison.p),
                probability(comparison.p_holm),
                plain(comparison.detectable),
                format!("±{}", number(margin)),
                comparison.differences.len().to_string(),
            ];
            let look = labels.iter().position(|label| *label == comparison.encoding);
            let again = language.of(
                format!("{} again (A/A)", comparison.encoding),
                format!("{} 再训练一遍（A/A）", comparison.encoding),
            );
            let label = if comparison.is_again { &again } else { &comparison.encoding };
            let verdict = match comparison.not_judged {
                Some(_) => NOT_JUDGED,
                None => comparison.verdict.name(),
            };
            let class = format!(" {verdict}");
            body += &row_of(label, look.filter(|_| !comparison.is_again), &class, &cells);
        }
        body += "</tbody>\n";
    }
    let caption = language.of(
        format!("{}: each encoding less {baseline}, paired by seed", task.name),
        format!("{}：各位置编码减去 {baseline}，按种子配对", task.name),
    );
    table(&caption, &head, &body)
}

/// The places that encodings may have among each other: a column for each measure, the order that of the most telling one.
pub(super) fn ranking(language: Language, results: &Results, task: &TaskResult) -> String {
    let titles = |measure: Measure| match measure {
        Measure::InRange => language.of("within the trained lengths", "训练长度之内"),
        Measure::Beyond => language.of("beyond them", "训练长度之外"),
        Measure::Loss => language.of("training loss", "训练损失"),
        Measure::Speed => language.of("steps to the same loss", "达到同样损失的步数"),
    };
    let found = |measure: Measure| task.rankings.iter().find(|ranking| ranking.measure == measure);
    let rankings: Vec<&Ranking> = Measure::ALL.into_iter().filter_map(found).collect();
    let Some(order) = found(Measure::Beyond).or_else(|| found(Measure::InRange)) else {
        return String::new();
    };
    let labels = labels(results);
    let place = |ranking: &Ranking, label: &str| {
        let place = ranking.places.iter().find(|place| place.encoding == label);
        place.map_or("–".into(), |place| match place.first == place.last {
            true => place.first.to_string(),
            false => format!("{}–{}", place.first, place.last),
        })
    };
    let first = order.places.iter().map(|place| place.encoding.as_str());
    let is_other = |label: &&str| order.places.iter().all(|place| place.encoding != *label);
    let mut body = String::from("<tbody>\n");
    for label in first.chain(labels.iter().copied().filter(is_other)) {
        let cells: Vec<String> = rankings.iter().map(|ranking| place(ranking, label)).collect();
        body += &row(label, labels.iter().position(|known| *known == label), &cells);
    }
    let head: Vec<&str> = std::iter::once(language.of("encoding", "位置编码"))
        .chain(rankings.iter().map(|ranking| titles(ranking.measure)))
        .collect();
    let caption = language.of(
        format!("{}: the places that each encoding may have", task.name),
        format!("{}：各位置编码可能的名次", task.name),
    );
    table(&caption, &head, &(body + "</tbody>"))
}

/// What a measure is, in words.
fn measured(language: Language, task: &TaskResult, measure: Measure) -> String {
    let what = match task.is_language {
        true => language.of("loss, lower is better", "损失，越低越好"),
        false => language.of("exact answers, higher is better", "完全正确率，越高越好"),
    };
    match measure {
        Measure::InRange => language.of(
            format!("Within the trained lengths (up to {}): {what}", task.train_length),
            format!("训练长度之内（不超过 {}）：{what}", task.train_length),
        ),
        Measure::Beyond => {
            language.of(format!("Beyond the trained lengths: {what}"), format!("训练长度之外：{what}"))
        }
        Measure::Loss => {
            language.of("Training loss at the end, lower is better", "最终的训练损失，越低越好").into()
        }
        Measure::Speed => {
            language.of("Steps to the same loss, fewer is better", "达到同样损失所需的步数，越少越好").into()
        }
    }
}

fn probability(p: f64) -> String {
    match p {
        p if !p.is_finite() => "–".into(),
        p if p < 0.001 => "&lt; 0.001".into(),
        p => format!("{p:.3}"),
    }
}

/// Trained with one rule, tested with another: a column for each length.
pub(super) fn swaps(language: Language, results: &Results, task: &TaskResult) -> String {
    let mut lengths: Vec<usize> = task.swaps.iter().map(|swap| swap.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut pairs: Vec<(&str, Rule)> = Vec::new();
    for swap in &task.swaps {
        let pair = (swap.trained.as_str(), swap.tested);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    if pairs.is_empty() {
        return String::new();
    }
    let titles: Vec<String> =
        lengths.iter().map(|length| format!("{} {length}", language.of("length", "长度"))).collect();
    let rules = language.of(["trained with", "tested with"], ["训练时", "测试时"]);
    let head: Vec<&str> = rules.into_iter().chain(titles.iter().map(String::as_str)).collect();
    let labels = labels(results);
    let mut body = String::from("<tbody>\n");
    for (trained, tested) in pairs {
        let value = |length: &usize| {
            let is_it = |swap: &&crate::results::Swap| {
                (swap.trained.as_str(), swap.tested) == (trained, tested) && swap.length == *length
            };
            task.swaps.iter().find(is_it).map_or("–".into(), |swap| spread(&swap.values))
        };
        let cells: Vec<String> =
            std::iter::once(escape(rule_name(language, tested))).chain(lengths.iter().map(value)).collect();
        body += &row(trained, labels.iter().position(|label| *label == trained), &cells);
    }
    let (name, what) = (&task.name, figures::measured(language, task));
    let caption = language.of(
        format!("{name}: {what} with another rule at the test, mean (single seeds)"),
        format!("{name}：测试时换用其他规则的{what}，均值（各种子）"),
    );
    table(&caption, &head, &(body + "</tbody>"))
}

/// The settings that a sweep tried.
pub(super) fn sweep(language: Language, results: &Results, task: &TaskResult) -> String {
    if task.sweep.is_empty() {
        return String::new();
    }
    let labels = labels(results);
    let mut body = String::from("<tbody>\n");
    for swept in &task.sweep {
        let chosen = if swept.is_chosen { language.of("chosen", "选用") } else { "" };
        let look = labels.iter().position(|label| *label == swept.label);
        body += &row(&swept.label, look, &[spread(&swept.values), chosen.into()]);
    }
    let caption = language.of(
        format!("{}: settings tried on seeds of their own", task.name),
        format!("{}：在另外的种子上试过的设置", task.name),
    );
    let head = language.of(["setting", "mean (single seeds)", ""], ["设置", "均值（各种子）", ""]);
    table(&caption, &head, &(body + "</tbody>"))
}

/// A mean with what it is the mean of.
fn spread(values: &[f64]) -> String {
    let Some(mean) = digest::mean(values.iter().copied()) else { return "–".into() };
    let seeds: Vec<String> = values.iter().map(|&value| number(value)).collect();
    match seeds.len() {
        1 => number(mean),
        _ => format!("{} <span class=\"soft\">({})</span>", number(mean), seeds.join(", ")),
    }
}

/// What each encoding had to work with, and what it cost.
pub(super) fn ledger(language: Language, results: &Results, timings: &Timings) -> String {
    let head = language.of(
        [
            "encoding",
            "parameters",
            "of these for positions",
            "operations per step",
            "learning rate",
            "tokens per second, measured on this machine",
        ],
        ["位置编码", "参数", "其中位置编码的", "每步运算量", "学习率", "每秒 token 数（在本机测得）"],
    );
    let mut body = String::new();
    for task in &results.tasks {
        let groups = groups(results, task);
        if groups.is_empty() {
            continue;
        }
        let _ = write!(body, "<tbody>\n{}", section(&task.name, head.len()));
        for group in groups {
            let first = group.runs[0];
            let mut rates: Vec<String> = group.runs.iter().map(|run| number(run.rate)).collect();
            rates.dedup();
            let cells = [
                number_whole(first.parameters),
                number_whole(first.position_parameters),
                compact(first.flops_per_step),
                rates.join(", "),
                group.tokens_s(task, timings).map_or("–".into(), |tokens| number_whole(tokens as u64)),
            ];
            body += &row(group.label, Some(group.look), &cells);
        }
        body += "</tbody>\n";
    }
    let caption = language.of("What each encoding had, and what it cost", "每种位置编码的规模与开销");
    if body.is_empty() { body } else { table(caption, &head, &body) }
}

/// All digits of a whole number, thousands apart.
pub(super) fn number_whole(value: u64) -> String {
    fixed(value as f64, 0, false)
}
