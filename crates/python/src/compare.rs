//! Comparisons of position encodings: `roformer compare` without what it prints.

use crate::error::raised;
use crate::work::{Leave, Teller, finish};
use lab::results::{Results, RunResult, TaskResult};
use lab::{Progress, mean};
use pyo3::prelude::*;
use serde_json::{Value, json};

/// Compares as the command does with these flags. `progress` is called with the part that is done, the runs that are, and all
/// runs. Returns the runs and the verdicts as a JSON object. Ctrl-C is raised when the runs at work have been left; what is
/// finished stays.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    flags: Vec<String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let work = move |teller: &Teller<Progress>| {
        let results = roformer_cli::library::compare(&flags, &|progress| teller.tell(progress))?;
        Ok(results.as_ref().map_or(Value::Null, object))
    };
    let told = |Progress { part, finished, runs, .. }| match &progress {
        Some(progress) => progress.call1((part, finished, runs)).map(drop),
        None => Ok(()),
    };
    let ended: Result<Value, String> = finish(py, Leave::Saved, work, told)?;
    ended.map(|value| value.to_string()).map_err(raised)
}

fn object(results: &Results) -> Value {
    let each = |of: fn(&TaskResult) -> Vec<Value>| results.tasks.iter().flat_map(of).collect::<Vec<_>>();
    json!({ "runs": each(runs), "verdicts": each(verdicts), "left_out": results.plan.left_out })
}

fn runs(task: &TaskResult) -> Vec<Value> {
    let run = |run: &RunResult| {
        json!({
            "task": task.name,
            "encoding": run.encoding,
            "is_again": run.is_again,
            "seed": run.seed,
            "rate": run.rate,
            "in_range": mean(run, task, true),
            "beyond": mean(run, task, false),
            "parameters": run.parameters,
        })
    };
    task.runs.iter().map(run).collect()
}

fn verdicts(task: &TaskResult) -> Vec<Value> {
    let verdict = |found: &lab::results::Comparison| {
        json!({
            "task": task.name,
            "encoding": found.encoding,
            "is_again": found.is_again,
            "measure": found.measure,
            "verdict": found.verdict.name(),
            "mean": found.mean,
            "low": found.low,
            "high": found.high,
            "effect": found.effect,
            "p_holm": found.p_holm,
            "seeds": found.differences.len(),
            "not_judged": found.not_judged,
        })
    };
    task.comparisons.iter().map(verdict).collect()
}
