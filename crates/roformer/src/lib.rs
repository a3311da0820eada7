//! RoFormer, the Transformer that rotary position embedding was invented for.
//!
//! A [`blueprint`] describes a Transformer; [`model::Model`] runs one and [`network::Network`] trains one. They stand on
//! [`rope`], which computes the rotation, and on [`ops`], [`attention`] and [`weights`], which know nothing of models.
//! [`Pipeline`] takes text and gives answers; [`tokenizer`] and [`hub`] are its other parts. [`advice`] is about stretching a
//! model's context, [`inspect`] about what a configuration does, [`mod@bench`] about time.

#![deny(unsafe_code)]

pub mod advice;
pub mod attention;
pub mod bands;
pub mod bench;
pub mod blueprint;
pub mod chart;
mod device;
pub mod encoding;
mod error;
pub mod files;
pub mod graph;
pub mod hub;
pub mod inspect;
pub mod lab;
pub mod model;
pub mod network;
pub mod ops;
pub mod pipeline;
pub mod tokenizer;
pub mod train;
pub mod weights;

pub use device::Device;
pub use error::{Error, Result};
pub use pipeline::Pipeline;
pub use rope;
