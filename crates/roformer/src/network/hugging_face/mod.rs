//! Checkpoints in the form that Hugging Face gave them, both ways: `config.json` and tensors to begin from, and what is
//! handed over at the end.
//!
//! ```text
//! read.rs    config.json → network
//! load.rs    tensors → parameters
//! write.rs   network → config.json; parameters → tensors
//! rope.rs    the rotary embedding in a config.json, both ways
//! ```

mod load;
mod read;
mod rope;
mod write;

pub use load::Loaded;
pub use write::Tensor;
