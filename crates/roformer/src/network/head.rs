//! What a network is trained for, and its loss.

use super::block::{linear, norm, words};
use super::{Form, Network};
use crate::encoding::Sizes;
use crate::graph::{Builder, Init, Value};
use crate::ops::Real;

/// What a network is trained for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// A token at every place: the next one, or the one behind a mask. The batch's targets say which.
    #[default]
    Language,
    /// One of so many classes for the whole text, from its first token.
    Text(usize),
    /// One of so many classes for every token.
    Token(usize),
}

impl Task {
    /// Whether there is one target a text, rather than one a token.
    pub fn is_of_texts(self) -> bool {
        matches!(self, Task::Text(_))
    }

    /// Its classes, where they are not the vocabulary.
    pub fn classes(self) -> Option<usize> {
        match self {
            Task::Language => None,
            Task::Text(classes) | Task::Token(classes) => Some(classes),
        }
    }
}

/// What the last layer gave, the scores of a classifier, and the loss.
pub(super) fn head<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    x: Value,
    sizes: &Sizes,
) -> (Value, Option<Value>, Value) {
    let hidden = match network.form {
        Form::Llama { .. } => norm(network, builder, x, "model.norm"),
        _ => x,
    };
    let classes = match network.task {
        Task::Language => return (hidden, None, language(network, builder, hidden)),
        Task::Text(classes) | Task::Token(classes) => classes,
    };
    let scores = match (network.task, network.form) {
        (Task::Text(_), Form::RoFormer { activation, .. }) => {
            let first = builder.every(hidden, 0, sizes.length);
            let first = builder.dropout(first, network.dropout);
            let dense = linear(builder, first, "classifier.dense", network.width, true);
            let dense = builder.activation(dense, activation);
            let dense = builder.dropout(dense, network.dropout);
            linear(builder, dense, "classifier.out_proj", classes, true)
        }
        (Task::Text(_), _) => {
            // A causal text is read to its end before it is judged.
            let first = if network.is_causal { sizes.length - 1 } else { 0 };
            let one = builder.every(hidden, first, sizes.length);
            linear(builder, one, "classifier", classes, true)
        }
        _ => linear(builder, hidden, "classifier", classes, true),
    };
    (hidden, Some(scores), builder.class_loss(scores))
}

/// The loss over the vocabulary.
fn language<T: Real>(network: &Network, builder: &mut Builder<T>, hidden: Value) -> Value {
    let (vocabulary, width) = (network.vocabulary, network.width);
    let own = |builder: &mut Builder<T>, name: &str| {
        builder.parameters().add(name, &[vocabulary, width], Init::Normal(0.02))
    };
    let tied = builder.parameters().find(words(network.form));
    match network.form {
        Form::RoFormer { activation, .. } => {
            let dense = linear(builder, hidden, "cls.predictions.transform.dense", width, true);
            let dense = builder.activation(dense, activation);
            let x = norm(network, builder, dense, "cls.predictions.transform.LayerNorm");
            let bias = builder.parameters().add("cls.predictions.bias", &[vocabulary], Init::Constant(0.0));
            let weight = tied.unwrap_or_else(|| own(builder, "cls.predictions.decoder.weight"));
            builder.vocabulary_loss(x, weight, Some(bias), vocabulary)
        }
        Form::Plain => {
            let weight = own(builder, "out.weight");
            let bias = builder.parameters().add("out.bias", &[vocabulary], Init::Constant(0.0));
            builder.vocabulary_loss(hidden, weight, Some(bias), vocabulary)
        }
        Form::Llama { is_tied, .. } => {
            let weight = tied.filter(|_| is_tied).unwrap_or_else(|| own(builder, "lm_head.weight"));
            builder.vocabulary_loss(hidden, weight, None, vocabulary)
        }
    }
}
