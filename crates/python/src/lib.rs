//! The compiled part of the Python package `rotary`. What people see of it is written in Python, in `python/rotary/`; here are the
//! functions that it calls.
//!
//! ```text
//! error.rs    errors as exceptions, with the library's words
//! numbers.rs  numbers that numpy and torch read where they lie
//! rope.rs     what a configuration means: frequencies, tables
//! ```

mod error;
mod numbers;
mod rope;

use pyo3::prelude::*;

#[pymodule]
mod _rotary {
    #[pymodule_export]
    use crate::error::RotaryError;
    #[pymodule_export]
    use crate::numbers::Numbers;
    #[pymodule_export]
    use crate::rope::Rope;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
