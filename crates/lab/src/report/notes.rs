//! What a reader must know to judge the numbers: what was run, how, what was not, and where it is.

use super::digest::{baseline, groups};
use super::sizes;
use super::tables::number_whole;
use super::words::{list, quoted, stored};
use crate::LEARNED;
use crate::chart::{escape, number};
use crate::results::{Results, TaskResult, Timings};
use crate::statistics::{Look, Looks};
use roformer::language::Language;

/// The line under the title.
pub(super) fn lead(language: Language, results: &Results) -> String {
    let plan = &results.plan;
    let count =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    language.of(
        format!(
            "{}, {} and {}, each trained from the same start on the same batches: {}, {} attention.",
            count(plan.encodings.len(), "encoding", "encodings"),
            seeds(language, results),
            count(results.tasks.len(), "task", "tasks"),
            sizes::said(language, results),
            plan.attention
        ),
        format!(
            "{} 种位置编码、{}、{} 个任务，都从同样的起点、按同样的批次训练：{}，{}。",
            plan.encodings.len(),
            seeds(language, results),
            results.tasks.len(),
            sizes::said(language, results),
            attention(language, &plan.attention)
        ),
    )
}

/// How many seeds each encoding has on each task: one number, or the least and the most.
fn seeds(language: Language, results: &Results) -> String {
    let groups = results.tasks.iter().flat_map(|task| groups(results, task));
    let counts: Vec<usize> = groups.map(|group| group.runs.len()).collect();
    let least = counts.iter().copied().min().unwrap_or(results.plan.seeds.len());
    let most = counts.iter().copied().max().unwrap_or(results.plan.seeds.len());
    match (least, most) {
        (1, 1) => language.of("1 seed", "1 个随机种子").into(),
        (least, most) if least == most => language.of(format!("{most} seeds"), format!("{most} 个随机种子")),
        _ => language.of(format!("{least} to {most} seeds"), format!("{least} 到 {most} 个随机种子")),
    }
}

/// The attention of a plan, such as `linear (favor)`.
fn attention(language: Language, name: &str) -> String {
    match language {
        Language::English => name.to_string(),
        Language::Chinese => match name.strip_prefix("linear") {
            Some("") => "线性注意力".into(),
            Some(features) => format!("线性注意力（{}）", features.trim_matches([' ', '(', ')'])),
            None => format!("{name} 注意力"),
        },
    }
}

/// Under the plot by length: who is grey and why.
pub(super) fn by_length(language: Language, results: &Results, task: &TaskResult) -> String {
    let groups = groups(results, task);
    let grey: Vec<&str> =
        groups.iter().filter(|group| !group.has_learned(task)).map(|group| group.label).collect();
    let lengths = language.of(
        format!(
            "Lines are means, thin lines single seeds. Shaded: the lengths that were trained on, up to {}.",
            task.train_length
        ),
        format!("粗线是均值，细线是单个种子。阴影：训练过的长度，最长 {}。", task.train_length),
    );
    if task.is_language {
        return lengths;
    }
    let dotted = language.of(
        format!(" Dotted: {LEARNED}, from which on a task counts as learned."),
        format!("虚线：{LEARNED}，达到它才算学会。"),
    );
    let who = match grey.is_empty() {
        true => language
            .of(" All reached it within the trained lengths.", "在训练长度之内，所有位置编码都达到了。")
            .to_string(),
        false => {
            let labels = list(language, &grey.iter().map(|label| quoted(label)).collect::<Vec<_>>());
            let steps = number_whole(task.steps);
            language.of(
                format!(
                    " Grey: {labels} did not learn it in {steps} steps, so longer lengths say nothing of the encoding."
                ),
                format!("灰色：{labels} 在 {steps} 步内没有学会，因此更长的长度说明不了位置编码的好坏。"),
            )
        }
    };
    lengths + &dotted + &who
}

fn items(items: impl IntoIterator<Item = String>) -> String {
    let items: String = items.into_iter().map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    format!("<ul class=\"plain\">\n{items}</ul>")
}

/// The statistics in words.
pub(super) fn method(language: Language, results: &Results) -> String {
    let baseline = baseline(language, results);
    let english = [
        format!("The seed is the unit. An encoding and {baseline} share the initial values and the batches of a seed, so their difference is taken seed by seed, with a paired t interval of 95 %."),
        "An encoding is called better or worse only if p is below 0.05 after Holm's correction over all comparisons of the same task and measure, those that are not judged among them.".into(),
        "A tie is claimed only if an equivalence test shows that the difference is within the margin, however sure its sign.".into(),
        "Everything else is \"not enough seeds to say\". Detectable is the smallest difference that this many seeds show with a chance of 80 %. Effect is the mean difference in standard deviations of the differences, corrected for few seeds (Hedges).".into(),
        format!("The A/A row is {baseline} once more with another order of data, analysed like any other row and shown whatever it says."),
        "Answers are counted as right only to the last token, in one pass that sees the right tokens before: the same count as greedy decoding gives.".into(),
        format!("Lengths beyond training are judged only where the encoding reached {LEARNED} within the trained lengths."),
        "Learned tables are as long as the longest test; rows that were never trained stay at their initial values.".into(),
        "Times are shown and never judged: they depend on the machine and on what else runs on it.".into(),
    ];
    let chinese = [
        format!("以随机种子为单位。同一个种子下，每种位置编码与 {baseline} 共用初始值和批次，因此逐个种子求差，给出配对 t 检验的 95 % 置信区间。"),
        "只有在对同一任务、同一指标的全部比较（包括未作判断的）作 Holm 校正之后 p 仍低于 0.05，才称为优于或不如。".into(),
        "只有等价检验表明差异在容许差之内，才称为持平，哪怕差异的正负已经确定。".into(),
        "其余一律写作“种子太少，无法判断”。“可检出”是这么多种子能以 80 % 的概率检出的最小差异。“效应量”是以差异的标准差为单位的平均差异，并按种子数少作了校正（Hedges）。".into(),
        format!("A/A 一行是 {baseline} 换一种数据次序再训练一遍，与其他各行同样分析，无论结果如何都列出。"),
        "答案要到最后一个 token 都对才算正确；只作一次前向，每一步之前看到的都是正确的 token，计数与贪心解码相同。".into(),
        format!("只有在训练长度之内达到 {LEARNED} 的位置编码，才评判它在训练长度之外的表现。"),
        "可学习的表与最长的测试一样长；从未训练到的行保持初始值。".into(),
        "时间只展示，不评判：它取决于机器，以及机器上同时运行的其他程序。".into(),
    ];
    let (mut english, mut chinese) = (english.to_vec(), chinese.to_vec());
    if let Some(budget) = results.plan.budget {
        let looks = Looks::several();
        let look = |look: &Look| {
            language.of(
                format!("{} ({})", look.seeds, number(look.weight)),
                format!("{}（{}）", look.seeds, number(look.weight)),
            )
        };
        let first = looks.all().iter().take(5).map(look).collect::<Vec<_>>().join(language.of(", ", "、"));
        english.insert(1, format!("Seeds are added where a comparison is undecided, until the work of {budget} of each is done. Comparisons are judged after so many seeds, each time with a part of the 5 %: {first} and so on. The parts sum to 1, so the chance of a false alarm is at most that of a single look, whatever made seeds be added; p-values are the smallest so far, each over its part, and intervals hold at whichever look they are read."));
        chinese.insert(1, format!("凡未能判定的比较都会增加种子，总量以每种 {budget} 个为限。在种子数达到下列各值时评判，每次只用 5 % 中的一份：{first}，依此类推。各份之和为 1，因此无论何故增加种子，误报的概率都不超过只评判一次；p 值取至今各次除以其份额后的最小值，置信区间在任何一次评判时都成立。"));
    }
    items(language.of(english, chinese))
}

/// What was run.
pub(super) fn settings(language: Language, results: &Results, timings: &Timings) -> String {
    let plan = &results.plan;
    let numbers = |values: &[f64]| values.iter().map(|&value| number(value)).collect::<Vec<_>>().join(", ");
    let encodings: Vec<&str> = plan.encodings.iter().map(|encoding| encoding.label.as_str()).collect();
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    let mut rows = vec![
        (language.of("preset", "预设").to_string(), plan.preset.clone()),
        (language.of("attention", "注意力").into(), attention(language, &plan.attention)),
        (language.of("encodings", "位置编码").into(), encodings.join(", ")),
        (language.of("seeds", "随机种子").into(), seeds.join(", ")),
        (
            language.of("model", "模型").into(),
            match plan.sizes.is_empty() {
                true => language.of(
                    format!(
                        "causal, norms first; {} layers, width {}, {} heads",
                        plan.layers, plan.width, plan.heads
                    ),
                    format!("因果，归一化在前；{} 层，宽度 {}，{} 个头", plan.layers, plan.width, plan.heads),
                ),
                false => language
                    .of("causal, norms first; its size by task", "因果，归一化在前；规模因任务而异")
                    .into(),
            },
        ),
        (language.of("texts of a batch", "每批文本数").into(), plan.batch.to_string()),
        (
            match plan.rates.len() {
                1 => language.of("learning rate", "学习率").into(),
                _ => language.of("learning rates to choose from", "可选的学习率").into(),
            },
            numbers(&plan.rates)
                + match plan.sizes.is_empty() {
                    true => "",
                    false => language.of(
                        "; in wider models less, by as much as they are wider",
                        "；模型宽几倍，学习率就小几倍",
                    ),
                },
        ),
    ];
    if let Some(source) = &plan.source {
        rows.insert(1, (language.of("settings of", "设置取自").into(), source.clone()));
    }
    if !plan.training.is_usual() {
        rows.push((language.of("training", "训练").into(), super::recipe(language, &plan.training)));
    }
    for task in &results.tasks {
        let lengths: Vec<String> = task.test_lengths.iter().map(usize::to_string).collect();
        let (trained, lengths) = (task.train_length, lengths.join(", "));
        let (steps, tokens) = (number_whole(task.steps), number_whole(task.tokens_per_step));
        let text = language.of(
            format!("trained up to length {trained}, tested at {lengths}; {steps} steps of {tokens} tokens"),
            format!("训练长度不超过 {trained}，测试长度 {lengths}；{steps} 步，每步 {tokens} 个 token"),
        );
        let size = task.size.map(|_| {
            let [layers, width, heads] = sizes::of_task(results, task);
            language.of(
                format!("; {layers} layers, width {width}, {heads} heads"),
                format!("；{layers} 层，宽度 {width}，{heads} 个头"),
            )
        });
        let symbols = task.symbols.map(|symbols| {
            language.of(
                format!("; {symbols} symbols, drawn with repetition"),
                format!("；{symbols} 个符号，可重复"),
            )
        });
        rows.push((task.name.clone(), text + &size.unwrap_or_default() + &symbols.unwrap_or_default()));
    }
    if timings.seconds > 0.0 {
        let (seconds, threads) = (number(timings.seconds), timings.threads);
        let text = language
            .of(format!("{seconds} s with {threads} threads"), format!("{seconds} 秒，{threads} 个线程"));
        rows.push((language.of("time, measured on this machine", "用时（在本机测得）").into(), text));
    }
    let rows: String = rows
        .iter()
        .map(|(name, text)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(text)))
        .collect();
    format!("<dl>\n{rows}</dl>")
}

/// What these results say nothing about.
pub(super) fn untested(language: Language, results: &Results) -> String {
    let plan = &results.plan;
    let sizes = list(language, &sizes::listed(language, results));
    let mut out = vec![language.of(
        format!("Other sizes than {sizes}. What holds here need not hold for large models."),
        format!("{sizes}以外的规模。这里成立的，对大模型未必成立。"),
    )];
    let longest = results.tasks.iter().filter_map(|task| {
        let (longest, name) = (task.test_lengths.iter().max()?, &task.name);
        Some(language.of(format!("{longest} on {name}"), format!("{name} 的 {longest}")))
    });
    let longest: Vec<String> = longest.collect();
    if !longest.is_empty() {
        let longest = list(language, &longest);
        out.push(language.of(format!("Lengths beyond {longest}."), format!("更长的长度：超过 {longest}。")));
    }
    out.push(
        language
            .of(
                "More training: an encoding that did not learn a task here might with more steps.",
                "更多的训练：在这里没有学会某个任务的位置编码，步数再多一些也许就会。",
            )
            .into(),
    );
    out.push(
        language
            .of(
                "Other learning rates, optimisers, initial values and sizes of batches than those under Settings.",
                "“设置”所列之外的学习率、优化器、初始值和批次大小。",
            )
            .into(),
    );
    if !results.tasks.iter().any(|task| task.is_language) {
        out.push(
            language
                .of(
                    "Natural text: all tasks here are made up, each to isolate one thing.",
                    "自然文本：这里的任务都是生成的，每个任务只考察一件事。",
                )
                .into(),
        );
    }
    let is_linear = plan.attention.starts_with("linear");
    let other = match is_linear {
        true => language.of("Softmax attention.", "softmax 注意力。"),
        false => language.of("Linear attention.", "线性注意力。"),
    };
    out.push(other.into());
    for left_out in &plan.left_out {
        let reason = stored(language, &left_out.reason);
        let (label, reason) = (&left_out.label, reason.trim_end_matches(['.', '。']));
        out.push(language.of(format!("{label}: {reason}."), format!("{label}：{reason}。")));
    }
    items(out)
}

/// How a number can be followed to its file.
pub(super) fn trace(language: Language, results: &Results) -> String {
    let (version, hash) = (escape(&results.version), escape(&results.hash));
    let said = language.of(
        "Every run has a file of its own in <code>runs/</code> beside this page, named by task, encoding and seed, with its configuration, seed, version and hash. <code>results.json</code> holds all numbers of this page but times, which are in <code>timings.json</code>. <code>roformer compare --replay</code> with this folder draws the page again from these files, without training.",
        "每次训练在本页旁边的 <code>runs/</code> 中都有自己的文件，以任务、位置编码和种子命名，包含配置、种子、版本和哈希。<code>results.json</code> 保存本页除时间以外的全部数字，时间在 <code>timings.json</code> 中。<code>roformer compare --replay</code> 加上这个目录，不必训练就能从这些文件重新生成本页。",
    );
    let [version_name, hash_name] = language.of(["version", "hash"], ["版本", "哈希"]);
    format!(
        "<p>{said}</p>
<dl>
<dt>{version_name}</dt><dd><code>{version}</code></dd>
<dt>{hash_name}</dt><dd><code>{hash}</code></dd>
</dl>"
    )
}
