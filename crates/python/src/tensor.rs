//! A tensor of somebody else's: the type of its numbers, its address, its shape and its strides.

use crate::error::raised;
use pyo3::prelude::*;

/// The most axes that a tensor may have here.
pub(crate) const AXES: usize = 4;

/// The types of numbers, as `python/rotary/torch/_memory.py` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F64,
    F16,
    Bf16,
    I32,
    I64,
}

impl Kind {
    pub const ALL: [Kind; 6] = [Kind::F32, Kind::F64, Kind::F16, Kind::Bf16, Kind::I32, Kind::I64];

    /// The name as torch has it.
    pub fn name(self) -> &'static str {
        ["float32", "float64", "float16", "bfloat16", "int32", "int64"][self as usize]
    }

    pub fn bytes(self) -> usize {
        [4, 8, 2, 2, 4, 8][self as usize]
    }
}

/// A tensor. Strides count elements.
#[derive(Clone, Copy)]
pub(crate) struct Tensor {
    pub kind: Kind,
    pub address: usize,
    axes: usize,
    shape: [usize; AXES],
    strides: [usize; AXES],
}

impl Tensor {
    pub fn new(
        kind: Kind,
        address: usize,
        axes: usize,
        shape: [usize; AXES],
        strides: [usize; AXES],
    ) -> Tensor {
        Tensor { kind, address, axes, shape, strides }
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.axes]
    }

    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.axes]
    }

    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Elements from the first to the last, both counted.
    pub fn extent(&self) -> usize {
        let reach = |(size, stride): (&usize, &usize)| (size.max(&1) - 1) * stride;
        1 + self.shape().iter().zip(self.strides()).map(reach).sum::<usize>()
    }

    pub fn bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.kind.bytes()
    }

    /// Whether any byte from its first to its last is one of the other's.
    pub fn touches(&self, other: &Tensor) -> bool {
        let end = |tensor: &Tensor| tensor.address + tensor.extent() * tensor.kind.bytes();
        !self.is_empty() && !other.is_empty() && self.address < end(other) && other.address < end(self)
    }

    /// Refuses memory that is not there, or that does not begin where a number can.
    pub fn check_memory(&self, name: &str) -> PyResult<()> {
        if self.is_empty() {
            return Ok(());
        }
        if self.address == 0 {
            return Err(raised(format!(
                "{name} has no memory (its storage was freed); expected a tensor that has"
            )));
        }
        if !self.address.is_multiple_of(self.kind.bytes()) {
            let (address, bytes) = (self.address, self.kind.bytes());
            return Err(raised(format!(
                "{name} begins at address {address:#x}; expected a multiple of {bytes}"
            )));
        }
        Ok(())
    }

    /// Queries or keys as `[batch, length, heads, head_dim]` with the strides of the first three. A tensor of three axes is a batch
    /// of one.
    pub fn vectors(&self, name: &str, heads_first: bool) -> PyResult<([usize; 4], [usize; 3])> {
        self.check_memory(name)?;
        if !(3..=4).contains(&self.axes) {
            let expected = if heads_first {
                "[batch, heads, length, head_dim]"
            } else {
                "[batch, length, heads, head_dim]"
            };
            return Err(raised(format!(
                "{name} has shape {:?}; expected {expected}, or that without the batch",
                self.shape()
            )));
        }
        let (last, first) = (self.axes - 1, self.axes - 3);
        if self.strides[last] != 1 && self.shape[last] > 1 && !self.is_empty() {
            let stride = self.strides[last];
            return Err(raised(format!(
                "the features of {name} are {stride} apart; expected contiguous ones: {name}.contiguous()"
            )));
        }
        let (batch, batch_stride) = if first == 1 { (self.shape[0], self.strides[0]) } else { (1, 0) };
        let (length, heads) = if heads_first { (first + 1, first) } else { (first, first + 1) };
        Ok((
            [batch, self.shape[length], self.shape[heads], self.shape[last]],
            [batch_stride, self.strides[length], self.strides[heads]],
        ))
    }
}

/// Whether two tensors of one type surely share no element. Views of one buffer that lie in turns (the queries and keys of a fused
/// projection) are apart.
pub(crate) fn are_apart(a: &Tensor, b: &Tensor) -> bool {
    let bytes = a.kind.bytes();
    if a.is_empty() || b.is_empty() {
        return true;
    }
    let (low, high) = if a.address <= b.address { (a, b) } else { (b, a) };
    let distance = high.address - low.address;
    if distance >= low.extent() * bytes {
        return true;
    }
    if !distance.is_multiple_of(bytes) || a.axes != b.axes {
        return false;
    }
    // Axes that both have, with the same stride, are taken off from the outermost on. What is left of each must then fit into one
    // step of the innermost of those, side by side.
    let distance = distance / bytes;
    let axes = |tensor: &Tensor| {
        let mut axes: Vec<_> = tensor
            .strides()
            .iter()
            .zip(tensor.shape())
            .filter(|(_, size)| **size > 1)
            .map(|(a, b)| (*a, *b))
            .collect();
        axes.sort_unstable_by(|a, b| b.cmp(a));
        axes
    };
    let (mut first, mut second) = (axes(low), axes(high));
    let extent =
        |axes: &[(usize, usize)]| 1 + axes.iter().map(|(stride, size)| (size - 1) * stride).sum::<usize>();
    let mut outer = 0;
    while let (Some(&(step, _)), Some(&(other, _))) = (first.first(), second.first()) {
        if step != other || step == 0 || (outer != 0 && outer % step != 0) {
            return false;
        }
        first.remove(0);
        second.remove(0);
        let place = distance % step;
        if place >= extent(&first) && place + extent(&second) <= step {
            return true;
        }
        outer = step;
    }
    false
}
