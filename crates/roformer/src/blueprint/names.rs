//! What a family calls its tensors. Each family says it once, in its file; what loads, trains, checks and hands over a model
//! asks here.

use crate::ops::Activation;
use std::borrow::Cow;

/// The names of a family's tensors, without `.weight` and `.bias`. Those of a layer follow its number.
pub(crate) struct Names {
    /// What stands before all names but the heads', in a model that has a head; a bare model has them without it.
    pub prefix: &'static str,
    /// The word embeddings.
    pub words: &'static str,
    /// The embeddings of segments.
    pub types: &'static str,
    /// The learned vectors of positions, where the family has them.
    pub positions: &'static str,
    /// The norm of the embeddings.
    pub embedding_norm: &'static str,
    /// The projection of embeddings that are narrower or wider than the model.
    pub project: &'static str,
    /// What stands before a layer's number.
    pub layer: &'static str,
    /// Queries, keys and values of a layer; one name where they are one tensor.
    pub queries: &'static [&'static str],
    /// Norms of single heads of queries and keys.
    pub head_norms: [&'static str; 2],
    /// The product after attention.
    pub attended: &'static str,
    /// The norm of attention.
    pub attention_norm: &'static str,
    /// Queries, keys, values, the product after it and the norm of attention to another model's output.
    pub cross: [&'static str; 5],
    /// The gate of the feed-forward block.
    pub gate: &'static str,
    /// Its first product.
    pub up: &'static str,
    /// Its second product.
    pub down: &'static str,
    /// Its norm.
    pub feed_forward_norm: &'static str,
    /// The norm behind the last layer.
    pub last_norm: &'static str,
    /// The pooler.
    pub pooler: &'static str,
    /// Product and norm before the output of a language model.
    pub transform: [&'static str; 2],
    /// The output of a language model where it is not tied.
    pub output: &'static str,
    /// Its bias.
    pub output_bias: &'static str,
    /// The bias of a tied output.
    pub tied_bias: &'static str,
    /// The classifier of texts: where it has two products, the first and the second; else nothing and the one.
    pub text: [&'static str; 2],
    /// The activation between the two; that of the layers where none is named.
    pub text_activation: Option<Activation>,
    /// Whether its last product has a bias.
    pub text_has_bias: bool,
    /// The classifier of tokens.
    pub token: &'static str,
    /// The head of question answering.
    pub question: &'static str,
    /// The projection and the classifier of multiple choice.
    pub choice: [&'static str; 2],
    /// What names begin with of tensors that a file may have and the model not use: of heads that were trained beside its own.
    pub unused: &'static [&'static str],
}

/// What encodings call learned vectors of positions.
pub(crate) const POSITIONS: &str = "position.embedding.weight";

/// A family without any of the parts that only some have.
pub(crate) const NONE: Names = Names {
    prefix: "",
    words: "",
    types: "",
    positions: "",
    embedding_norm: "",
    project: "",
    layer: "",
    queries: &[],
    head_norms: ["", ""],
    attended: "",
    attention_norm: "",
    cross: ["", "", "", "", ""],
    gate: "",
    up: "",
    down: "",
    feed_forward_norm: "",
    last_norm: "",
    pooler: "",
    transform: ["", ""],
    output: "",
    output_bias: "",
    tied_bias: "",
    text: ["", ""],
    text_activation: None,
    text_has_bias: true,
    token: "",
    question: "",
    choice: ["", ""],
    unused: &[],
};

impl Names {
    /// The name of a part of a layer.
    pub fn of_layer(&self, layer: usize, part: &str) -> String {
        format!("{}{layer}.{part}", self.layer)
    }

    /// The names of the weights or the biases (`kind`) that make queries, keys and values, with their rows.
    pub fn joined(&self, layer: usize, kind: &str, rows: [usize; 3]) -> Vec<(String, usize)> {
        let name = |part: &&str| self.of_layer(layer, part);
        match self.queries {
            // PyTorch's one tensor has no dot before `weight`.
            [one] => vec![(format!("{}_{kind}", name(one)), rows.iter().sum())],
            parts => parts.iter().map(|part| format!("{}.{kind}", name(part))).zip(rows).collect(),
        }
    }

    /// The name of a parameter of an encoding: the family's, where it has one for it.
    pub fn of_encoding<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match name {
            POSITIONS if !self.positions.is_empty() => format!("{}.weight", self.positions).into(),
            name => name.into(),
        }
    }

    /// Whether a text is judged by its first token, whatever the direction.
    pub fn judges_by_first(&self) -> bool {
        !self.text[0].is_empty()
    }
}
