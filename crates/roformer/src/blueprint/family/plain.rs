//! PyTorch's `TransformerEncoder` with norms first, GELU and biases, which comparisons train. No `config.json` names it.

use super::super::names::{NONE, Queries};
use super::super::{Blueprint, Dims, Direction, HeadKind, Names, Output};
use super::Family;

pub(super) const NAMES: Names = Names {
    words: "embed",
    layer: "blocks.layers.",
    queries: Queries::Undotted("self_attn.in_proj"),
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
        let plain = Blueprint::without_parts(Family::Plain);
        Blueprint {
            vocabulary,
            embedding: width,
            width,
            layers,
            heads,
            key_heads: heads,
            head_dim: width.checked_div(heads).unwrap_or(0),
            wide: 4 * width,
            direction: Direction::Causal,
            output: Output { is_tied: false, has_bias: true, ..plain.output },
            head: HeadKind::CausalLm,
            ..plain
        }
    }
}
