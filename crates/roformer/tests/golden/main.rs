//! Models against the reference values in `golden/`.

mod case;
mod decoder;
mod network;
mod roformer;
mod training;
mod variants;
