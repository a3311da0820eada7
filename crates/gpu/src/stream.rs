//! Streams: work that runs in order.

use crate::device::{Current, Device};
use crate::driver::check;
use crate::error::Result;
use crate::event::Event;
use cudarc::driver::sys::{self, CUresult, CUstream};
use std::ffi::c_void;

/// A queue of work on a GPU, its own or someone else's.
#[derive(Debug)]
pub struct Stream {
    device: Device,
    raw: CUstream,
    owned: bool,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above, from several at a time too.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Stream> {
        let _current = device.enter()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current.
        check("making a stream", unsafe { sys::cuStreamCreate(&mut raw, flags) })?;
        Ok(Stream { device: device.clone(), raw, owned: true })
    }

    /// The default stream, which waits for all others that do not say otherwise.
    pub(crate) fn default_of(device: &Device) -> Stream {
        Stream { device: device.clone(), raw: std::ptr::null_mut(), owned: false }
    }

    /// A stream of another library (`cudaStream_t`, `CUstream`); null is the default stream.
    ///
    /// # Safety
    ///
    /// The stream belongs to the primary context of this device and lives as long as the result.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Stream {
        Stream { device: device.clone(), raw: stream.cast(), owned: false }
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream, for other libraries.
    pub fn pointer(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// Waits until all work so far is done. An error of that work is reported here.
    pub fn synchronise(&self) -> Result<()> {
        let _current = self.device.enter()?;
        // SAFETY: the stream lives.
        check("waiting for the stream", unsafe { sys::cuStreamSynchronize(self.raw) })
    }

    /// Marks this point of the stream's work.
    pub fn record(&self, event: &Event) -> Result<()> {
        let _current = self.enter(Some(event.device()), "an event")?;
        // SAFETY: the event and the stream live, on the same GPU.
        check("recording an event", unsafe { sys::cuEventRecord(event.raw(), self.raw) })
    }

    /// Whether all work so far is done. An error of that work is reported here.
    pub fn is_idle(&self) -> Result<bool> {
        let _current = self.device.enter()?;
        // SAFETY: the stream lives.
        match unsafe { sys::cuStreamQuery(self.raw) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("waiting for the stream", result).map(|()| true),
        }
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Makes the GPU's context current, and refuses what belongs to another GPU.
    #[inline]
    pub(crate) fn enter(&self, other: Option<&Device>, what: &'static str) -> Result<Current> {
        if let Some(other) = other {
            self.device.same(other, what)?;
        }
        self.device.enter()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_current) = self.device.enter()
        {
            // SAFETY: made by `new`, destroyed once; the driver finishes its work first.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}
