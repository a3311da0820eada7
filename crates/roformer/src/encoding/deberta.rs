//! DeBERTa (He et al. 2021): content to content, content to position and position to content:
//! (q_i·k_j + q_i·K^r_δ(i,j) + k_j·Q^r_δ(j,i))/√(3d), δ(i, j) = i − j + k clipped to 0 … 2k−1, K^r and Q^r projections of one
//! learned table that all layers share.

use super::{Encode, Sizes, Terms, by_distance, check_rows};
use crate::error::Result;
use crate::graph::{Builder, Init, TableTerm};
use crate::ops::Real;

/// DeBERTa's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deberta {
    /// k: distances beyond it share a vector.
    pub reach: usize,
}

impl Default for Deberta {
    fn default() -> Self {
        Deberta { reach: 32 }
    }
}

impl<T: Real> Encode<T> for Deberta {
    fn check(&self, _sizes: &Sizes) -> Result<()> {
        check_rows("the reach of deberta", self.reach)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let (rows, width, heads) = (2 * self.reach.max(1), sizes.width, sizes.heads * sizes.head_dim);
        let name = "position.deberta.weight";
        let shared = match (layer, builder.parameters().find(name)) {
            (1.., Some(shared)) => shared,
            _ => builder.parameters().add(name, &[rows, width], Init::Normal(0.02)),
        };
        let shared = builder.lift(shared, rows, width);
        let mut project = |part: &str| {
            let name = format!("position.deberta.{layer}.{part}.weight");
            let weight = builder.parameters().add(name, &[heads, width], Init::Normal(0.02));
            builder.linear(shared, weight, None, heads)
        };
        let (keys, queries) = (project("key"), project("query"));
        let clipped = |distance: i64| (distance + rows as i64 / 2).clamp(0, rows as i64 - 1) as u32;
        Terms {
            query: Some(TableTerm { table: keys, index: by_distance(sizes.length, clipped) }),
            key: Some(TableTerm {
                table: queries,
                index: by_distance(sizes.length, |distance| clipped(-distance)),
            }),
            scale: Some((3.0 * sizes.head_dim as f64).sqrt().recip()),
            ..Terms::default()
        }
    }
}
