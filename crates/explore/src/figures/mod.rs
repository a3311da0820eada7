//! What each part of the page shows, as plain data: a question with defaults in, numbers out.
//!
//! One file per part. Nothing here draws, and nothing here knows of a server; every number comes from `rope` and `roformer`.

pub mod biases;
pub(crate) mod check;
pub mod clocks;
pub mod codes;
pub mod complex;
pub mod decay;
pub mod extension;
pub mod inspect;
pub mod linear;
pub mod order;
pub mod pairing;
pub mod precision;
pub mod receptive;
pub mod sentence;
pub mod similarity;
pub mod terms;
pub mod tokens;
pub mod turning;
