//! Text as it is generated.

use crate::error::raised;
use crate::whole::Whole;
use crate::work::{Next, Work};
use pyo3::prelude::*;
use roformer::pipeline::Generate;
use std::sync::{Mutex, PoisonError};

/// How text is generated.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct How {
    max_tokens: Whole,
    temperature: f32,
    top_k: Whole,
    top_p: f32,
    seed: Whole,
}

impl How {
    /// The library's options.
    pub fn generate(&self) -> PyResult<Generate> {
        Ok(Generate {
            max_tokens: self.max_tokens.size("max_tokens")?,
            temperature: self.temperature,
            top_k: self.top_k.size("top_k")?,
            top_p: self.top_p,
            seed: self.seed.size("seed")? as u64,
        })
    }
}

/// Text as it is generated, piece by piece. It ends when nobody has it any more.
#[pyclass(frozen, module = "rotary")]
pub(crate) struct Stream {
    work: Work<String, Result<String, String>>,
    /// All of it, when it has ended.
    whole: Mutex<Option<String>>,
}

impl Stream {
    /// Of work that tells pieces and gives all of them.
    pub fn of(work: Work<String, Result<String, String>>) -> Self {
        Stream { work, whole: Mutex::default() }
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let whole = || self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if whole().is_some() {
            return Ok(None);
        }
        match self.work.next(py)? {
            Next::Progress(piece) => Ok(Some(piece)),
            Next::Done(text) => {
                // An end in an error is an end too.
                *whole() = Some(text.as_ref().cloned().unwrap_or_default());
                text.map(|_| None).map_err(raised)
            }
        }
    }

    /// All of the text, when it has come to its end.
    fn all(&self, py: Python<'_>) -> PyResult<String> {
        while self.__next__(py)?.is_some() {}
        Ok(self.whole.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default())
    }
}
