//! The parts of a blueprint: norms, biases, direction, what is different in some layers, the output.

use crate::encoding::Encoding;
use crate::error::Result;
use crate::graph::FeatureMap;
pub use crate::graph::LinearForm;
use crate::ops::{Activation, Real};
use rope::Table;
use std::ops::Range;

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

/// What is different in some of the layers: most often they see only what is near, and others all.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// Which layers these are, `[layers]`.
    pub layers: Vec<bool>,
    /// A token sees none that is this many places away from it or more; any where there is no window.
    pub window: Option<usize>,
    /// A token sees none beyond the piece of so many tokens that it stands in, counted from the first of the text; any where
    /// the text is whole.
    pub chunk: Option<usize>,
    /// Their position encoding, where it is not that of the others.
    pub encoding: Option<Encoding>,
}

/// Layers that no position encoding reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct NoPe {
    /// Which layers these are, `[layers]`.
    pub layers: Vec<bool>,
    /// By what their queries grow with the text.
    pub temperature: Option<Temperature>,
}

/// A factor of queries that grows with their place p: 1 + strength · ln(1 + ⌊(p + 1)/every⌋).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// After how many tokens it grows.
    pub every: usize,
    /// How much.
    pub strength: f64,
}

impl Temperature {
    /// The factor at a place; 1 before it first grows.
    pub(crate) fn at(self, place: i64) -> f64 {
        1.0 + self.strength * ((place + 1).div_euclid(self.every as i64) as f64).ln_1p()
    }

    /// A table of the factors of these places for heads of so many features; none where all are 1.
    pub(crate) fn table<T: Real>(self, head_dim: usize, places: Range<usize>) -> Result<Option<Table<T>>> {
        match places.end < self.every {
            true => Ok(None),
            false => {
                let places = places.start as i64..places.end as i64;
                Ok(Some(Table::scaling(head_dim, places, |place| self.at(place))?))
            }
        }
    }
}

/// Norms of single heads of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorms {
    /// None.
    None,
    /// With weights, before heads are rotated.
    Weighted,
    /// Of the mean square, without weights, after heads are rotated; in layers that the position encoding reaches.
    Bare,
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
    /// Whether the first layer's attention reads its input as it is, where the others' is normed.
    pub skips_first: bool,
}

/// What a norm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Of mean and variance, with a weight and a bias.
    Layer,
    /// Of mean and variance, with a weight alone.
    LayerWeight,
    /// Of the mean square, with a weight.
    Rms,
    /// Of the mean square, with a weight that files keep less 1.
    RmsLessOne,
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
    /// Before and after each block: x + norm(block(norm(x))).
    Around,
}

impl NormPlace {
    /// Whether blocks read what is normed, and add to what is not.
    pub(crate) fn is_before(self) -> bool {
        self != NormPlace::After
    }
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

/// A convolution over the embeddings of a text. With its activation it joins the first layer's output, and a norm follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Tokens that it reads at a time, an odd number: the one in the middle and as many before it as after it.
    pub kernel: usize,
    /// Its activation.
    pub activation: Activation,
}

/// The output of a language model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// Whether it shares the word embeddings.
    pub is_tied: bool,
    /// The activation of a product that comes before it, with a norm behind; none where there is no such product.
    pub transform: Option<Activation>,
    /// Whether that product has a bias.
    pub transform_has_bias: bool,
    /// Whether that product and norm come before every head, not the language model's alone.
    pub transforms_all: bool,
    /// Whether it has a bias.
    pub has_bias: bool,
    /// What its scores are bounded by, softly: c·tanh(score/c).
    pub cap: Option<f64>,
}
