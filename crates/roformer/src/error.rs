//! The error type of this crate.

use std::fmt;

/// What went wrong, with the value that was wrong and what was expected instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A configuration that cannot be used.
    Config {
        /// The field.
        field: String,
        /// What was found there.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A file that cannot be read.
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A file that there is no room for: nothing that was passed is wrong.
    Full {
        /// The file.
        path: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// Weights that cannot be read, or do not fit the configuration.
    Weights(crate::weights::Error),
    /// Tensors that are missing from a model's weights, or that nothing in the model asks for.
    Tensors {
        /// Names that the configuration asks for and the file lacks.
        missing: Vec<String>,
        /// Names in the file that nothing asks for.
        unexpected: Vec<String>,
        /// What that means.
        verdict: String,
    },
    /// An input that does not fit the model.
    Input {
        /// What of it.
        name: &'static str,
        /// What was passed.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A rotary embedding that cannot be made.
    Rope(rope::Error),
    /// A model that is neither a folder nor to be had from the cache or the hub.
    Hub {
        /// The model, as it was named.
        model: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Not enough memory.
    Memory {
        /// For what.
        what: &'static str,
    },
    /// Not enough memory on a GPU.
    DeviceMemory {
        /// For what.
        what: &'static str,
        /// The bytes asked for.
        bytes: u128,
        /// The bytes that were free.
        free: u64,
        /// Texts of a batch that would fit, where that is known.
        fits: Option<usize>,
    },
    /// A GPU that cannot be used for models, or that failed: why, and what to do.
    Device(String),
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn input(name: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Error::Input { name, value: value.to_string(), expected: expected.into() }
    }

    /// Says what memory that was not there was for; other errors stay as they are.
    pub(crate) fn for_want_of(what: &'static str) -> impl Fn(Error) -> Error {
        move |error| match error {
            Error::Memory { .. } => Error::Memory { what },
            Error::DeviceMemory { bytes, free, fits, .. } => Error::DeviceMemory { what, bytes, free, fits },
            error => error,
        }
    }
}

/// What memory is for where nobody says.
pub(crate) const WORK: &str = "the work";

impl From<rope::Error> for Error {
    fn from(error: rope::Error) -> Self {
        match error {
            #[cfg(feature = "cuda")]
            rope::Error::DeviceMemory { bytes, free } => {
                Error::DeviceMemory { what: WORK, bytes, free, fits: None }
            }
            error => Error::Rope(error),
        }
    }
}

#[cfg(feature = "cuda")]
impl From<gpu::Error> for Error {
    fn from(error: gpu::Error) -> Self {
        rope::Error::from(error).into()
    }
}

impl From<crate::weights::Error> for Error {
    fn from(error: crate::weights::Error) -> Self {
        Error::Weights(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config { field, value, expected } => {
                write!(f, "config.json: `{field}` is {value}; expected {expected}")
            }
            Error::File { path, reason } => write!(f, "{path}: {reason}"),
            Error::Full { path, reason } => write!(f, "{path}: {reason}"),
            Error::Weights(error) => error.fmt(f),
            Error::Tensors { missing, unexpected, verdict } => {
                write!(f, "{verdict}")?;
                for (what, names) in [("missing", missing), ("unexpected", unexpected)] {
                    if let Some(first) = names.first() {
                        let more = if names.len() > 1 {
                            format!(" and {} more", names.len() - 1)
                        } else {
                            String::new()
                        };
                        write!(f, "; {what}: {}{more}", crate::weights::brief(first))?;
                    }
                }
                Ok(())
            }
            Error::Input { name, value, expected } => write!(f, "{name} is {value}; expected {expected}"),
            Error::Rope(error) => error.fmt(f),
            Error::Hub { model, reason } => write!(f, "{model}: {reason}"),
            Error::Memory { what } => {
                write!(f, "not enough memory for {what}; use a shorter or smaller input")
            }
            Error::DeviceMemory { what, bytes, free, fits } => {
                let (asked, free) = (*bytes as f64 / 1e6, *free as f64 / 1e6);
                write!(
                    f,
                    "not enough memory on the GPU for {what}: {asked:.1} MB asked for, {free:.1} MB free; "
                )?;
                match fits {
                    Some(0) => {
                        write!(f, "not even a batch of one text fits: use a smaller model or shorter texts")
                    }
                    Some(texts) => write!(f, "a batch of {texts} would fit"),
                    None => write!(f, "use a smaller batch, shorter texts, bf16 or the processor"),
                }
            }
            Error::Device(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Error {}
