//! Work of a stream that was recorded and can be run again.

use crate::device::Device;
use crate::driver::check;
use crate::error::{Error, Result};
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUgraphExec, CUstreamCaptureMode};

impl Stream {
    /// Records the work that `work` gives to this stream, instead of running it. The work must not wait, and while it
    /// is recorded no memory may be asked for or freed.
    pub fn capture<E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Graph, E> {
        let _current = self.device().enter()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        check("beginning to record", unsafe { sys::cuStreamBeginCapture_v2(self.raw(), mode) })?;
        let outcome = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: begun above, whatever the work did.
        let ended = unsafe { sys::cuStreamEndCapture(self.raw(), &mut graph) };
        let outcome = outcome.and_then(|()| Ok(check("ending to record", ended)?));
        let mut raw = std::ptr::null_mut();
        let outcome = outcome.and_then(|()| {
            // SAFETY: a graph that was just recorded.
            let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut raw, graph, 0) };
            Ok(check("preparing what was recorded", result)?)
        });
        if !graph.is_null() {
            // SAFETY: recorded above; it is not needed once it can be run.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
        outcome.map(|()| Graph { device: self.device().clone(), raw })
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
