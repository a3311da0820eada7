//! How far a run is, on stderr and for people only.

use super::run::Listener;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What is done sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar that appears when a run takes long.
pub struct Progress {
    wanted: bool,
    started: Instant,
    /// Bytes of the whole input, where that is known.
    size: Option<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Nothing is shown but on a terminal, and there only if results do not go to a terminal too: they are progress
    /// enough, and the bar would stand among them.
    pub fn new(size: Option<u64>, silent: bool) -> Self {
        let wanted = std::io::stderr().is_terminal() && (silent || !std::io::stdout().is_terminal());
        Progress { wanted, started: Instant::now(), size, bar: None }
    }

    fn bar(&self) -> ProgressBar {
        let (bar, template) = match self.size {
            Some(size) => (ProgressBar::new(size), "{bar:30} {bytes}/{total_bytes}, {msg}, {eta} left"),
            None => (ProgressBar::no_length(), "{spinner} {msg} in {elapsed}"),
        };
        let bar = bar.with_elapsed(self.started.elapsed());
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

impl Listener for Progress {
    fn say(&mut self, line: &str) {
        let say = || {
            // Nobody to tell is no reason to stop.
            let _ = writeln!(std::io::stderr(), "roformer: {line}");
        };
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    fn advance(&mut self, records: u64, bytes: u64) {
        if self.wanted && self.bar.is_none() && self.started.elapsed() >= PATIENCE {
            self.bar = Some(self.bar());
        }
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{records} texts"));
            bar.set_position(if self.size.is_some() { bytes } else { records });
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
