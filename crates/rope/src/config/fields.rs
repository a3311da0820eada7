//! Reading a JSON object field by field, with errors that name the path and the value.

use crate::error::{Error, Result};
use serde_json::{Map, Value};

/// An object of a configuration and where it stands.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub fn new(map: &'a Map<String, Value>, path: impl Into<String>) -> Self {
        Fields { map, path: path.into() }
    }

    /// The path of a key.
    pub fn path(&self, key: &str) -> String {
        let key = plain(key);
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }

    /// The error for a key whose value is not what is `expected`.
    pub fn error(&self, key: &str, expected: impl Into<String>) -> Error {
        let value = match self.map.get(key) {
            None => "missing".to_string(),
            Some(value) => shorten(value),
        };
        Error::Field { field: self.path(key), value, expected: expected.into() }
    }

    /// The value of a key, with `null` read as absent.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Whether the key is there, be it with `null`.
    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a String> {
        self.map.keys()
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.get(key)
            .map(|value| value.as_f64().filter(|number| number.is_finite()))
            .map(|number| number.ok_or_else(|| self.error(key, "a number")))
            .transpose()
    }

    pub fn positive(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(number) if number <= 0.0 => Err(self.error(key, "a number greater than 0")),
            number => Ok(number),
        }
    }

    /// A base of frequencies.
    pub fn base(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(base) if !(1e-30..=1e30).contains(&base) => {
                Err(self.error(key, "a number from 1e-30 to 1e30"))
            }
            base => Ok(base),
        }
    }

    /// A whole number from 1 to 2^53, written as an integer or as a float without a fraction.
    pub fn count(&self, key: &str) -> Result<Option<u64>> {
        let expected = "a whole number from 1 to 2^53";
        match self.number(key).map_err(|_| self.error(key, expected))? {
            None => Ok(None),
            Some(number) if number >= 1.0 && number <= 2f64.powi(53) && number.fract() == 0.0 => {
                Ok(Some(number as u64))
            }
            Some(_) => Err(self.error(key, expected)),
        }
    }

    /// The first of several names of one thing that is there, with its value.
    pub fn count_of<'k>(&self, keys: &[&'k str]) -> Result<Option<(&'k str, u64)>> {
        for key in keys {
            if let Some(count) = self.count(key)? {
                return Ok(Some((key, count)));
            }
        }
        Ok(None)
    }

    pub fn boolean(&self, key: &str) -> Result<Option<bool>> {
        self.get(key).map(|value| value.as_bool().ok_or_else(|| self.error(key, "true or false"))).transpose()
    }

    pub fn string(&self, key: &str) -> Result<Option<&'a str>> {
        let text = |value: &'a Value| value.as_str().filter(|text| !is_not_a_number(text));
        self.get(key).map(|value| text(value).ok_or_else(|| self.error(key, "a string"))).transpose()
    }

    pub fn object(&self, key: &str) -> Result<Option<Fields<'a>>> {
        let object = |value: &'a Value| value.as_object().ok_or_else(|| self.error(key, "an object or null"));
        Ok(self.get(key).map(object).transpose()?.map(|map| Fields::new(map, self.path(key))))
    }

    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| self.error(key, "a list of numbers"))?;
        let number = |value: &Value| value.as_f64().filter(|number| number.is_finite());
        let list: Option<Vec<f64>> = list.iter().map(number).collect();
        list.ok_or_else(|| self.error(key, "a list of numbers")).map(Some)
    }

    pub fn counts(&self, key: &str) -> Result<Option<Vec<usize>>> {
        let Some(list) = self.numbers(key)? else { return Ok(None) };
        let count = |number: f64| {
            ((0.0..=65536.0).contains(&number) && number.fract() == 0.0).then_some(number as usize)
        };
        let list: Option<Vec<usize>> = list.into_iter().map(count).collect();
        list.ok_or_else(|| self.error(key, "a list of whole numbers from 0 to 65536")).map(Some)
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// A value as a message shows it. (JSON escapes most control characters, `plain` the others.)
fn shorten(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(map) => format!("an object of {}", map.len()),
        Value::String(text) if is_not_a_number(text) => text.clone(),
        value => plain(&value.to_string()),
    }
}

/// Whether a text is one of Python's words for what is not a number, which stand in strings once they are read.
fn is_not_a_number(text: &str) -> bool {
    ["NaN", "Infinity", "-Infinity"].contains(&text)
}

/// Text of a file as a message may show it: no control characters, no end of it.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == 60 {
            out.push('…');
            break;
        }
        match character {
            '"' | '\'' => out.push(character),
            other => out.extend(other.escape_debug()),
        }
    }
    out
}
