//! Points in the work of a stream, with their times.

use crate::device::Device;
use crate::driver::{check, library};
use crate::error::{Error, Result};
use cudarc::driver::sys::{self, CUevent, CUresult};

/// A point in the work of a stream, with its time.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: CUevent,
}

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above, from several at a time too.
unsafe impl Sync for Event {}

impl Event {
    /// An event that has not been recorded.
    pub fn new(device: &Device) -> Result<Event> {
        let _current = device.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a context is current; 0 is an event with a time.
        check("making an event", unsafe { sys::cuEventCreate(&mut raw, 0) })?;
        Ok(Event { device: device.clone(), raw })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }

    /// Waits until the GPU has reached it; not for what the stream was given after it.
    pub(crate) fn wait(&self) -> Result<()> {
        let _current = self.device.enter()?;
        // SAFETY: the event lives.
        check("waiting for an event", unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// Milliseconds from an earlier event to this one; waits until the GPU has reached it.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32> {
        self.device.same(&earlier.device, "an event")?;
        self.wait()?;
        let _current = self.device.enter()?;
        type Elapsed = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
        let mut milliseconds = 0.0;
        // The name that all drivers have: the bindings know its successor alone.
        // SAFETY: the function has had this form since CUDA 2.2, and both events live.
        let result = unsafe {
            let elapsed = library().and_then(|driver| driver.get::<Elapsed>(b"cuEventElapsedTime").ok());
            let message = || "the driver has no cuEventElapsedTime".into();
            let elapsed = elapsed.ok_or_else(|| Error::Driver { what: "timing", message: message() })?;
            elapsed(&mut milliseconds, earlier.raw, self.raw)
        };
        check("timing", result)?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: made by `new`, destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
