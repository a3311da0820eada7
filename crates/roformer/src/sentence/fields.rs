//! Reading fields of a file of JSON, with errors that name both.

use crate::error::{Error, Result};
use crate::files::{broken, read};
use crate::weights::brief;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The most that is read of one file. The largest are of tokenizers that list thousands of added tokens.
const LIMIT: u64 = rope::config::MAX_CONFIG_BYTES as u64;

/// The object of a file.
pub(super) struct Fields {
    path: PathBuf,
    map: Map<String, Value>,
}

/// A value of a file, or `None` where there is no such file.
pub(super) fn value(path: &Path) -> Result<Option<Value>> {
    let Some(bytes) = read(path, LIMIT)? else { return Ok(None) };
    match rope::config::parse(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(broken(path, format!("not JSON ({error}); download it again"))),
    }
}

impl Fields {
    /// The object of a file that must be there.
    pub fn read(path: &Path) -> Result<Fields> {
        let missing = "no such file; expected the module that modules.json lists, download it again";
        Self::find(path)?.ok_or_else(|| broken(path, missing))
    }

    /// The object of a file; empty where there is no such file.
    pub fn read_if_there(path: &Path) -> Result<Fields> {
        let empty = || Fields { path: path.to_owned(), map: Map::new() };
        Ok(Self::find(path)?.unwrap_or_else(empty))
    }

    fn find(path: &Path) -> Result<Option<Fields>> {
        match value(path)? {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields { path: path.to_owned(), map })),
            Some(_) => Err(broken(path, "JSON, but not an object; download it again")),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }

    /// A field that is there and not null.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// Refuses a field that has another value than is accepted.
    pub fn wrong(&self, field: &str, expected: &str) -> Error {
        let value = match self.map.get(field) {
            None => "missing".into(),
            Some(Value::String(text)) => brief(text),
            Some(value) => brief(&value.to_string()),
        };
        broken(&self.path, format!("`{field}` is {value}; expected {expected}"))
    }

    pub fn boolean(&self, field: &str, default: bool) -> Result<bool> {
        match self.get(field) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(field, "true or false")),
        }
    }

    pub fn text(&self, field: &str) -> Result<Option<&str>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field, "a string")),
        }
    }

    /// A number of tokens or features. transformers writes 10³⁰ for what has no end: too large a number is as good as that.
    pub fn size(&self, field: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_f64().filter(|number| *number >= 1.0 && number.fract() == 0.0) {
            Some(number) => Ok(Some(number as usize)),
            None => Err(self.wrong(field, "a whole number from 1 on")),
        }
    }

    pub fn object(&self, field: &str) -> Result<Option<&Map<String, Value>>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(self.wrong(field, "an object")),
        }
    }

    /// Refuses fields that nothing here reads: they would change the numbers in silence.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.names().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(broken(&self.path, format!("`{}` is not known here", brief(name)))),
        }
    }
}
