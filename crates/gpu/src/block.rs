//! Memory in the order of a stream: given out, used and taken back without waiting.

use crate::driver::check;
use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::queue::Queue;
use cudarc::driver::sys::{self, CUresult};
use std::sync::Arc;

/// Bytes of a GPU's memory, given back in the order of the stream.
pub struct Block {
    queue: Arc<Queue>,
    span: Span,
}

/// Some bytes of a [`Block`]: where they begin, and how many they are. It is divided and never grows, so it always lies within
/// its block; but it does not keep the block, which is asked ([`Block::holds`]) where it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    address: u64,
    bytes: usize,
}

impl Span {
    /// No memory at all: for arguments of kernels that may be left out.
    pub const NOTHING: Span = Span { address: 0, bytes: 0 };

    /// So many bytes at an address, whatever is there: a span is looked up in its block before it is used.
    pub fn new(address: u64, bytes: usize) -> Span {
        Span { address, bytes }
    }

    /// The address of the first byte; 0 of nothing.
    pub fn address(self) -> u64 {
        self.address
    }

    /// How many bytes.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether this is no memory at all.
    pub fn is_nothing(self) -> bool {
        self.address == 0
    }

    /// Whether it begins at a multiple of so many bytes.
    pub fn is_aligned(self, bytes: u64) -> bool {
        self.address.is_multiple_of(bytes)
    }

    /// Whether all of its bytes are some of another's.
    pub fn lies_in(self, whole: Span) -> bool {
        let Some(first) = self.address.checked_sub(whole.address) else { return false };
        usize::try_from(first).is_ok_and(|first| first <= whole.bytes && self.bytes <= whole.bytes - first)
    }

    /// All from some byte on.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    pub fn from(self, first: usize) -> Span {
        assert!(first <= self.bytes, "byte {first} of {}", self.bytes);
        Span { address: self.address + first as u64, bytes: self.bytes - first }
    }

    /// The first bytes.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    pub fn first(self, bytes: usize) -> Span {
        assert!(bytes <= self.bytes, "{bytes} bytes of {}", self.bytes);
        Span { bytes, ..self }
    }
}

impl Block {
    /// Any bytes.
    pub fn new(queue: &Arc<Queue>, bytes: usize) -> Result<Block> {
        let mut address = 0;
        if bytes > 0 {
            let _current = queue.device().enter()?;
            let stream = queue.stream().raw();
            // SAFETY: a context is current, and the stream is of it.
            let result = unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream) };
            if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                return Err(Error::Memory { bytes: bytes as u128, free: queue.free()? });
            }
            check("asking for memory", result)?;
        }
        Ok(Block { queue: queue.clone(), span: Span { address, bytes } })
    }

    /// Bytes of 0.
    pub fn zeros(queue: &Arc<Queue>, bytes: usize) -> Result<Block> {
        let block = Block::new(queue, bytes)?;
        block.clear(block.span)?;
        Ok(block)
    }

    /// The queue that it is used and given back in the order of.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The address.
    pub fn pointer(&self) -> u64 {
        self.span.address
    }

    /// The size.
    pub fn bytes(&self) -> usize {
        self.span.bytes
    }

    /// All of it.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Whether all bytes of a span are this block's.
    pub fn holds(&self, span: Span) -> bool {
        span.lies_in(self.span)
    }

    /// Sets bytes to 0, in the stream's order.
    pub fn clear(&self, span: Span) -> Result<()> {
        self.check("clear", span, span.bytes)?;
        if span.bytes == 0 {
            return Ok(());
        }
        let _current = self.queue.device().enter()?;
        let stream = self.queue.stream().raw();
        // SAFETY: the bytes are this block's, which is given back in the stream's order.
        let result = unsafe { sys::cuMemsetD8Async(span.address, 0, span.bytes, stream) };
        check("setting memory to 0", result)
    }

    /// Copies numbers to the beginning of a span, in the stream's order, and waits until they have left.
    pub fn upload<T: Plain>(&self, to: Span, from: &[T]) -> Result<()> {
        self.check("upload", to, size_of_val(from))?;
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.queue.device().enter()?;
        let (bytes, stream) = (size_of_val(from), self.queue.stream().raw());
        // SAFETY: the bytes are this block's; the source is borrowed until they have been copied.
        let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to.address, from.as_ptr().cast(), bytes, stream) };
        check("copying to the GPU", result)?;
        self.queue.stream().synchronise()
    }

    /// Copies numbers from the beginning of a span, once all work so far is done.
    pub fn download<T: Plain>(&self, from: Span, to: &mut [T]) -> Result<()> {
        self.check("download", from, size_of_val(to))?;
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.queue.device().enter()?;
        let (bytes, stream) = (size_of_val(to), self.queue.stream().raw());
        // SAFETY: the bytes are this block's; the copy is waited for; any bits are a `T`.
        let result =
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.address, bytes, stream) };
        check("copying from the GPU", result)?;
        self.queue.stream().synchronise()
    }

    /// Refuses queues and spans that are not this block's, and spans that are too short.
    pub(crate) fn check_on(
        &self,
        queue: &Arc<Queue>,
        what: &'static str,
        span: Span,
        bytes: usize,
    ) -> Result<()> {
        if !Arc::ptr_eq(queue, &self.queue) {
            return Err(Error::argument("a block", "of another queue", "one of the same queue"));
        }
        self.check(what, span, bytes)
    }

    /// Refuses spans that are not this block's, or too short.
    fn check(&self, what: &'static str, span: Span, bytes: usize) -> Result<()> {
        if self.holds(span) && bytes <= span.bytes {
            return Ok(());
        }
        let got = format!("{bytes} bytes of a span of {} at {:#x}", span.bytes, span.address);
        let expected = format!("those of a block of {} at {:#x}", self.span.bytes, self.span.address);
        Err(Error::shape(what, got, expected))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.span.address != 0
            && let Ok(_current) = self.queue.device().enter()
        {
            let stream = self.queue.stream().raw();
            // SAFETY: made by `new`, given back once, after all work that is in the stream by now.
            let _ = unsafe { sys::cuMemFreeAsync(self.span.address, stream) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn parts_lie_in_their_whole_and_nothing_else_does() {
        let whole = Span::new(1024, 100);
        assert_eq!(whole.from(40), Span::new(1064, 60));
        assert_eq!(whole.from(40).first(8), Span::new(1064, 8));
        for part in [whole, whole.first(0), whole.from(100), whole.from(99), whole.from(1).first(98)] {
            assert!(part.lies_in(whole), "{part:?}");
        }
        let others =
            [(1023, 1), (1024, 101), (1123, 2), (1125, 0), (0, 0), (u64::MAX, 1), (1024, usize::MAX)];
        for (address, bytes) in others {
            assert!(!Span::new(address, bytes).lies_in(whole), "{bytes} bytes at {address}");
        }
        assert!(
            Span::NOTHING.is_nothing() && Span::new(64, 1).is_aligned(16) && !Span::new(8, 1).is_aligned(16)
        );
    }

    #[test]
    #[should_panic = "101 bytes of 100"]
    fn a_span_does_not_grow() {
        Span::new(1024, 100).first(101);
    }
}
