//! How a command fails: one line on stderr, exit code 2 for bad input, 1 for anything else.

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

/// The message on one line, whatever it holds.
pub fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl From<rope::Error> for Failure {
    fn from(error: rope::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<roformer::Error> for Failure {
    fn from(error: roformer::Error) -> Self {
        match error {
            // All that was given may be right, and the machine too small.
            roformer::Error::Memory { .. }
            | roformer::Error::DeviceMemory { .. }
            | roformer::Error::Device(_) => Failure::Other(error.to_string()),
            _ => Failure::Input(error.to_string()),
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
        Failure::Input(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Other(error.to_string()),
        }
    }
}

/// What a command returns.
pub type Outcome = Result<(), Failure>;
