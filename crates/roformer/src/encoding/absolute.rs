//! What absolute codes have in common: vectors by position, merged into the embeddings.

use super::Sizes;
use crate::graph::{Builder, Init, Parameter, Value};
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
    /// The weight that it learns, if any; added to the parameters.
    pub(super) fn weight<T: Real>(self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<Parameter> {
        let (width, deviation) = (sizes.codes, (2.0 * sizes.codes as f64).sqrt().recip());
        (self == Merge::Concatenate).then(|| {
            builder.parameters().add("position.merge.weight", &[width, 2 * width], Init::Normal(deviation))
        })
    }

    /// Merges codes `[length, width]` into every text of `x` `[batch · length, width]`.
    pub(super) fn apply<T: Real>(
        self,
        builder: &mut Builder<T>,
        x: Value,
        codes: Value,
        sizes: &Sizes,
    ) -> Value {
        match self.weight(builder, sizes) {
            None => builder.sum(x, codes),
            Some(weight) => {
                let both = builder.concatenate_rows(x, codes);
                builder.linear(both, weight, None, sizes.codes)
            }
        }
    }
}
