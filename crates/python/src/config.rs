//! The configurations that people have: a path, a model's name, a dictionary, or an object of transformers.

use crate::error::{guarded, raised};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::PathBuf;

/// A configuration as the bytes of its `config.json`.
pub(crate) fn bytes(config: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let py = config.py();
    if config.is_instance_of::<PyString>() || config.hasattr("__fspath__")? {
        let path: PathBuf = config.extract()?;
        if path.as_os_str() == "-" {
            // The command's word for standard input, for which a program would wait without knowing why.
            return Err(raised("the configuration is \"-\"; expected a path, or the name of a model"));
        }
        return py.detach(|| guarded(|| roformer_cli::library::config(&path).map_err(raised)));
    }
    let dictionary = match config.hasattr("to_dict")? {
        true => config.call_method0("to_dict")?,
        false => config.clone(),
    };
    if !dictionary.is_instance_of::<PyDict>() {
        return Err(PyTypeError::new_err(format!(
            "the configuration is of type {}; expected a path, the name of a model, a dict, or an object with to_dict()",
            config.get_type().name()?
        )));
    }
    // A dictionary of transformers may hold what JSON has not, such as torch's types: their names are enough.
    let options = PyDict::new(py);
    options.set_item("default", py.get_type::<PyString>())?;
    let text: String = py.import("json")?.call_method("dumps", (dictionary,), Some(&options))?.extract()?;
    Ok(text.into_bytes())
}
