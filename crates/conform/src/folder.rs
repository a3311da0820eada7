//! A folder of cases, as other languages read it: `cases.json`, `inputs.safetensors`, `expected.safetensors`; and `answers.safetensors`,
//! which they write. The form is described in `docs/conformance.md`.

use crate::answers::{Answers, Tensor};
use crate::case::{Case, tensor_name};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::judge::Level;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

/// The file that says what the cases are.
pub const CASES: &str = "cases.json";
/// The queries and keys before they are turned.
pub const INPUTS: &str = "inputs.safetensors";
/// The queries and keys after, exactly, and the cosines and sines.
pub const EXPECTED: &str = "expected.safetensors";
/// What an implementation makes of the inputs.
pub const ANSWERS: &str = "answers.safetensors";

/// Larger files are not read.
const MAX_BYTES: u64 = 1 << 30;
const FORMAT: &str = "rope-conformance";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    version: u32,
    #[serde(default)]
    tolerances: Value,
    cases: Vec<Case>,
}

/// The three files of a folder of cases, as bytes.
pub struct Files {
    /// `cases.json`.
    pub cases: String,
    /// `inputs.safetensors`.
    pub inputs: Vec<u8>,
    /// `expected.safetensors`.
    pub expected: Vec<u8>,
}

/// Makes the files of these cases.
pub fn files(cases: &[Case]) -> Result<Files> {
    let (mut inputs, mut expected) = (Answers::default(), Answers::default());
    let mut lines = Vec::new();
    for case in cases {
        let meaning = case.meaning()?;
        let written = Case { rope: Some(meaning.resolved()), ..case.clone() };
        lines.push(serde_json::to_string(&written).map_err(|error| Error::new(error.to_string()))?);
        for (side, values) in meaning.expected().into_iter().enumerate() {
            let (name, shape) = (tensor_name(&case.name, None, side), meaning.shape(side).to_vec());
            expected.insert(name.clone(), Tensor { dtype: Dtype::F64, shape: shape.clone(), values });
            inputs.insert(name, Tensor { dtype: Dtype::F32, shape, values: meaning.input(side) });
        }
        let shape = vec![meaning.tokens(), meaning.rope.pairs()];
        let (sines, cosines) = Plan::right(&meaning).table();
        for (name, values) in [("cos", cosines), ("sin", sines)] {
            let tensor = Tensor { dtype: Dtype::F64, shape: shape.clone(), values };
            expected.insert(format!("{}.{name}", case.name), tensor);
        }
    }
    // One case on a line, so that a change to one is a change to a line.
    let cases = format!(
        "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\n\"tolerances\":{},\n\"cases\":[\n{}\n]}}\n",
        tolerances(),
        lines.join(",\n")
    );
    Ok(Files { cases, inputs: inputs.write()?, expected: expected.write()? })
}

/// Reads `cases.json`.
pub fn read_cases(text: &str) -> Result<Vec<Case>> {
    let file: File = serde_json::from_str(text).map_err(|error| Error::new(format!("{CASES}: {error}")))?;
    if file.format != FORMAT || file.version != VERSION {
        let (format, version) = (file.format, file.version);
        let message = format!("{CASES}: format {format} {version}; expected {FORMAT} {VERSION}");
        return Err(Error::new(message));
    }
    if file.cases.is_empty() {
        return Err(Error::new(format!("{CASES}: no cases; expected one or more")));
    }
    let mut names = BTreeSet::new();
    for name in file.cases.iter().map(|case| case.name.as_str()) {
        if name.is_empty() || name.chars().any(char::is_control) {
            let message =
                format!("{CASES}: a case is called {name:?}; expected a name without control characters");
            return Err(Error::new(message));
        }
        if !names.insert(name) {
            return Err(Error::new(format!(
                "{CASES}: two cases are called `{name}`; expected names that differ"
            )));
        }
    }
    Ok(file.cases)
}

/// Reads the cases and the answers of a folder.
pub fn read(folder: &Path) -> Result<(Vec<Case>, Answers)> {
    let path = folder.join(CASES);
    let text = String::from_utf8(bytes(&path, "a folder of cases")?)
        .map_err(|_| Error::new(format!("{}: not UTF-8; expected JSON", path.display())))?;
    let cases = read_cases(&text).map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
    let path = folder.join(ANSWERS);
    let written = bytes(&path, "what the implementation under test writes")?;
    let answers =
        Answers::read(&written).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    if let [first, ..] = answers.strangers(&cases)[..] {
        let path = path.display();
        let expected = "CASE.DTYPE.q or CASE.DTYPE.k, with a case of cases.json";
        return Err(Error::new(format!("{path}: tensor `{first}`; expected names of the form {expected}")));
    }
    Ok((cases, answers))
}

fn bytes(path: &Path, expected: &str) -> Result<Vec<u8>> {
    let fail = |error: std::io::Error| {
        let path = path.display();
        Error::new(match error.kind() {
            ErrorKind::NotFound => format!("{path}: no such file; expected {expected}"),
            _ => format!("{path}: {error}"),
        })
    };
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        let path = path.display();
        return Err(Error::new(format!("{path}: expected a file of at most {MAX_BYTES} bytes")));
    }
    std::fs::read(path).map_err(fail)
}

/// What an element may be off by, for those who judge without this crate.
fn tolerances() -> Value {
    let [exact_once, exact_each, f32_once, _] = Level::ALL;
    let of = |level: Level| {
        let units = Dtype::ALL.map(|dtype| (dtype.name().to_string(), json!(level.rounding_units(dtype))));
        Value::Object(units.into_iter().collect())
    };
    json!({
        "angle": {"exact": exact_once.angle_units(), "f32": f32_once.angle_units(), "most": 0.25},
        "rounding": {"once": of(exact_once), "each": of(exact_each)},
    })
}
