//! The Llama form of decoder: norms of the mean square before each block, rotation in halves, heads that share keys and
//! values, a gated feed-forward block. Llama, Mistral, Qwen2, Qwen3 and MiniMind.

mod config;
mod layer;
mod model;
pub(crate) mod names;

pub use config::DecoderConfig;
pub use model::Decoder;
