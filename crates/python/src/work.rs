//! Work that takes long: on a thread of its own, while the thread that asked lets Python run, hears Ctrl-C and tells progress.

use crate::error::{bug, raised};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How often Ctrl-C is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// What may be told before somebody has listened: a listener that is slow sets the pace, and hears no old news.
const AHEAD: usize = 16;

/// What the thread at work says.
enum Said<P, R> {
    Progress(P),
    Done(std::thread::Result<R>),
}

/// How work is left that is told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// At once: what it still does, nobody waits for.
    AtOnce,
    /// When it has saved where it was; asked a second time, or before it has come anywhere, at once.
    Saved,
}

/// What work tells whoever asked for it.
pub(crate) struct Teller<P> {
    tell: Box<dyn Fn(P) + Send + Sync>,
    stop: Arc<AtomicBool>,
}

impl<P> Teller<P> {
    /// Tells how far it has come. Returns whether to go on.
    pub fn tell(&self, progress: P) -> bool {
        (self.tell)(progress);
        self.goes_on()
    }

    /// Whether to go on.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Work that is under way. It is told to stop when nobody has this any more.
pub(crate) struct Work<P, R> {
    said: Mutex<Receiver<Said<P, R>>>,
    stop: Arc<AtomicBool>,
}

/// The next thing that work gives.
pub(crate) enum Next<P, R> {
    Progress(P),
    Done(R),
}

impl<P: Send + 'static, R: Send + 'static> Work<P, R> {
    /// Begins work on a thread of its own.
    pub fn begin(task: impl FnOnce(&Teller<P>) -> R + Send + 'static) -> PyResult<Self> {
        let (sender, said) = sync_channel(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let (progress, done) = (sender.clone(), sender);
        // Nobody to tell is no reason to stop: that is what the flag says.
        let tell = Box::new(move |told| drop(progress.send(Said::Progress(told))));
        let teller = Teller { tell, stop: Arc::clone(&stop) };
        let run = move || {
            let result = catch_unwind(AssertUnwindSafe(|| on_threads(|| task(&teller))));
            drop(done.send(Said::Done(result)));
        };
        std::thread::Builder::new().name("rotary".into()).spawn(run)?;
        Ok(Work { said: Mutex::new(said), stop })
    }

    /// Waits for the next thing that it gives, while Python runs. Ctrl-C is an error.
    pub fn next(&self, py: Python<'_>) -> PyResult<Next<P, R>> {
        loop {
            // Before each wait: work that tells much would never let it time out.
            py.check_signals()?;
            let said = py.detach(|| {
                let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                said.recv_timeout(GLANCE)
            });
            match said {
                Ok(Said::Progress(progress)) => return Ok(Next::Progress(progress)),
                Ok(Said::Done(Ok(result))) => return Ok(Next::Done(result)),
                Ok(Said::Done(Err(panic))) => return Err(bug(&*panic)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(raised("the work is done already")),
            }
        }
    }

    /// Tells it to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl<P, R> Drop for Work<P, R> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Does work to its end. `on` is called with its progress, on this thread; what it raises stops the work, as Ctrl-C does.
pub(crate) fn finish<P: Send + 'static, R: Send + 'static>(
    py: Python<'_>,
    leave: Leave,
    task: impl FnOnce(&Teller<P>) -> R + Send + 'static,
    mut on: impl FnMut(P) -> PyResult<()>,
) -> PyResult<R> {
    let work = Work::begin(task)?;
    let (mut raised, mut has_begun): (Option<PyErr>, bool) = (None, false);
    loop {
        let error = match work.next(py) {
            Ok(Next::Done(result)) => return raised.map_or(Ok(result), Err),
            Ok(Next::Progress(progress)) if raised.is_none() => {
                has_begun = true;
                on(progress).err()
            }
            Ok(Next::Progress(_)) => None,
            Err(error) => Some(error),
        };
        let Some(error) = error else { continue };
        if leave == Leave::AtOnce || raised.is_some() || !has_begun {
            return Err(raised.unwrap_or(error));
        }
        work.stop();
        raised = Some(error);
    }
}

/// The process that imported the package.
static IMPORTER: OnceLock<u32> = OnceLock::new();

/// The threads of the last process that is a fork of that one.
static FORKED: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Notes which process this is: to be called when the package is imported.
pub(crate) fn note_process() {
    IMPORTER.get_or_init(std::process::id);
}

/// Runs a task with threads that are there. A fork, which Python's multiprocessing makes, has none of the threads of its parent:
/// whoever waited for those would wait for ever.
fn on_threads<R: Send>(task: impl FnOnce() -> R + Send) -> R {
    let process = std::process::id();
    if IMPORTER.get().is_none_or(|&importer| importer == process) {
        return task();
    }
    let mut forked = FORKED.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = match &*forked {
        Some((of, pool)) if *of == process => Arc::clone(pool),
        _ => {
            // Without threads there is nothing to go on with; whoever catches this says so.
            let pool = ThreadPoolBuilder::new().build().expect("threads can be made");
            // What is left of the parent's must not be dropped: its threads would be waited for.
            std::mem::forget(forked.take());
            Arc::clone(&forked.insert((process, Arc::new(pool))).1)
        }
    };
    drop(forked);
    pool.install(task)
}
