//! RoFormer, the Transformer that rotary position embedding was invented for.
//!
//! Stands on [`rope`], which computes the rotation. So far this crate holds what the command line needs beyond it:
//! [`advice`] on stretching a model's context and [`bench`], the timings.

pub mod advice;
pub mod attention;
pub mod bands;
pub mod bench;
mod error;
pub mod model;
pub mod ops;
pub mod weights;

pub use error::{Error, Result};
pub use rope;
