//! What is shown if it is given: a configuration, a model, a comparison.

pub mod comparison;
pub mod model;

pub use comparison::Comparison;
pub use model::Model;

/// What the page can show beside its own figures.
#[derive(Default)]
pub struct Exhibits {
    /// A configuration that the page begins with: its name and its bytes.
    pub config: Option<(String, Vec<u8>)>,
    /// A model whose attention can be looked at.
    pub model: Option<Model>,
    /// A comparison of encodings.
    pub comparison: Option<Comparison>,
}
