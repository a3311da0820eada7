//! How much memory a network takes, counted before any of it is asked for.

use super::Network;
use crate::error::Result;

/// What a network laid out for batches of one shape has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Parameters.
    pub parameters: usize,
    /// Numbers of all values of a step.
    pub values: u64,
    /// Those of the largest value.
    pub largest: u64,
}

/// Gradients of values that are there at a time, in the largest value's memory: they are handed on.
const GRADIENTS: u64 = 4;

impl Needs {
    /// Bytes of training it in `f32`, about: its values, parameters with gradients and the two moments, and, where a step has several
    /// batches, the sum of their gradients.
    pub fn bytes_of_training(&self, has_parts: bool) -> u64 {
        let buffers = if has_parts { 5 } else { 4 };
        let numbers = self.values + GRADIENTS * self.largest + buffers * self.parameters as u64;
        numbers * size_of::<f32>() as u64
    }
}

impl Network {
    /// Counts what it has, laid out as by [`build`](Network::build), without memory for it.
    pub fn needs(&self, batch: usize, length: usize, longest: usize) -> Result<Needs> {
        let (builder, _) = self.compose::<f32>(batch, length, longest)?;
        let [values, largest] = builder.numbers();
        Ok(Needs { parameters: builder.layout().len(), values, largest })
    }
}
