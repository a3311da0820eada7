//! Rotary position embedding to look at.
//!
//! [`figures`] computes what is shown, with the code that models run on; [`server`] serves it to one page in the browser, on
//! this machine alone; [`export`] writes the page to a folder; [`plot`] writes figures to files.

#![forbid(unsafe_code)]

pub mod error;
pub mod exhibits;
pub mod export;
pub mod figures;
pub mod plot;
pub mod server;

pub use error::{Error, Result};
