//! How vectors are made: the options of a dictionary as the library's.

use crate::whole::Whole;
use pyo3::prelude::*;
use roformer::pipeline::{Embed, Prompt};

/// What stands before a text, and what is done with its vector.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Vectors {
    pooling: Option<String>,
    normalize: bool,
    prompt_name: Option<String>,
    prompt: Option<String>,
    dimensions: Option<Whole>,
}

impl Vectors {
    /// The library's options.
    pub fn embed(&self) -> roformer::Result<Embed<'_>> {
        let prompt = match (&self.prompt, &self.prompt_name) {
            (Some(text), _) => Prompt::Text(text),
            (None, Some(name)) => Prompt::Named(name),
            (None, None) => Prompt::Usual,
        };
        let pooling = self.pooling.as_deref().map(str::parse).transpose()?;
        // One that is negative is refused in the library's words, as none is.
        let dimensions = self.dimensions.map(|dimensions| usize::try_from(dimensions.0).unwrap_or(0));
        Ok(Embed { pooling, normalize: self.normalize, prompt, dimensions })
    }
}
