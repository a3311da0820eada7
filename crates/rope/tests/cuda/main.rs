//! The GPU against the CPU and against the f64 reference. Without a GPU every test says that it was skipped, and why.
//!
//! The executable needs no files. `small` as a filter runs what touches every kernel once on small shapes: what
//! compute-sanitizer is given.

mod bits;
mod common;
mod errors;
mod gradient;
mod large;
mod oracle;
mod positions;
#[path = "../common/random.rs"]
mod random;
mod small;
mod streams;
