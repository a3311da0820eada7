//! What a network is trained for, and its loss.

use super::block::{linear, norm, words};
use super::{Form, Network, RoFormerForm};
use crate::encoding::Sizes;
use crate::graph::{Builder, Init, Value};
use crate::ops::Real;

/// What a network is trained for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// A token at every place: the next one, or the one behind a mask. The batch's targets say which.
    #[default]
    Language,
    /// One of so many classes for the whole text: from its first token, or from its last where the form is Llama's or the
    /// network is causal.
    Text(usize),
    /// One of so many classes for every token.
    Token(usize),
    /// Vectors of texts whose cosine says how alike they are. Rows 2i and 2i + 1 of a batch are a pair. With the batch's
    /// `scores` the loss is the mean squared error of the cosines; without, a vector has to find its partner's among all
    /// others of the batch: cross-entropy over their cosines, times 20.
    Similarity,
}

impl Task {
    /// Whether there is one target a text, rather than one a token.
    pub fn is_of_texts(self) -> bool {
        matches!(self, Task::Text(_))
    }

    /// How many targets a batch has.
    pub fn targets(self, batch: usize, length: usize) -> usize {
        match self {
            Task::Language | Task::Token(_) => batch * length,
            Task::Text(_) => batch,
            Task::Similarity => 0,
        }
    }

    /// Its classes, where it has any and they are not the vocabulary.
    pub fn classes(self) -> Option<usize> {
        match self {
            Task::Language | Task::Similarity => None,
            Task::Text(classes) | Task::Token(classes) => Some(classes),
        }
    }
}

/// What stands at the end of a network.
pub(super) struct Head {
    /// `[batch · length, width]`: what the last layer gave.
    pub hidden: Value,
    /// The scores of a classifier.
    pub scores: Option<Value>,
    /// `[batch, width]`: vectors of texts.
    pub vectors: Option<Value>,
    pub loss: Value,
}

pub(super) fn head<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value, sizes: &Sizes) -> Head {
    let hidden = match network.form {
        Form::Llama(_) => norm(network, builder, x, "model.norm"),
        _ => x,
    };
    let (mut scores, mut vectors) = (None, None);
    let loss = match network.task {
        Task::Language => language(network, builder, hidden),
        Task::Text(classes) => {
            let scores = *scores.insert(text(network, builder, hidden, classes, sizes));
            builder.class_loss(scores)
        }
        Task::Token(classes) => {
            let hidden = builder.dropout(hidden, network.dropout);
            let name = if let Form::Llama(_) = network.form { "score" } else { "classifier" };
            let scores = *scores.insert(linear(builder, hidden, name, classes, true));
            builder.class_loss(scores)
        }
        Task::Similarity => {
            let vectors = *vectors.insert(vector(network, builder, hidden, sizes));
            builder.pair_loss(vectors)
        }
    };
    Head { hidden, scores, vectors, loss }
}

/// The loss over the vocabulary.
fn language<T: Real>(network: &Network, builder: &mut Builder<T>, hidden: Value) -> Value {
    let (vocabulary, width) = (network.vocabulary, network.embedding());
    let own = |builder: &mut Builder<T>, name: &str| {
        builder.parameters().add(name, &[vocabulary, width], Init::Normal(0.02))
    };
    let bias = |builder: &mut Builder<T>, name: &str| {
        builder.parameters().add(name, &[vocabulary], Init::Constant(0.0))
    };
    let tied = builder.parameters().find(words(network.form));
    match network.form {
        Form::RoFormer(form) => {
            let tied = tied.filter(|_| form.is_tied);
            let weight = |builder: &mut Builder<T>| {
                tied.unwrap_or_else(|| own(builder, "cls.predictions.decoder.weight"))
            };
            if form.has_plain_norms {
                let weight = weight(builder);
                return builder.vocabulary_loss(hidden, weight, None, vocabulary);
            }
            let dense = linear(builder, hidden, "cls.predictions.transform.dense", width, true);
            let dense = builder.activation(dense, form.activation);
            let x = norm(network, builder, dense, "cls.predictions.transform.LayerNorm");
            let name = if form.is_tied { "cls.predictions.bias" } else { "cls.predictions.decoder.bias" };
            let (bias, weight) = (bias(builder, name), weight(builder));
            builder.vocabulary_loss(x, weight, Some(bias), vocabulary)
        }
        Form::Plain => {
            let (weight, bias) = (own(builder, "out.weight"), bias(builder, "out.bias"));
            builder.vocabulary_loss(hidden, weight, Some(bias), vocabulary)
        }
        Form::Llama(form) => {
            let weight = tied.filter(|_| form.is_tied).unwrap_or_else(|| own(builder, "lm_head.weight"));
            builder.vocabulary_loss(hidden, weight, None, vocabulary)
        }
    }
}

/// The scores of texts, `[batch, classes]`.
fn text<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    hidden: Value,
    classes: usize,
    sizes: &Sizes,
) -> Value {
    match network.form {
        Form::RoFormer(form) => {
            let first = builder.every(hidden, 0, sizes.length);
            let first = builder.dropout(first, network.dropout);
            let dense = linear(builder, first, "classifier.dense", network.width, true);
            let dense = builder.activation(dense, form.activation);
            let dense = builder.dropout(dense, network.dropout);
            linear(builder, dense, "classifier.out_proj", classes, true)
        }
        // A causal text is read to its end before it is judged.
        Form::Plain if network.is_causal => {
            let last = builder.last_tokens(hidden, sizes.length);
            linear(builder, last, "classifier", classes, true)
        }
        Form::Plain => {
            let first = builder.every(hidden, 0, sizes.length);
            linear(builder, first, "classifier", classes, true)
        }
        Form::Llama(_) => {
            let last = builder.last_tokens(hidden, sizes.length);
            linear(builder, last, "score", classes, false)
        }
    }
}

/// The vectors of texts, of length 1, `[batch, width]`: by the pooler where there is one, or the mean of the real tokens.
fn vector<T: Real>(network: &Network, builder: &mut Builder<T>, hidden: Value, sizes: &Sizes) -> Value {
    let pooled = match network.form {
        Form::RoFormer(RoFormerForm { pooler: Some(activation), .. }) => {
            let first = builder.every(hidden, 0, sizes.length);
            let dense = linear(builder, first, "roformer.pooler.dense", network.width, true);
            builder.activation(dense, activation)
        }
        _ => builder.token_means(hidden, sizes.length),
    };
    builder.unit(pooled)
}
