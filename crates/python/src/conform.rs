//! Is somebody's rotary embedding right? `rotary.conformance`: the cases, and the judge.

use crate::config;
use crate::error::{guarded, raised};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rope_conformance::{Answers, folder, judge, of_config, small, tagged};

/// The files of a folder of cases: the text of cases.json, the bytes of the inputs and of what is expected.
#[pyfunction]
#[pyo3(signature = (tags=Vec::new(), config=None))]
pub(crate) fn conformance_cases<'py>(
    py: Python<'py>,
    tags: Vec<String>,
    config: Option<&Bound<'py, PyAny>>,
) -> PyResult<(String, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    guarded(|| {
        let cases = match config {
            None => small(),
            Some(config) => {
                let value = rope::config::parse(&config::bytes(config)?).map_err(raised)?;
                of_config("config", &value).map_err(raised)?
            }
        };
        let files = folder::files(&tagged(cases, &tags).map_err(raised)?).map_err(raised)?;
        Ok((files.cases, PyBytes::new(py, &files.inputs), PyBytes::new(py, &files.expected)))
    })
}

/// The report on answers, the bytes of a safetensors file: as JSON, as text and as a page.
#[pyfunction]
pub(crate) fn conformance_judge(
    py: Python<'_>,
    cases: &str,
    answers: &[u8],
    title: &str,
) -> PyResult<(String, String, String)> {
    py.detach(|| {
        guarded(|| {
            let cases = folder::read_cases(cases).map_err(raised)?;
            let answers = Answers::read(answers).map_err(raised)?;
            let report = judge(&cases, &answers).map_err(raised)?;
            Ok((report.to_json(), report.to_string(), report.to_page(title)))
        })
    })
}
