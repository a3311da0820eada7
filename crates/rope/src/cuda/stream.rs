//! Streams: work that runs in order. Events to time it, and graphs to run it again.

use super::device::{Current, Device};
use super::driver::check;
use crate::error::{Error, Result};
use cudarc::driver::sys::{self, CUevent, CUgraphExec, CUresult, CUstream, CUstreamCaptureMode};
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
    pub(super) fn new(device: &Device) -> Result<Stream> {
        let _current = device.enter()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current.
        check("making a stream", unsafe { sys::cuStreamCreate(&mut raw, flags) })?;
        Ok(Stream { device: device.clone(), raw, owned: true })
    }

    /// The default stream, which waits for all others that do not say otherwise.
    pub(super) fn default_of(device: &Device) -> Stream {
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
        let _current = self.enter(Some(&event.device), "an event")?;
        // SAFETY: the event and the stream live, on the same GPU.
        check("recording an event", unsafe { sys::cuEventRecord(event.raw, self.raw) })
    }

    /// Records the work that `work` gives to this stream, instead of running it. The work must not wait, and while it
    /// is recorded no memory may be asked for or freed.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let _current = self.device.enter()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        check("beginning to record", unsafe { sys::cuStreamBeginCapture_v2(self.raw, mode) })?;
        let outcome = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: begun above, whatever the work did.
        let ended = unsafe { sys::cuStreamEndCapture(self.raw, &mut graph) };
        let outcome = outcome.and_then(|()| check("ending to record", ended));
        let mut raw = std::ptr::null_mut();
        let outcome = outcome.and_then(|()| {
            // SAFETY: a graph that was just recorded.
            let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut raw, graph, 0) };
            check("preparing what was recorded", result)
        });
        if !graph.is_null() {
            // SAFETY: recorded above; it is not needed once it can be run.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
        outcome.map(|()| Graph { device: self.device.clone(), raw })
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Makes the GPU's context current, and refuses what belongs to another GPU.
    #[inline]
    pub(super) fn enter(&self, other: Option<&Device>, what: &'static str) -> Result<Current> {
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

    /// Milliseconds from an earlier event to this one; waits until the GPU has reached it.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32> {
        self.device.same(&earlier.device, "an event")?;
        let _current = self.device.enter()?;
        // SAFETY: the event lives.
        check("waiting for an event", unsafe { sys::cuEventSynchronize(self.raw) })?;
        type Elapsed = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
        let mut milliseconds = 0.0;
        // The name that all drivers have: the bindings know its successor alone.
        // SAFETY: the function has had this form since CUDA 2.2, and both events live.
        let result = unsafe {
            let elapsed = sys::culib().get::<Elapsed>(b"cuEventElapsedTime");
            let elapsed =
                elapsed.map_err(|error| Error::Driver { what: "timing", message: error.to_string() })?;
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

/// Recorded work that can be run again and again with one call.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    raw: CUgraphExec,
}

// SAFETY: nothing of a graph is bound to a thread; `launch` is the one way to use it.
unsafe impl Send for Graph {}

impl Graph {
    /// Runs the work on a stream.
    ///
    /// # Safety
    ///
    /// All memory that the recorded work uses (buffers, tables, uploaded position ids) is still there, and nothing else
    /// uses it in the meantime.
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<()> {
        let _current = stream.enter(Some(&self.device), "a graph")?;
        // SAFETY: the graph and the stream live; its memory is the caller's promise.
        check("running recorded work", unsafe { sys::cuGraphLaunch(self.raw, stream.raw()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: made by `capture`, destroyed once.
            let _ = unsafe { sys::cuGraphExecDestroy(self.raw) };
        }
    }
}
