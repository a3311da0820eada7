//! Training: `roformer train` without what it prints.

use crate::error::raised;
use crate::work::{Leave, Teller, finish};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use roformer::train::{Best, End, Event};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Trains as the command does with these flags. `progress` is called with a dict of what happened. Returns what came of it as a
/// JSON object. Ctrl-C is raised when the run has been saved.
#[pyfunction]
pub(crate) fn train(
    py: Python<'_>,
    flags: Vec<String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let work = move |teller: &Teller<Event>| {
        let on = |event| match teller.tell(event) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let (run, end) = roformer_cli::library::train(&flags, on)?;
        let evaluation =
            |at: Option<Best>| at.map(|Best { step, loss }| json!({ "step": step, "loss": loss }));
        Ok(json!({
            "steps": run.trainer().steps(),
            "seconds": run.seconds(),
            "parameters": run.trainer().parameters().len(),
            "ended_early": end == End::Early,
            "best": evaluation(run.best()),
            "last": evaluation(run.last()),
            "folder": run.path(""),
            "warning": run.trainer().data().unknown().warning(),
        }))
    };
    let told = |event: Event| match &progress {
        Some(progress) => progress.call1((dictionary(py, event)?,)).map(drop),
        None => Ok(()),
    };
    let ended: Result<Value, String> = finish(py, Leave::Saved, work, told)?;
    ended.map(|value| value.to_string()).map_err(raised)
}

/// What happened, under the names that `metrics.jsonl` has.
fn dictionary(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyDict>> {
    let dictionary = PyDict::new(py);
    match event {
        Event::Step { step, loss, tokens_s } => {
            dictionary.set_item("step", step)?;
            dictionary.set_item("loss", loss)?;
            dictionary.set_item("tokens_s", tokens_s)?;
        }
        Event::Evaluation { step, loss, found, is_best } => {
            dictionary.set_item("step", step)?;
            dictionary.set_item("loss", loss)?;
            dictionary.set_item("validation_loss", found.loss)?;
            if let Some(accuracy) = found.accuracy {
                dictionary.set_item("accuracy", accuracy)?;
            }
            dictionary.set_item("is_best", is_best)?;
        }
    }
    Ok(dictionary)
}
