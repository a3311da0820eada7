//! What is logged, to standard error: as text, or as one JSON object per line.

use tracing::level_filters::LevelFilter;

/// Begins to log what is at least as grave as `level` (`error`, `warn`, `info`, `debug`, `trace` or `off`). Only the first call in a
/// program does anything.
pub fn start(level: LevelFilter, json: bool) {
    use std::io::IsTerminal;
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // A program that logs already goes on as it does.
    let _ = match json {
        true => builder.json().flatten_event(true).with_target(false).try_init(),
        false => builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init(),
    };
}

pub use tracing::level_filters::LevelFilter as Level;
