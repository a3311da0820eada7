//! Work that the tokenizers crate does: in silence, within a time, and its panics as errors.
//!
//! The crate trusts its files and panics on some that are damaged (a template that names tokens which it does not define,
//! for one). Here that is an error like any other, and nothing is printed of it.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::{Duration, Instant};

/// What any text may take, and a text for each of its bytes. Tokenizers in use are a hundred times faster.
const LEAST: Duration = Duration::from_millis(500);
const PER_BYTE: Duration = Duration::from_micros(5);

thread_local! {
    /// The time that this thread has, where it is at such work.
    static TIME: Cell<Option<Time>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Time {
    limit: Duration,
    until: Instant,
    /// What the thread had spent on a CPU when that moment came.
    spent: Option<Duration>,
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
            if TIME.get().is_none() {
                loud(panic);
            }
        }));
    });
    let limit = LEAST + PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
    let outer = TIME.replace(Some(Time { limit, until: Instant::now() + limit, spent: None }));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    TIME.set(outer);
    done.map_err(|payload| payload.downcast::<Stop>().ok().map(|stop| stop.0))
}

/// Gives up the work of this thread. The crate passes over errors of normalizers, so they cannot be returned.
pub(super) fn stop(reason: impl Into<String>) -> ! {
    panic::resume_unwind(Box::new(Stop(reason.into())))
}

/// Gives up the work of this thread if its time is over. On a busy machine the clock is not to be trusted: once the time is
/// over, the thread has as much again on a CPU.
pub(super) fn check_time() {
    let Some(time) = TIME.get().filter(|time| Instant::now() > time.until) else { return };
    let is_over = match (time.spent, spent()) {
        (Some(before), Some(now)) => now.saturating_sub(before) > time.limit,
        (None, Some(now)) => {
            TIME.set(Some(Time { spent: Some(now), ..time }));
            false
        }
        (_, None) => true,
    };
    if is_over {
        stop("it takes too long on this text; expected a tokenizer that is not made to, check its patterns");
    }
}

/// The time that this thread has spent on a CPU, where the system tells.
fn spent() -> Option<Duration> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    line.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
