//! Numbers that numpy reads where they lie, through its array interface, and torch through numpy.

use crate::error::raised;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A block of numbers with a shape. `numpy.asarray` makes an array of it without a copy; the block lives as long as the array.
#[pyclass(frozen, module = "rotary")]
pub(crate) struct Numbers {
    data: Data,
    shape: Vec<usize>,
}

enum Data {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Numbers {
    /// Numbers of 32 bits. `data` has as many as the shape says.
    pub fn singles(data: Vec<f32>, shape: Vec<usize>) -> Numbers {
        assert_eq!(data.len(), shape.iter().product::<usize>(), "as many numbers as the shape has");
        Numbers { data: Data::F32(data), shape }
    }

    /// Numbers of 64 bits. `data` has as many as the shape says.
    pub fn doubles(data: Vec<f64>, shape: Vec<usize>) -> Numbers {
        assert_eq!(data.len(), shape.iter().product::<usize>(), "as many numbers as the shape has");
        Numbers { data: Data::F64(data), shape }
    }
}

#[pymethods]
impl Numbers {
    /// What numpy asks for: the address, the type and the shape.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (kind, address) = match &self.data {
            Data::F32(data) => ("<f4", data.as_ptr() as usize),
            Data::F64(data) => ("<f8", data.as_ptr() as usize),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        // Nobody else has these numbers, so whoever has the array may write to them.
        interface.set_item("data", (address, false))?;
        Ok(interface)
    }
}

/// Numbers as an array of numpy, which reads them where they lie.
pub(crate) fn array(py: Python<'_>, numbers: Numbers) -> PyResult<Bound<'_, PyAny>> {
    imported(py, "numpy", "arrays are its own")?.call_method1("asarray", (numbers,))
}

/// Numbers as an array of numpy, or as a tensor of torch; both read them where they lie.
pub(crate) fn array_or_tensor<'py>(
    py: Python<'py>,
    numbers: Numbers,
    to: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let array = array(py, numbers)?;
    match to {
        "numpy" => Ok(array),
        "torch" => imported(py, "torch", "tensors are its own")?.call_method1("from_numpy", (array,)),
        other => Err(raised(format!("to is {other:?}; expected numpy or torch"))),
    }
}

fn imported<'py>(py: Python<'py>, name: &str, why: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|_| {
        PyImportError::new_err(format!(
            "{name} is not installed; expected it, because {why}: pip install {name}"
        ))
    })
}
