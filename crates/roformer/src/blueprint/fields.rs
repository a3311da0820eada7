//! Reading fields of a `config.json`, with errors that name them.

use super::head::{Labels, Problem};
use crate::error::{Error, Result};
use crate::files::{broken, read};
use crate::ops::Activation;
use serde_json::{Map, Value};
use std::path::Path;

/// More than any model has, and little enough that products of two sizes cannot overflow.
pub(crate) const MAX_SIZE: u64 = 1 << 24;

/// The object that a `config.json` is.
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>> {
    let wrong = |reason: String| Error::File { path: "config.json".into(), reason };
    let value = rope::config::parse(bytes).map_err(|error| match error {
        rope::Error::Json(reason) => wrong(reason),
        other => wrong(other.to_string()),
    })?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(wrong("not a JSON object".into())),
    }
}

/// The bytes of a configuration; no more than one can have.
pub(crate) fn read_config(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path, rope::config::MAX_CONFIG_BYTES as u64)?;
    bytes.ok_or_else(|| broken(path, format!("no such file; expected {}", expected(path))))
}

/// What is expected where there is no configuration: the models of a training run are in folders of their own.
fn expected(path: &Path) -> String {
    let run = path.parent().filter(|folder| folder.join("state.json").is_file());
    let model = ["best", "last"].into_iter().find_map(|name| {
        let model = run?.join(name);
        model.join("config.json").is_file().then_some(model)
    });
    match model {
        Some(model) => {
            format!("a model: this is the folder of a training run, whose model is {}", model.display())
        }
        None => "the configuration of a model".into(),
    }
}

/// The fields of a configuration, with errors that name them.
pub(crate) struct Fields<'a>(pub &'a Map<String, Value>);

impl Fields<'_> {
    fn problem(&self, num_labels: usize) -> Result<Problem> {
        let default = match num_labels {
            1 => "multi_label_classification",
            _ => "single_label_classification",
        };
        Ok(match self.string("problem_type", default)? {
            "single_label_classification" => Problem::OneLabel,
            "multi_label_classification" => Problem::SeveralLabels,
            "regression" => Problem::Regression,
            _ => {
                let expected = "single_label_classification, multi_label_classification or regression";
                return Err(self.error("problem_type", expected));
            }
        })
    }

    /// The labels of a classifier: how many there are, and the names of those that have one.
    pub fn labels(&self) -> Result<Labels> {
        let names = match self.get("id2label") {
            None => None,
            Some(Value::Object(map)) => Some(map).filter(|map| !map.is_empty()),
            Some(_) => return Err(self.error("id2label", "an object: a name for each label")),
        };
        let (count, names) = match names {
            None => (self.size("num_labels", 2, 1)?, Vec::new()),
            Some(map) => {
                let name =
                    |label: usize| map.get(&label.to_string()).and_then(Value::as_str).map(String::from);
                (map.len(), (0..map.len()).map(name).collect())
            }
        };
        Ok(Labels { count, names, problem: self.problem(count)? })
    }

    /// Token ids: a number or a list of them; none where nothing is said.
    pub fn token_ids(&self, field: &str) -> Result<Vec<u32>> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = match self.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(id).collect(),
            Some(value) => id(value).map(|id| vec![id]),
        };
        ids.ok_or_else(|| self.error(field, "a token id, or a list of them"))
    }

    /// A value, with `null` read as absent.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub fn error(&self, field: &str, expected: impl Into<String>) -> Error {
        let value = self
            .0
            .get(field)
            .map_or("missing".into(), |value| value.to_string().chars().take(60).collect::<String>());
        Error::Config { field: field.into(), value, expected: expected.into() }
    }

    pub fn size(&self, field: &str, default: usize, least: u64) -> Result<usize> {
        let Some(value) = self.get(field) else { return Ok(default) };
        match value.as_u64() {
            Some(size) if (least..=MAX_SIZE).contains(&size) => Ok(size as usize),
            _ => Err(self.error(field, format!("a whole number from {least} to {MAX_SIZE}"))),
        }
    }

    /// `max_position_embeddings`, as far as learned tables need it: anything but a size is the class's default.
    pub fn positions(&self, default: usize) -> usize {
        let given = self.get("max_position_embeddings").and_then(Value::as_u64);
        given.filter(|given| (1..=MAX_SIZE).contains(given)).map_or(default, |given| given as usize)
    }

    pub fn boolean(&self, field: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(field) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.error(field, "true or false"))
    }

    pub fn string<'a>(&'a self, field: &str, default: &'a str) -> Result<&'a str> {
        let Some(value) = self.get(field) else { return Ok(default) };
        value.as_str().ok_or_else(|| self.error(field, "a string"))
    }

    pub fn activation(&self, field: &str, default: &str) -> Result<Activation> {
        Activation::from_name(self.string(field, default)?).ok_or_else(|| {
            self.error(field, "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish, tanh or linear")
        })
    }

    /// A number of at least 0 and less than 1.
    pub fn fraction(&self, field: &str, default: f64) -> Result<f64> {
        let Some(value) = self.get(field) else { return Ok(default) };
        match value.as_f64() {
            Some(fraction) if (0.0..1.0).contains(&fraction) => Ok(fraction),
            _ => Err(self.error(field, "a number from 0 to 1")),
        }
    }
}
