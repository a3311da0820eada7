//! Where parameters lie on a GPU: in the CPU's order, each tensor aligned.

use crate::graph::{Parameter, Parameters};
use gpu::Span;
use std::ops::Range;

/// Numbers to which each tensor is aligned: 256 bytes of `bf16`, and whole words of a bit each.
const TENSOR: usize = 128;

/// Where each tensor is.
pub(crate) struct Layout {
    /// Ranges of the CPU's buffer, and where they begin on the GPU.
    pub parts: Vec<(Range<usize>, usize)>,
    /// Numbers on the GPU: a multiple of [`TENSOR`].
    pub len: usize,
}

impl Layout {
    pub fn new(parameters: &Parameters) -> Layout {
        let (mut parts, mut len): (Vec<(Range<usize>, usize)>, usize) = (Vec::new(), 0);
        for entry in parameters.entries() {
            // Tensors that stand together are one matrix to the products.
            if !entry.is_joined {
                len = len.next_multiple_of(TENSOR);
            }
            parts.push((entry.range.clone(), len));
            len += entry.range.len();
        }
        Layout { parts, len: len.next_multiple_of(TENSOR) }
    }

    pub fn place(&self, parameter: Parameter) -> usize {
        let start = parameter.range().start;
        let part = self.parts.iter().find(|(range, _)| range.start == start);
        part.expect("a parameter begins where a tensor does").1
    }

    /// A bit for each number, in words of 32: whether it decays.
    pub fn decays(&self, parameters: &Parameters) -> Vec<u8> {
        let mut words = vec![0u32; self.len / 32];
        for ((_, decays), (range, place)) in parameters.decaying().iter().zip(&self.parts) {
            for index in (*place..*place + range.len()).filter(|_| *decays) {
                words[index / 32] |= 1 << (index % 32);
            }
        }
        words.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    /// Numbers in the order of the GPU's.
    pub fn spread(&self, numbers: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; self.len];
        for (range, place) in &self.parts {
            out[*place..][..range.len()].copy_from_slice(&numbers[range.clone()]);
        }
        out
    }

    /// The opposite.
    pub fn gather(&self, numbers: &[f32], out: &mut [f32]) {
        for (range, place) in &self.parts {
            out[range.clone()].copy_from_slice(&numbers[*place..][..range.len()]);
        }
    }
}

/// The buffers of parameters, each of [`Layout::len`] numbers.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub parameters: Span,
    /// In `bf16`, or nothing where that is not what is computed in.
    pub copies: Span,
    pub gradients: Span,
    pub first: Span,
    pub second: Span,
    /// A bit for each: whether it decays.
    pub decays: Span,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Init;

    #[test]
    fn tensors_are_aligned_and_what_is_joined_stays_together() {
        let mut parameters = Parameters::default();
        let first = parameters.add("a", &[3, 5], Init::Constant(0.0));
        let parts = [("q".to_string(), 7), ("k".to_string(), 2)];
        let joined = parameters.add_joined(&parts, Some(3), &Init::Constant(0.0));
        let bias = parameters.add("b", &[4], Init::Constant(0.0));
        let layout = Layout::new(&parameters);
        let places = [first, joined, bias].map(|parameter| layout.place(parameter));
        assert_eq!(places, [0, TENSOR, 2 * TENSOR]);
        assert_eq!(layout.parts[2].1, TENSOR + 21);
        assert_eq!(layout.len, 3 * TENSOR);

        let numbers: Vec<f32> = (1..=parameters.len()).map(|number| number as f32).collect();
        let spread = layout.spread(&numbers);
        assert_eq!(spread.iter().filter(|&&number| number != 0.0).count(), numbers.len());
        assert_eq!(spread[TENSOR + 26], 15.0 + 27.0);
        let mut back = vec![0.0; numbers.len()];
        layout.gather(&spread, &mut back);
        assert_eq!(back, numbers);

        // Matrices decay, the bias does not, and nothing beside them does.
        let bits = layout.decays(&parameters);
        assert_eq!(bits.len(), layout.len / 8);
        let decays = |index: usize| bits[index / 8] >> (index % 8) & 1 == 1;
        let count = (0..layout.len).filter(|&index| decays(index)).count();
        assert_eq!(count, 15 + 27);
        assert!(decays(0) && decays(TENSOR + 26) && !decays(15) && !decays(2 * TENSOR));
    }
}
