//! Models against the reference values in `golden/`.

mod case;
mod roformer;
mod variants;
