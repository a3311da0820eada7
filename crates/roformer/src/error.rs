//! The error type of this crate.

use crate::files::no_room;
use std::path::PathBuf;
use std::{fmt, io};

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
    /// A file or folder that the system did not read or write.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// A file that cannot be used for what it holds.
    File {
        /// The file.
        path: PathBuf,
        /// Why, and what was expected.
        reason: String,
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
    /// A model that is not a folder, and that neither the cache nor the hub provides.
    Hub {
        /// The model, as it was named.
        model: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Processes that train together, and one of which is lost, missing or another's.
    Team {
        /// Which, why, and what to do.
        reason: String,
    },
    /// What could not be computed, and memory or a GPU that was not available.
    Engine(engine::Error),
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An input that does not fit.
    pub fn input(name: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Self {
        Error::Input { name, value: value.to_string(), expected: expected.into() }
    }

    /// Not enough memory for something.
    pub fn memory(what: &'static str) -> Self {
        Error::Engine(engine::Error::Memory { what })
    }

    /// Says what memory that was not there was for; other errors stay as they are.
    pub(crate) fn for_want_of(what: &'static str) -> impl Fn(engine::Error) -> Error {
        move |error| Error::Engine(error.for_want_of(what))
    }

    /// Whether all that was given may be right, and the machine or its disk is too small for it, or its GPU at fault, or another
    /// machine.
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            Error::Io { source, .. } | Error::Weights(crate::weights::Error::Io { source, .. }) => {
                no_room(source.kind()).is_some()
            }
            Error::Engine(error) => error.is_of_the_machine(),
            Error::Team { .. } => true,
            _ => false,
        }
    }
}

impl From<rope::Error> for Error {
    fn from(error: rope::Error) -> Self {
        match engine::Error::from(error) {
            // A GPU's failure is nothing of the embedding that was asked for.
            error if error.is_of_the_machine() => Error::Engine(error),
            engine::Error::Rope(error) => Error::Rope(error),
            error => Error::Engine(error),
        }
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        Error::Engine(error)
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
            Error::Io { path, source } => match no_room(source.kind()) {
                Some(reason) => write!(f, "{}: {reason}", path.display()),
                None => write!(f, "{}: {source}", path.display()),
            },
            Error::File { path, reason } => write!(f, "{}: {reason}", path.display()),
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
            Error::Team { reason } => write!(f, "{reason}"),
            Error::Hub { model, reason } => write!(f, "{model}: {reason}"),
            Error::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    /// The system's error behind a file's. Errors of other modules are shown in their own words, so what is behind them
    /// comes next.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Weights(error) => error.source(),
            Error::Rope(error) => error.source(),
            Error::Engine(error) => error.source(),
            _ => None,
        }
    }
}
