//! What can go wrong with a weights file. Every message names the file, what was found, what was expected and what to do.

use super::Dtype;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong while weights were read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to open, read or write a file.
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done, as a verb: `open`.
        doing: &'static str,
        /// The system's own error.
        source: io::Error,
    },
    /// A folder that holds none of the files weights are kept in.
    NoWeights {
        /// The folder.
        folder: PathBuf,
        /// The names that were looked for.
        looked_for: String,
    },
    /// A file that is damaged, cut short, contradicts itself, or is of a kind not read here.
    Format {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was expected, and what to do.
        expected: String,
    },
    /// A pickle that asks for something other than tensors. Nothing of it was run.
    Forbidden {
        /// The file.
        path: PathBuf,
        /// What it asks for, as Python names it: `posix.system`.
        global: String,
    },
    /// A tensor that the weights do not have.
    Missing {
        /// The file or folder that was opened.
        path: PathBuf,
        /// The tensor asked for.
        tensor: String,
        /// What is there instead.
        instead: String,
    },
    /// A tensor of another shape than the model has.
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape in the file.
        found: Vec<usize>,
        /// The shape asked for.
        expected: Vec<usize>,
    },
    /// A tensor whose numbers are not floating point.
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type in the file.
        found: Dtype,
    },
    /// A slice whose length is not that of the shape that goes with it.
    Length {
        /// The tensor.
        tensor: String,
        /// The length of the slice.
        found: usize,
        /// The shape it goes with.
        shape: Vec<usize>,
    },
    /// A name that cannot be written.
    Name {
        /// The name.
        tensor: String,
        /// Why not.
        reason: &'static str,
    },
}

/// `Result` with this module's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Error::Io { path: path.to_owned(), doing, source }
    }

    pub(super) fn format(path: &Path, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Error::Format { path: path.to_owned(), found: found.into(), expected: expected.into() }
    }
}

/// Text from a file as a message shows it: no control characters, no megabytes.
pub fn brief(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, doing, source } => match crate::files::no_room(source.kind()) {
                Some(reason) => write!(f, "{}: {reason}", path.display()),
                None => {
                    let path = path.display();
                    write!(f, "cannot {doing} {path}: {source}; check the path and its permissions")
                }
            },
            Error::NoWeights { folder, looked_for } => write!(
                f,
                "no weights in {}: looked for {looked_for}; pass the folder that holds one of them, or the file",
                folder.display()
            ),
            Error::Format { path, found, expected } => {
                write!(f, "{}: {found}; expected {expected}", path.display())
            }
            Error::Forbidden { path, global } => write!(
                f,
                "{}: this file wants to call {global}; nothing was run, because only tensors are read; if you trust \
                 the file, load it in Python and save its state_dict() as safetensors",
                path.display()
            ),
            Error::Missing { path, tensor, instead } => {
                write!(f, "{}: no tensor `{}`; {instead}", path.display(), brief(tensor))
            }
            Error::Shape { path, tensor, found, expected } => write!(
                f,
                "{}: `{}` has shape {found:?}; expected {expected:?}; check that the weights belong to this \
                 configuration",
                path.display(),
                brief(tensor)
            ),
            Error::Type { path, tensor, found } => write!(
                f,
                "{}: `{}` holds {found}; expected F32, F16, BF16 or F64; save it as floating point",
                path.display(),
                brief(tensor)
            ),
            Error::Length { tensor, found, shape } => write!(
                f,
                "the slice for `{}` has {found} elements; expected as many as its shape {shape:?} has",
                brief(tensor)
            ),
            Error::Name { tensor, reason } => {
                write!(
                    f,
                    "`{}` cannot be written: {reason}; give each tensor a name of its own",
                    brief(tensor)
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
