//! Numbers that numpy reads where they lie, through its array interface, and torch through numpy.

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
    let numpy = py.import("numpy").map_err(|_| {
        pyo3::exceptions::PyImportError::new_err(
            "numpy is not installed; expected it, because arrays are its own: pip install numpy",
        )
    })?;
    numpy.call_method1("asarray", (numbers,))
}
