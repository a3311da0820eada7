//! The laboratory: position encodings compared.

pub mod report;
pub mod results;
