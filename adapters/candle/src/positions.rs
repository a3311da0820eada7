//! Where the tokens of a tensor stand.

use crate::cpu::check_room;
use crate::refused;
use candle_core::{DType, Result, Tensor, WithDType, bail};

/// The positions of the tokens of a `[batch, length]` input.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use rope_candle::{Positions, RotaryEmbedding};
///
/// let rope = RotaryEmbedding::from_config(br#"{"model_type": "llama", "head_dim": 64}"#, 128)?;
/// let ids = Tensor::new(&[[0u32, 0, 1, 2], [0, 1, 2, 3]], &Device::Cpu)?; // the first sequence begins with padding
/// let rows = rope.at(Positions::Ids(&ids))?;
/// let q = rows.rotate(&Tensor::zeros((2, 8, 4, 64), DType::F16, &Device::Cpu)?)?; // [batch, heads, length, head_dim]
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// Token i of every sequence stands at this position + i. With a KV cache: the number of cached tokens.
    From(usize),
    /// Position ids of whole numbers: `[length]` for all sequences, or `[batch, length]` (left padding, caches of different
    /// lengths).
    Ids(&'a Tensor),
    /// Several sequences one after another in a batch of one: their cumulative lengths (`cu_seqlens`, with or without the leading
    /// 0), `[sequences]`, whole numbers. Positions start again at 0 in each.
    Packed(&'a Tensor),
    /// Positions on several axes (M-RoPE, images), or fractional ones: `[axes, length]` or `[axes, batch, length]`. A rope
    /// of one axis takes `[1, …]`.
    Axes(&'a Tensor),
}

/// The same, read from their tensors.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    From(i64),
    Ids(Vec<i64>),
    BatchIds(Vec<i64>),
    Packed(Vec<i64>),
    /// `[axes, rows]`
    Axes(Vec<f64>),
    /// The same, with a batch.
    BatchAxes(Vec<f64>),
}

impl Positions<'_> {
    pub(crate) fn read(&self, axes: usize) -> Result<Read> {
        let shape = |tensor: &Tensor, expected: &str| {
            bail!("positions: got a tensor of shape {:?}; expected {expected}", tensor.dims())
        };
        match *self {
            Positions::From(start) => match i64::try_from(start) {
                Ok(start) => Ok(Read::From(start)),
                Err(_) => bail!("positions: a first position of {start}; expected one that a table can have"),
            },
            Positions::Ids(ids) => match ids.rank() {
                1 => Ok(Read::Ids(whole(ids)?)),
                2 => Ok(Read::BatchIds(whole(ids)?)),
                _ => shape(ids, "[length] or [batch, length]"),
            },
            Positions::Packed(ends) => match ends.rank() {
                1 => Ok(Read::Packed(whole(ends)?)),
                _ => shape(ends, "cumulative lengths [sequences]"),
            },
            Positions::Axes(positions) => match (positions.dims(), positions.rank()) {
                ([first, ..], 2 | 3) if *first == axes => {
                    let list = list(positions)?;
                    Ok(if positions.rank() == 2 { Read::Axes(list) } else { Read::BatchAxes(list) })
                }
                _ => shape(positions, &format!("[{axes}, length] or [{axes}, batch, length]")),
            },
        }
    }
}

/// Whole numbers of any type.
fn whole(ids: &Tensor) -> Result<Vec<i64>> {
    match ids.dtype() {
        DType::U8 | DType::U32 | DType::I16 | DType::I32 | DType::I64 => list(ids),
        dtype => bail!("positions: ids are {dtype:?}; expected whole numbers: u8, u32, i16, i32 or i64"),
    }
}

/// All numbers, in a type that is no smaller than theirs.
fn list<T: WithDType>(x: &Tensor) -> Result<Vec<T>> {
    check_room(x.dims(), size_of::<T>())?;
    // candle itself panics on some empty tensors.
    match x.elem_count() {
        0 => Ok(Vec::new()),
        _ => x.contiguous()?.to_dtype(T::DTYPE)?.flatten_all()?.to_vec1(),
    }
}

impl Read {
    pub(crate) fn positions(&self) -> rope::Positions<'_> {
        match self {
            Read::From(start) => rope::Positions::From(*start),
            Read::Ids(ids) => rope::Positions::ids(ids),
            Read::BatchIds(ids) => rope::Positions::batch_ids(ids),
            Read::Packed(ends) => rope::Positions::packed(ends),
            Read::Axes(_) => rope::Positions::Rows,
            Read::BatchAxes(_) => rope::Positions::BatchRows,
        }
    }

    /// The rows that the tokens of one sequence take, or those of a batch one after another, of a table whose first row is
    /// position 0. They passed the checks of the table.
    pub(crate) fn rows(&self, batch: usize, length: usize) -> Vec<u32> {
        let id = |id: &i64| *id as u32;
        match self {
            Read::From(start) => (0..length).map(|token| *start as u32 + token as u32).collect(),
            Read::Ids(ids) | Read::BatchIds(ids) => ids.iter().map(id).collect(),
            Read::Packed(ends) => {
                let lengths = std::iter::once(&0).chain(ends).zip(ends).map(|(start, end)| end - start);
                lengths.flat_map(|length| 0..length as u32).collect()
            }
            Read::Axes(_) => (0..length as u32).collect(),
            Read::BatchAxes(_) => (0..(batch * length) as u32).collect(),
        }
    }

    /// Whether every sequence has rows of its own.
    pub(crate) fn is_batched(&self) -> bool {
        matches!(self, Read::BatchIds(_) | Read::BatchAxes(_))
    }

    /// The table of these positions, where they are not rows of a range.
    pub(crate) fn listed<P: rope::Precision>(
        &self,
        rope: &rope::Rope,
        sequence_length: Option<u64>,
    ) -> Option<Result<rope::Table<P>>> {
        match self {
            Read::Axes(list) | Read::BatchAxes(list) => {
                Some(rope.table_of(list, sequence_length).map_err(refused))
            }
            _ => None,
        }
    }
}
