//! RoFormer, the Transformer that rotary position embedding was invented for.
//!
//! A [`blueprint`] describes a Transformer; [`model::Model`] runs one and [`network::Network`] trains one. They stand on
//! [`rope`], which computes the rotation, on [`engine`], whose [`ops`], [`attention`] and [`graph`] know nothing of models, and
//! on [`weights`]. [`Pipeline`] takes text and gives answers; [`tokenizer`], [`sentence`] and [`hub`] are its other parts. [`advice`] is
//! about stretching a model's context, [`inspect`] about what a configuration does, and [`language`] about which language that is said in.

#![deny(unsafe_code)]

pub mod advice;
pub mod bands;
pub mod blueprint;
pub mod encoding;
mod error;
pub mod files;
pub mod hub;
pub mod inspect;
pub mod language;
pub mod model;
pub mod network;
pub mod pipeline;
pub mod sentence;
pub mod tokenizer;
pub mod train;
pub mod weights;

pub use engine;
pub use engine::{Device, attention, graph, ops};
pub use error::{Error, Result};
pub use pipeline::Pipeline;
pub use rope;
