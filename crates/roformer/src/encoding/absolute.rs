//! What absolute codes have in common: vectors by position, merged into the embeddings.

use super::Sizes;
use crate::graph::{Builder, Init, Value};
use crate::ops::Real;

/// How codes and embeddings become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// x + p.
    #[default]
    Add,
    /// [x, p]·W, with a learned W `[width, 2 · width]`.
    Concatenate,
}

impl Merge {
    /// Merges codes `[length, width]` into every text of `x` `[batch · length, width]`.
    pub(super) fn apply<T: Real>(
        self,
        builder: &mut Builder<T>,
        x: Value,
        codes: Value,
        sizes: &Sizes,
    ) -> Value {
        match self {
            Merge::Add => builder.sum(x, codes),
            Merge::Concatenate => {
                let width = sizes.width;
                let deviation = (2.0 * width as f64).sqrt().recip();
                let shape = [width, 2 * width];
                let weight =
                    builder.parameters().add("position.merge.weight", &shape, Init::Normal(deviation));
                let both = builder.concatenate_rows(x, codes);
                builder.linear(both, weight, None, width)
            }
        }
    }
}
