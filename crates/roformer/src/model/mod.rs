//! RoFormer as Hugging Face defines it, RoFormerV2 and RoFormer-Sim: configuration, weights, forward pass, heads.

mod cache;
mod config;
mod heads;
mod layer;
mod parameters;
mod roformer;

pub use cache::Cache;
pub use config::{Problem, RoFormerConfig};
pub use heads::{HeadKind, Logits, Scores};
pub use parameters::{Hashed, Parameters};
pub use roformer::{Call, Encoded, Input, Output, RoFormer, check};
