#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod analysis;
#[cfg(feature = "hf")]
pub mod config;
#[cfg(feature = "cuda")]
pub mod cuda;
mod element;
mod error;
mod gradient;
mod instructions;
#[allow(unsafe_code, reason = "vector instructions, and views whose elements are proved apart")]
mod kernel;
mod pairing;
mod parity;
mod position;
pub mod reference;
mod rope;
mod rotate;
mod schedule;
mod table;
#[cfg(test)]
#[allow(unsafe_code, reason = "memory that ends at a guard page")]
mod tests;
mod trig;
mod wide;

#[cfg(feature = "hf")]
pub use config::{HfConfig, HfLayer, HfOptions, RopeSet};
pub use element::{Element, Precision};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use instructions::Instructions;
pub use kernel::view::{Shape, View, ViewMut};
pub use pairing::{HeadLayout, Pairing, permute_projection};
pub use position::{Ids, Positions, image_grid};
pub use rope::{Axes, Frequencies, Rope, RopeBuilder, XPos};
pub use rotate::{Rows, Turn};
pub use schedule::{AnglePrecision, Llama3, LongRope, Ramp, Schedule, Yarn};
pub use table::Table;
