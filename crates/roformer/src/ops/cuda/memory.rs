//! Memory of the GPU, given out and taken back in the order of the stream; and memory of the processor's that the GPU
//! copies to.

use super::{Cuda, Fault};
use crate::ops::Real;
use cudarc::driver::sys::{self, CUmemPool_attribute, CUmemoryPool, CUresult};
use half::bf16;
use rayon::prelude::*;
use rope::cuda::{Device, Stream};
use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::sync::Arc;

/// Numbers that a thread copies or converts at a time.
const PIECE: usize = 1 << 16;

/// A GPU, and the stream that all work is in.
pub(crate) struct Queue {
    pub device: Device,
    pub stream: Stream,
    pool: Pool,
}

struct Pool(CUmemoryPool);

// SAFETY: the driver's pools may be used from any thread, and from several at a time.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// The driver's answer as a result.
fn check(what: &'static str, result: CUresult) -> rope::Result<()> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(rope::Error::Driver { what, message: format!("{other:?}") }),
    }
}

impl Queue {
    pub fn new(device: &Device) -> rope::Result<Queue> {
        let stream = device.stream()?;
        let _current = device.enter()?;
        let (mut number, mut pool, mut keep) = (0, std::ptr::null_mut(), u64::MAX);
        // SAFETY: a context is current; the attribute is a number of 64 bits.
        unsafe {
            check("finding the GPU", sys::cuCtxGetDevice(&mut number))?;
            check("finding the GPU's memory pool", sys::cuDeviceGetDefaultMemPool(&mut pool, number))?;
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            // What is given back stays at hand: asking the driver anew would wait for the GPU.
            let result = sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast());
            check("setting up the GPU's memory pool", result)?;
        }
        Ok(Queue { device: device.clone(), stream, pool: Pool(pool) })
    }

    /// Bytes that can be had: what is free, and what the pool keeps without using it.
    pub fn free(&self) -> rope::Result<u64> {
        let (free, _) = self.device.memory()?;
        let _current = self.device.enter()?;
        let amount = |attribute| {
            let mut bytes = 0u64;
            // SAFETY: the pool is the device's own; these attributes are numbers of 64 bits.
            let result =
                unsafe { sys::cuMemPoolGetAttribute(self.pool.0, attribute, (&raw mut bytes).cast()) };
            check("asking the GPU's memory pool", result).map(|()| bytes)
        };
        let held = amount(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = amount(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(free + held.saturating_sub(used))
    }

    /// Waits until all work so far is done, and lets other threads of this processor go on meanwhile: many models are
    /// trained side by side, each with a thread and a stream, and steps of small ones are too short to sleep.
    pub fn wait(&self) -> rope::Result<()> {
        let _current = self.device.enter()?;
        loop {
            // SAFETY: the stream lives.
            match unsafe { sys::cuStreamQuery(self.stream.pointer().cast()) } {
                CUresult::CUDA_ERROR_NOT_READY => std::thread::yield_now(),
                result => return check("waiting for the stream", result),
            }
        }
    }

    /// Copies bytes from the GPU, once all work so far is done.
    pub fn download(&self, from: u64, to: &mut [u8]) -> rope::Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.device.enter()?;
        let stream = self.stream.pointer().cast();
        // SAFETY: the callers give an address with this many bytes; the copy is waited for.
        let result = unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), stream) };
        check("copying from the GPU", result)?;
        self.stream.synchronise()
    }

    /// Sets bytes to 0, in the stream's order.
    pub fn clear(&self, place: u64, bytes: usize) -> rope::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let _current = self.device.enter()?;
        // SAFETY: the callers give an address with this many bytes.
        let result = unsafe { sys::cuMemsetD8Async(place, 0, bytes, self.stream.pointer().cast()) };
        check("setting memory to 0", result)
    }

    /// Copies bytes to the GPU, in the stream's order, and waits until they have left.
    pub fn upload(&self, to: u64, from: &[u8]) -> rope::Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.device.enter()?;
        // SAFETY: the callers give an address with this many bytes; the source is borrowed until they have been copied.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), self.stream.pointer().cast())
        };
        check("copying to the GPU", result)?;
        self.stream.synchronise()
    }
}

/// Bytes of the GPU's memory, given back in the order of the stream.
pub(crate) struct Block {
    queue: Arc<Queue>,
    pointer: u64,
    bytes: usize,
}

impl Block {
    /// Any bytes.
    pub fn new(queue: &Arc<Queue>, bytes: usize) -> Result<Block, Fault> {
        let mut pointer = 0;
        if bytes > 0 {
            let _current = queue.device.enter()?;
            // SAFETY: a context is current, and the stream is of it.
            let result = unsafe { sys::cuMemAllocAsync(&mut pointer, bytes, queue.stream.pointer().cast()) };
            if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                return Err(Fault::Memory { bytes: bytes as u128, free: queue.free()? });
            }
            check("asking for memory", result)?;
        }
        Ok(Block { queue: queue.clone(), pointer, bytes })
    }

    /// Bytes of 0.
    pub fn zeros(queue: &Arc<Queue>, bytes: usize) -> Result<Block, Fault> {
        let block = Block::new(queue, bytes)?;
        queue.clear(block.pointer, bytes)?;
        Ok(block)
    }

    /// The address.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// The size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.pointer != 0
            && let Ok(_current) = self.queue.device.enter()
        {
            // SAFETY: made by `new`, given back once, after all work that is in the stream by now.
            let _ = unsafe { sys::cuMemFreeAsync(self.pointer, self.queue.stream.pointer().cast()) };
        }
    }
}

/// Numbers in a GPU's memory.
pub struct Buffer<T> {
    pub(super) block: Block,
    pub(super) len: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T> Buffer<T> {
    /// The address of a number.
    pub(super) fn at(&self, index: usize, size: usize) -> u64 {
        assert!(index <= self.len, "numbers within their buffer");
        self.block.pointer() + (index * size) as u64
    }
}

/// Bytes of the processor's memory that the GPU reads and writes directly, while both go on.
pub(crate) struct Shared {
    queue: Arc<Queue>,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is the owner's alone, whatever the thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Bytes of 0.
    pub fn new(queue: &Arc<Queue>, bytes: usize) -> rope::Result<Shared> {
        let pointer = pinned(queue, bytes.max(1))?;
        // SAFETY: so many bytes, just made.
        unsafe { std::ptr::write_bytes(pointer, 0, bytes) };
        Ok(Shared { queue: queue.clone(), pointer, bytes })
    }

    /// The bytes. No copy of them is under way: the owner waits for the stream before it looks.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: made by `new` and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.bytes) }
    }

    /// Gives a copy of all bytes to the GPU to the stream; they must not change until it has been made.
    pub fn send(&self, to: u64) -> rope::Result<()> {
        let _current = self.queue.device.enter()?;
        let stream = self.queue.stream.pointer().cast();
        // SAFETY: the callers give an address with this many bytes; the source stays until the stream has been waited for.
        let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, self.pointer.cast(), self.bytes, stream) };
        check("copying to the GPU", result)
    }

    /// Gives a copy from the GPU to the stream.
    pub fn receive(&self, from: u64) -> rope::Result<()> {
        let _current = self.queue.device.enter()?;
        let stream = self.queue.stream.pointer().cast();
        // SAFETY: as above.
        let result = unsafe { sys::cuMemcpyDtoHAsync_v2(self.pointer.cast(), from, self.bytes, stream) };
        check("copying from the GPU", result)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Ok(_current) = self.queue.device.enter() {
            let _ = self.queue.stream.synchronise();
            // SAFETY: made by `new`, freed once, after all copies.
            let _ = unsafe { sys::cuMemFreeHost(self.pointer.cast()) };
        }
    }
}

/// So many bytes of the processor's memory that the GPU can reach.
fn pinned(queue: &Queue, bytes: usize) -> rope::Result<*mut u8> {
    let _current = queue.device.enter()?;
    let mut pointer = std::ptr::null_mut();
    // SAFETY: a context is current.
    let result = unsafe { sys::cuMemHostAlloc(&mut pointer, bytes, 0) };
    check("asking for memory of the processor's that the GPU can reach", result)?;
    Ok(pointer.cast())
}

/// Memory of the processor's that the GPU copies to directly. Grows to the most that was asked for.
#[derive(Default)]
pub(super) struct Pinned {
    pointer: usize,
    bytes: usize,
}

impl Pinned {
    /// Copies bytes from the GPU, once the stream's work so far is done.
    fn download(&mut self, queue: &Queue, from: u64, bytes: usize) -> rope::Result<&[u8]> {
        if bytes == 0 {
            return Ok(&[]);
        }
        let _current = queue.device.enter()?;
        if bytes > self.bytes {
            self.free();
            (self.pointer, self.bytes) = (pinned(queue, bytes)? as usize, bytes);
        }
        let to = self.pointer as *mut u8;
        // SAFETY: both have this many bytes, and the copy is waited for.
        let result =
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, queue.stream.pointer().cast()) };
        check("copying from the GPU", result)?;
        queue.stream.synchronise()?;
        // SAFETY: as many bytes, all written, that nobody else has.
        Ok(unsafe { std::slice::from_raw_parts(to, bytes) })
    }

    fn free(&mut self) {
        let pointer = std::mem::take(&mut self.pointer);
        self.bytes = 0;
        if pointer != 0 {
            // SAFETY: made above, freed once; every copy to it has been waited for.
            let _ = unsafe { sys::cuMemFreeHost(pointer as *mut _) };
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.free();
    }
}

/// The same numbers as `f32`, which they are where this is called.
fn single<T: Real>(list: &[T]) -> &[f32] {
    assert_eq!(TypeId::of::<T>(), TypeId::of::<f32>(), "f32 on a GPU");
    // SAFETY: the same type.
    unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), list.len()) }
}

fn single_mut<T: Real>(list: &mut [T]) -> &mut [f32] {
    assert_eq!(TypeId::of::<T>(), TypeId::of::<f32>(), "f32 on a GPU");
    // SAFETY: the same type, borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(list.as_mut_ptr().cast(), list.len()) }
}

/// The bytes of numbers.
pub(crate) fn bytes<T: Copy>(list: &[T]) -> &[u8] {
    // SAFETY: called with numbers, which have no padding.
    unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), size_of_val(list)) }
}

impl Cuda {
    /// Bytes of that many numbers as they are stored.
    fn bytes_of(&self, len: usize) -> Result<usize, Fault> {
        let bytes = len as u128 * self.0.arithmetic.size() as u128;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
            _ => Err(Fault::Memory { bytes, free: self.0.queue.free()? }),
        }
    }

    pub(super) fn zero_block(&self, len: usize) -> Result<Block, Fault> {
        Block::zeros(&self.0.queue, self.bytes_of(len)?)
    }

    pub(super) fn buffer<T: Real>(&self, len: usize) -> Result<Buffer<T>, Fault> {
        self.check_type::<T>()?;
        Ok(Buffer { block: self.zero_block(len)?, len, kind: PhantomData })
    }

    pub(super) fn refit<T: Real>(&self, buffer: &mut Buffer<T>, len: usize) -> Result<(), Fault> {
        let bytes = self.bytes_of(len)?;
        if bytes > buffer.block.bytes() {
            // The old memory first, so that both are not needed at once.
            (buffer.block, buffer.len) = (Block::new(&self.0.queue, 0)?, 0);
            buffer.block = Block::new(&self.0.queue, bytes)?;
        }
        buffer.len = len;
        Ok(())
    }

    /// Stores numbers from `first` on, in the form that this stores.
    pub(super) fn store<T: Real>(&self, block: &Block, first: usize, numbers: &[T]) -> Result<(), Fault> {
        let (size, numbers) = (self.0.arithmetic.size(), single(numbers));
        assert!((first + numbers.len()) * size <= block.bytes(), "numbers within their memory");
        let to = block.pointer() + (first * size) as u64;
        match size {
            2 => {
                let short: Vec<bf16> = numbers.par_iter().map(|&x| bf16::from_f32(x)).collect();
                self.0.queue.upload(to, bytes(&short))?;
            }
            _ => self.0.queue.upload(to, bytes(numbers))?,
        }
        Ok(())
    }

    /// Copies numbers back.
    pub(super) fn fetch<T: Real>(&self, from: &Buffer<T>, to: &mut [T]) -> Result<(), Fault> {
        assert_eq!(from.len, to.len(), "as many numbers");
        self.received(from, |numbers| single_mut(to).par_iter_mut().zip(numbers).for_each(|(to, x)| *to = x))
    }

    /// Copies numbers back into a new list; `None` if there is not enough memory of the processor's. Its pages are first
    /// touched here, by all threads: zeros beforehand would cost more than the copy.
    pub(super) fn fetch_list<T: Real>(&self, from: &Buffer<T>, len: usize) -> Result<Option<Vec<T>>, Fault> {
        assert_eq!(from.len, len, "as many numbers");
        let mut list: Vec<f32> = Vec::new();
        if list.try_reserve_exact(len).is_err() {
            return Ok(None);
        }
        self.received(from, |numbers| numbers.collect_into_vec(&mut list))?;
        // The same type, where this is called.
        let list: Box<dyn Any> = Box::new(list);
        Ok(list.downcast().ok().map(|list| *list))
    }

    /// Gives a buffer's numbers, once all work so far is done, to `take`.
    fn received<T: Real>(&self, from: &Buffer<T>, take: impl FnOnce(Numbers)) -> Result<(), Fault> {
        let size = self.0.arithmetic.size();
        let mut pinned = self.0.pinned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let bytes = pinned.download(&self.0.queue, from.block.pointer(), from.len * size)?;
        take(bytes.par_chunks_exact(size).with_min_len(PIECE).map(number as fn(&[u8]) -> f32));
        Ok(())
    }
}

/// A number of 2 bytes (`bf16`) or 4 (`f32`).
pub(crate) fn number(bytes: &[u8]) -> f32 {
    match *bytes {
        [low, high] => bf16::from_ne_bytes([low, high]).to_f32(),
        [a, b, c, d] => f32::from_ne_bytes([a, b, c, d]),
        _ => f32::NAN,
    }
}

/// Numbers as they come from the GPU.
type Numbers<'a> =
    rayon::iter::Map<rayon::iter::MinLen<rayon::slice::ChunksExact<'a, u8>>, fn(&'a [u8]) -> f32>;
