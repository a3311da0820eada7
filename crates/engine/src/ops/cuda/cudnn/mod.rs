//! Attention by cuDNN, where that is there and takes it: its kernels for Hopper's tensor cores are faster than this crate's.
//!
//! The library is opened at run time, and nothing needs it: where it is not found, is too old, has no plan or does not take an
//! attention, the kernels of this crate compute it. An attention is described to it as a graph of operations, of which it makes a
//! plan, once for each shape. Giving a plan's work to a stream asks for no memory and waits for nothing, so it can be recorded.
//!
//! ```text
//! library.rs     is there one? Its functions and their answers
//! descriptor.rs  one thing that is described to it
//! graph.rs       operations put together; the plan that the library makes of them
//! attention.rs   attention as such a graph, forward and backward
//! ```

mod attention;
#[allow(unsafe_code, reason = "hands pointers to cuDNN")]
mod descriptor;
#[allow(unsafe_code, reason = "calls cuDNN")]
mod graph;
#[allow(unsafe_code, reason = "opens and calls cuDNN")]
mod library;

pub(crate) use attention::{Name, Shape};

use crate::error::{Error, Result};
use gpu::{Device, Stream};
use graph::{Graph, Plan};
use library::{Library, Opaque};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Plans kept; beyond that an attention has none.
const PLANS: usize = 1024;

/// Which way an attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// Results.
    Forward,
    /// Gradients.
    Backward,
}

/// cuDNN for one GPU, opened when it is first asked for.
pub(crate) struct Cudnn {
    device: Device,
    /// The version of CUDA that cuBLASLt is of.
    cuda: usize,
    is_ordered: bool,
    opened: OnceLock<std::result::Result<Opened, String>>,
}

struct Opened {
    library: Arc<Library>,
    state: Mutex<State>,
    device: Device,
}

struct State {
    /// Shared by all streams of the GPU: it is told which before each piece of work.
    handle: Opaque,
    /// `None` where the library has no plan.
    plans: HashMap<(Shape, Way), Option<Arc<Plan>>>,
}

// SAFETY: the handle is bound to no thread, and used behind the lock.
unsafe impl Send for State {}

impl Drop for Opened {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Ok(_current) = self.device.enter() {
            state.plans.clear();
            // SAFETY: made once, destroyed once; those who share it wait for their work before they let go.
            unsafe { (self.library.destroy)(state.handle) };
        }
    }
}

impl Cudnn {
    /// The library for a GPU, beside a cuBLASLt of a version of CUDA.
    pub fn new(device: &Device, cuda: usize) -> Cudnn {
        let is_ordered = library::is_ordered();
        Cudnn { device: device.clone(), cuda, is_ordered, opened: OnceLock::new() }
    }

    fn opened(&self) -> std::result::Result<&Opened, &str> {
        let open = || {
            let library = Arc::new(Library::find(self.cuda)?);
            let words = |error: &dyn std::fmt::Display| format!("cuDNN does not start: {error}");
            let _current = self.device.enter().map_err(|error| words(&error))?;
            let mut handle = std::ptr::null_mut();
            // SAFETY: a context is current; sets the pointer.
            let status = unsafe { (library.create)(&mut handle) };
            library.check("starting", status).map_err(|error| words(&error))?;
            let state = Mutex::new(State { handle, plans: HashMap::new() });
            Ok(Opened { library, state, device: self.device.clone() })
        };
        self.opened.get_or_init(open).as_ref().map_err(|why| &**why)
    }

    /// Its name and version, or why it is not used.
    pub fn origin(&self) -> std::result::Result<String, &str> {
        let how = if self.is_ordered { "" } else { ", gradients summed without an order" };
        self.opened().map(|opened| opened.library.origin() + how)
    }

    /// Whether sums on the way back are to have an order.
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Bytes that an attention works in, one way; `None` where the library does not compute it.
    pub fn workspace(&self, shape: Shape, way: Way) -> Option<usize> {
        let opened = self.opened().ok()?;
        opened.plan(&mut opened.state(), shape, way).map(|plan| plan.workspace)
    }

    /// Gives an attention to a stream; `false` if the library does not compute it in so many bytes.
    ///
    /// # Safety
    ///
    /// All tensors of the way have an address, at a multiple of 16 bytes, with memory of the shape's sizes, which is there until
    /// the work is done; so are the bytes of the work space, its address and how many.
    pub unsafe fn run(
        &self,
        shape: Shape,
        way: Way,
        places: &[(Name, u64)],
        (address, bytes): (u64, usize),
        stream: &Stream,
    ) -> Result<bool> {
        let Ok(opened) = self.opened() else { return Ok(false) };
        let mut state = opened.state();
        let Some(plan) = opened.plan(&mut state, shape, way).filter(|plan| plan.workspace <= bytes) else {
            return Ok(false);
        };
        let _current = self.device.enter()?;
        // SAFETY: the handle lives, and the stream does until the work is done.
        let status = unsafe { (opened.library.set_stream)(state.handle, stream.pointer()) };
        opened.library.check("choosing a stream", status)?;
        let places: Vec<(i64, u64)> = places.iter().map(|&(name, address)| (name as i64, address)).collect();
        // SAFETY: the handle is behind the lock; the rest is the caller's promise.
        unsafe { plan.run(state.handle, &places, address) }.map(|()| true)
    }
}

impl Opened {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of an attention, made when it is first asked for.
    fn plan(&self, state: &mut State, shape: Shape, way: Way) -> Option<Arc<Plan>> {
        if let Some(known) = state.plans.get(&(shape, way)) {
            return known.clone();
        }
        if state.plans.len() >= PLANS {
            return None;
        }
        // What cannot be planned is computed by other kernels, whatever the reason is.
        let plan = self.make(state.handle, &shape, way).ok().map(Arc::new);
        state.plans.insert((shape, way), plan.clone());
        plan
    }

    fn make(&self, handle: Opaque, shape: &Shape, way: Way) -> Result<Plan> {
        let _current = self.device.enter().map_err(Error::from)?;
        let mut graph = Graph::new(&self.library);
        match way {
            Way::Forward => attention::forward(&mut graph, shape)?,
            Way::Backward => attention::backward(&mut graph, shape)?,
        }
        graph.plan(handle)
    }
}

#[cfg(test)]
mod tests;
