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
    /// A vector of the model's width that files have and nothing here reads; what is handed over has it again.
    pub carried: &'static str,
    /// The embeddings of segments.
    pub types: &'static str,
    /// The norm of the embeddings.
    pub embedding_norm: &'static str,
    /// The projection of embeddings that are narrower or wider than the model.
    pub project: &'static str,
    /// What stands before a layer's number.
    pub layer: &'static str,
    /// Queries, keys and values of a layer.
    pub queries: Queries,
    /// Norms of single heads of queries and keys.
    pub head_norms: [&'static str; 2],
    /// The product after attention.
    pub attended: &'static str,
    /// The norm of attention.
    pub attention_norm: &'static str,
    /// What is added to queries where they meet the vectors of segments, and those vectors.
    pub segments: [&'static str; 2],
    /// Queries, keys, values, the product after it and the norm of attention to another model's output.
    pub cross: [&'static str; 5],
    /// Norms behind attention and behind the feed-forward block, where there are norms before them as well.
    pub after: [&'static str; 2],
    /// The gate of the feed-forward block; the same as `up` where the two are one tensor, the gate first.
    pub gate: &'static str,
    /// Its first product.
    pub up: &'static str,
    /// The same where there is no gate, if that is another name.
    pub plain_up: &'static str,
    /// Its second product.
    pub down: &'static str,
    /// Its norm.
    pub feed_forward_norm: &'static str,
    /// Whether the products of layers are kept with their inputs first, `[inputs, outputs]`.
    pub is_transposed: bool,
    /// Parts of a layer that are kept with an axis for heads: products with their inputs first, the same of codes of
    /// distances, and what has heads last.
    pub by_heads: [&'static [&'static str]; 3],
    /// The convolution beside the first layer, and its norm.
    pub convolution: [&'static str; 2],
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
    /// Names of parameters of encodings and the family's own, with `#` for the number of the layer.
    pub encoding: &'static [(&'static str, &'static str)],
    /// Names, and what files may have in their place.
    pub others: &'static [(&'static str, &'static str)],
    /// What names begin with of tensors that a file may have and the model not use: of heads that were trained beside its own.
    pub unused: &'static [&'static str],
}

/// How a layer's queries, keys and values are kept.
#[derive(Clone, Copy)]
pub(crate) enum Queries {
    /// As three tensors.
    Apart([&'static str; 3]),
    /// As one, below each other.
    Joined(&'static str),
    /// As one, head by head: queries, keys and values of the first, then of the second.
    ByHead(&'static str),
    /// As three tensors whose names have no `.weight`; the product after attention has none either.
    Bare([&'static str; 3]),
    /// As one whose name has no dot before `weight`, as in PyTorch's own attention.
    Undotted(&'static str),
}

/// What encodings call learned vectors of positions.
pub(crate) const POSITIONS: &str = "position.embedding.weight";

/// What T5's encoding calls its biases by buckets of distances; files of T5 keep them `[buckets, heads]`.
pub(crate) const BUCKETS: &str = "position.t5.weight";

/// A family without any of the parts that only some have.
pub(crate) const NONE: Names = Names {
    prefix: "",
    words: "",
    carried: "",
    types: "",
    embedding_norm: "",
    project: "",
    layer: "",
    queries: Queries::Apart(["", "", ""]),
    head_norms: ["", ""],
    attended: "",
    attention_norm: "",
    segments: ["", ""],
    cross: ["", "", "", "", ""],
    after: ["", ""],
    gate: "",
    up: "",
    plain_up: "",
    down: "",
    feed_forward_norm: "",
    is_transposed: false,
    by_heads: [&[], &[], &[]],
    convolution: ["", ""],
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
    encoding: &[],
    others: &[],
    unused: &[],
};

impl Names {
    /// The name of a part of a layer.
    pub fn of_layer(&self, layer: usize, part: &str) -> String {
        format!("{}{layer}.{part}", self.layer)
    }

    /// The names of the weights or the biases (`kind`) that make queries, keys and values, with their rows.
    pub fn joined(&self, layer: usize, kind: &str, rows: [usize; 3]) -> Vec<(String, usize)> {
        let dotted = |part: &str| format!("{}.{kind}", self.of_layer(layer, part));
        match self.queries {
            Queries::Apart(parts) => parts.map(dotted).into_iter().zip(rows).collect(),
            Queries::Bare(parts) => {
                parts.map(|part| self.of_layer(layer, part)).into_iter().zip(rows).collect()
            }
            Queries::Joined(one) | Queries::ByHead(one) => vec![(dotted(one), rows.iter().sum())],
            Queries::Undotted(one) => {
                vec![(format!("{}_{kind}", self.of_layer(layer, one)), rows.iter().sum())]
            }
        }
    }

    /// The name of the weight or the bias (`kind`) of the product after attention, with its rows.
    pub fn behind(&self, layer: usize, kind: &str, rows: usize) -> Vec<(String, usize)> {
        let name = self.of_layer(layer, self.attended);
        match self.queries {
            Queries::Bare(_) => vec![(name, rows)],
            _ => vec![(format!("{name}.{kind}"), rows)],
        }
    }

    /// The names of the weights or the biases (`kind`) of the feed-forward block's first product, its gate first where there
    /// is one, with their rows.
    pub fn ups(&self, layer: usize, kind: &str, wide: usize, is_gated: bool) -> Vec<(String, usize)> {
        let dotted = |part: &str| format!("{}.{kind}", self.of_layer(layer, part));
        match is_gated {
            false if !self.plain_up.is_empty() => vec![(dotted(self.plain_up), wide)],
            false => vec![(dotted(self.up), wide)],
            true if self.gate == self.up => vec![(dotted(self.up), 2 * wide)],
            true => vec![(dotted(self.gate), wide), (dotted(self.up), wide)],
        }
    }

    /// The name of a parameter of an encoding: the family's, where it has one for it.
    pub fn of_encoding<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let own = |own: &str, theirs: &str| match own.split_once('#') {
            None => (own == name).then(|| theirs.to_string()),
            Some((before, after)) => {
                let layer = name.strip_prefix(before)?.strip_suffix(after)?;
                layer.bytes().all(|digit| digit.is_ascii_digit()).then(|| theirs.replace('#', layer))
            }
        };
        let own = self.encoding.iter().find_map(|(ours, theirs)| own(ours, theirs));
        own.map_or(name.into(), Cow::Owned)
    }

    /// The name of a weight or bias (`key.weight`, `query.bias`) that makes a layer's keys or queries, where they are tensors
    /// of their own.
    pub fn shared(&self, layer: usize, part: &str) -> Option<String> {
        let Queries::Apart([queries, keys, _]) = self.queries else { return None };
        let (part, kind) = part.split_once('.')?;
        let own = match part {
            "key" => keys,
            "query" => queries,
            _ => return None,
        };
        Some(format!("{}.{kind}", self.of_layer(layer, own)))
    }

    /// Whether a text is judged by its first token, whatever the direction.
    pub fn judges_by_first(&self) -> bool {
        !self.text[0].is_empty()
    }
}
