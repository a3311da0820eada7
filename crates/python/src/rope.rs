//! What a configuration means: frequencies and tables.

use crate::error::raised;
use crate::numbers::Numbers;
use pyo3::prelude::*;

/// A rotary position embedding: which features turn, in which order, and how fast.
#[pyclass(frozen, module = "rotary")]
pub(crate) struct Rope(pub rope::Rope);

#[pymethods]
impl Rope {
    /// Reads a Hugging Face configuration, as the text of its `config.json`; of a model with several, the one of `layer_type`.
    #[staticmethod]
    #[pyo3(signature = (config, layer_type=None))]
    fn from_json(config: &str, layer_type: Option<&str>) -> PyResult<Rope> {
        let set = rope::Rope::from_hf(config.as_bytes()).map_err(raised)?;
        let rope = match layer_type {
            None => set.only().map_err(raised)?,
            Some(name) => {
                set.layer(name).map_err(raised)?.ok_or_else(|| raised("no rotation in these layers"))?
            }
        };
        Ok(Rope(rope.clone()))
    }

    /// The frequencies, one per pair of features, `[pairs]`.
    #[pyo3(signature = (sequence_length=None))]
    fn inv_freq(&self, sequence_length: Option<u64>) -> Numbers {
        let frequencies = self.0.frequencies(sequence_length).inv_freq().to_vec();
        let pairs = frequencies.len();
        Numbers::doubles(frequencies, vec![pairs])
    }
}
