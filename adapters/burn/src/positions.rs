//! Where the tokens of a tensor stand.

use crate::cpu::check_room;
use crate::{Error, Result};
use burn::tensor::{DType, Int, Tensor, TensorReadError};

/// The positions of the tokens of a `[batch, length]` input. Tensors are read to the CPU once, when rows are made of them.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use rope_burn::{Positions, RotaryEmbeddingConfig};
///
/// let device = Device::flex();
/// let rope = RotaryEmbeddingConfig::new(128, 64).init(&device)?;
/// let ids = Tensor::<2, Int>::from_ints([[0, 0, 1, 2], [0, 1, 2, 3]], &device); // the first sequence begins with padding
/// let rows = rope.at(Positions::BatchIds(&ids))?;
/// let q = rows.rotate(Tensor::<4>::zeros([2, 8, 4, 64], &device))?; // [batch, heads, length, head_dim]
/// # Ok::<(), rope_burn::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// Token i of every sequence stands at this position + i. With a KV cache: the number of cached tokens.
    From(usize),
    /// Position ids `[length]`, the same for every sequence.
    Ids(&'a Tensor<1, Int>),
    /// Position ids `[batch, length]`: left padding, caches of different lengths.
    BatchIds(&'a Tensor<2, Int>),
    /// Several sequences one after another in a batch of one: their cumulative lengths (`cu_seqlens`, with or without the leading
    /// 0), `[sequences]`. Positions start again at 0 in each.
    Packed(&'a Tensor<1, Int>),
    /// Positions on several axes (M-RoPE, images), or fractional ones: `[axes, length]`. A rope of one axis takes `[1, length]`.
    Axes(&'a Tensor<2>),
    /// The same for every sequence of a batch: `[axes, batch, length]`.
    BatchAxes(&'a Tensor<3>),
}

/// The same, read from their tensors.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    From(i64),
    Ids(Vec<i64>),
    BatchIds(Vec<i64>),
    Packed(Vec<i64>),
    /// Rows of a table of their own, one for each token.
    Axes,
    /// The same, with a batch.
    BatchAxes,
}

impl Positions<'_> {
    /// The positions, and those that need a table of their own: `[axes, rows]`.
    pub(crate) fn read(&self, axes: usize) -> Result<(Read, Option<Vec<f64>>)> {
        Ok(match self {
            Positions::From(start) => match i64::try_from(*start) {
                Ok(start) => (Read::From(start), None),
                Err(_) => return Err(wrong(start, "one that a table can have")),
            },
            Positions::Ids(ids) => (Read::Ids(whole(ids)?), None),
            Positions::BatchIds(ids) => (Read::BatchIds(whole(ids)?), None),
            Positions::Packed(ends) => (Read::Packed(whole(ends)?), None),
            Positions::Axes(list) => (Read::Axes, Some(of_axes(list, axes)?)),
            Positions::BatchAxes(list) => (Read::BatchAxes, Some(of_axes(list, axes)?)),
        })
    }
}

/// Whole numbers of any type. burn panics on those of 64 bits that do not fit beside a sign.
fn whole<const D: usize>(ids: &Tensor<D, Int>) -> Result<Vec<i64>> {
    check_room::<i64>(&ids.dims())?;
    if ids.dtype() != DType::U64 {
        return ids.try_to_vec_as().map_err(unread);
    }
    let ids: Vec<u64> = ids.try_to_vec_as().map_err(unread)?;
    let id = |id: u64| i64::try_from(id).map_err(|_| wrong(id, "one that a table can have"));
    ids.into_iter().map(id).collect()
}

fn of_axes<const D: usize>(list: &Tensor<D>, axes: usize) -> Result<Vec<f64>> {
    let dims = list.dims();
    if dims[0] != axes {
        let expected = format!("{axes} axes: [{axes}, length] or [{axes}, batch, length]");
        return Err(Error::Shape { what: "positions", got: format!("{dims:?}"), expected });
    }
    check_room::<f64>(&dims)?;
    list.try_to_vec_as().map_err(unread)
}

fn wrong(value: impl std::fmt::Display, expected: &str) -> Error {
    Error::Argument { name: "position", value: value.to_string(), expected: expected.into() }
}

fn unread(error: TensorReadError) -> Error {
    wrong(format!("in a tensor that cannot be read ({error})"), "numbers")
}

impl Read {
    pub fn positions(&self) -> rope::Positions<'_> {
        match self {
            Read::From(start) => rope::Positions::From(*start),
            Read::Ids(ids) => rope::Positions::ids(ids),
            Read::BatchIds(ids) => rope::Positions::batch_ids(ids),
            Read::Packed(ends) => rope::Positions::packed(ends),
            Read::Axes => rope::Positions::Rows,
            Read::BatchAxes => rope::Positions::BatchRows,
        }
    }

    /// The rows that tokens take of a table whose first row is position `first`: where they follow each other the first alone, else those
    /// of one sequence, or of all sequences of a batch one after another. They passed the checks of the table.
    pub fn rows(&self, first: i64) -> Taken {
        let row = |id: i64| (id - first) as i32;
        match self {
            Read::From(start) => Taken::From(row(*start) as usize),
            Read::Ids(ids) | Read::BatchIds(ids) => Taken::Listed(ids.iter().map(|&id| row(id)).collect()),
            Read::Packed(ends) => {
                let lengths = std::iter::once(&0).chain(ends).zip(ends).map(|(start, end)| end - start);
                Taken::Listed(lengths.flat_map(|length| (0..length).map(row)).collect())
            }
            Read::Axes | Read::BatchAxes => Taken::From(0),
        }
    }

    /// Whether every sequence has rows of its own.
    pub fn is_batched(&self) -> bool {
        matches!(self, Read::BatchIds(_) | Read::BatchAxes)
    }
}

/// The rows of a table that tokens take.
pub(crate) enum Taken {
    From(usize),
    Listed(Vec<i32>),
}
