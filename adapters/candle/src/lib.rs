#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod composed;
mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code, reason = "hands the addresses of candle's memory and streams to rope's kernels")]
mod cuda;
mod embedding;
mod functions;
mod op;
mod positions;

pub use embedding::{RotaryEmbedding, Rows};
pub use functions::{rope, rope_i, rope_i_inplace, rope_inplace, rope_thd, rope_thd_inplace};
pub use positions::Positions;
/// The library that computes: frequencies, tables, and what a `config.json` means.
pub use rope as rotary;

/// What rope refuses, as candle says it.
fn refused(error: rotary::Error) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

/// The order of a tensor's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// `[batch, heads, length, head_dim]`
    Bhld,
    /// `[batch, length, heads, head_dim]`
    Blhd,
}

impl Order {
    /// The axes of length and heads.
    fn axes(self) -> (usize, usize) {
        match self {
            Order::Bhld => (2, 1),
            Order::Blhd => (1, 2),
        }
    }
}
