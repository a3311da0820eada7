//! A stream that all work of its owner is in, and the pool that its memory comes from.

use crate::device::Device;
use crate::driver::check;
use crate::error::Result;
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUmemPool_attribute, CUmemoryPool};

/// A GPU, and a stream that memory is given out and taken back in the order of ([`Block`](crate::Block)).
pub struct Queue {
    stream: Stream,
    pool: Pool,
}

struct Pool(CUmemoryPool);

// SAFETY: the driver's pools may be used from any thread, and from several at a time.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Queue {
    /// A new stream of a GPU.
    pub fn new(device: &Device) -> Result<Queue> {
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
        Ok(Queue { stream, pool: Pool(pool) })
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes that are available: what is free, and what the pool keeps without using it.
    pub fn free(&self) -> Result<u64> {
        let (free, _) = self.device().memory()?;
        let _current = self.device().enter()?;
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

    /// Waits until all work so far is done, and lets other threads of this CPU go on meanwhile: many models are trained side by
    /// side, each with a thread and a stream, and steps of small ones are too short to sleep.
    pub fn wait(&self) -> Result<()> {
        while !self.stream.is_idle()? {
            std::thread::yield_now();
        }
        Ok(())
    }
}
