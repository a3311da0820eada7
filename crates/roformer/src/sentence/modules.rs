//! `modules.json`: which modules there are, and where they lie.

use super::fields::value;
use crate::error::{Error, Result};
use crate::files::broken;
use crate::weights::brief;
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// The file that makes a folder one of sentence-transformers.
pub(crate) const FILE: &str = "modules.json";

/// A module.
pub(super) struct Module {
    pub kind: Kind,
    /// The end of its type: the name of its class.
    pub name: String,
    /// Where its files lie, from the folder on.
    path: PathBuf,
}

/// The modules that are run here.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Transformer,
    Pooling,
    Dense,
    Normalize,
    Dropout,
}

impl Module {
    pub fn folder(&self, folder: &Path) -> PathBuf {
        // Joining nothing would leave a slash at the end of every path that is shown.
        if self.path.as_os_str().is_empty() { folder.to_owned() } else { folder.join(&self.path) }
    }
}

/// What is wrong with the list as a whole.
pub(super) fn wrong(folder: &Path, reason: impl Into<String>) -> Error {
    broken(&folder.join(FILE), reason)
}

/// The modules of a folder, in their order, or `None` where it has no such file.
pub(super) fn read(folder: &Path) -> Result<Option<Vec<Module>>> {
    let Some(list) = value(&folder.join(FILE))? else { return Ok(None) };
    let Some(list) = list.as_array() else {
        return Err(wrong(folder, "JSON, but not a list; expected the modules, download it again"));
    };
    list.iter().map(|entry| module(folder, entry)).collect::<Result<_>>().map(Some)
}

fn module(folder: &Path, entry: &Value) -> Result<Module> {
    let field = |field: &str| {
        let missing = || wrong(folder, format!("a module without `{field}`; expected a string"));
        entry[field].as_str().ok_or_else(missing)
    };
    let (path, class) = (field("path")?, field("type")?);
    let name = class.rsplit('.').next().unwrap_or_default();
    let kind = match name {
        // Another library's class of the same name may do anything.
        _ if !class.starts_with("sentence_transformers.") => None,
        "Transformer" => Some(Kind::Transformer),
        "Pooling" => Some(Kind::Pooling),
        "Dense" => Some(Kind::Dense),
        "Normalize" => Some(Kind::Normalize),
        "Dropout" => Some(Kind::Dropout),
        _ => None,
    };
    let Some(kind) = kind else {
        let expected = "expected Transformer, Pooling, Dense, Normalize or Dropout of sentence_transformers";
        return Err(wrong(folder, format!("the module `{}` is not run here; {expected}", brief(class))));
    };
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || path.contains(['\\', ':', '\0']) {
        let expected = "expected a folder in this one";
        return Err(wrong(folder, format!("a module lies in {}; {expected}", brief(path))));
    }
    Ok(Module { kind, name: name.to_owned(), path: path.into() })
}

/// The files of the modules that a folder lists, and those beside them, as far as there are such: for whoever downloads them. What
/// is wrong with the list is said when the model is opened.
#[cfg(feature = "hub")]
pub(crate) fn files(folder: &Path, has: impl Fn(&str) -> bool) -> Vec<String> {
    let modules = read(folder).ok().flatten().unwrap_or_default();
    let mut files: Vec<String> = super::settings::names().collect();
    for path in modules.iter().filter_map(|module| module.path.to_str()).filter(|path| !path.is_empty()) {
        files.push(format!("{path}/{}", super::CONFIG));
        let weights = crate::weights::FILES.iter().map(|name| format!("{path}/{name}"));
        files.extend(weights.into_iter().find(|name| has(name)));
    }
    files.retain(|name| has(name));
    files
}

/// The transformer, and the modules after it.
pub(super) fn split<'a>(folder: &Path, modules: &'a [Module]) -> Result<(&'a Module, &'a [Module])> {
    match modules.split_first() {
        Some((first, rest)) if first.kind == Kind::Transformer => Ok((first, rest)),
        Some((first, _)) => {
            Err(wrong(folder, format!("`{}` is the first module; expected a Transformer", first.name)))
        }
        None => Err(wrong(folder, "no module at all; expected a Transformer first")),
    }
}
