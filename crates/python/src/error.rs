//! Errors as exceptions: `rotary.RotaryError`, a `ValueError`, with the library's words.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(rotary, RotaryError, PyValueError, "What cannot be done, and what was expected instead.");

/// Whatever the libraries say, as an exception.
pub(crate) fn raised(error: impl std::fmt::Display) -> PyErr {
    RotaryError::new_err(error.to_string())
}
