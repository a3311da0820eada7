//! RoFormer as Hugging Face defines it: configuration, weights, forward pass, heads.

pub mod cache;
pub mod config;
pub mod heads;
pub mod layer;
pub mod parameters;
pub mod roformer;

pub use cache::Cache;
pub use config::RoFormerConfig;
pub use heads::HeadKind;
pub use parameters::{Hashed, Parameters};
pub use roformer::{Encoded, Input, Output, RoFormer};
