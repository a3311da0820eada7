//! The error type of this crate: why a figure cannot be had.

use std::fmt;

/// What was asked for and cannot be shown, with the value and what is accepted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A value that a figure does not take: which, and what it takes.
    Value(String),
    /// A rotary embedding that cannot be made.
    Rope(rope::Error),
    /// A model or a comparison that cannot be shown.
    Model(roformer::Error),
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A value that a figure does not take.
    pub fn new(message: impl Into<String>) -> Self {
        Error::Value(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Value(message) => f.write_str(message),
            Error::Rope(error) => error.fmt(f),
            Error::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Value(_) => None,
            Error::Rope(error) => error.source(),
            Error::Model(error) => error.source(),
        }
    }
}

impl From<rope::Error> for Error {
    fn from(error: rope::Error) -> Self {
        Error::Rope(error)
    }
}

impl From<roformer::Error> for Error {
    fn from(error: roformer::Error) -> Self {
        Error::Model(error)
    }
}

impl From<roformer::engine::Error> for Error {
    fn from(error: roformer::engine::Error) -> Self {
        Error::Model(error.into())
    }
}
