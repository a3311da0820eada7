//! What a plan is and how much work: all of it, where nothing is to be done yet, or the work alone before it begins.

use crate::tasks::show::pad;
use lab::{Plan, Preset, Seeds, Sizes, Work, report};
use roformer::language::Language;
use std::io::{self, Write};

/// Columns of the names on the left.
const NAMES: usize = 12;

/// All that a plan fixes, on stdout.
pub fn plan(language: Language, plan: &Plan, work: &Work) -> io::Result<()> {
    let shown = plan.shown();
    let list = |values: &[String]| values.join(language.of(", ", "、"));
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |names: [&str; 2], text: String| lines.push((language.of(names[0], names[1]).into(), text));
    let source = shown
        .source
        .as_ref()
        .map_or_else(String::new, |source| format!("{}{source}", language.of(": ", "：")));
    add(["plan", "方案"], shown.preset.clone() + &source);
    let labels: Vec<String> = shown.encodings.iter().map(|encoding| encoding.label.clone()).collect();
    add(["encodings", "位置编码"], list(&labels));
    let parameters = millions(language, work.parameters);
    let (layers, width, heads) = (shown.layers, shown.width, shown.heads);
    add(
        ["models", "模型"],
        match plan.sizes {
            Sizes::One(_) => language.of(
                format!("{layers} layers of width {width}, {heads} heads; {} attention; at most {parameters} parameters", shown.attention),
                format!("{layers} 层，宽度 {width}，{heads} 个头；{} 注意力；参数至多 {parameters}", shown.attention),
            ),
            Sizes::Pilot => language.of(
                format!("chosen by a pilot for each task; {} attention", shown.attention),
                format!("由试训为每个任务选定；{} 注意力", shown.attention),
            ),
        },
    );
    let rates: Vec<String> = shown.rates.iter().map(f64::to_string).collect();
    let (batch, rates) = (shown.batch, list(&rates));
    let rate = match shown.rates.len() {
        1 => language.of(format!("the rate is {rates}"), format!("学习率 {rates}")),
        _ => language.of(
            format!("each encoding chooses its rate from {rates}"),
            format!("各编码从 {rates} 中选出学习率"),
        ),
    };
    let recipe = report::recipe(language, &plan.training);
    add(
        ["training", "训练"],
        language.of(
            format!("{batch} texts a step; {rate}; {recipe}"),
            format!("每步 {batch} 条文本；{rate}；{recipe}"),
        ),
    );
    let seeds = match plan.seeds {
        Seeds::Fixed(count) => count.to_string(),
        Seeds::Added { budget } => language.of(
            format!("added where a comparison is undecided, to the work of {budget} of each"),
            format!("比较未能判定时增加，总量相当于每种 {budget} 个"),
        ),
    };
    add(["seeds", "种子"], seeds);
    for task in &plan.tasks {
        let lengths: Vec<String> = task.test_lengths.iter().map(usize::to_string).collect();
        let (tokens, trained, lengths, steps) =
            (task.task.vocabulary(), task.train_length, list(&lengths), task.steps);
        let name = task.task.name();
        add(
            [name, name],
            language.of(
                format!(
                    "vocabulary of {tokens}; trained to length {trained}; tested at {lengths}; {steps} steps"
                ),
                format!("词表 {tokens}；训练长度不超过 {trained}；测试长度 {lengths}；{steps} 步"),
            ),
        );
    }
    let mut out = io::stdout().lock();
    for (name, text) in lines.into_iter().chain(work_lines(language, plan, work)) {
        writeln!(out, "{}  {text}", pad(&name, NAMES))?;
    }
    Ok(())
}

/// How much work it is: the lines that are also told before a plan that has a name begins.
pub fn work_lines(language: Language, plan: &Plan, work: &Work) -> [(String, String); 2] {
    let Work { runs, training, measuring, tokens, tokens_of_one, .. } = *work;
    let [memory, kept] = [work.memory, work.kept].map(bytes);
    let least = match (plan.preset, plan.seeds, plan.sizes) {
        (_, Seeds::Added { .. }, _) | (_, _, Sizes::Pilot) | (Preset::Full, ..) => {
            language.of("at least ", "至少 ")
        }
        _ => "",
    };
    [
        (
            language.of("work", "工作量").into(),
            language.of(
                format!("{least}{runs} runs; {training:.1e} floating-point operations of training, {measuring:.1e} of measuring on the CPU; {tokens:.1e} tokens read, {tokens_of_one:.1e} by one model"),
                format!("{least}{runs} 次训练；训练共 {training:.1e} 次浮点运算，在 CPU 上测量共 {measuring:.1e} 次；共读 {tokens:.1e} 个 token，一个模型读 {tokens_of_one:.1e} 个"),
            ),
        ),
        (
            language.of("memory", "内存").into(),
            language.of(
                format!("{memory} for a model in training; {kept} on the disk for each that is under way"),
                format!("训练一个模型约 {memory}；每个未完成的训练在磁盘上占 {kept}"),
            ),
        ),
    ]
}

/// A number of bytes.
fn bytes(bytes: u64) -> String {
    match bytes as f64 / (1u64 << 20) as f64 {
        mebibytes if mebibytes < 1024.0 => format!("{mebibytes:.1} MiB"),
        mebibytes => format!("{:.1} GiB", mebibytes / 1024.0),
    }
}

/// A number of parameters.
fn millions(language: Language, count: usize) -> String {
    language.of(format!("{:.1} million", count as f64 / 1e6), format!("{:.2} 百万", count as f64 / 1e6))
}
