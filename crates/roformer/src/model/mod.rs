//! RoFormer as Hugging Face defines it, RoFormerV2 and RoFormer-Sim, and decoders of the Llama form: configuration, weights,
//! forward pass, heads.

mod any;
mod cache;
mod call;
pub(crate) mod config;
pub(crate) mod decoder;
mod heads;
mod layer;
pub(crate) mod parameters;
pub(crate) mod roformer;

pub use any::{Model, check_model};
pub use cache::Cache;
pub use call::{Call, Encoded, Input, Output};
pub use config::{Problem, RoFormerConfig};
pub use decoder::{Decoder, DecoderConfig};
pub use heads::{HeadKind, Logits, Scores};
pub use parameters::{Hashed, Parameters};
pub use roformer::{RoFormer, check};
