//! What a row of a comparison says, and how names and sentences are put together, in each language.

use crate::chart::{fixed, number};
use crate::results::{Comparison, Measure, Rule, TaskResult};
use crate::statistics::Verdict;
use roformer::language::{Catalogue, Language};

/// Sentences that results hold: what tasks isolate, why a row was not judged, why an encoding was left out.
const STORED: Catalogue = Catalogue::new(include_str!("stored.zh.tsv"));

/// A sentence from results, which hold English; one that is not known is shown as it is.
pub fn stored(language: Language, sentence: &str) -> String {
    match language {
        Language::English => sentence.to_string(),
        Language::Chinese => STORED.say(sentence),
    }
}

/// A rule of a test.
pub(super) fn rule_name(language: Language, rule: Rule) -> &'static str {
    let chinese = match rule {
        Rule::AsTrained => "训练时的规则",
        Rule::Linear => "线性内插",
        Rule::Ntk => "NTK",
        Rule::Yarn => "YaRN",
        Rule::Dynamic => "动态 NTK",
        Rule::ReRope => "ReRoPE",
        Rule::SelfExtend => "Self-Extend",
    };
    language.of(rule.name(), chinese)
}

/// Encodings by their verdict, such as `alibi and t5 are better than rotary; learned ties with rotary within ±0.02`.
pub(super) fn clauses<'a>(
    language: Language,
    rows: impl Iterator<Item = &'a Comparison>,
    baseline: &str,
) -> String {
    let rows: Vec<&Comparison> = rows.collect();
    let of = |verdict: Verdict| -> Vec<&str> {
        rows.iter().filter(|row| is_judged_as(row, verdict)).map(|row| row.encoding.as_str()).collect()
    };
    let mut parts = Vec::new();
    for verdict in [Verdict::Better, Verdict::Worse] {
        let labels = of(verdict);
        if !labels.is_empty() {
            let (names, verb) = (names_of(language, &labels), if labels.len() == 1 { "is" } else { "are" });
            let chinese = if verdict == Verdict::Better { "优于" } else { "不如" };
            parts.push(language.of(
                format!("{names} {verb} {} than {baseline}", verdict.name()),
                format!("{names} {chinese} {baseline}"),
            ));
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
        let (names, margin) = (names_of(language, &ties), number(margin));
        parts.push(language.of(
            format!("{names} {verb} with {baseline} within ±{margin}"),
            format!("{names} 与 {baseline} 在 ±{margin} 内持平"),
        ));
    }
    let unclear = of(Verdict::Unclear);
    if !unclear.is_empty() {
        let names = names_of(language, &unclear);
        parts.push(language.of(
            format!("for {names} there are not enough seeds to say"),
            format!("对 {names}，种子太少，无法判断"),
        ));
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
        let goes_on = reason.starts_with("did ");
        let joined = if goes_on { " " } else { language.of(" not judged: ", " 未作判断：") };
        parts.push(format!("{}{joined}{}", names_of(language, &labels), stored(language, reason)));
    }
    parts.join(language.of("; ", "；"))
}

/// The last cell of a comparison's row.
pub(super) fn of_row(language: Language, row: &Comparison, baseline: &str) -> String {
    if let Some(reason) = &row.not_judged {
        let reason = stored(language, reason);
        return language.of(format!("not judged: {reason}"), format!("未作判断：{reason}"));
    }
    let margin = number(row.margin);
    match (row.verdict, row.is_again) {
        (Verdict::Better | Verdict::Worse, true) => language
            .of("called different, though it is the same encoding", "被判为不同，尽管是同一种位置编码")
            .into(),
        (Verdict::Tie, true) => language
            .of(format!("tie within ±{margin}, as it should be"), format!("在 ±{margin} 内持平，理应如此")),
        (Verdict::Better, false) => {
            language.of(format!("better than {baseline}"), format!("优于 {baseline}"))
        }
        (Verdict::Worse, false) => language.of(format!("worse than {baseline}"), format!("不如 {baseline}")),
        (Verdict::Tie, false) => language.of(format!("tie within ±{margin}"), format!("在 ±{margin} 内持平")),
        (Verdict::Unclear, _) => language.of("not enough seeds to say", "种子太少，无法判断").into(),
    }
}

/// What one row found, such as `alibi gets 0.31 more of the answers right than rotary (95 % interval 0.22 to 0.40, 3 seeds)`.
pub(super) fn finding(language: Language, task: &TaskResult, row: &Comparison, baseline: &str) -> String {
    let encoding = quoted(&row.encoding);
    let is_more = row.mean > 0.0;
    // The interval of what the sentence says, which is the difference without its sign.
    let (size, low, high) =
        if is_more { (row.mean, row.low, row.high) } else { (-row.mean, -row.high, -row.low) };
    let decimals = if size >= 10.0 { 0 } else { 2 + usize::from(size < 0.1) };
    let [size, low, high] = [size, low, high].map(|value| fixed(value, decimals, false));
    let higher = if is_more { "高" } else { "低" };
    let what = match row.measure {
        Measure::Speed => {
            let [more, chinese] = if is_more { ["more", "多用"] } else { ["fewer", "少用"] };
            language.of(
                format!("{encoding} needs {size} steps {more} than {baseline} to reach the same loss"),
                format!("达到同样的损失，{encoding} 要比 {baseline} {chinese} {size} 步"),
            )
        }
        Measure::InRange | Measure::Beyond if !task.is_language => {
            let more = if is_more { "more" } else { "less" };
            language.of(
                format!("{encoding} gets {size} {more} of the answers right than {baseline}"),
                format!("{encoding} 的答案正确率比 {baseline} {higher} {size}"),
            )
        }
        Measure::InRange | Measure::Beyond | Measure::Loss => {
            let english = if is_more { "higher" } else { "lower" };
            language.of(
                format!("the loss of {encoding} is {size} {english} than that of {baseline}"),
                format!("{encoding} 的损失比 {baseline} {higher} {size}"),
            )
        }
    };
    let (seeds, noun) = (row.differences.len(), if row.differences.len() == 1 { "seed" } else { "seeds" });
    language.of(
        format!("{what} (95 % interval {low} to {high}, {seeds} {noun})"),
        format!("{what}（95 % 置信区间 {low} 到 {high}，{seeds} 个种子）"),
    )
}

/// How many were judged as what.
pub(super) fn tally(language: Language, rows: &[&Comparison]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| is_judged_as(row, verdict)).count();
    let not_judged = rows.iter().filter(|row| row.not_judged.is_some()).count();
    let counts = [
        (count(Verdict::Better), language.of("better", "项更好")),
        (count(Verdict::Worse), language.of("worse", "项更差")),
        (count(Verdict::Tie), language.of("tied", "项持平")),
        (
            count(Verdict::Unclear),
            language.of("unclear because there are too few seeds", "项因种子太少而不明"),
        ),
        (not_judged, language.of("not judged", "项未作判断")),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let (all, parts) = (rows.len(), list(language, &parts));
    let noun = if all == 1 { "comparison" } else { "comparisons" };
    language.of(format!("of {all} {noun}, {parts}"), format!("{all} 项比较中，{parts}"))
}

pub(super) fn is_judged_as(row: &Comparison, verdict: Verdict) -> bool {
    row.not_judged.is_none() && row.verdict == verdict
}

pub(super) fn is_different(row: &Comparison) -> bool {
    is_judged_as(row, Verdict::Better) || is_judged_as(row, Verdict::Worse)
}

/// The name of an encoding or a task, told apart from the words around it: one is called `learned`.
pub(super) fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// Names, each quoted.
pub(super) fn names_of(language: Language, names: &[&str]) -> String {
    list(language, &names.iter().map(|name| quoted(name)).collect::<Vec<_>>())
}

/// `a`, `a and b`, `a, b and c`; in Chinese `a、b 和 c`, with spaces beside letters alone.
pub(super) fn list<T: AsRef<str>>(language: Language, items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    let [first @ .., last] = items.as_slice() else { return language.of("none", "无").into() };
    let Some(before) = first.last() else { return (*last).into() };
    let space = |letter: Option<char>| if letter.is_some_and(|c| c.is_ascii()) { " " } else { "" };
    let (left, right) = (space(before.chars().last()), space(last.chars().next()));
    language
        .of(format!("{} and {last}", first.join(", ")), format!("{}{left}和{right}{last}", first.join("、")))
}

/// Capital and full stop.
pub(super) fn sentence(language: Language, text: &str) -> String {
    if language == Language::Chinese {
        return format!("{text}。");
    }
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
