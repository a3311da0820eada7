//! What the commands that make vectors share: prompts, and how much of a vector is kept.

use clap::Args;
use roformer::pipeline::{Embed, Prompt};

/// What stands before a text, and how much of its vector is kept.
#[derive(Args)]
pub struct VectorOptions {
    /// Put the prompt of this name before texts: one of those in the model's config_sentence_transformers.json
    #[arg(long, value_name = "NAME", conflicts_with = "prompt")]
    prompt_name: Option<String>,
    /// Put this prompt before texts; '' for none [default: what the model's folder says]
    #[arg(long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Keep the first N numbers of a vector [default: what the model's folder says, else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    dimensions: Option<u32>,
}

impl VectorOptions {
    /// The library's options.
    pub fn embed(&self) -> Embed<'_> {
        let prompt = match (&self.prompt, &self.prompt_name) {
            (Some(text), _) => Prompt::Text(text),
            (None, Some(name)) => Prompt::Named(name),
            (None, None) => Prompt::Usual,
        };
        Embed {
            prompt,
            dimensions: self.dimensions.map(|dimensions| dimensions as usize),
            ..Embed::default()
        }
    }
}
