//! What Transformers are computed with, and nothing of models: operations, attention and a graph for training, on CPUs and on
//! NVIDIA GPUs.
//!
//! [`ops`] holds what a device offers ([`ops::Backend`]) and the loops of both; [`attention`] softmax and linear attention
//! with the eleven ways for a position to enter; [`graph`] a training step as a list of operations, forward and backward.

#![deny(unsafe_code)]

pub mod attention;
mod device;
mod error;
pub mod graph;
pub mod ops;

pub use device::Device;
pub use error::{Error, Result};
