//! The error type of this crate.

use std::fmt;

/// What could not be computed: the value that was wrong and what was expected, or what there was no room for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An argument that an operation cannot work with.
    Input {
        /// What of it.
        name: &'static str,
        /// What was passed.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A rotary embedding that cannot be computed.
    Rope(rope::Error),
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

/// What memory is for where nobody says.
pub(crate) const WORK: &str = "the work";

impl Error {
    pub(crate) fn input(name: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Error::Input { name, value: value.to_string(), expected: expected.into() }
    }

    /// Says what memory that was not there was for; other errors stay as they are.
    pub fn for_want_of(self, what: &'static str) -> Self {
        match self {
            Error::Memory { .. } => Error::Memory { what },
            Error::DeviceMemory { bytes, free, fits, .. } => Error::DeviceMemory { what, bytes, free, fits },
            error => error,
        }
    }

    /// Whether the machine is at fault and nothing that was passed is.
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            Error::Memory { .. } | Error::DeviceMemory { .. } | Error::Device(_) => true,
            #[cfg(feature = "cuda")]
            Error::Rope(rope::Error::Gpu(_)) => true,
            Error::Rope(_) | Error::Input { .. } => false,
        }
    }
}

impl From<rope::Error> for Error {
    fn from(error: rope::Error) -> Self {
        match error {
            #[cfg(feature = "cuda")]
            rope::Error::Gpu(gpu::Error::Memory { bytes, free }) => {
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input { name, value, expected } => write!(f, "{name} is {value}; expected {expected}"),
            Error::Rope(error) => error.fmt(f),
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
                    None => write!(f, "use a smaller batch, shorter texts, bf16 or the CPU"),
                }
            }
            Error::Device(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Displayed as its own text already: what is behind it comes next.
            Error::Rope(error) => error.source(),
            _ => None,
        }
    }
}
