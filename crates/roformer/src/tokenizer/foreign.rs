//! Work that the tokenizers crate does: in silence, within a time, and its panics as errors.
//!
//! The crate trusts its files and panics on some that are damaged (a template that names tokens which it does not define,
//! for one). Here that is an error like any other, and nothing is printed of it.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::{Duration, Instant};

/// What any text may take, and a text for each of its bytes. Patterns of tokenizers in use are a hundred times faster.
const LEAST: Duration = Duration::from_secs(1);
const PER_BYTE: Duration = Duration::from_micros(15);

thread_local! {
    /// Whether this thread is at such work, and until when.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Why work was given up, where we gave it up.
struct Stop(String);

/// Runs work on so many bytes of text. An error is the reason where there is one to tell.
pub(super) fn run<T>(bytes: usize, work: impl FnOnce() -> T) -> Result<T, Option<String>> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // Of this thread alone: a panic of another one is nobody's but its own.
            if UNTIL.get().is_none() {
                loud(panic);
            }
        }));
    });
    let limit = LEAST + PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
    let outer = UNTIL.replace(Some(Instant::now() + limit));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    UNTIL.set(outer);
    done.map_err(|payload| payload.downcast::<Stop>().ok().map(|stop| stop.0))
}

/// Gives up the work of this thread. The crate passes over errors of normalizers, so they cannot be returned.
pub(super) fn stop(reason: impl Into<String>) -> ! {
    panic::resume_unwind(Box::new(Stop(reason.into())))
}

/// Gives up the work of this thread if its time is over.
pub(super) fn check_time() {
    if UNTIL.get().is_some_and(|until| Instant::now() > until) {
        stop(
            "one of its patterns takes too long on this text; expected one that is not made to, check the file",
        );
    }
}
