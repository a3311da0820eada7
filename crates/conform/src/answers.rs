//! Answers: tensors by name, from a safetensors file or made here.

use crate::case::{Meaning, tensor_name};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use safetensors::tensor::{SafeTensors, TensorView};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors by name.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<String, Tensor>);

/// One tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The type its numbers were stored in.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub values: Vec<f64>,
}

impl Answers {
    /// Reads a safetensors file. Tensors of types that no answer has are an error.
    pub fn read(bytes: &[u8]) -> Result<Answers> {
        let file = SafeTensors::deserialize(bytes)
            .map_err(|error| Error::new(format!("not a whole safetensors file: {error}")))?;
        let mut answers = BTreeMap::new();
        for (name, view) in file.iter() {
            let Some(dtype) = Dtype::ALL.into_iter().find(|dtype| dtype.stored() == view.dtype()) else {
                let kind = view.dtype();
                return Err(Error::new(format!(
                    "tensor `{name}` is {kind:?}; expected F64, F32, F16 or BF16"
                )));
            };
            let values = dtype.decode(view.data());
            answers.insert(name.to_string(), Tensor { dtype, shape: view.shape().to_vec(), values });
        }
        Ok(Answers(answers))
    }

    /// The bytes of a safetensors file.
    pub fn write(&self) -> Result<Vec<u8>> {
        let stored: BTreeMap<&String, Vec<u8>> =
            self.0.iter().map(|(name, tensor)| (name, tensor.dtype.encode(&tensor.values))).collect();
        let views: std::result::Result<Vec<_>, _> = self
            .0
            .iter()
            .map(|(name, tensor)| {
                TensorView::new(tensor.dtype.stored(), tensor.shape.clone(), &stored[name])
                    .map(|view| (name, view))
            })
            .collect();
        let bytes = views.and_then(|views| safetensors::serialize(views, None));
        bytes.map_err(|error| Error::new(error.to_string()))
    }

    /// Adds the q and k that answer a case in this type.
    pub fn add(&mut self, meaning: &Meaning, dtype: Dtype, [q, k]: [Vec<f64>; 2]) {
        for (side, values) in [q, k].into_iter().enumerate() {
            let name = tensor_name(&meaning.case.name, Some(dtype), side);
            let values = values.into_iter().map(|value| dtype.round(value)).collect();
            self.insert(name, Tensor { dtype, shape: meaning.shape(side).to_vec(), values });
        }
    }

    /// Adds a tensor.
    pub fn insert(&mut self, name: String, tensor: Tensor) {
        self.0.insert(name, tensor);
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    /// Whether there is an answer to a case in this type, or half of one.
    pub fn has(&self, case: &str, dtype: Dtype) -> bool {
        [0, 1].into_iter().any(|side| self.0.contains_key(&tensor_name(case, Some(dtype), side)))
    }

    /// The names of tensors that are no answer to any of these cases.
    pub fn strangers<'a>(&'a self, cases: &[crate::Case]) -> Vec<&'a str> {
        let names = |case: &crate::Case| {
            let sides = Dtype::ALL.map(|dtype| [0, 1].map(|side| tensor_name(&case.name, Some(dtype), side)));
            sides.into_iter().flatten()
        };
        let known: BTreeSet<String> = cases.iter().flat_map(names).collect();
        self.0.keys().map(String::as_str).filter(|name| !known.contains(*name)).collect()
    }
}
