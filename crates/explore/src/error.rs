//! The error type of this crate: why a figure cannot be had.

use std::fmt;

/// What was asked for and cannot be shown, with the value and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Error(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<rope::Error> for Error {
    fn from(error: rope::Error) -> Self {
        Error(error.to_string())
    }
}

impl From<roformer::Error> for Error {
    fn from(error: roformer::Error) -> Self {
        Error(error.to_string())
    }
}
