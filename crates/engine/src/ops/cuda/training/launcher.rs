//! Where the work of a step is launched: spans of memory become addresses here, and nowhere else.

use super::super::Cuda;
use super::super::product::{Key, Places, Storage};
use super::Masks;
use crate::error::{Error, Result};
use gpu::{Arguments, Block, Function, Size, Span, Stream};
use std::ops::Deref;

/// A GPU, and the block that all memory of its work lies in.
pub(crate) struct Launcher<'a> {
    gpu: &'a Cuda,
    /// Tests, whose memory is in many blocks, promise that it is there.
    memory: Option<&'a Block>,
    /// Which tokens of the batch are real, as far as that is known.
    masks: Masks,
}

/// Where a product reads and writes, as [`Places`] with lengths.
#[derive(Clone, Copy)]
pub(crate) struct Spans {
    pub left: Span,
    pub right: Span,
    /// `[columns]`, where the epilogue has one.
    pub bias: Span,
    /// `[rows, columns]`, perhaps the result itself.
    pub added: Span,
    /// What that is multiplied with: 0 to leave it alone.
    pub share: f32,
    pub out: Span,
}

impl Deref for Launcher<'_> {
    type Target = Cuda;

    fn deref(&self) -> &Cuda {
        self.gpu
    }
}

impl<'a> Launcher<'a> {
    /// Work in a block, in the order of the GPU's stream.
    pub fn new(gpu: &'a Cuda, memory: &'a Block) -> Launcher<'a> {
        Launcher { gpu, memory: Some(memory), masks: Masks::Any }
    }

    /// The same for a batch whose masks are known.
    pub fn with_masks(self, masks: Masks) -> Self {
        Launcher { masks, ..self }
    }

    /// Which tokens of the batch are real.
    pub fn masks(&self) -> Masks {
        self.masks
    }

    /// Work anywhere.
    ///
    /// # Safety
    ///
    /// All spans that this is given lie in blocks that are there until the work is done.
    #[cfg(test)]
    pub unsafe fn anywhere(gpu: &'a Cuda) -> Launcher<'a> {
        Launcher { gpu, memory: None, masks: Masks::Any }
    }

    /// The stream that the work is in.
    pub fn stream(&self) -> &Stream {
        self.gpu.queue().stream()
    }

    /// The address of a span that has so many bytes.
    pub fn at(&self, span: Span, bytes: usize) -> Result<u64> {
        if bytes <= span.bytes() && self.memory.is_none_or(|memory| memory.holds(span)) {
            return Ok(span.address());
        }
        let (has, address) = (span.bytes(), span.address());
        Err(Error::Device(format!(
            "{bytes} bytes of {has} at {address:#x} are not memory of this work: a bug"
        )))
    }

    /// The same, or 0 for nothing.
    pub fn maybe(&self, span: Span, bytes: usize) -> Result<u64> {
        if span.is_nothing() { Ok(0) } else { self.at(span, bytes) }
    }

    /// The address of numbers of tokens, or of other numbers that are stored like this.
    pub fn numbers(&self, span: Span, storage: Storage, count: usize) -> Result<u64> {
        self.at(span, count * storage.size())
    }

    /// The address of `f32` numbers.
    pub fn floats(&self, span: Span, count: usize) -> Result<u64> {
        self.at(span, count * size_of::<f32>())
    }

    /// Launches a kernel.
    ///
    /// # Safety
    ///
    /// The arguments are the kernel's, and all memory that they lead to lies in spans that were asked for here, or in tables
    /// that are there until the work is done.
    pub unsafe fn launch(&self, kernel: &Function, size: Size, arguments: impl Arguments) -> Result<()> {
        // SAFETY: as the caller promises; the block is given back in the stream's order.
        Ok(unsafe { kernel.launch(self.stream(), size, arguments) }?)
    }

    /// Sets bytes to 0, in the order of the stream.
    pub fn clear(&self, span: Span) -> Result<()> {
        match self.memory {
            Some(memory) => Ok(memory.clear(span)?),
            None => Err(Error::Device("no block to clear memory of: a bug".into())),
        }
    }

    /// Gives a product to the stream; `false` if cuBLASLt has no algorithm for it.
    pub fn multiply(&self, key: Key, spans: &Spans) -> Result<bool> {
        let Key { rows, columns, depth, factors, result, epilogue, .. } = key;
        let Spans { left, right, bias, added, share, out } = *spans;
        let whole = rows * columns;
        let places = Places {
            left: self.numbers(left, factors, rows * depth)?,
            right: self.numbers(right, factors, depth * columns)?,
            bias: if epilogue.has_bias() { self.numbers(bias, result, columns)? } else { 0 },
            added: self.numbers(added, result, if share == 0.0 { 0 } else { whole })?,
            share,
            out: self.numbers(out, result, whole)?,
        };
        // SAFETY: there is memory for all matrices, as was just checked, in a block that is given back in the stream's order.
        unsafe { self.gpu.products().multiply_often(key, places) }
    }
}
