//! PyTorch's `TransformerEncoder` with norms first, GELU and biases, which comparisons train. No `config.json` names it.

use super::super::names::NONE;
use super::super::{
    Biases, Blueprint, Dims, Direction, HeadKind, Labels, Mixing, Names, NormKind, NormPlace, Norms, Output,
    Summary,
};
use super::Family;
use crate::encoding::{Encoding, Rotary};
use crate::ops::Activation;

pub(super) const NAMES: Names = Names {
    words: "embed",
    layer: "blocks.layers.",
    queries: &["self_attn.in_proj"],
    attended: "self_attn.out_proj",
    attention_norm: "norm1",
    up: "linear1",
    down: "linear2",
    feed_forward_norm: "norm2",
    output: "out",
    output_bias: "out.bias",
    text: ["", "classifier"],
    token: "classifier",
    ..NONE
};

impl Blueprint {
    /// PyTorch's plain encoder as a causal language model with rotary embedding, four times as wide inside.
    pub fn plain(dims: Dims) -> Blueprint {
        let Dims { vocabulary, width, layers, heads } = dims;
        Blueprint {
            family: Family::Plain,
            vocabulary,
            types: 0,
            embedding: width,
            width,
            layers,
            heads,
            key_heads: heads,
            head_dim: width.checked_div(heads).unwrap_or(0),
            wide: 4 * width,
            is_gated: false,
            activation: Activation::Gelu,
            norms: Norms {
                kind: NormKind::Layer,
                place: NormPlace::Before,
                epsilon: 1e-5,
                of_embeddings: false,
                at_end: false,
            },
            biases: Biases::all(true),
            has_head_norms: false,
            direction: Direction::Causal,
            has_cross_attention: false,
            encoding: Encoding::Rotary(Rotary::default()),
            codes_first: false,
            padding: None,
            longest: 1,
            mixing: Mixing::Softmax,
            output: Output { is_tied: false, transform: None, has_bias: true },
            pooler: None,
            head: HeadKind::CausalLm,
            window: None,
            labels: Labels::default(),
            summary: Summary::default(),
            ends: Vec::new(),
        }
    }
}
