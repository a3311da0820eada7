//! Weights files: what is read from each kind, and that nothing a file can contain does harm.
//!
//! The files are made here, byte by byte, so that each test shows what it changes in them. Those in `golden/roformer` were
//! written by transformers itself, those in `golden/tensorflow` by TensorFlow.

mod bundle;
mod files;
#[path = "../common/folder.rs"]
mod folder;
mod lying;
mod read;
mod refused;
mod tensorflow;
