#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_code)]
#![cfg_attr(
    not(any(feature = "flex", feature = "ndarray")),
    allow(
        unused,
        reason = "without a CPU backend there is one way for a tensor, and nothing to choose between"
    )
)]

mod composed;
mod config;
mod cpu;
mod embedding;
mod encoding;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "ndarray")]
mod ndarray;
mod positions;
mod rows;
mod tables;
#[cfg(all(feature = "autodiff", any(feature = "flex", feature = "ndarray")))]
mod tracked;
mod turning;

pub use config::RotaryEmbeddingConfig;
pub use embedding::RotaryEmbedding;
pub use encoding::{RotaryEncoding, RotaryEncodingConfig};
pub use positions::Positions;
/// The library that computes: frequencies, tables, and what a `config.json` means.
pub use rope as rotary;
pub use rotary::Error;
use rotary::Result;
pub use rows::Rows;

/// What is refused about a tensor.
fn refused(got: impl std::fmt::Debug, expected: impl Into<String>) -> Error {
    Error::Shape { what: "rope", got: format!("a tensor of {got:?}"), expected: expected.into() }
}
