//! A comparison of encodings that was run: its curves, with their spread over seeds.

use crate::error::{Error, Result};
use lab::report::stored;
use lab::results::{Results, RunResult, TaskResult};
use roformer::language::Language;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What `roformer compare` left in a folder.
pub struct Comparison {
    results: Results,
}

/// Which task.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Its name; the first if it is empty.
    pub task: String,
}

/// One task's curves.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// The task.
    pub task: String,
    /// What it isolates, in one sentence.
    pub isolates: String,
    /// Whether its measure is a loss rather than exact answers.
    pub is_language: bool,
    /// The longest length that was trained on.
    pub train_length: usize,
    /// Seeds.
    pub seeds: usize,
    /// One an encoding, in the order in which they were asked for.
    pub encodings: Vec<Curve>,
}

/// An encoding's curves: means over seeds, with the least and the most.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The encoding.
    pub encoding: String,
    /// Training loss by step.
    pub loss: Vec<Point>,
    /// Exact answers by length; for a language model the loss.
    pub by_length: Vec<Point>,
    /// Mean attention by distance, of the last layer; empty for linear attention.
    pub attention: Vec<f64>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// The step or the length.
    pub x: f64,
    /// The mean over seeds.
    pub mean: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Comparison {
    /// Reads the results in a folder.
    pub fn open(folder: &Path) -> Result<Comparison> {
        let (results, _) = lab::replay(folder)?;
        if results.tasks.is_empty() {
            return Err(Error::new(format!("{}: the comparison has no task", folder.display())));
        }
        Ok(Comparison { results })
    }

    /// The names of its tasks.
    pub fn tasks(&self) -> Vec<String> {
        self.results.tasks.iter().map(|task| task.name.clone()).collect()
    }

    /// The curves of a task; what it isolates is said in a language.
    pub fn curves(&self, ask: &Ask, language: Language) -> Result<Curves> {
        let is_asked = |task: &&TaskResult| ask.task.is_empty() || task.name == ask.task;
        let Some(task) = self.results.tasks.iter().find(is_asked) else {
            return Err(Error::refused(
                format!("task is {:?}; expected one of {}", ask.task, self.tasks().join(", ")),
                format!("task 是 {:?}；应为 {} 之一", ask.task, self.tasks().join("、")),
            ));
        };
        let encodings = self.results.plan.encodings.iter().map(|encoding| {
            let runs = || task.runs.iter().filter(|run| run.encoding == encoding.label && !run.is_again);
            let values = |run: &RunResult| {
                run.accuracy.iter().map(|at| (at.length as f64, measured(task, at))).collect()
            };
            let last = |run: &RunResult| run.attention.last().cloned().unwrap_or_default();
            Curve {
                encoding: encoding.label.clone(),
                loss: points(
                    runs().map(|run| run.curve.iter().map(|at| (at.step as f64, at.loss)).collect()),
                ),
                by_length: points(runs().map(values)),
                attention: mean(&runs().map(last).collect::<Vec<_>>()),
            }
        });
        Ok(Curves {
            task: task.name.clone(),
            isolates: stored(language, &task.isolates),
            is_language: task.is_language,
            train_length: task.train_length,
            seeds: self.results.plan.seeds.len(),
            encodings: encodings.collect(),
        })
    }
}

/// What counts on a task: its loss if it is a language model, else exact answers.
fn measured(task: &TaskResult, at: &lab::results::Accuracy) -> f64 {
    if task.is_language { at.loss } else { at.exact }
}

/// Means and extremes over runs, place by place; as many as the shortest run has.
fn points(runs: impl Iterator<Item = Vec<(f64, f64)>>) -> Vec<Point> {
    let runs: Vec<Vec<(f64, f64)>> = runs.collect();
    let count = runs.iter().map(Vec::len).min().unwrap_or(0);
    let point = |index: usize| {
        let values = || runs.iter().map(|run| run[index].1);
        Point {
            x: runs[0][index].0,
            mean: values().sum::<f64>() / runs.len() as f64,
            low: values().fold(f64::INFINITY, f64::min),
            high: values().fold(f64::NEG_INFINITY, f64::max),
        }
    };
    (0..count).map(point).collect()
}

/// The mean of lists, place by place.
fn mean(lists: &[Vec<f64>]) -> Vec<f64> {
    let count = lists.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|index| lists.iter().map(|list| list[index]).sum::<f64>() / lists.len() as f64).collect()
}
