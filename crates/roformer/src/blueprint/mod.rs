//! What a Transformer is, as a value: read once from `config.json`, and all that runs, trains, checks or hands over a model
//! goes by it.
//!
//! ```text
//! mod.rs          the parts of a blueprint
//! head.rs         what stands on the last layer
//! family/         one file per family: its config.json both ways, and its tensor names
//! names.rs        what a family calls its tensors
//! tensors.rs      the list of tensors that a blueprint asks for, and the check of a file against it
//! fields.rs       reading fields of a config.json, with errors that name them
//! bert_config.rs  what BERT's first release has in place of a config.json
//! rope.rs         the rotary embedding in a config.json, both ways
//! ```
//!
//! [`model`](crate::model) walks a blueprint over a device with packed weights and caches; [`network`](crate::network) lays
//! it out as a graph to be trained. A test holds the two together: for every family and encoding they give the same numbers.

mod bert_config;
mod family;
pub(crate) mod fields;
mod head;
mod names;
mod rope;
mod tensors;

pub use family::Family;
pub(crate) use family::positions_table;
pub use head::{HeadKind, Labels, Problem, Summary, SummaryOf};
pub(crate) use names::{Names, POSITIONS};
pub(crate) use tensors::Named;
pub use tensors::{Asked, Part};

use crate::encoding::{Encoding, Sizes};
use crate::error::{Error, Result};
use crate::graph::FeatureMap;
pub use crate::graph::LinearForm;
use crate::ops::Activation;
use crate::weights::Weights;
use fields::MAX_SIZE;
use std::path::Path;

/// A description of a Transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// Whose tensor names and whose `config.json` it has.
    pub family: Family,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Segments; 0 where embeddings have none.
    pub types: usize,
    /// Width of the embeddings; projected to `width` where they differ.
    pub embedding: usize,
    /// Width of the model.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and of values: a divisor of `heads`, which share them in turn.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Width between the two products of a feed-forward block.
    pub wide: usize,
    /// Whether the feed-forward block is gated: activation(gate)·up rather than activation(up).
    pub is_gated: bool,
    /// The activation of the feed-forward block.
    pub activation: Activation,
    /// The norms.
    pub norms: Norms,
    /// Which products of a layer have biases.
    pub biases: Biases,
    /// Whether each head of queries and keys is normed before it is rotated.
    pub has_head_norms: bool,
    /// Which tokens a token sees.
    pub direction: Direction,
    /// Whether layers also attend to another model's output.
    pub has_cross_attention: bool,
    /// The position encoding.
    pub encoding: Encoding,
    /// Whether codes of positions are added before the embeddings are normed; else they come last.
    pub codes_first: bool,
    /// The padding token, where positions count no token of that id.
    pub padding: Option<u32>,
    /// Tokens of the longest text: the rows of learned tables of positions.
    pub longest: usize,
    /// How many tokens, its own among them, a token sees at most, where some layer has such a limit. A text of at most so many
    /// tokens runs as without it; a longer one is refused.
    pub window: Option<usize>,
    /// How tokens look at each other.
    pub mixing: Mixing,
    /// The output of a language model.
    pub output: Output,
    /// The activation of the pooler, where there is one.
    pub pooler: Option<Activation>,
    /// What stands on the last layer.
    pub head: HeadKind,
    /// The labels of a classifier.
    pub labels: Labels,
    /// What a multiple-choice head reads.
    pub summary: Summary,
    /// The tokens that end a text, as far as the file says.
    pub ends: Vec<u32>,
}

/// The sizes from which a family's other sizes follow, for a model that is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Width.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
}

/// The norms of a Transformer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// What they divide by, and their parameters.
    pub kind: NormKind,
    /// Where those of the layers stand.
    pub place: NormPlace,
    /// ε.
    pub epsilon: f64,
    /// Whether the embeddings are normed.
    pub of_embeddings: bool,
    /// Whether the last layer's output is normed.
    pub at_end: bool,
}

/// What a norm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Of mean and variance, with a weight and a bias.
    Layer,
    /// Of the mean square, with a weight.
    Rms,
    /// Of the mean square, without parameters (RoFormerV2).
    Bare,
}

/// Where the norms of a layer stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlace {
    /// Before each block: x + block(norm(x)).
    Before,
    /// After each sum: norm(x + block(x)).
    After,
}

/// Which products of a layer have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// Those that make queries, keys and values.
    pub queries: bool,
    /// The one after attention.
    pub output: bool,
    /// Those of the feed-forward block.
    pub wide: bool,
}

impl Biases {
    /// All of them, or none.
    pub fn all(has_bias: bool) -> Self {
        Biases { queries: has_bias, output: has_bias, wide: has_bias }
    }
}

/// Which tokens a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// All of them.
    Both,
    /// Itself and those before it.
    Causal,
    /// All tokens of what is read first, and then those before it, as UniLM and RoFormer-Sim do.
    Prefix,
}

/// How tokens look at each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mixing {
    /// Softmax attention.
    #[default]
    Softmax,
    /// Linear attention.
    Linear(LinearForm),
}

/// Feature maps by name, in pairs for queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Features {
    /// elu(x) + 1 for both.
    #[default]
    Elu,
    /// Softmax over the features of a query, e^x for keys.
    Softmax,
    /// FAVOR+ with twice as many random features as a head has.
    Favor,
}

impl Features {
    /// All of them.
    pub const ALL: [Features; 3] = [Features::Elu, Features::Softmax, Features::Favor];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Features::Elu => "elu",
            Features::Softmax => "softmax",
            Features::Favor => "favor",
        }
    }

    /// The linear attention of the RoFormer paper with these features, for heads of so many.
    pub fn form(self, head_dim: usize) -> LinearForm {
        let favor = FeatureMap::Favor { features: 2 * head_dim, seed: 0 };
        let (queries, keys) = match self {
            Features::Elu => (FeatureMap::Elu, FeatureMap::Elu),
            Features::Softmax => (FeatureMap::Softmax, FeatureMap::Exp),
            Features::Favor => (favor, favor),
        };
        LinearForm { queries, keys, rotates_before: false }
    }
}

/// The output of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Whether it shares the word embeddings.
    pub is_tied: bool,
    /// The activation of a product that comes before it, with a norm behind; none where there is no such product.
    pub transform: Option<Activation>,
    /// Whether it has a bias.
    pub has_bias: bool,
}

impl Blueprint {
    /// The blueprint of a `config.json`. What would change the result and is not supported is an error that names it.
    ///
    /// What a file does not say but its tensors do (RoFormer-Sim's pooler, the head norms of newer MiniMinds, the head where
    /// `architectures` is missing) is seen by [`open`](Blueprint::open) alone.
    pub fn from_config(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes, None)
    }

    /// The blueprint of a folder with a `config.json` or a `bert_config.json` and weights, and those weights, checked against
    /// it.
    pub fn open(folder: impl AsRef<Path>) -> Result<(Self, Weights)> {
        let folder = folder.as_ref();
        let bytes = Self::config_of(folder)?;
        // What is wrong with the configuration says more than that there are no weights.
        Self::from_config(&bytes)?;
        let weights = Weights::of_model(folder)?;
        let blueprint = Self::read(&bytes, Some(&weights))?;
        blueprint.check_weights(&weights)?;
        Ok((blueprint, weights))
    }

    /// The blueprint of a `config.json`, and of the weights beside it for what the file does not say.
    pub fn read(bytes: &[u8], weights: Option<&Weights>) -> Result<Self> {
        let mut blueprint = family::read(fields::object(bytes)?, weights)?;
        if let (Some(weights), Encoding::Learned(learned)) = (weights, &blueprint.encoding) {
            // A learned table says itself how many positions it has.
            let names = blueprint.family.names();
            let (name, source) = (names.of_encoding(POSITIONS), Named::new(weights, names));
            let rows = weights.get(source.own(&name)).and_then(|table| table.shape().first().copied());
            blueprint.longest = rows.map_or(blueprint.longest, |rows| rows.saturating_sub(learned.offset));
        }
        blueprint.check()?;
        Ok(blueprint)
    }

    /// Whether a token sees only what came before, from the first token on.
    pub fn is_causal(&self) -> bool {
        self.direction == Direction::Causal
    }

    /// Whether it reads a text whole and then continues it, token after token, as UniLM does and RoFormer-Sim is trained.
    pub fn is_unilm(&self) -> bool {
        self.direction == Direction::Prefix
    }

    /// Whether it continues a text token after token.
    pub fn is_generative(&self) -> bool {
        self.direction != Direction::Both
    }

    /// Numbers of a token's queries.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Numbers of a token's keys, and of its values.
    pub fn key_width(&self) -> usize {
        self.key_heads * self.head_dim
    }

    /// Labels of a classifier.
    pub fn classes(&self) -> usize {
        self.labels.count
    }

    /// The sizes that an encoding goes by, for texts of `length` tokens.
    pub(crate) fn sizes(&self, batch: usize, length: usize) -> Sizes {
        Sizes {
            batch,
            length,
            longest: self.longest.max(length),
            width: self.width,
            heads: self.heads,
            head_dim: self.head_dim,
            is_causal: self.is_causal(),
        }
    }

    /// The sizes that an encoding goes by in a model that is run, for texts of up to `length` tokens.
    pub(crate) fn encoded_sizes(&self, length: usize) -> Sizes {
        let sizes = self.sizes(1, length);
        match self.mixing {
            Mixing::Softmax => sizes,
            Mixing::Linear(form) => sizes.rotated(form),
        }
    }

    /// About how many numbers the weights of a model are.
    pub(crate) fn numbers(&self) -> u128 {
        let [vocabulary, embedding, width, query, key, wide, layers] = [
            self.vocabulary,
            self.embedding,
            self.width,
            self.query_width(),
            self.key_width(),
            self.wide,
            self.layers,
        ]
        .map(|size| size as u128);
        let attention = (2 * query + 2 * key) * if self.has_cross_attention { 2 } else { 1 };
        let feed_forward = if self.is_gated { 3 * wide } else { 2 * wide };
        let output = match self.head.is_language_model() && !self.output.is_tied {
            true => vocabulary * embedding,
            false => 0,
        };
        vocabulary * embedding + output + layers * width * (attention + feed_forward)
    }

    /// Checks the sizes of a blueprint that may have been made by hand.
    pub fn check(&self) -> Result<()> {
        let field = |part: &str| self.family.field(part).to_string();
        let wrong = |part: &str, value: String, expected: String| {
            Err(Error::Config { field: field(part), value, expected })
        };
        for (part, size) in [
            ("vocabulary", self.vocabulary),
            ("embedding", self.embedding),
            ("width", self.width),
            ("heads", self.heads),
            ("key heads", self.key_heads),
            ("head width", self.head_dim),
            ("inner width", self.wide),
            ("labels", self.labels.count),
            // Within bounds as those above are, the product of two cannot overflow.
            ("query width", self.heads.saturating_mul(self.head_dim)),
        ] {
            if size == 0 || size as u64 > MAX_SIZE {
                return wrong(part, size.to_string(), format!("a whole number from 1 to {MAX_SIZE}"));
            }
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            let expected = format!("a divisor of {}, which is {}", field("heads"), self.heads);
            return wrong("key heads", self.key_heads.to_string(), expected);
        }
        if self.head.is_language_model() && self.output.transform.is_none() && self.embedding != self.width {
            let expected = format!("{}, as {}: the output reads hidden states", self.width, field("width"));
            return wrong("embedding", self.embedding.to_string(), expected);
        }
        if let Mixing::Linear(form) = self.mixing {
            self.encoding.check_linear()?;
            self.check_features(form)?;
        }
        self.check_encoding()
    }

    /// Checks that queries and keys have as many features, and that values can be rotated with them.
    fn check_features(&self, form: LinearForm) -> Result<()> {
        if self.key_heads != self.heads {
            let expected = "as many as heads: linear attention does not group heads";
            return Err(Error::input("the number of key heads", self.key_heads, expected));
        }
        let [queries, keys] = [form.queries, form.keys].map(|map| map.features(self.head_dim));
        if queries != keys {
            return Err(Error::input(
                "the number of features of keys",
                keys,
                format!("that of queries, {queries}"),
            ));
        }
        if self.encoding.turns_values() && !form.rotates_before && queries != self.head_dim {
            let expected = format!("the width of a head, {}: values are rotated with them", self.head_dim);
            return Err(Error::input("the number of features", queries, expected));
        }
        Ok(())
    }

    /// Checks that the encoding works for these sizes.
    fn check_encoding(&self) -> Result<()> {
        self.encoding.as_encode::<f32>().check(&self.encoded_sizes(1))
    }
}
