//! Memory of the CPU's that the GPU reads and writes directly.

use crate::block::{Block, Span};
use crate::device::Current;
use crate::driver::check;
use crate::error::Result;
use crate::event::Event;
use crate::queue::Queue;
use cudarc::driver::sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the CPU's memory that the GPU reads and writes directly, while both go on.
pub struct Pinned {
    queue: Arc<Queue>,
    pointer: *mut u8,
    bytes: usize,
    /// Whether a copy may be under way.
    is_busy: AtomicBool,
}

// SAFETY: the memory is the owner's alone, whatever the thread.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Bytes of 0.
    pub fn new(queue: &Arc<Queue>, bytes: usize) -> Result<Pinned> {
        let pointer = allocate(queue, bytes.max(1))?;
        // SAFETY: so many bytes, just made.
        unsafe { std::ptr::write_bytes(pointer, 0, bytes) };
        Ok(Pinned { queue: queue.clone(), pointer, bytes, is_busy: AtomicBool::new(false) })
    }

    /// The bytes, once no copy of them is under way that was given to the stream here: copies that were recorded are waited for
    /// by who runs them.
    pub fn bytes(&mut self) -> Result<&mut [u8]> {
        if *self.is_busy.get_mut() {
            self.queue.wait()?;
            *self.is_busy.get_mut() = false;
        }
        // SAFETY: made by `new`, borrowed exclusively, and the stream's copies are done.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer, self.bytes) })
    }

    /// Gives a copy of all bytes to the stream, to the beginning of a span of a block.
    pub fn send(&self, block: &Block, to: Span) -> Result<()> {
        let (_current, stream) = self.begin("send", block, to)?;
        // SAFETY: both have so many bytes; the source is neither read nor freed before the stream has been waited for.
        let result =
            unsafe { sys::cuMemcpyHtoDAsync_v2(to.address(), self.pointer.cast(), self.bytes, stream) };
        check("copying to the GPU", result)
    }

    /// Gives a copy from the beginning of a span of a block, of as many bytes as these, to the stream.
    pub fn receive(&self, block: &Block, from: Span) -> Result<()> {
        let (_current, stream) = self.begin("receive", block, from)?;
        // SAFETY: as above.
        let result =
            unsafe { sys::cuMemcpyDtoHAsync_v2(self.pointer.cast(), from.address(), self.bytes, stream) };
        check("copying from the GPU", result)
    }

    /// Before a copy of all bytes: the span has room for them, and the device is current for as long as the first is held.
    fn begin(&self, what: &'static str, block: &Block, span: Span) -> Result<(Current, sys::CUstream)> {
        block.check_on(&self.queue, what, span, self.bytes)?;
        let current = self.queue.device().enter()?;
        self.is_busy.store(true, Ordering::Relaxed);
        Ok((current, self.queue.stream().raw()))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.queue.stream().synchronise();
        // SAFETY: made by `new`, freed once, after all copies.
        unsafe { free(&self.queue, self.pointer) };
    }
}

/// Where copies from the GPU land. Grows to the most that was asked for.
pub struct Landing {
    queue: Arc<Queue>,
    pointer: *mut u8,
    bytes: usize,
    /// The end of the latest copy, once there has been one.
    end: Option<Event>,
}

// SAFETY: the memory is the owner's alone, whatever the thread.
unsafe impl Send for Landing {}

impl Landing {
    /// Nothing yet.
    pub fn new(queue: &Arc<Queue>) -> Landing {
        Landing { queue: queue.clone(), pointer: std::ptr::null_mut(), bytes: 0, end: None }
    }

    /// Copies a span of a block from the GPU, once the stream's work so far is done. What other threads give to the stream meanwhile is
    /// not waited for.
    pub fn download(&mut self, block: &Block, from: Span) -> Result<&[u8]> {
        let bytes = from.bytes();
        block.check_on(&self.queue, "download", from, bytes)?;
        if bytes == 0 {
            return Ok(&[]);
        }
        let _current = self.queue.device().enter()?;
        if bytes > self.bytes {
            self.free();
            (self.pointer, self.bytes) = (allocate(&self.queue, bytes)?, bytes);
        }
        let end = match self.end.take() {
            Some(end) => end,
            None => Event::new(self.queue.device())?,
        };
        let stream = self.queue.stream();
        // SAFETY: both have this many bytes, and the copy is waited for.
        let result =
            unsafe { sys::cuMemcpyDtoHAsync_v2(self.pointer.cast(), from.address(), bytes, stream.raw()) };
        check("copying from the GPU", result)?;
        stream.record(&end)?;
        self.end.insert(end).wait()?;
        // SAFETY: as many bytes, all written, that nobody else has.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, bytes) })
    }

    fn free(&mut self) {
        let pointer = std::mem::replace(&mut self.pointer, std::ptr::null_mut());
        self.bytes = 0;
        if !pointer.is_null() {
            // A copy that could not be waited for, because that failed, may be under way.
            let _ = self.queue.stream().synchronise();
            // SAFETY: made by `allocate`, freed once, after all copies.
            unsafe { free(&self.queue, pointer) };
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.free();
    }
}

/// So many bytes of the CPU's memory that the GPU can reach.
fn allocate(queue: &Queue, bytes: usize) -> Result<*mut u8> {
    let _current = queue.device().enter()?;
    let mut pointer = std::ptr::null_mut();
    // SAFETY: a context is current.
    let result = unsafe { sys::cuMemHostAlloc(&mut pointer, bytes, 0) };
    check("asking for memory of the CPU's that the GPU can reach", result)?;
    Ok(pointer.cast())
}

/// # Safety
///
/// The pointer was given by [`allocate`], is freed once, and no copy is under way.
unsafe fn free(queue: &Queue, pointer: *mut u8) {
    if let Ok(_current) = queue.device().enter() {
        // SAFETY: as the caller promises.
        let _ = unsafe { sys::cuMemFreeHost(pointer.cast()) };
    }
}
