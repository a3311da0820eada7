//! The command line.

use crate::error::guarded;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command that these arguments name, the first being the program's own name. Returns the exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    py.detach(|| guarded(|| Ok(roformer_cli::run(arguments))))
}
