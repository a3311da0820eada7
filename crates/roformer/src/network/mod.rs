//! Transformers to be trained: with any position encoding, softmax or linear attention, in the three forms that matter.
//!
//! [`Network::build`] lays a network out as a [`Graph`] for one shape of batch. The forms are RoFormer's (norms after each
//! part, GELU, biases), Llama's (RMS norms before each part, gated, grouped heads, no biases), and PyTorch's plain encoder
//! (norms before each part, GELU, biases) that comparisons use. Tensors have the names that transformers and PyTorch give
//! them, so that checkpoints go both ways; those of an encoding begin with `position.`.

mod attention;
mod block;
mod head;

pub use attention::{LinearForm, Mixing};
pub use head::Task;

use crate::encoding::{Encoding, Sizes};
use crate::error::{Error, Result};
use crate::graph::{Batch, Builder, Graph, IGNORE, Value};
use crate::ops::memory::is_available;
use crate::ops::{Activation, Real};

/// How the parts of a network are put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// RoFormer: norms after each sum, biases, segments.
    RoFormer {
        /// Segments.
        types: usize,
        /// The activation between the products of a feed-forward block.
        activation: Activation,
    },
    /// PyTorch's `TransformerEncoder` with norms first, GELU and biases; output not tied; no norm at the end.
    Plain,
    /// Llama: RMS norms first, SwiGLU, a norm at the end.
    Llama {
        /// Whether queries, keys and values have biases, as in Qwen2.
        has_bias: bool,
        /// Whether the output shares the word embeddings.
        is_tied: bool,
    },
}

/// A Transformer to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// How it is put together.
    pub form: Form,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Width.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values: a divisor of the heads.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Width between the two products of a feed-forward block.
    pub wide: usize,
    /// ε of the norms.
    pub epsilon: f64,
    /// Whether a token sees only what came before.
    pub is_causal: bool,
    /// The position encoding.
    pub encoding: Encoding,
    /// How tokens look at each other.
    pub mixing: Mixing,
    /// The chance that a number is dropped, in training.
    pub dropout: f64,
    /// What it is trained for.
    pub task: Task,
}

/// A network laid out for batches of one shape.
pub struct Laid<T: Real> {
    /// The operations and their memory.
    pub graph: Graph<T>,
    /// `[batch · length, width]`: what the last layer gives.
    pub hidden: Value,
    /// The scores of a classifier, `[batch, classes]`; those of a language model are never held.
    pub scores: Option<Value>,
    network: Network,
    sizes: Sizes,
}

impl Network {
    /// Lays the network out for batches `[batch, length]`, with learned tables for texts of `longest` tokens. The graph's
    /// loss is the mean over the targets that count. Parameters are zero until they are set.
    pub fn build<T: Real>(&self, batch: usize, length: usize, longest: usize) -> Result<Laid<T>> {
        let sizes = self.check(batch, length, longest)?;
        let encode = self.encoding.as_encode::<T>();
        // What turns may be features, of which there are more or fewer than a head has.
        match self.mixing {
            Mixing::Softmax => encode.check(&sizes)?,
            Mixing::Linear(form) => encode.check(&form.sizes(&sizes))?,
        }
        let mut builder = Builder::<T>::default();
        let embedded = block::embed(self, &mut builder, &sizes);
        let mut x = encode.embed(&mut builder, embedded, &sizes);
        x = builder.dropout(x, self.dropout);
        for layer in 0..self.layers {
            x = block::layer(self, &mut builder, x, layer, &sizes)?;
        }
        let (hidden, scores, loss) = head::head(self, &mut builder, x, &sizes);
        builder.minimise(loss);
        Ok(Laid { graph: builder.build()?, hidden, scores, network: self.clone(), sizes })
    }

    /// About how many numbers its parameters and the values of a step are: asked about before any of them is made.
    fn numbers(&self, batch: usize, length: usize, longest: usize) -> u128 {
        let [batch, length, longest, vocabulary, width, wide, layers] =
            [batch, length, longest, self.vocabulary, self.width, self.wide, self.layers]
                .map(|size| size as u128);
        let heads = (self.heads * self.head_dim) as u128;
        let parameters = 2 * vocabulary * width + layers * width * (4 * heads + 3 * wide);
        let values = batch * length * (6 * width + layers * (8 * width + 5 * heads + 2 * wide));
        parameters + values + longest * width + length * heads
    }

    fn check(&self, batch: usize, length: usize, longest: usize) -> Result<Sizes> {
        const LIMIT: usize = 1 << 24;
        for (name, size) in [
            ("the batch", batch),
            ("the length", length),
            ("the longest text", longest),
            ("the vocabulary", self.vocabulary),
            ("the width", self.width),
            ("the number of heads", self.heads),
            ("the number of key heads", self.key_heads),
            ("the width of a head", self.head_dim),
            ("the inner width", self.wide),
            ("the number of classes", self.task.classes().unwrap_or(1)),
            ("the number of segments", self.segments()),
        ] {
            if size == 0 || size > LIMIT {
                return Err(Error::input(name, size, format!("from 1 to {LIMIT}")));
            }
        }
        if !is_available(self.numbers(batch, length, longest) * 2 * size_of::<f32>() as u128) {
            return Err(Error::Memory { what: "the network" });
        }
        if length > longest {
            return Err(Error::input("the length", length, format!("at most the longest text, {longest}")));
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            let expected = format!("a divisor of the number of heads, {}", self.heads);
            return Err(Error::input("the number of key heads", self.key_heads, expected));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::input("dropout", self.dropout, "at least 0 and less than 1"));
        }
        if let Mixing::Linear(form) = self.mixing {
            self.encoding.check_linear()?;
            self.check_features(form)?;
            if self.key_heads != self.heads {
                return Err(Error::input(
                    "the number of key heads",
                    self.key_heads,
                    "all: linear attention groups none",
                ));
            }
        }
        Ok(Sizes {
            batch,
            length,
            longest,
            width: self.width,
            heads: self.heads,
            head_dim: self.head_dim,
            is_causal: self.is_causal,
        })
    }
}

impl<T: Real> Laid<T> {
    /// What the next step works on, checked.
    pub fn set(&mut self, batch: Batch) -> Result<()> {
        let (network, sizes) = (&self.network, &self.sizes);
        let tokens = sizes.batch * sizes.length;
        let places = if network.task.is_of_texts() { sizes.batch } else { tokens };
        for (name, len, wanted, may_lack) in [
            ("the number of ids", batch.ids.len(), tokens, false),
            ("the number of segments", batch.types.len(), tokens, true),
            ("the number of targets", batch.targets.len(), places, false),
            ("the length of the mask", batch.mask.len(), tokens, true),
            ("the number of positions", batch.positions.len(), sizes.length, true),
        ] {
            if len != wanted && !(may_lack && len == 0) {
                return Err(Error::input(name, len, wanted.to_string()));
            }
        }
        if !batch.positions.is_empty() && network.encoding.is_by_places() {
            let value = format!("given for {}", network.encoding.name());
            let expected = "none: its tables are by the places of tokens in the text";
            return Err(Error::input("the positions", value, expected));
        }
        for (name, list, limit) in [
            ("a token id", &batch.ids, network.vocabulary),
            ("a segment", &batch.types, network.segments()),
            ("a target", &batch.targets, network.task.classes().unwrap_or(network.vocabulary)),
            ("a position", &batch.positions, network.positions(sizes)),
        ] {
            let is_allowed =
                |value: &&u32| (**value as usize) < limit || name == "a target" && **value == IGNORE;
            if let Some(value) = list.iter().find(|value| !is_allowed(value)) {
                return Err(Error::input(name, value, format!("less than {limit}")));
            }
        }
        *self.graph.batch() = batch;
        Ok(())
    }

    /// How many numbers are trained: in all, and for the position encoding alone.
    pub fn parameter_counts(&self) -> (usize, usize) {
        let entries = self.graph.layout().entries().iter();
        let own = entries.filter(|entry| entry.name.starts_with("position.")).map(|entry| entry.range.len());
        (self.graph.layout().len(), own.sum())
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }
}

impl Network {
    /// Segments that there are; one where the form knows of none.
    fn segments(&self) -> usize {
        match self.form {
            Form::RoFormer { types, .. } => types,
            _ => 1,
        }
    }

    /// Checks that queries and keys have as many features, and that values can turn with them.
    fn check_features(&self, form: LinearForm) -> Result<()> {
        let [queries, keys] = [form.queries, form.keys].map(|map| map.features(self.head_dim));
        if queries != keys {
            return Err(Error::input(
                "the number of features of keys",
                keys,
                format!("that of queries, {queries}"),
            ));
        }
        if self.encoding.turns_values() && !form.rotates_before && queries != self.head_dim {
            let expected = format!("the width of a head, {}: values turn with them", self.head_dim);
            return Err(Error::input("the number of features", queries, expected));
        }
        Ok(())
    }

    /// Positions that tokens can stand at.
    fn positions(&self, sizes: &Sizes) -> usize {
        match &self.encoding {
            Encoding::Randomised(randomised) => randomised.range,
            _ => sizes.longest,
        }
    }
}
