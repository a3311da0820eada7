//! The compiled part of the Python package `rotary`. What people see of it is written in Python, in `python/rotary/`; here are the
//! functions that it calls.
//!
//! ```text
//! error.rs     errors as exceptions, with the library's words
//! numbers.rs   numbers that numpy and torch read where they lie
//! whole.rs     whole numbers that people give
//! config.rs    the configurations that people have, as the bytes of a config.json
//! work.rs      work that takes long: a thread, progress, Ctrl-C
//! rope.rs      what a configuration means: frequencies, tables
//! inspect.rs   what a configuration does, in words
//! pipeline.rs  models on texts; vectors.rs and stream.rs, options and what is generated
//! train.rs     training
//! compare.rs   comparisons of position encodings
//! plot.rs      pictures
//! conform.rs   cases for other implementations, and the judge
//! command.rs   the command line
//!
//! rotate.rs    rotating torch's tensors where they lie
//! cuda.rs      the same on NVIDIA GPUs
//! torch.rs     what torch says of its tensors
//! tensor.rs    a tensor of somebody else's: address, shape, strides
//! trig.rs      cosines and sines that Python hands over
//! table.rs     the tables of a rope, in torch's memory
//! pages.rs     what the system is asked about memory
//! threads.rs   threads for large work
//! ```

mod command;
mod compare;
mod config;
mod conform;
mod cuda;
mod error;
mod inspect;
mod numbers;
mod pages;
mod pipeline;
mod plot;
mod rope;
mod rotate;
mod stream;
mod table;
mod tensor;
mod threads;
mod torch;
mod train;
mod trig;
mod vectors;
mod whole;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _rotary {
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::compare::compare;
    #[pymodule_export]
    use crate::conform::{conformance_cases, conformance_judge};
    #[pymodule_export]
    use crate::cuda::rotate_cuda;
    #[pymodule_export]
    use crate::error::RotaryError;
    #[pymodule_export]
    use crate::inspect::{advice, inspection};
    #[pymodule_export]
    use crate::numbers::Numbers;
    #[pymodule_export]
    use crate::pipeline::Pipeline;
    #[pymodule_export]
    use crate::plot::plot;
    #[pymodule_export]
    use crate::rope::{Rope, projection_order};
    #[pymodule_export]
    use crate::rotate::{rotate, rotate_directly};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::table::{features, fill_table, frequencies};
    #[pymodule_export]
    use crate::torch::{direct, use_torch};
    #[pymodule_export]
    use crate::train::train;

    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::work::note_process();
        Ok(())
    }

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
