//! The one error type of this crate. Every message names the value, the limit and what to do.

use std::fmt;

/// What went wrong, with the value that was wrong and what was expected instead.
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// No NVIDIA GPU can be used, and why.
    NoDevice(String),
    /// More memory of the GPU than is free.
    Memory {
        /// The bytes asked for.
        bytes: u128,
        /// The bytes that were free.
        free: u64,
    },
    /// More of the CPU's memory than is free.
    HostMemory {
        /// The bytes asked for.
        bytes: u128,
    },
    /// The GPU's driver reported an error.
    Driver {
        /// What was being done.
        what: &'static str,
        /// The driver's words.
        message: String,
    },
    /// A value passed to a function is impossible.
    Argument {
        /// The argument's name.
        name: &'static str,
        /// What was passed.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// Lengths that do not fit together.
    Shape {
        /// What was being done.
        what: &'static str,
        /// The length that was passed.
        got: String,
        /// The length that would fit.
        expected: String,
    },
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn argument(
        name: &'static str,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Error::Argument { name, value: value.to_string(), expected: expected.into() }
    }

    pub(crate) fn shape(what: &'static str, got: impl Into<String>, expected: impl Into<String>) -> Self {
        Error::Shape { what, got: got.into(), expected: expected.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDevice(why) => write!(f, "no NVIDIA GPU can be used: {why}; use the CPU instead"),
            Error::Memory { bytes, free } => write!(
                f,
                "{bytes} bytes do not fit in the GPU's memory, of which {free} are free; \
                 free what is held there, or ask for less"
            ),
            Error::HostMemory { bytes } => {
                write!(f, "{bytes} bytes do not fit in the CPU's memory; ask for less")
            }
            Error::Driver { what, message } => write!(f, "{what} failed on the GPU: {message}"),
            Error::Argument { name, value, expected } => {
                write!(f, "{name} is {value}; expected {expected}")
            }
            Error::Shape { what, got, expected } => write!(f, "{what}: got {got}; expected {expected}"),
        }
    }
}

impl std::error::Error for Error {}
