//! How a command fails: one line on stderr, exit code 2 for bad input, 1 for anything else.

use roformer::files::no_room;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Why a command did not finish.
pub enum Failure {
    /// What the user gave cannot be used.
    Input(String),
    /// Something went wrong on the way.
    Other(String),
    /// Whoever read the output has gone; nothing more to say.
    Closed,
}

impl Failure {
    /// Says so, and returns the exit code.
    pub fn report(self) -> ExitCode {
        let (message, code) = match self {
            Failure::Input(message) => (message, 2),
            Failure::Other(message) => (message, 1),
            Failure::Closed => return ExitCode::SUCCESS,
        };
        eprintln!("roformer: {}", one_line(&message));
        ExitCode::from(code)
    }
}

/// The message on one line, whatever it holds, with nothing in it that a terminal would obey.
pub fn one_line(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// A file that was not written.
pub fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let reason = no_room(error.kind()).map_or_else(|| error.to_string(), str::to_owned);
    Failure::Other(format!("{}: {reason}", path.display()))
}

/// Whether weights were not written for want of room.
fn is_full(error: &roformer::weights::Error) -> bool {
    matches!(error, roformer::weights::Error::Io { kind, .. } if no_room(*kind).is_some())
}

/// Whether all that was given may be right, and the machine or its disk too small for it, or its GPU at fault.
pub fn is_of_the_machine(error: &roformer::Error) -> bool {
    use roformer::Error;
    match error {
        Error::Memory { .. } | Error::DeviceMemory { .. } | Error::Device(_) | Error::Full { .. } => true,
        Error::Weights(error) => is_full(error),
        #[cfg(feature = "cuda")]
        Error::Rope(
            rope::Error::NoDevice(_) | rope::Error::DeviceMemory { .. } | rope::Error::Driver { .. },
        ) => true,
        _ => false,
    }
}

impl From<rope::Error> for Failure {
    fn from(error: rope::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<roformer::Error> for Failure {
    fn from(error: roformer::Error) -> Self {
        match is_of_the_machine(&error) {
            true => Failure::Other(error.to_string()),
            false => Failure::Input(error.to_string()),
        }
    }
}

impl From<roformer_explore::Error> for Failure {
    fn from(error: roformer_explore::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<roformer::weights::Error> for Failure {
    fn from(error: roformer::weights::Error) -> Self {
        match is_full(&error) {
            true => Failure::Other(error.to_string()),
            false => Failure::Input(error.to_string()),
        }
    }
}

/// What is written to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Closed,
            kind => Failure::Other(match no_room(kind) {
                Some(reason) => format!("standard output: {reason}"),
                None => error.to_string(),
            }),
        }
    }
}

/// What a command returns.
pub type Outcome = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::Error;

    #[test]
    fn a_message_is_one_line_that_a_terminal_shows() {
        assert_eq!(one_line(" no\n such \u{1b}[31m天\u{9b}"), "no such \\u{1b}[31m天\\u{9b}");
    }

    #[test]
    fn bad_input_and_a_machine_too_small_have_codes_of_their_own() {
        let code = |error: Error| match Failure::from(error) {
            Failure::Input(_) => 2,
            Failure::Other(_) => 1,
            Failure::Closed => 0,
        };
        let input = || Error::Input { name: "x", value: "1".into(), expected: "2".into() };
        assert_eq!(code(input()), 2);
        assert_eq!(code(Error::Memory { what: "the cache" }), 1);
        assert_eq!(
            code(Error::DeviceMemory { what: "the cache", bytes: 1 << 40, free: 1 << 30, fits: None }),
            1
        );
        assert_eq!(code(Error::Device("why".into())), 1);
        assert_eq!(code(Error::Full { path: "model".into(), reason: "full" }), 1);
        let weights = |kind: io::ErrorKind| roformer::weights::Error::Io {
            path: "model.safetensors".into(),
            doing: "write",
            kind,
            message: "why".into(),
        };
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, 1),
            (io::ErrorKind::QuotaExceeded, 1),
            (io::ErrorKind::FileTooLarge, 1),
            (io::ErrorKind::PermissionDenied, 2),
        ] {
            assert_eq!(code(weights(kind).into()), expected);
            let message = weights(kind).to_string();
            assert_eq!(message.contains("permissions"), expected == 2, "{message}");
        }
        #[cfg(feature = "cuda")]
        assert_eq!(code(rope::Error::Driver { what: "copying", message: "why".into() }.into()), 1);
        assert_eq!(code(rope::Error::Json("why".into()).into()), 2);
    }
}
