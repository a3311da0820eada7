//! RoFormer as Hugging Face defines it: configuration, weights, forward pass, heads.

mod cache;
mod config;
mod heads;
mod layer;
mod parameters;
mod roformer;

pub use cache::Cache;
pub use config::RoFormerConfig;
pub use heads::{HeadKind, Logits};
pub use parameters::{Hashed, Parameters};
pub use roformer::{Encoded, Input, Output, RoFormer, check};
