//! A model on one device.

use roformer::ops::Backend;
use roformer::pipeline::{Completion, Generate, Pending, Reader};
use roformer::{Pipeline, Result};
use std::any::Any;
use std::ops::ControlFlow;

/// An answer of any task.
pub type Answer = Box<dyn Any + Send>;

/// A model on one device, whichever that is. Models that are the same may stand behind one queue on several.
pub trait Replica: Send + Sync {
    /// What reads texts for it.
    fn reader(&self) -> Reader<'_>;

    /// Whether texts of several lengths run together without padding.
    fn packs_texts(&self) -> bool {
        false
    }

    /// The most tokens of a batch.
    fn batch_tokens(&self) -> usize;

    /// Answers for texts that have been read.
    fn run(&self, texts: Vec<Pending<Answer>>) -> Vec<Result<Answer>>;

    /// What the model writes behind a text.
    fn complete(
        &self,
        text: &str,
        options: &Generate,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Completion>;
}

impl<B: Backend> Replica for Pipeline<B> {
    fn reader(&self) -> Reader<'_> {
        Pipeline::reader(self)
    }

    fn packs_texts(&self) -> bool {
        Pipeline::packs_texts(self)
    }

    fn batch_tokens(&self) -> usize {
        self.tokens_at_a_time()
    }

    fn run(&self, texts: Vec<Pending<Answer>>) -> Vec<Result<Answer>> {
        self.run_all(texts.into_iter().map(Ok).collect())
    }

    fn complete(
        &self,
        text: &str,
        options: &Generate,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Completion> {
        Pipeline::complete(self, text, options, on_text)
    }
}
