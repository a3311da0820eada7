//! Models against the reference values in `golden/`.

mod case;
mod decoder;
mod encodings;
mod families;
mod network;
mod precision;
mod roformer;
mod t5;
mod training;
mod variants;
