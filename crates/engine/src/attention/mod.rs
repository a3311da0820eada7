//! Attention over queries, keys and values that already carry their rotations.
//!
//! [`softmax`] is what inference runs; [`Attention`] is what training runs, with the position terms that act on scores and
//! values, forward and backward; [`linear`] never compares queries with keys one by one.

#[allow(unsafe_code, reason = "threads write apart")]
mod backward;
mod band;
mod counted;
mod dropout;
mod forward;
pub mod kept;
pub mod linear;
mod mask;
mod merge;
#[allow(unsafe_code, reason = "vector instructions, and threads that write apart")]
mod panels;
mod path;
#[allow(unsafe_code, reason = "vector instructions")]
mod rows;
#[allow(unsafe_code, reason = "vector instructions, and threads that write apart")]
pub mod softmax;
#[allow(unsafe_code, reason = "threads write apart")]
mod sums;
pub mod terms;
#[cfg(test)]
mod tests;
mod tile;

pub use dropout::Dropout;
pub(crate) use merge::merge;
pub use path::{Path, PathGradients};
pub use terms::{Attention, Bias, Gradients, Pairs, Place, Segments, Table, TermGradients, Terms};
pub use tile::Workspace;
