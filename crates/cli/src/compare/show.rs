//! What a comparison shows: one live line on a terminal, and a table at its end.

use crate::long::{say, time};
use crate::tasks::show::{pad, width};
use indicatif::{ProgressBar, ProgressStyle};
use lab::results::{Comparison, Measure, Results, RunResult, TaskResult};
use lab::statistics::Verdict;
use lab::{LEARNED, Plan, Progress, Seeds, Shard, Shards, Sizes, mean, report};
use roformer::language::Language;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Parts of the live line.
const PARTS: f64 = 1000.0;

/// Shows a comparison.
pub struct Show {
    language: Language,
    /// On a terminal.
    bar: Option<ProgressBar>,
    start: Instant,
    finished: AtomicUsize,
    runs: AtomicUsize,
}

impl Show {
    /// Says what begins, and about how long it takes.
    pub fn new(language: Language, plan: &Plan, shard: Option<Shard>, seconds: f64, threads: usize) -> Self {
        let (tasks, encodings) = (plan.tasks.len(), plan.encodings.len());
        let mut about = time(seconds);
        if plan.sizes == Sizes::Pilot {
            about +=
                language.of(", and more where a pilot chooses larger models", "，若试训选了更大的模型则更久");
        }
        let seeds = match plan.seeds {
            Seeds::Fixed(count) => language.of(format!("{count} seeds"), format!("{count} 个种子")),
            Seeds::Added { budget } => language.of(
                format!("seeds added to the work of {budget} of each"),
                format!("逐步增加种子（总量相当于每种 {budget} 个）"),
            ),
        };
        let part = |of: fn(Shard) -> String| shard.map(of).unwrap_or_default();
        let [english, chinese] =
            [part(|shard| format!("shard {shard} of ")), part(|shard| format!("第 {shard} 份，共比较 "))];
        say(&language.of(
            format!(
                "{english}{encodings} encodings, {tasks} tasks, {seeds}, {threads} runs at a time: about {about}"
            ),
            format!(
                "{chinese}{encodings} 种位置编码，{tasks} 个任务，{seeds}，同时训练 {threads} 个模型：大约需要 {about}"
            ),
        ));
        for out in &plan.left_out {
            say(&left_out(language, &out.reason));
        }
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(PARTS as u64);
            match ProgressStyle::with_template("{bar:20} {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Show {
            language,
            bar,
            start: Instant::now(),
            finished: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        }
    }

    /// Shows how far it has come.
    pub fn progress(&self, progress: Progress) {
        let Progress { part, finished, runs, is_pilot } = progress;
        self.runs.store(runs, Ordering::Relaxed);
        let before = self.finished.swap(finished, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            let left = self.start.elapsed().as_secs_f64() * (1.0 - part) / part.max(1e-9);
            let left = time(left);
            bar.set_message(match is_pilot {
                true => self.language.of(
                    format!("{finished} of at most {runs} runs that choose sizes"),
                    format!("试训：已训练 {finished} 个，至多 {runs} 个"),
                ),
                false => self.language.of(
                    format!("{finished} of {runs} runs, {left} left"),
                    format!("已训练 {finished} 个，共 {runs} 个，还需 {left}"),
                ),
            });
            bar.set_position((part * PARTS) as u64);
        } else if finished > before && (finished == runs || finished.is_multiple_of((runs / 10).max(1))) {
            say(&match is_pilot {
                true => self.language.of(
                    format!("{finished} of at most {runs} runs that choose sizes"),
                    format!("试训：已训练 {finished} 个，至多 {runs} 个"),
                ),
                false => self
                    .language
                    .of(format!("{finished} of {runs} runs"), format!("已训练 {finished} 个，共 {runs} 个")),
            });
        }
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// How to go on with a comparison that was told to stop.
    pub fn stopped(&self, out: &Path) {
        let (finished, runs) = (self.finished.load(Ordering::Relaxed), self.runs.load(Ordering::Relaxed));
        let out = out.display();
        say(&self.language.of(
            format!(
                "stopped; {finished} of {runs} runs are finished and kept in {out}; the same command goes on from there"
            ),
            format!(
                "已停止；已训练 {finished} 个，共 {runs} 个，都保存在 {out} 中；再次运行同样的命令会从这里继续"
            ),
        ));
    }
}

/// What is put together.
pub fn merging(language: Language, shards: &Shards) {
    let (count, repeated) = (shards.count(), shards.repeated());
    say(&language.of(
        format!("{count} shards; {repeated} runs are in more than one of them, the same in each"),
        format!("共 {count} 份；其中 {repeated} 个模型在不止一份中，内容都相同"),
    ));
}

/// That a part is finished, and what to do then.
pub fn shard(language: Language, shard: Shard, runs: usize, out: &Path) -> io::Result<()> {
    let out = out.display();
    writeln!(
        io::stdout(),
        "{}",
        language.of(
            format!("shard {shard}: {runs} runs to compare are in {out}; when all shards are finished, give --merge their folders"),
            format!("第 {shard} 份：参加比较的 {runs} 个模型在 {out} 中；各份都完成之后，用 --merge 列出它们的文件夹"),
        )
    )
}

fn left_out(language: Language, reason: &str) -> String {
    format!("{}{}", language.of("left out: ", "未参加比较："), report::stored(language, reason))
}

/// The name of the baseline once more.
fn again(language: Language, label: &str) -> String {
    language.of(format!("{label} again"), format!("{label} 再训练一遍"))
}

/// What came of a comparison, on stdout.
pub fn table(language: Language, results: &Results, out: &Path) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let encoding = language.of("encoding", "位置编码");
    let widest = results.plan.encodings.iter().map(|encoding| width(&encoding.label)).max();
    let widest = width(&again(language, "")) + widest.unwrap_or(0).max(width(encoding));
    for task in &results.tasks {
        let longest = task.test_lengths.last().copied().unwrap_or_default();
        let (name, trained, steps) = (&task.name, task.train_length, task.steps);
        let control = if task.is_control { language.of(", the control", "（对照）") } else { "" };
        let measured = match task.is_language {
            true => language.of("loss", "损失"),
            false => language.of("exact answers", "完全正确率"),
        };
        let size = task.size.map_or_else(String::new, |size| {
            let (layers, width) = (size.layers(), size.width());
            language.of(format!(", {layers} layers of width {width}"), format!("，{layers} 层，宽度 {width}"))
        });
        let about = language.of(
            format!(
                "{name}{control}: {measured}, trained to length {trained}, tested to {longest}, {steps} steps{size}"
            ),
            format!(
                "{name}{control}：{measured}，训练长度不超过 {trained}，测试到 {longest}，{steps} 步{size}"
            ),
        );
        writeln!(stdout, "{about}")?;
        let [in_range, beyond, seeds, rate] = language
            .of(["in range", "beyond", "seeds", "rate"], ["训练长度之内", "训练长度之外", "种子", "学习率"]);
        let (encoding, in_range, beyond) = (pad(encoding, widest), pad(in_range, 20), pad(beyond, 20));
        writeln!(stdout, "  {encoding}  {in_range}  {beyond}  {}  {rate}", pad(seeds, 5))?;
        for encoding in &results.plan.encodings {
            row(&mut stdout, language, task, &encoding.label, false, widest)?;
        }
        if let Some(first) = results.plan.encodings.first() {
            row(&mut stdout, language, task, &first.label, true, widest)?;
        }
    }
    for out in &results.plan.left_out {
        writeln!(stdout, "{}", left_out(language, &out.reason))?;
    }
    let [numbers, page] = language.of(["all numbers are in", "the report is"], ["全部数字在", "报告是"]);
    writeln!(stdout, "{numbers} {}", out.join("results.json").display())?;
    writeln!(stdout, "{page} {}", out.join("report.html").display())
}

/// One encoding on one task.
fn row(
    out: &mut impl Write,
    language: Language,
    task: &TaskResult,
    label: &str,
    is_again: bool,
    widest: usize,
) -> io::Result<()> {
    let runs: Vec<&RunResult> =
        task.runs.iter().filter(|run| run.encoding == label && run.is_again == is_again).collect();
    let of = |is_in_range| {
        let values: Vec<f64> = runs.iter().filter_map(|run| mean(run, task, is_in_range)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let in_range = of(true);
    let is_learned = task.is_language || in_range.is_some_and(|reached| reached >= LEARNED);
    let cell = |value: Option<f64>, measure: Measure| {
        let verdict = task.comparisons.iter().find(|comparison| {
            comparison.encoding == label && comparison.is_again == is_again && comparison.measure == measure
        });
        let number = value.map_or_else(|| "-".into(), |value| format!("{value:.3}"));
        format!("{number} {}", verdict.map_or("", |verdict| words(language, verdict)))
    };
    let name = if is_again { again(language, label) } else { label.into() };
    let rate = runs.first().map_or(0.0, |run| run.rate);
    let beyond = match is_learned {
        true => cell(of(false), Measure::Beyond),
        false => language.of("not learned", "没有学会").into(),
    };
    let in_range = cell(in_range, Measure::InRange);
    let (name, in_range, beyond) = (pad(&name, widest), pad(&in_range, 20), pad(&beyond, 20));
    writeln!(out, "  {name}  {in_range}  {beyond}  {:<5}  {rate}", runs.len())
}

/// A verdict as people say it.
fn words(language: Language, comparison: &Comparison) -> &'static str {
    match comparison.verdict {
        _ if comparison.not_judged.is_some() => language.of("not judged", "未作判断"),
        Verdict::Unclear => language.of("too few seeds", "种子太少"),
        Verdict::Better => language.of(Verdict::Better.name(), "更好"),
        Verdict::Worse => language.of(Verdict::Worse.name(), "更差"),
        Verdict::Tie => language.of(Verdict::Tie.name(), "持平"),
    }
}
