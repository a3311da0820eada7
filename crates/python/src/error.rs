//! Errors as exceptions: `rotary.RotaryError`, a `ValueError`, with the library's words.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

create_exception!(rotary, RotaryError, PyValueError, "What cannot be done, and what was expected instead.");

/// Whatever the libraries say, as an exception.
pub(crate) fn raised(error: impl std::fmt::Display) -> PyErr {
    RotaryError::new_err(error.to_string())
}

/// What a panic left, as an exception that `except Exception` catches: pyo3's own would end programs that are made to go on.
pub(crate) fn bug(panic: &(dyn Any + Send)) -> PyErr {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    raised(format!("this is a bug of rotary: report it ({})", said.unwrap_or("no message")))
}

/// Runs what must not panic, and raises what it says if it does.
pub(crate) fn guarded<R>(task: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    // What a task was about to make is dropped with it; what it borrowed is read alone.
    catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|panic| Err(bug(&*panic)))
}
