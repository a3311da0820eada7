//! What a network is trained for, and its loss.

use super::Network;
use super::block::{linear, norm};
use crate::blueprint::{Blueprint, HeadKind, Judged};
use crate::encoding::Sizes;
use crate::graph::{Builder, Init, Value};
use crate::ops::Real;

/// What a network is trained for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// A token at every place: the next one, or the one behind a mask. The batch's targets say which. A decoder with its encoder
    /// writes what follows of what the encoder reads, the batch's `source`.
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
    /// Whether there is one target per text, rather than one per token.
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

    /// The head that it trains.
    pub fn head(self, is_causal: bool) -> HeadKind {
        match self {
            Task::Language if is_causal => HeadKind::CausalLm,
            Task::Language => HeadKind::MaskedLm,
            Task::Text(_) => HeadKind::SequenceClassification,
            Task::Token(_) => HeadKind::TokenClassification,
            Task::Similarity => HeadKind::None,
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
    let blueprint = &network.blueprint;
    let names = blueprint.family.names();
    let hidden = last_norm(blueprint, builder, x);
    let (mut scores, mut vectors) = (None, None);
    let loss = match network.task {
        Task::Language => language(network, builder, hidden),
        Task::Text(classes) => {
            let scores = *scores.insert(text(network, builder, hidden, classes, sizes));
            builder.class_loss(scores)
        }
        Task::Token(classes) => {
            let hidden = classifier_transform(network, builder, hidden);
            let hidden = builder.dropout(hidden, network.dropout);
            let scores = *scores.insert(linear(builder, hidden, names.token, classes, true));
            builder.class_loss(scores)
        }
        Task::Similarity => {
            let vectors = *vectors.insert(vector(network, builder, hidden, sizes));
            builder.pair_loss(vectors)
        }
    };
    Head { hidden, scores, vectors, loss }
}

/// What the last layer gave, normed where there is a norm at the end.
pub(super) fn last_norm<T: Real>(blueprint: &Blueprint, builder: &mut Builder<T>, x: Value) -> Value {
    match blueprint.norms.at_end {
        true => norm(blueprint, builder, x, blueprint.family.names().last_norm),
        false => x,
    }
}

/// The loss over the vocabulary.
fn language<T: Real>(network: &Network, builder: &mut Builder<T>, hidden: Value) -> Value {
    let (blueprint, output) = (&network.blueprint, network.blueprint.output);
    let (names, vocabulary) = (blueprint.family.names(), blueprint.vocabulary);
    let mut x = transform(network, builder, hidden);
    if blueprint.output_scale != 1.0 {
        // What the last layer gave stays as it is.
        x = builder.copy(x);
        x = builder.times(x, blueprint.output_scale);
    }
    let words = builder.parameters().find(&format!("{}.weight", names.words)).filter(|_| output.is_tied);
    let parameters = builder.parameters();
    let weight = words.unwrap_or_else(|| {
        let name = format!("{}.weight", names.output);
        parameters.add(name, &[vocabulary, blueprint.embedding], Init::Normal(0.02))
    });
    let bias = output.has_bias.then(|| {
        let name = if output.is_tied { names.tied_bias.into() } else { format!("{}.bias", names.output) };
        parameters.add(name, &[vocabulary], Init::Constant(0.0))
    });
    builder.vocabulary_loss(x, weight, bias, vocabulary, output.cap)
}

/// The product, the activation and the norm that stand before scores, where there are any.
fn transform<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value) -> Value {
    let blueprint = &network.blueprint;
    let Some(activation) = blueprint.output.transform else { return x };
    let [dense, after] = blueprint.family.names().transform;
    let dense = linear(builder, x, dense, blueprint.embedding, blueprint.output.transform_has_bias);
    let dense = builder.activation(dense, activation);
    norm(blueprint, builder, dense, after)
}

/// The same before the scores of a classifier, which only some families have there.
fn classifier_transform<T: Real>(network: &Network, builder: &mut Builder<T>, x: Value) -> Value {
    match network.blueprint.output.transforms_all {
        true => transform(network, builder, x),
        false => x,
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
    let (blueprint, dropout) = (&network.blueprint, network.dropout);
    let names = blueprint.family.names();
    let [dense, out] = names.text;
    if names.judges_by_first() {
        let read = match blueprint.judged {
            Judged::Token => builder.every(hidden, 0, sizes.length),
            Judged::Last => builder.last_tokens(hidden, sizes.length),
            Judged::Mean => builder.token_means(hidden, sizes.length),
            Judged::MeanOfFirst => hidden,
        };
        let read = builder.dropout(read, dropout);
        let dense = linear(builder, read, dense, blueprint.width, true);
        let mut dense = builder.activation(dense, blueprint.text_activation());
        if blueprint.judged == Judged::MeanOfFirst {
            dense = builder.token_means(dense, sizes.length);
        }
        let dense = builder.dropout(dense, dropout);
        return linear(builder, dense, out, classes, names.text_has_bias);
    }
    // A causal text is read to its end before it is judged.
    let read = match (blueprint.is_causal(), blueprint.judged) {
        (true, _) | (false, Judged::Last) => builder.last_tokens(hidden, sizes.length),
        (false, Judged::Token) => builder.every(hidden, 0, sizes.length),
        (false, Judged::Mean | Judged::MeanOfFirst) => builder.token_means(hidden, sizes.length),
    };
    let read = classifier_transform(network, builder, read);
    linear(builder, read, out, classes, names.text_has_bias)
}

/// The vectors of texts, of length 1, `[batch, width]`: by the pooler where there is one, or the mean of the real tokens.
fn vector<T: Real>(network: &Network, builder: &mut Builder<T>, hidden: Value, sizes: &Sizes) -> Value {
    let blueprint = &network.blueprint;
    let pooled = match blueprint.pooler {
        Some(activation) => {
            let first = builder.every(hidden, 0, sizes.length);
            let dense = linear(builder, first, blueprint.family.names().pooler, blueprint.width, true);
            builder.activation(dense, activation)
        }
        None => builder.token_means(hidden, sizes.length),
    };
    builder.unit(pooled)
}
