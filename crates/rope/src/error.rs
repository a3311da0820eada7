//! The one error type of this crate. Every message names the value, the limit and what to do.

use std::fmt;

/// What went wrong, with the value that was wrong and what was expected instead.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is not JSON, or is too large to be one.
    Json(String),
    /// A field of a configuration is missing, of the wrong type, or has an impossible value.
    Field {
        /// Where it stands, as a path: `rope_scaling.factor`.
        field: String,
        /// What was found there.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A key in the rope dictionary of a configuration that no rule reads.
    UnknownKey {
        /// Where it stands, as a path: `rope_scaling.facter`.
        field: String,
        /// The key itself.
        key: String,
        /// The keys that are read there.
        known: String,
    },
    /// The configuration is that of a model without rotary embedding: there is nothing to turn.
    #[cfg(feature = "hf")]
    NotRotary {
        /// Its `model_type`.
        model_type: String,
        /// What it has instead.
        encoding: crate::config::Encoding,
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
    /// Shapes, strides or lengths that do not fit together.
    Shape {
        /// What was being done.
        what: &'static str,
        /// The shape or length that was passed.
        got: String,
        /// The shape or length that would fit.
        expected: String,
    },
    /// A position that the table has no row for.
    Position {
        /// The position asked for.
        position: i64,
        /// The positions the table covers.
        covered: String,
    },
    /// A table that does not fit in memory.
    Memory {
        /// The bytes asked for.
        bytes: u128,
    },
    /// A GPU that cannot be used, is full or failed.
    #[cfg(feature = "cuda")]
    Gpu(gpu::Error),
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

#[cfg(feature = "cuda")]
impl From<gpu::Error> for Error {
    fn from(error: gpu::Error) -> Self {
        match error {
            gpu::Error::HostMemory { bytes } => Error::Memory { bytes },
            gpu::Error::Argument { name, value, expected } => Error::Argument { name, value, expected },
            gpu::Error::Shape { what, got, expected } => Error::Shape { what, got, expected },
            error => Error::Gpu(error),
        }
    }
}

/// A number as a message shows it: no hundreds of digits.
pub(crate) fn brief(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && size.is_finite() && !(1e-6..1e16).contains(&size) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Json(message) => write!(f, "not a configuration: {message}"),
            Error::Field { field, value, expected } => {
                write!(f, "`{field}` is {value}; expected {expected}")
            }
            Error::UnknownKey { field, key, known } => write!(
                f,
                "`{field}` is a key that no rule reads (read there: {known}); \
                 if it changes nothing about the rotation, set `allow_unknown` to {key}"
            ),
            #[cfg(feature = "hf")]
            Error::NotRotary { model_type, encoding } => write!(
                f,
                "`model_type` is {model_type}, whose positions are {encoding}; expected a model with rotary embedding"
            ),
            Error::Argument { name, value, expected } => {
                write!(f, "{name} is {value}; expected {expected}")
            }
            Error::Shape { what, got, expected } => {
                write!(f, "{what}: got {got}; expected {expected}")
            }
            Error::Position { position, covered } => write!(
                f,
                "position {position} is not in the table, which covers {covered}; \
                 build the table over the positions you use"
            ),
            Error::Memory { bytes } => {
                write!(f, "a table of {bytes} bytes does not fit in memory; ask for fewer positions")
            }
            #[cfg(feature = "cuda")]
            Error::Gpu(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
