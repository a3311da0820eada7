//! What a comparison shows: one live line on a terminal, and a table at its end.

use crate::long::{say, time};
use indicatif::{ProgressBar, ProgressStyle};
use lab::results::{Comparison, Measure, Results, RunResult, TaskResult};
use lab::statistics::Verdict;
use lab::{LEARNED, Plan, Progress, mean};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Parts of the live line.
const PARTS: f64 = 1000.0;

/// Shows a comparison.
pub struct Show {
    /// On a terminal.
    bar: Option<ProgressBar>,
    start: Instant,
    finished: AtomicUsize,
    runs: AtomicUsize,
}

impl Show {
    /// Says what begins, and about how long it takes.
    pub fn new(plan: &Plan, seconds: f64, threads: usize) -> Self {
        let (tasks, encodings, seeds) = (plan.tasks.len(), plan.encodings.len(), plan.seeds.len());
        say(&format!(
            "{encodings} encodings, {tasks} tasks, {seeds} seeds, {threads} runs at a time: about {}",
            time(seconds)
        ));
        for out in &plan.left_out {
            say(&format!("left out: {}", out.reason));
        }
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(PARTS as u64);
            match ProgressStyle::with_template("{bar:20} {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Show { bar, start: Instant::now(), finished: AtomicUsize::new(0), runs: AtomicUsize::new(0) }
    }

    /// Shows how far it has come.
    pub fn progress(&self, progress: Progress) {
        let Progress { part, finished, runs } = progress;
        self.runs.store(runs, Ordering::Relaxed);
        let before = self.finished.swap(finished, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            let left = self.start.elapsed().as_secs_f64() * (1.0 - part) / part.max(1e-9);
            bar.set_message(format!("{finished} of {runs} runs, {} left", time(left)));
            bar.set_position((part * PARTS) as u64);
        } else if finished > before && (finished == runs || finished.is_multiple_of((runs / 10).max(1))) {
            say(&format!("{finished} of {runs} runs"));
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
        say(&format!(
            "stopped; {finished} of {runs} runs are finished and kept in {out}; the same command goes on from there"
        ));
    }
}

/// What came of a comparison, on stdout.
pub fn table(results: &Results, out: &Path) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let widest = results.plan.encodings.iter().map(|encoding| encoding.label.chars().count()).max();
    let widest = widest.unwrap_or(0).max("encoding".len()) + " again".len();
    for task in &results.tasks {
        let measured = if task.is_language { "loss" } else { "exact answers" };
        let control = if task.is_control { ", the control" } else { "" };
        writeln!(
            stdout,
            "{}{control}: {measured}, trained to length {}, tested to {}, {} steps, {} seeds",
            task.name,
            task.train_length,
            task.test_lengths.last().copied().unwrap_or_default(),
            task.steps,
            results.plan.seeds.len()
        )?;
        let [in_range, beyond] = ["in range", "beyond"];
        writeln!(stdout, "  {:widest$}  {in_range:20}  {beyond:20}  rate", "encoding")?;
        for encoding in &results.plan.encodings {
            row(&mut stdout, task, &encoding.label, false, widest)?;
        }
        if let Some(first) = results.plan.encodings.first() {
            row(&mut stdout, task, &first.label, true, widest)?;
        }
    }
    for out in &results.plan.left_out {
        writeln!(stdout, "left out: {}", out.reason)?;
    }
    writeln!(stdout, "all numbers are in {}", out.join("results.json").display())?;
    writeln!(stdout, "the report is {}", out.join("report.html").display())
}

/// One encoding on one task.
fn row(
    out: &mut impl Write,
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
        format!("{number} {}", verdict.map_or("", words))
    };
    let name = if is_again { format!("{label} again") } else { label.into() };
    let rate = runs.first().map_or(0.0, |run| run.rate);
    let beyond = match is_learned {
        true => cell(of(false), Measure::Beyond),
        false => "not learned".into(),
    };
    writeln!(out, "  {name:widest$}  {:20}  {beyond:20}  {rate}", cell(in_range, Measure::InRange))
}

/// A verdict as people say it.
fn words(comparison: &Comparison) -> &'static str {
    match comparison.verdict {
        _ if comparison.not_judged.is_some() => "not judged",
        Verdict::Unclear => "too few seeds",
        clear @ (Verdict::Better | Verdict::Worse | Verdict::Tie) => clear.name(),
    }
}
