//! Keys of a `config.json` that are not known: a newer transformers may mean by them what changes every number.

use super::{Blueprint, Family, fields};
use crate::error::{Error, Result};
use crate::weights::brief;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;

/// The version of transformers whose classes were asked, the keys that any file may have, and those of each `model_type`;
/// written by `golden/config_keys.py`.
const KEYS: &str = include_str!("keys.tsv");

/// The most keys that are named.
const MOST_NAMED: usize = 5;

/// Keys of a `config.json` that the family's class in transformers does not have, as far as it is known, and that nothing
/// here reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKeys {
    family: Family,
    /// Each behind the names of the objects that it stands in.
    keys: Vec<String>,
    /// The version of transformers that the file names.
    version: Option<String>,
}

impl Blueprint {
    /// The keys of the model's `config.json` that are not known, where there are any. A file of a newer transformers that has
    /// some is refused when it is read; in an older one they are taken for leftovers.
    pub fn unknown_keys(&self, config: &[u8]) -> Result<Option<UnknownKeys>> {
        Ok(UnknownKeys::find(&fields::object(config)?, self.family))
    }
}

impl UnknownKeys {
    /// Those of a file of this family.
    fn find(map: &Map<String, Value>, family: Family) -> Option<Self> {
        let row = |name: &str| -> HashSet<&str> {
            let row = KEYS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
            row.unwrap_or_default().split(' ').collect()
        };
        let known = Known { of_any: row("*"), of_family: row(family.model_type()) };
        let mut keys = Vec::new();
        known.collect(map, "", &mut keys);
        let version = map.get("transformers_version").filter(|version| !version.is_null());
        let version = version.map(|version| version.as_str().map_or(version.to_string(), str::to_string));
        (!keys.is_empty()).then_some(UnknownKeys { family, keys, version })
    }

    /// Refuses those of a newer file.
    pub(super) fn check(map: &Map<String, Value>, family: Family) -> Result<()> {
        match Self::find(map, family).filter(|unknown| is_newer(unknown.version.as_deref())) {
            Some(unknown) => Err(Error::File {
                path: "config.json".into(),
                reason: format!("{unknown}; remove what changes nothing that the model computes"),
            }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UnknownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.keys.iter().take(MOST_NAMED).map(|key| brief(key)).collect();
        write!(f, "unknown keys: {}", named.join(", "))?;
        if self.keys.len() > MOST_NAMED {
            write!(f, " and {} more", self.keys.len() - MOST_NAMED)?;
        }
        let version = self.version.as_deref().map_or("no known version".into(), brief);
        let model_type = self.family.model_type();
        write!(f, " (the file is of transformers {version}, and {model_type} is known as of {})", asked())
    }
}

/// The keys that a file may have.
struct Known<'a> {
    of_any: HashSet<&'a str>,
    of_family: HashSet<&'a str>,
}

impl Known<'_> {
    /// Adds the keys of an object that it may not have; `before` is where it stands.
    fn collect(&self, map: &Map<String, Value>, before: &str, unknown: &mut Vec<String>) {
        for (key, value) in map {
            let path = format!("{before}{key}");
            let within = format!("{path}.");
            if !self.of_any.contains(&key[..]) && !self.of_family.contains(&path[..]) {
                unknown.push(path);
            } else if let Value::Object(map) = value
                && self.of_family.iter().any(|known| known.starts_with(&within))
            {
                self.collect(map, &within, unknown);
            }
        }
    }
}

/// The version whose classes were asked.
fn asked() -> &'static str {
    KEYS.lines().next().and_then(|line| line.split('\t').nth(1)).unwrap_or_default()
}

/// Whether a version is newer than the one whose classes were asked; so is one that cannot be read.
fn is_newer(version: Option<&str>) -> bool {
    version.is_some_and(|version| match (numbers(version), numbers(asked())) {
        (Some(version), Some(asked)) => version > asked,
        _ => true,
    })
}

/// The first two numbers of a version; those behind them change no class.
fn numbers(version: &str) -> Option<[u64; 2]> {
    let mut parts = version.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse().ok()
    });
    Some([parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(numbers(asked()), Some([5, 22]), "the table and what is said of it in the documents");
        for older in ["5.22.2", "5.22.9", "5.9.1", "4.57.0.dev0", "5.22", "0.0"] {
            assert!(!is_newer(Some(older)), "{older}");
        }
        for newer in
            ["5.23.0", "5.100.0", "6.0.0.dev0", "10.1", "main", "5", "", "5.x", "99999999999999999999.1"]
        {
            assert!(is_newer(Some(newer)), "{newer}");
        }
        assert!(!is_newer(None));
    }
}
