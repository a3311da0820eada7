//! DeBERTa (He et al. 2021): content to content, content to position and position to content:
//! (q_i·k_j + q_i·K^r_δ(i,j) + k_j·Q^r_δ(j,i))/√(3d), δ(i, j) = i − j + k clipped to 0 … 2k−1, K^r and Q^r projections of one
//! learned table that all layers share.
//!
//! The released models (DeBERTa-v2 and v3) differ from the paper: δ(i, j) in both terms, far distances in rows that widen
//! with the logarithm, a norm of the table, and K^r and Q^r made by the layer's own weights of keys and queries.

use super::learned::Learned;
use super::{Encode, Merge, Sizes, Terms, by_distance, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, Init, Parameter, TableTerm, Value};
use crate::ops::Real;

/// DeBERTa's encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deberta {
    /// k: distances beyond it share a vector.
    pub reach: usize,
    /// Where far distances share rows: those up to k/2 have a row each, the others, up to this one, rows that widen with the
    /// logarithm.
    pub furthest: Option<usize>,
    /// Which of the two terms there are.
    pub terms: DebertaTerms,
    /// Whether keys meet the row of δ(j, i), as the paper has it, rather than that of δ(i, j).
    pub is_mirrored: bool,
    /// What projects the table.
    pub projections: Projections,
    /// ε of a norm of the table, where it has one.
    pub norm: Option<f64>,
    /// Whether learned vectors of positions are added to the embeddings too.
    pub is_absolute: bool,
}

/// The terms of DeBERTa.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DebertaTerms {
    /// Content to position and position to content.
    #[default]
    Both,
    /// Content to position: what queries meet.
    Queries,
    /// Position to content: what keys meet.
    Keys,
}

/// What makes K^r and Q^r of DeBERTa's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Projections {
    /// Weights of their own in every layer.
    #[default]
    Own,
    /// The same, with biases.
    Biased,
    /// The layer's weights of keys and queries, with their biases where the model has them.
    Shared,
}

impl Default for Deberta {
    fn default() -> Self {
        Deberta {
            reach: 32,
            furthest: None,
            terms: DebertaTerms::Both,
            is_mirrored: true,
            projections: Projections::Own,
            norm: None,
            is_absolute: false,
        }
    }
}

impl Deberta {
    /// The row of the distance i − j.
    fn row(&self, distance: i64) -> u32 {
        let reach = self.reach as i64;
        let near = match self.furthest {
            Some(furthest) => bucket(distance, self.reach, furthest),
            None => distance,
        };
        (near.clamp(-reach, reach) + reach).clamp(0, 2 * reach - 1) as u32
    }

    /// The table, `[2 · reach, width]`, which all layers share.
    fn table<T: Real>(&self, builder: &mut Builder<T>, layer: usize, width: usize) -> Value {
        let rows = 2 * self.reach.max(1);
        let shared = add(builder, layer > 0, TABLE, &[rows, width], Init::Normal(0.02));
        let table = builder.lift(shared, rows, width);
        let Some(epsilon) = self.norm else { return table };
        let mut part = |part: &str, first: f64| {
            let name = format!("position.deberta.norm.{part}");
            add(builder, layer > 0, &name, &[width], Init::Constant(first))
        };
        let (weight, bias) = (part("weight", 1.0), part("bias", 0.0));
        builder.layer_norm(table, weight, Some(bias), epsilon)
    }
}

/// The table of all layers.
const TABLE: &str = "position.deberta.weight";

/// A parameter, or the one of this name that is there, where it is shared.
fn add<T: Real>(
    builder: &mut Builder<T>,
    is_shared: bool,
    name: &str,
    shape: &[usize],
    init: Init,
) -> Parameter {
    let known = builder.parameters().find(name).filter(|_| is_shared);
    known.unwrap_or_else(|| builder.parameters().add(name, shape, init))
}

/// Where a distance falls of −(2·⌊buckets/2⌋ − 1) and up, or beyond: those near stay what they are. In `f32`, in the order of
/// the released models, because what is rounded up at the end may hang on a last bit.
fn bucket(distance: i64, buckets: usize, furthest: usize) -> i64 {
    let (middle, far) = ((buckets / 2) as i64, distance.abs());
    if far <= middle {
        return distance;
    }
    let steps = (middle - 1) as f32;
    let reached = (far as f32 / middle as f32).ln();
    let whole = (((furthest as f64 - 1.0) / middle as f64) as f32).ln();
    // A float as a whole number is at most the largest there is, whatever the distance.
    let step = (reached / whole * steps).ceil() as i64;
    distance.signum() * step.saturating_add(middle)
}

impl<T: Real> Encode<T> for Deberta {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        check_rows("the reach of deberta", self.reach)?;
        if let Some(furthest) = self.furthest {
            check_rows("the furthest distance of deberta", furthest)?;
            if self.reach < 2 || furthest <= self.reach / 2 + 1 {
                let value = format!("{furthest}, for a reach of {}", self.reach);
                let expected = "more than half of the reach and one, which is at least 2";
                return Err(Error::input("the furthest distance of deberta", value, expected));
            }
        }
        if let Some(epsilon) = self.norm.filter(|epsilon| !(0.0..1.0).contains(epsilon)) {
            return Err(Error::input("the norm of deberta", epsilon, "an epsilon from 0 to 1"));
        }
        match self.is_absolute {
            true => Encode::<T>::check(&ABSOLUTE, sizes),
            false => Ok(()),
        }
    }

    fn codes(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Value, Merge)> {
        self.is_absolute.then(|| ABSOLUTE.codes(builder, sizes)).flatten()
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let heads = sizes.heads * sizes.head_dim;
        let table = self.table(builder, layer, sizes.width);
        let mut project = |part: &str| {
            let name = |kind: &str| format!("position.deberta.{layer}.{part}.{kind}");
            let is_shared = self.projections == Projections::Shared;
            let shape = [heads, sizes.width];
            let weight = add(builder, is_shared, &name("weight"), &shape, Init::Normal(0.02));
            let bias = match self.projections {
                Projections::Own => None,
                Projections::Shared if !sizes.has_biases => None,
                _ => Some(add(builder, is_shared, &name("bias"), &[heads], Init::Constant(0.0))),
            };
            builder.linear(table, weight, bias, heads)
        };
        let keys = (self.terms != DebertaTerms::Keys).then(|| project("key"));
        let queries = (self.terms != DebertaTerms::Queries).then(|| project("query"));
        let mirror = if self.is_mirrored { -1 } else { 1 };
        let count = 1 + keys.iter().len() + queries.iter().len();
        Terms {
            query: keys
                .map(|table| TableTerm { table, index: by_distance(sizes.length, |far| self.row(far)) }),
            key: queries.map(|table| TableTerm {
                table,
                index: by_distance(sizes.length, |far| self.row(mirror * far)),
            }),
            scale: Some((count as f64 * sizes.head_dim as f64).sqrt().recip()),
            ..Terms::default()
        }
    }
}

/// The vectors of positions that may be added to the embeddings.
const ABSOLUTE: Learned = Learned { merge: Merge::Add, offset: 0 };

#[cfg(test)]
mod tests {
    use super::bucket;

    /// What `make_log_bucket_position` of transformers gives.
    #[test]
    fn distances_fall_into_buckets() {
        for (distance, expected) in [
            (0, 0),
            (127, 127),
            (-128, -128),
            (-129, -129),
            (-200, -169),
            (300, 207),
            (-511, -255),
            (512, 256),
        ] {
            assert_eq!(bucket(distance, 256, 512), expected, "{distance}");
        }
        let odd = [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8];
        for (distance, expected) in (0i64..).zip(odd) {
            assert_eq!(bucket(distance, 9, 20), expected, "{distance}");
            assert_eq!(bucket(-distance, 9, 20), -expected, "-{distance}");
        }
    }
}
