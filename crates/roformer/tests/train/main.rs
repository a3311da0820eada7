//! Training from text to a folder: tasks and their data, determinism, resuming to the same bits, kills, hostile input.

mod common;
mod data;
mod encoded;
mod resume;
mod settings;
mod stretched;
mod tasks;
