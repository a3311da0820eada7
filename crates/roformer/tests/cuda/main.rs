//! The GPU against the CPU: every operation over odd sizes, whole models, and pipelines. Without a GPU every test says
//! that it was skipped, and why.
//!
//! The executable needs no files. `small` as a filter runs what touches every kernel once on small shapes: what
//! compute-sanitizer is given.

mod attention;
mod common;
mod errors;
mod models;
mod operations;
mod pipeline;
mod run;
mod training;
#[path = "../common/words.rs"]
mod words;
