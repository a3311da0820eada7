//! What a configuration does: `rotary.inspect` and `rotary.advice`. Objects go to Python as JSON, which has the command's words.

use crate::config;
use crate::error::{guarded, raised};
use crate::whole::Whole;
use pyo3::prelude::*;
use roformer::inspect::Report;
use roformer::language::Language;
use rope::{HfConfig, HfOptions, Pairing};
use serde_json::{Map, Value};

/// Reads a configuration with the options that reading has.
fn read(config: &Bound<'_, PyAny>, pairing: Option<&str>, allow_unknown: Vec<String>) -> PyResult<HfConfig> {
    let bytes = config::bytes(config)?;
    let pairing = pairing.map(str::parse::<Pairing>).transpose().map_err(raised)?;
    let options = HfOptions { pairing, allow_unknown, ..HfOptions::default() };
    HfConfig::read(&bytes, &options).map_err(raised)
}

/// A number of tokens, within the command's limits.
fn length(Whole(context): Whole) -> PyResult<u64> {
    match u64::try_from(context) {
        Ok(length @ 1..=0x100_0000_0000) => Ok(length),
        _ => Err(raised(format!("context is {context}; expected from 1 to 2^40 tokens"))),
    }
}

/// What `roformer inspect` says: the object of `--json`, and the page for people.
#[pyfunction]
#[pyo3(signature = (config, context=None, pairing=None, allow_unknown=Vec::new()))]
pub(crate) fn inspection(
    config: &Bound<'_, PyAny>,
    context: Option<Whole>,
    pairing: Option<&str>,
    allow_unknown: Vec<String>,
) -> PyResult<(String, String)> {
    guarded(|| {
        let context = context.map(length).transpose()?;
        let config = read(config, pairing, allow_unknown)?;
        let mut page = Vec::new();
        let report = Report::new(&config, context);
        roformer_cli::page::print(&mut page, &report, Language::English).map_err(raised)?;
        let page = String::from_utf8_lossy(&page).into_owned();
        Ok((roformer::inspect::object(&config, context).to_string(), page))
    })
}

/// What each rule would do at `context` tokens, by layer type: a JSON object, whose one key is empty where all layers are alike.
#[pyfunction]
#[pyo3(signature = (config, context, pairing=None, allow_unknown=Vec::new()))]
pub(crate) fn advice(
    config: &Bound<'_, PyAny>,
    context: Whole,
    pairing: Option<&str>,
    allow_unknown: Vec<String>,
) -> PyResult<String> {
    guarded(|| {
        let config = read(config, pairing, allow_unknown)?;
        let report = Report::new(&config, Some(length(context)?));
        let advised = report.layers.into_iter().map(|layer| {
            let advice = layer.turning.and_then(|turning| turning.advice);
            Ok((layer.layer_type.unwrap_or_default(), serde_json::to_value(advice).map_err(raised)?))
        });
        let advised: Map<String, Value> = advised.collect::<PyResult<_>>()?;
        match advised.values().all(Value::is_null) {
            false => Ok(Value::Object(advised).to_string()),
            true => Err(raised(
                "the configuration does not turn, or does not say how long training was; expected both",
            )),
        }
    })
}
