//! What commands that take long share: how they are told to stop, and how they say times.

use crate::error::Failure;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// A flag that Ctrl-C and a request to end set. A second one ends the program at once: what is on the disk is whole at any
/// moment.
pub fn stopper() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_shutdown};
    let is_stopped = Arc::new(AtomicBool::new(false));
    let caught = [SIGINT, SIGTERM].into_iter().try_for_each(|signal| {
        register_conditional_shutdown(signal, 130, Arc::clone(&is_stopped))?;
        register(signal, Arc::clone(&is_stopped)).map(drop)
    });
    caught.map_err(|error| Failure::Other(format!("Ctrl-C cannot be caught: {error}")))?;
    Ok(is_stopped)
}

/// Makes a file that may not grow a failed write, and not the end of the program.
pub fn let_writes_fail() {
    // Where it cannot be had the program ends as others do.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// A time as people say it.
pub fn time(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.round().max(0.0)).map_or(u64::MAX, |time| time.as_secs());
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Says what is waited for, where that takes longer than a moment; until it is dropped.
pub struct Waiting(#[expect(dead_code, reason = "its end is what is heard")] mpsc::Sender<()>);

impl Waiting {
    pub fn begin(line: String) -> Waiting {
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(2)) {
                say(&line);
            }
        });
        Waiting(sender)
    }
}

/// A line for the person at the terminal.
pub fn say(line: &str) {
    // Nobody to tell is no reason to stop.
    let _ = writeln!(io::stderr(), "roformer: {line}");
}
