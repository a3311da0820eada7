//! Threads for large work, as many as torch has, and new ones in a process that was forked.

use crate::error::raised;
use pyo3::PyResult;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes from which on work is divided among threads and Python's lock is given back.
pub(crate) const LARGE: usize = 1 << 20;

struct Pool {
    process: u32,
    threads: usize,
    /// Never dropped in a forked process, where dropping waits for threads that are not there.
    pool: Arc<ThreadPool>,
}

/// The threads of this process. They are not those of the process that it was forked from: those do not exist here, and work
/// handed to them would never be done.
pub(crate) fn pool(threads: usize) -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<Pool>> = Mutex::new(None);
    let process = std::process::id();
    let mut held = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = held.as_ref().filter(|found| found.process == process && found.threads == threads) {
        return Ok(found.pool.clone());
    }
    let made = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(made.map_err(|error| raised(format!("no threads for the rotation: {error}")))?);
    let old = held.replace(Pool { process, threads, pool: pool.clone() });
    if let Some(old) = old.filter(|old| old.process != process) {
        std::mem::forget(old);
    }
    Ok(pool)
}
