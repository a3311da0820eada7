//! Transformers to be trained: a [`Blueprint`] laid out as a graph, with a task and its loss.
//!
//! [`Network::build`] lays a network out as a [`Graph`] for one shape of batch. Tensors have the names that the blueprint's
//! family gives them, so that checkpoints go both ways; those of an encoding begin with `position.`.
//!
//! [`Network::open`] takes a checkpoint to begin from, [`Network::load`] its tensors; [`Network::to_config`] and
//! [`Network::tensors`] are what is handed over at the end.
//!
//! ```text
//! block.rs         embeddings and layers
//! attention.rs     softmax or linear attention, with what the encoding brings
//! head.rs          tasks and their losses
//! needs.rs         how much memory one takes
//! check.rs         sizes that can be, batches that fit
//! open.rs          config.json → network, tensors → parameters
//! hand_over.rs     network → config.json, parameters → tensors
//! ```

mod attention;
mod block;
mod check;
mod hand_over;
mod head;
mod needs;
mod open;

pub use crate::blueprint::{Blueprint, LinearForm, Mixing};
pub use hand_over::Tensor;
pub use head::Task;
pub use needs::Needs;
pub use open::Loaded;

use crate::encoding::Sizes;
use crate::error::Result;
use crate::graph::{Builder, Graph, Value};
use crate::ops::Real;

/// A Transformer to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What it is. Its head is the task's, whatever it says.
    pub blueprint: Blueprint,
    /// What it is trained for.
    pub task: Task,
    /// The chance that a number is dropped, in training.
    pub dropout: f64,
}

/// A network laid out for batches of one shape.
pub struct Laid<T: Real> {
    /// The operations and their memory.
    pub graph: Graph<T>,
    /// `[batch · length, width]`: what the last layer gives; of a decoder with an encoder, the decoder's.
    pub hidden: Value,
    /// The scores of a classifier, `[batch, classes]`, or `[batch · length, classes]` of one of tokens; those of a language
    /// model are never held.
    pub scores: Option<Value>,
    /// `[batch, width]`: vectors of texts, of length 1, where they are what is trained.
    pub vectors: Option<Value>,
    outline: Outline,
}

/// What a network laid out for batches of one shape is, without the numbers.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The network.
    pub network: Network,
    /// As in [`Laid`].
    pub hidden: Value,
    /// As in [`Laid`].
    pub scores: Option<Value>,
    /// As in [`Laid`].
    pub vectors: Option<Value>,
    sizes: Sizes,
}

impl Network {
    /// The same network with another blueprint: `change` is given its own.
    pub fn with(&self, change: impl FnOnce(&mut Blueprint)) -> Network {
        let mut network = self.clone();
        change(&mut network.blueprint);
        network
    }

    /// Lays the network out for batches `[batch, length]`, with learned tables for texts of `longest` tokens. The graph's
    /// loss is the mean over the targets that count. Parameters are zero until they are set.
    pub fn build<T: Real>(&self, batch: usize, length: usize, longest: usize) -> Result<Laid<T>> {
        self.check_memory(batch, length, longest)?;
        let (builder, outline) = self.compose::<T>(batch, length, longest)?;
        let Outline { hidden, scores, vectors, .. } = outline;
        Ok(Laid { graph: builder.build()?, hidden, scores, vectors, outline })
    }

    /// The operations of the same, which have no memory yet. [`check_memory`](Self::check_memory) comes first.
    pub(crate) fn compose<T: Real>(
        &self,
        batch: usize,
        length: usize,
        longest: usize,
    ) -> Result<(Builder<T>, Outline)> {
        let sizes = self.check(batch, length, longest)?;
        let encode = self.blueprint.encoding.as_encode::<T>();
        // What turns may be features, of which there are more or fewer than a head has.
        match self.blueprint.mixing {
            Mixing::Softmax => encode.check(&sizes)?,
            Mixing::Linear(form) => encode.check(&sizes.rotated(form))?,
        }
        let mut builder = Builder::<T>::default();
        let encoded = match &self.blueprint.encoder {
            Some(encoder) => {
                let sizes = Blueprint { longest, ..*encoder.clone() }.sizes(batch, length);
                let encoder = Network { blueprint: *encoder.clone(), ..self.clone() };
                let x = builder.of_source(|builder| encoder.layers(builder, None, &sizes))?;
                let x = head::last_norm(&encoder.blueprint, &mut builder, x);
                encoder.settle(&mut builder);
                Some(builder.dropout(x, self.dropout))
            }
            None => None,
        };
        let x = self.layers(&mut builder, encoded, &sizes)?;
        let head::Head { hidden, scores, vectors, loss } = head::head(self, &mut builder, x, &sizes);
        builder.minimise(loss);
        self.settle(&mut builder);
        Ok((builder, Outline { network: self.clone(), hidden, scores, vectors, sizes }))
    }

    /// Embeddings and layers, `[batch · length, width]`; the layers attend to what an encoder gave, too, where there is one.
    fn layers<T: Real>(
        &self,
        builder: &mut Builder<T>,
        encoded: Option<Value>,
        sizes: &Sizes,
    ) -> Result<Value> {
        let mut x = block::embed(&self.blueprint, builder, sizes);
        x = builder.dropout(x, self.dropout);
        let embedded = x;
        for layer in 0..self.blueprint.layers {
            x = block::layer(self, builder, (x, encoded), layer, sizes)?;
            if layer == 0 {
                x = block::convolve(self, builder, x, embedded, sizes);
            }
        }
        Ok(x)
    }

    /// Gives the parameters of the encoding their names in files.
    fn settle<T: Real>(&self, builder: &mut Builder<T>) {
        let parameters = builder.parameters();
        let names: Vec<String> = parameters.entries().iter().map(|entry| entry.name.clone()).collect();
        for name in names.iter().filter(|name| name.starts_with("position.")) {
            parameters.rename(name, &self.blueprint.of_encoding(name));
        }
    }

    /// Positions that tokens can stand at.
    fn positions(&self, sizes: &Sizes) -> usize {
        self.blueprint.encoding.range().map_or(sizes.longest, |range| range.max(sizes.longest))
    }
}

impl<T: Real> Laid<T> {
    /// How many numbers are trained: in all, and for the position encoding alone.
    pub fn parameter_counts(&self) -> (usize, usize) {
        let entries = self.graph.layout().entries().iter();
        let own = entries.filter(|entry| entry.name.starts_with("position.")).map(|entry| entry.range.len());
        (self.graph.layout().len(), own.sum())
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.outline.network
    }

    /// All but the numbers.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }
}
