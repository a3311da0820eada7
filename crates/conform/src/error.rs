//! The one error type: a line that says what was got and what was expected.

use std::fmt;

/// What cannot be judged, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Error(String);

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Error(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
