//! The error type of this crate: why a figure cannot be had.

use roformer::language::Language;
use std::fmt;

/// What was asked for and cannot be shown, with the value and what is accepted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What cannot be done, in English: what only commands say.
    Value(String),
    /// What a reader of the page may be told, in both languages.
    Refused {
        /// In English.
        english: String,
        /// In Chinese.
        chinese: String,
    },
    /// A rotary embedding that cannot be made.
    Rope(rope::Error),
    /// A model or a comparison that cannot be shown.
    Model(roformer::Error),
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What only commands say.
    pub fn new(message: impl Into<String>) -> Self {
        Error::Value(message.into())
    }

    /// What the page may have to say.
    pub fn refused(english: impl Into<String>, chinese: impl Into<String>) -> Self {
        Error::Refused { english: english.into(), chinese: chinese.into() }
    }

    /// The message in a language. What a library below says is said in its own words, with Chinese ones around them.
    pub fn said(&self, language: Language) -> String {
        match (language, self) {
            (Language::Chinese, Error::Refused { chinese, .. }) => chinese.clone(),
            (Language::Chinese, Error::Rope(error)) => match error {
                rope::Error::Json(reason) => format!("不是 config.json：{reason}"),
                rope::Error::Field { field, value, expected } => {
                    format!("`{field}` 是 {value}；应为 {expected}")
                }
                rope::Error::UnknownKey { field, known, .. } => {
                    format!("`{field}` 不是任何规则会读的键（这里会读的有 {known}）")
                }
                rope::Error::Argument { name, value, expected } => {
                    format!("{name} 是 {value}；应为 {expected}")
                }
                rope::Error::Memory { bytes } => format!("内存放不下 {bytes} 字节的数表；请减少位置"),
                error => format!("无法计算：{error}"),
            },
            (Language::Chinese, Error::Model(error)) => format!("无法显示：{error}"),
            (_, error) => error.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Value(message) | Error::Refused { english: message, .. } => f.write_str(message),
            Error::Rope(error) => error.fmt(f),
            Error::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Value(_) | Error::Refused { .. } => None,
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
