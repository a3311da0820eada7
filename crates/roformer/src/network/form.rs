//! How the parts of a network are put together: RoFormer's form, Llama's and PyTorch's plain encoder, with their relatives.

use crate::ops::Activation;

/// How the parts of a network are put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// RoFormer, RoFormerV2 and RoFormer-Sim: norms after each sum, segments.
    RoFormer(RoFormerForm),
    /// PyTorch's `TransformerEncoder` with norms first, GELU and biases; output not tied; no norm at the end.
    Plain,
    /// Llama and its relatives: RMS norms first, SwiGLU, a norm at the end.
    Llama(LlamaForm),
}

/// What RoFormers differ in. By default it is the first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoFormerForm {
    /// Segments.
    pub types: usize,
    /// The activation between the products of a feed-forward block.
    pub activation: Activation,
    /// The width of the embeddings where it is not the network's: they are then projected to that.
    pub embedding: Option<usize>,
    /// Whether the products of the layers have biases; RoFormerV2's have none.
    pub has_bias: bool,
    /// Whether norms divide by the root of the mean square and have no parameters, as RoFormerV2's do. Its output is then
    /// the word embeddings alone, without a transform and a bias.
    pub has_plain_norms: bool,
    /// Whether the output of a language model shares the word embeddings.
    pub is_tied: bool,
    /// The activation of the pooler that makes the vector of a text, which RoFormer-Sim has: for
    /// [`Task::Similarity`](super::Task::Similarity) alone.
    pub pooler: Option<Activation>,
}

impl Default for RoFormerForm {
    fn default() -> Self {
        RoFormerForm {
            types: 2,
            activation: Activation::Gelu,
            embedding: None,
            has_bias: true,
            has_plain_norms: false,
            is_tied: true,
            pooler: None,
        }
    }
}

/// What Llama and its relatives differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlamaForm {
    /// Whose biases and norms it has.
    pub family: Family,
    /// Whether the output of a language model shares the word embeddings.
    pub is_tied: bool,
}

impl Default for LlamaForm {
    fn default() -> Self {
        LlamaForm { family: Family::default(), is_tied: true }
    }
}

/// Llama and its relatives, by the names of their classes. MiniMind is among them under another name: its older form is
/// Llama's, its newer one Qwen3's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama.
    Llama {
        /// Whether the products around attention have biases.
        attention_bias: bool,
        /// Whether those of the feed-forward block have.
        mlp_bias: bool,
    },
    /// Mistral, without a sliding window.
    Mistral,
    /// Qwen2: queries, keys and values have biases.
    Qwen2,
    /// Qwen3: each head of queries and keys is normed before it is rotated.
    Qwen3 {
        /// Whether the products around attention have biases.
        attention_bias: bool,
    },
}

impl Default for Family {
    fn default() -> Self {
        Family::Llama { attention_bias: false, mlp_bias: false }
    }
}

impl Family {
    /// What stands before `Model` and `ForCausalLM` in the names of its classes.
    pub fn class(self) -> &'static str {
        match self {
            Family::Llama { .. } => "Llama",
            Family::Mistral => "Mistral",
            Family::Qwen2 => "Qwen2",
            Family::Qwen3 { .. } => "Qwen3",
        }
    }

    /// Whether heads of queries and keys are normed.
    pub(super) fn has_head_norms(self) -> bool {
        matches!(self, Family::Qwen3 { .. })
    }
}

/// Which products of a layer have biases.
pub(super) struct Biases {
    /// Those that make queries, keys and values.
    pub queries: bool,
    /// The one after attention.
    pub output: bool,
    /// Those of the feed-forward block.
    pub wide: bool,
}

impl Form {
    pub(super) fn biases(self) -> Biases {
        let all = |queries| Biases { queries, output: queries, wide: queries };
        match self {
            Form::Plain => all(true),
            Form::RoFormer(form) => all(form.has_bias),
            Form::Llama(form) => match form.family {
                Family::Llama { attention_bias, mlp_bias } => {
                    Biases { wide: mlp_bias, ..all(attention_bias) }
                }
                Family::Mistral => all(false),
                Family::Qwen2 => Biases { queries: true, ..all(false) },
                Family::Qwen3 { attention_bias } => Biases { wide: false, ..all(attention_bias) },
            },
        }
    }

    /// Whether the output of a language model shares the word embeddings.
    pub(super) fn is_tied(self) -> bool {
        match self {
            Form::RoFormer(form) => form.is_tied,
            Form::Plain => false,
            Form::Llama(form) => form.is_tied,
        }
    }

    /// Segments that there are; one where the form knows of none.
    pub(super) fn types(self) -> usize {
        match self {
            Form::RoFormer(form) => form.types,
            _ => 1,
        }
    }
}
