//! Tensors that a family's files keep in another order than the one they are worked on: products with their inputs first,
//! queries, keys and values head by head, heads as an axis of their own, biases by buckets before heads, weights of norms less 1.

use super::names::Queries;
use super::{BUCKETS, Blueprint, Named, Names, NormKind};
use crate::encoding::Evaluated;
use crate::error::{Error, Result};
use crate::model::Parameters;
use crate::ops::{Memory, Real};
use crate::weights::Weights;

/// How a tensor is kept in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// As it is worked on.
    Same,
    /// `[inputs, outputs]` in place of `[outputs, inputs]`.
    Transposed,
    /// Rows head by head, of queries, keys and values in turn, in place of all queries, all keys, all values: as many heads,
    /// and so many rows of each.
    ByHead { heads: usize, head_dim: usize },
    /// `[inputs, heads, head_dim]` in place of `[heads · head_dim, inputs]`: so many heads. Where inputs are codes of distances,
    /// all sines come before all cosines, and not in pairs.
    HeadsLast { heads: usize, are_codes: bool },
    /// `[…, heads, head_dim]` in place of `[…, heads · head_dim]`, and no first axis of 1: so many heads.
    Split(usize),
    /// `[1, 1, width]` in place of `[width]`.
    Alone,
    /// Less 1.
    LessOne,
    /// A convolution's `[outputs, inputs, kernel]` in place of `[outputs, kernel · inputs]`.
    Kernel(usize),
}

impl Blueprint {
    /// How a tensor of this name and shape is kept in files.
    pub(crate) fn arrangement(&self, name: &str, shape: &[usize]) -> Arrangement {
        let names = self.family.names();
        let stem = name.strip_suffix(".weight").or(name.strip_suffix(".bias")).unwrap_or(name);
        let encoder = self.encoder.as_ref().map(|encoder| encoder.family.names());
        let is_buckets = |names: &Names| name != BUCKETS && names.of_encoding(BUCKETS) == name;
        if is_buckets(names) || encoder.is_some_and(is_buckets) {
            return Arrangement::Transposed;
        }
        if self.norms.kind == NormKind::RmsLessOne && name.ends_with("norm.weight") {
            return Arrangement::LessOne;
        }
        if let Some(convolution) =
            self.convolution.filter(|_| shape.len() == 2 && stem == names.convolution[0])
        {
            return Arrangement::Kernel(convolution.kernel);
        }
        if !names.carried.is_empty() && name == names.carried {
            return Arrangement::Alone;
        }
        if !name.starts_with(names.layer) {
            return Arrangement::Same;
        }
        let is_of = |parts: &[&str]| parts.iter().any(|part| name.ends_with(&format!(".{part}")));
        let [products, codes, others] = names.by_heads.map(is_of);
        match names.queries {
            _ if names.is_transposed && shape.len() == 2 => Arrangement::Transposed,
            _ if products || codes => Arrangement::HeadsLast { heads: self.heads, are_codes: codes },
            _ if others => Arrangement::Split(self.heads),
            Queries::ByHead(part) if stem.ends_with(&format!(".{part}")) => {
                Arrangement::ByHead { heads: self.heads, head_dim: self.head_dim }
            }
            _ => Arrangement::Same,
        }
    }
}

impl Blueprint {
    /// What a tensor of a file is to the model.
    pub fn role(&self, weights: &Weights, name: &str) -> Role {
        let full = Named::new(weights, self.family.names()).full(name);
        let shape = weights.get(name).map_or(&[][..], |tensor| tensor.shape());
        let own = |blueprint: &Blueprint| {
            let is_in_rows =
                matches!(blueprint.arrangement(&full, shape), Arrangement::Same | Arrangement::ByHead { .. });
            full.starts_with(blueprint.family.names().layer) && is_in_rows
        };
        match shape.len() {
            2 if self.is_table(&full) => Role::Other,
            2 if own(self) || self.encoder.as_deref().is_some_and(own) => Role::Rows,
            2 => Role::Matrix,
            _ => Role::Other,
        }
    }

    /// Whether a tensor is a table of segments or belongs to the position encoding: added to what is computed, and never multiplied.
    fn is_table(&self, name: &str) -> bool {
        let layers = self.layer_encodings(self.layers);
        let layout = Evaluated::<f32>::layout(&self.encoding, &layers, &self.encoded_sizes(1));
        name.strip_suffix(".weight") == Some(self.family.names().types)
            || layout.entries().iter().any(|entry| self.of_encoding(&entry.name) == name)
            || self.encoder.as_ref().is_some_and(|encoder| encoder.is_table(name))
    }
}

/// What a tensor is to a model that is to be kept in fewer bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A product of a layer, with a row for each output: what can be kept in 8 bits with a scale for each.
    Rows,
    /// Another matrix, and the embeddings of words: what can be kept in 16 bits.
    Matrix,
    /// A vector, or a table that is added to what is computed.
    Other,
}

impl Arrangement {
    /// The shape in files.
    pub fn shape(self, shape: &[usize]) -> Vec<usize> {
        match self {
            Arrangement::Transposed => shape.iter().rev().copied().collect(),
            Arrangement::Kernel(kernel) => vec![shape[0], shape[1] / kernel, kernel],
            Arrangement::HeadsLast { heads, .. } => vec![shape[1], heads, shape[0] / heads],
            Arrangement::Split(heads) => {
                let first = Some(shape[0]).filter(|&rows| rows > 1);
                first.into_iter().chain([heads, shape[1] / heads]).collect()
            }
            Arrangement::Alone => vec![1, 1, shape[0]],
            _ => shape.to_vec(),
        }
    }

    /// A tensor of this shape, from `kept` as it is in files to `own` as it is worked on.
    pub fn take<T: Real>(self, shape: &[usize], kept: &[T], own: &mut [T]) {
        self.each(shape, |file, work, one| own[work] = kept[file] + T::of(one));
    }

    /// The other way.
    pub fn give<T: Real>(self, shape: &[usize], own: &[T], kept: &mut [T]) {
        self.each(shape, |file, work, one| kept[file] = own[work] - T::of(one));
    }

    /// For every number: its place in files, its place in work, and by how much it is less in files.
    fn each(self, shape: &[usize], mut number: impl FnMut(usize, usize, f64)) {
        let rows = shape.first().copied().unwrap_or(1);
        let columns: usize = shape.iter().skip(1).product();
        for row in 0..rows {
            let in_file = match self {
                Arrangement::ByHead { heads, head_dim } => {
                    let (part, head) = (row / (heads * head_dim), row / head_dim % heads);
                    (head * 3 + part) * head_dim + row % head_dim
                }
                _ => row,
            };
            for column in 0..columns {
                let place = match self {
                    Arrangement::Transposed | Arrangement::HeadsLast { are_codes: false, .. } => {
                        column * rows + row
                    }
                    Arrangement::HeadsLast { are_codes: true, .. } => {
                        (column / 2 + column % 2 * (columns / 2)) * rows + row
                    }
                    Arrangement::Kernel(kernel) => {
                        let inputs = columns / kernel;
                        (row * inputs + column % inputs) * kernel + column / inputs
                    }
                    _ => in_file * columns + column,
                };
                number(place, row * columns + column, if self == Arrangement::LessOne { 1.0 } else { 0.0 });
            }
        }
    }
}

/// Tensors as a family's files keep them, read in the order in which they are worked on.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a, S> {
    /// Whose tensors they are.
    pub blueprint: &'a Blueprint,
    /// Where they are.
    pub source: S,
}

impl<T: Real, S: Parameters<T>> Parameters<T> for Kept<'_, S> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        let arrangement = self.blueprint.arrangement(name, shape);
        if arrangement == Arrangement::Same {
            return self.source.read(name, shape, out);
        }
        let mut kept = Memory::zeros(out.len()).ok_or(Error::memory("the weights"))?;
        self.source.read(name, &arrangement.shape(shape), &mut kept)?;
        arrangement.take(shape, &kept, out);
        Ok(())
    }

    fn read_rows(&self, name: &str, shape: &[usize], first: usize, out: &mut [T]) -> Result<()> {
        self.source.read_rows(name, shape, first, out)
    }

    fn is_in_rows(&self, name: &str, shape: &[usize]) -> bool {
        self.blueprint.arrangement(name, shape) == Arrangement::Same && self.source.is_in_rows(name, shape)
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.source.check(name, &self.blueprint.arrangement(name, shape).shape(shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_go_both_ways() {
        let numbers: Vec<f64> = (0..24).map(f64::from).collect();
        for (arrangement, shape, second) in [
            (Arrangement::Same, [12, 2], 1.0),
            (Arrangement::Transposed, [4, 6], 4.0),
            // Two heads of two rows: row 2 in work is the first of the second head's queries.
            (Arrangement::ByHead { heads: 2, head_dim: 2 }, [12, 2], 1.0),
            (Arrangement::LessOne, [24, 1], 2.0),
            (Arrangement::Kernel(3), [4, 6], 3.0),
            (Arrangement::HeadsLast { heads: 2, are_codes: false }, [4, 6], 4.0),
            // The first input is a sine, the second its cosine, which comes after all three sines.
            (Arrangement::HeadsLast { heads: 2, are_codes: true }, [4, 6], 12.0),
            (Arrangement::Split(2), [4, 6], 1.0),
        ] {
            let (mut own, mut kept) = (vec![0.0; 24], vec![0.0; 24]);
            arrangement.take(&shape, &numbers, &mut own);
            assert_eq!(own[1], second, "{arrangement:?}");
            arrangement.give(&shape, &own, &mut kept);
            assert_eq!(kept, numbers, "{arrangement:?}");
        }
        for (arrangement, shape, in_file) in [
            (Arrangement::HeadsLast { heads: 2, are_codes: true }, &[4, 6][..], &[6, 2, 2][..]),
            (Arrangement::Split(3), &[2, 6], &[2, 3, 2]),
            (Arrangement::Split(3), &[1, 6], &[3, 2]),
            (Arrangement::Alone, &[6], &[1, 1, 6]),
        ] {
            assert_eq!(arrangement.shape(shape), in_file, "{arrangement:?}");
        }
        let mut own = vec![0.0; 24];
        Arrangement::ByHead { heads: 2, head_dim: 2 }.take(&[12, 2], &numbers, &mut own);
        assert_eq!(own[4..8], [12.0, 13.0, 14.0, 15.0]);
        assert_eq!(own[8..12], [4.0, 5.0, 6.0, 7.0]);
    }
}
