//! Whole numbers that people give.

use crate::error::raised;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

/// A whole number. One that no number of 64 bits holds is refused as others are, and not as an overflow.
#[derive(Clone, Copy)]
pub(crate) struct Whole(pub i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Whole {
    type Error = PyErr;

    fn extract(number: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        number.extract().map(Whole).map_err(|error: PyErr| {
            match error.is_instance_of::<PyOverflowError>(number.py()) {
                true => raised(format!(
                    "the number is {}; expected one between -2^63 and 2^63",
                    number.to_owned()
                )),
                false => error,
            }
        })
    }
}

impl Whole {
    /// A size, which may not be negative. `name` is what it is of.
    pub fn size(self, name: &str) -> PyResult<usize> {
        let expected = "a number that is not negative";
        usize::try_from(self.0).map_err(|_| raised(format!("{name} is {}; expected {expected}", self.0)))
    }
}

/// A length that may not be given.
pub(crate) fn length(name: &str, value: Option<Whole>) -> PyResult<Option<u64>> {
    value.map(|value| value.size(name).map(|length| length as u64)).transpose()
}
