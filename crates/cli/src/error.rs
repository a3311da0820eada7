//! How a command fails: one line on stderr, exit code 2 for bad input, 1 for anything else.

use roformer::files::no_room;
use std::io;
use std::path::Path;

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
    pub fn report(self) -> u8 {
        let (message, code) = match self {
            Failure::Input(message) => (message, 2),
            Failure::Other(message) => (message, 1),
            Failure::Closed => return 0,
        };
        eprintln!("roformer: {}", one_line(&message));
        code
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

impl From<rope::Error> for Failure {
    fn from(error: rope::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<rope_conformance::Error> for Failure {
    fn from(error: rope_conformance::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<roformer::Error> for Failure {
    fn from(error: roformer::Error) -> Self {
        match error.is_of_the_machine() {
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

impl From<roformer::engine::Error> for Failure {
    fn from(error: roformer::engine::Error) -> Self {
        roformer::Error::from(error).into()
    }
}

impl From<roformer::weights::Error> for Failure {
    fn from(error: roformer::weights::Error) -> Self {
        roformer::Error::from(error).into()
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
        assert_eq!(code(Error::memory("the cache")), 1);
        let full = roformer::engine::Error::DeviceMemory {
            what: "the cache",
            bytes: 1 << 40,
            free: 1 << 30,
            fits: None,
        };
        assert_eq!(code(full.into()), 1);
        assert_eq!(code(roformer::engine::Error::Device("why".into()).into()), 1);
        let file = |kind: io::ErrorKind| Error::Io { path: "model".into(), source: kind.into() };
        let weights = |kind: io::ErrorKind| roformer::weights::Error::Io {
            path: "model.safetensors".into(),
            doing: "write",
            source: kind.into(),
        };
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, 1),
            (io::ErrorKind::QuotaExceeded, 1),
            (io::ErrorKind::FileTooLarge, 1),
            (io::ErrorKind::PermissionDenied, 2),
        ] {
            assert_eq!(code(weights(kind).into()), expected);
            assert_eq!(code(file(kind)), expected);
            let message = weights(kind).to_string();
            assert_eq!(message.contains("permissions"), expected == 2, "{message}");
        }
        #[cfg(feature = "cuda")]
        {
            let failed = rope::cuda::Error::Driver { what: "copying", message: "why".into() };
            assert_eq!(code(rope::Error::Gpu(failed).into()), 1);
        }
        assert_eq!(code(rope::Error::Json("why".into()).into()), 2);
    }
}
