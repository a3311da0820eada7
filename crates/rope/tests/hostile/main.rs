//! Hostile arguments to every public function besides those that read a config.json (for these: `hostile_config.rs`).
//!
//! Whatever is passed, the answer is a value that can be used or an error that names what was wrong. Nothing panics,
//! hangs, takes memory without end or stays half done.

mod builder;
mod common;
mod positions;
mod rotation;
mod tables;
mod views;
mod weights_and_images;
