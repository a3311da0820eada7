//! A learned vector for each position: as many as the longest text has tokens. Those that training never reached stay as they
//! were at first.

use super::absolute::Merge;
use super::{Encode, Sizes, check_rows};
use crate::error::Result;
use crate::graph::{Builder, Init, Value};
use crate::ops::Real;

/// A learned vector for each position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// How they meet the embeddings.
    pub merge: Merge,
    /// The row of position 0: those before it are of no position.
    pub offset: usize,
}

impl<T: Real> Encode<T> for Learned {
    fn check(&self, _sizes: &Sizes) -> Result<()> {
        check_rows("the first row of learned positions", self.offset)
    }

    fn codes(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Value, Merge)> {
        let first = self.offset as u32;
        let table = table(builder, sizes.longest + self.offset, sizes.codes);
        let rows = builder.position_rows(table, sizes.length, move |position| {
            [(first + position, 1.0), (0, 0.0), (0, 0.0)]
        });
        Some((rows, self.merge))
    }
}

/// A learned table, `[rows, width]`.
pub(super) fn table<T: Real>(builder: &mut Builder<T>, rows: usize, width: usize) -> Value {
    let table = builder.parameters().add("position.embedding.weight", &[rows, width], Init::Normal(0.02));
    builder.lift(table, rows, width)
}
