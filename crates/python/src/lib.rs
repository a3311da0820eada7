//! The compiled part of the Python package `rotary`. What people see of it is written in Python, in `python/rotary/`; here are the
//! functions that it calls.
//!
//! ```text
//! cuda.rs     the same on NVIDIA GPUs
//! error.rs    errors as exceptions, with the library's words
//! numbers.rs  numbers that numpy and torch read where they lie
//! pages.rs    what the system is asked about memory
//! rope.rs     what a configuration means: frequencies, tables
//! rotate.rs   rotating tensors where they lie: what rotary.torch calls
//! table.rs    the tables of a rope, in torch's memory
//! tensor.rs   what Python says of a tensor
//! threads.rs  threads for large work
//! trig.rs     cosines and sines that Python hands over
//! ```

mod cuda;
mod error;
mod numbers;
mod pages;
mod rope;
mod rotate;
mod table;
mod tensor;
mod threads;
mod trig;

use pyo3::prelude::*;

#[pymodule]
mod _rotary {
    #[pymodule_export]
    use crate::cuda::rotate_cuda;
    #[pymodule_export]
    use crate::error::RotaryError;
    #[pymodule_export]
    use crate::numbers::Numbers;
    #[pymodule_export]
    use crate::rope::Rope;
    #[pymodule_export]
    use crate::rotate::rotate;
    #[pymodule_export]
    use crate::table::{features, fill_table, frequencies};

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
