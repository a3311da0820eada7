//! Cosines and sines that Python hands over, and the rows of them that tokens take.

use crate::error::raised;
use crate::tensor::{Kind, Tensor};
use crate::threads::LARGE;
use half::{bf16, f16};
use pyo3::prelude::*;
use rope::{Element, Error, Ids, Positions, Precision};

/// Cosines and sines with the way to choose rows of them, checked against the `[batch, length]` of an input.
pub(crate) struct Trig {
    cos: Tensor,
    sin: Tensor,
    /// Numbers of a row: as many as there are pairs, whatever follows them.
    pairs: usize,
    /// Rows of one sequence.
    rows: usize,
    /// Whether every sequence has rows of its own.
    by_batch: bool,
    places: Places,
    batch: usize,
    length: usize,
}

/// Which row each token takes.
enum Places {
    From(i64),
    Ids(Tensor),
    /// Positions in packed sequences.
    Packed(Vec<i64>),
}

/// Memory for rows that have to be converted, kept from call to call.
#[derive(Default)]
pub(crate) struct Scratch<P> {
    cos: Vec<P>,
    sin: Vec<P>,
}

impl Trig {
    /// Checks shapes. Of ids, whether each has a row is checked when rows are taken.
    pub fn new(
        (cos, sin): (Tensor, Tensor),
        rotary_dim: usize,
        (batch, length): (usize, usize),
        offset: i64,
        ids: Option<Tensor>,
        ends: Option<Tensor>,
    ) -> PyResult<Trig> {
        cos.check_memory("cos")?;
        sin.check_memory("sin")?;
        for (name, table) in [("cos", &cos), ("sin", &sin)] {
            if matches!(table.kind, Kind::I32 | Kind::I64) {
                return Err(raised(format!(
                    "{name} has type {}; expected a floating type",
                    table.kind.name()
                )));
            }
        }
        if cos.shape() != sin.shape() {
            let (cos, sin) = (cos.shape(), sin.shape());
            return Err(raised(format!("sin has shape {sin:?}; expected that of cos, {cos:?}")));
        }
        let pairs = rotary_dim / 2;
        let (sequences, rows, width) = match *cos.shape() {
            [rows, width] => (1, rows, width),
            [sequences, rows, width] => (sequences, rows, width),
            ref shape => {
                return Err(raised(format!(
                    "cos has shape {shape:?}; expected [length, pairs] or [batch, length, pairs]"
                )));
            }
        };
        if width != pairs && width != rotary_dim {
            return Err(raised(format!(
                "cos has {width} columns; expected {pairs} (one for each pair of {rotary_dim} rotary features) or {rotary_dim} \
                 (the same twice)"
            )));
        }
        let by_batch = sequences != 1;
        if by_batch {
            if sequences != batch || rows != length {
                return Err(raised(format!(
                    "cos has shape {:?}; expected [{batch}, {length}, {width}], or no batch",
                    cos.shape()
                )));
            }
            if offset != 0 || ids.is_some() || ends.is_some() {
                return Err(raised(
                    "cos has a batch of rows; expected [length, pairs], of which an offset, position_ids or cu_seqlens choose",
                ));
            }
        }
        let places = match (ids, ends) {
            (None, None) => Places::From(offset),
            (Some(_), Some(_)) => {
                return Err(raised("got position_ids and cu_seqlens; expected one of them"));
            }
            _ if offset != 0 => {
                return Err(raised(format!(
                    "got an offset of {offset} beside positions; expected one of them"
                )));
            }
            (Some(ids), None) => {
                check_ids("position_ids", &ids)?;
                match *ids.shape() {
                    [tokens] if tokens == length => {}
                    [sequences, tokens] if tokens == length && (sequences == batch || sequences == 1) => {}
                    ref shape => {
                        return Err(raised(format!(
                            "position_ids has shape {shape:?}; expected [{length}] or [{batch}, {length}]"
                        )));
                    }
                }
                Places::Ids(ids)
            }
            (None, Some(ends)) => Places::Packed(packed(&ends, batch, length)?),
        };
        Ok(Trig { cos, sin, pairs, rows, by_batch, places, batch, length })
    }

    /// Bytes of the cosines that tokens take, as `P`.
    fn is_large<P>(&self) -> bool {
        self.batch * self.length * self.pairs * size_of::<P>() >= LARGE
    }

    /// Calls `work` with cosines and sines `[rows, pairs]` and positions in them: as they lie where that can be, else the rows
    /// that are needed, converted.
    pub fn with<P: Precision, R>(
        &self,
        kind: Kind,
        scratch: &mut Scratch<P>,
        work: impl FnOnce(&[P], &[P], Positions) -> PyResult<R>,
    ) -> PyResult<R> {
        if let Some(positions) = self.in_place(kind) {
            let entries = self.pairs * self.rows * if self.by_batch { self.batch } else { 1 };
            // SAFETY: `in_place` found numbers of this type side by side; the tensors live as long as the call.
            let (cos, sin) = unsafe { (slice(&self.cos, entries), slice(&self.sin, entries)) };
            return work(cos, sin, positions);
        }
        let shared = !self.by_batch && self.are_shared();
        let tokens = if shared { self.length } else { self.batch * self.length };
        let entries = tokens * self.pairs;
        let Scratch { cos, sin } = scratch;
        for (table, list) in [(&self.cos, &mut *cos), (&self.sin, &mut *sin)] {
            list.resize(entries.max(list.len()), P::default());
            match table.kind {
                Kind::F32 => self.take::<f32, P>(table, &mut list[..entries])?,
                Kind::F64 => self.take::<f64, P>(table, &mut list[..entries])?,
                Kind::F16 => self.take::<f16, P>(table, &mut list[..entries])?,
                Kind::Bf16 => self.take::<bf16, P>(table, &mut list[..entries])?,
                Kind::I32 | Kind::I64 => return Err(raised("cosines are no whole numbers")),
            }
        }
        let positions = if shared { Positions::Rows } else { Positions::BatchRows };
        let done = work(&cos[..entries], &sin[..entries], positions);
        if self.is_large::<P>() {
            // What one large call needed is not kept for the small ones after it.
            *scratch = Scratch::default();
        }
        done
    }

    /// Positions with which the tables can be used as they lie.
    fn in_place(&self, kind: Kind) -> Option<Positions<'_>> {
        let lies = |table: &Tensor| {
            let (shape, strides) = (table.shape(), table.strides());
            let last = shape.len() - 1;
            table.kind == kind
                && shape[last] == self.pairs
                && (self.pairs == 1 || strides[last] == 1)
                && (self.rows <= 1 || strides[last - 1] == self.pairs)
                && (!self.by_batch || strides[0] == self.rows * self.pairs)
        };
        if !lies(&self.cos) || !lies(&self.sin) {
            return None;
        }
        match &self.places {
            Places::From(_) if self.by_batch => Some(Positions::BatchRows),
            Places::From(offset) => Some(Positions::From(*offset)),
            Places::Packed(ids) => Some(Positions::ids(ids)),
            Places::Ids(ids) => {
                let by_batch = !self.are_shared();
                let (shape, strides) = (ids.shape(), ids.strides());
                let last = shape.len() - 1;
                if self.length > 1 && strides[last] != 1 || by_batch && strides[0] != self.length {
                    return None;
                }
                let count = if by_batch { self.batch * self.length } else { self.length };
                // SAFETY: whole numbers of this type side by side, as was just found; the tensor lives as long as the call.
                let ids = unsafe {
                    match ids.kind {
                        Kind::I32 => Ids::I32(slice(ids, count)),
                        _ => Ids::I64(slice(ids, count)),
                    }
                };
                Some(if by_batch { Positions::BatchIds(ids) } else { Positions::Ids(ids) })
            }
        }
    }

    /// Whether all sequences take the same rows.
    pub fn are_shared(&self) -> bool {
        match &self.places {
            Places::From(_) | Places::Packed(_) => true,
            Places::Ids(ids) => match *ids.shape() {
                [sequences, _] => sequences == 1 || ids.strides()[0] == 0,
                _ => true,
            },
        }
    }

    /// Copies the rows that tokens take to `list`, `[tokens, pairs]`.
    fn take<S: Element, P: Precision>(&self, table: &Tensor, list: &mut [P]) -> PyResult<()> {
        let strides = table.strides();
        let (column, row) = (strides[strides.len() - 1], strides[strides.len() - 2]);
        let sequence = if self.by_batch { strides[0] } else { 0 };
        let source = table.address as *const S;
        for (token, target) in list.chunks_exact_mut(self.pairs).enumerate() {
            let (batch, token) = (token / self.length, token % self.length);
            let place = self.place(batch, token);
            let place = match usize::try_from(place) {
                Ok(place) if place < self.rows => place,
                _ => {
                    let covered = format!("positions 0..{}", self.rows);
                    return Err(raised(Error::Position { position: place, covered }));
                }
            };
            // SAFETY: the row is below the rows of the table and the sequence below its sequences, so these are numbers of the
            // tensor, which live as long as the call.
            let first = unsafe { source.add(batch * sequence + place * row) };
            if column == 1 {
                // SAFETY: as above, `pairs` of them side by side.
                let numbers = unsafe { std::slice::from_raw_parts(first, self.pairs) };
                target.iter_mut().zip(numbers).for_each(|(to, from)| *to = convert(*from));
            } else {
                for (pair, to) in target.iter_mut().enumerate() {
                    // SAFETY: as above, `column` apart.
                    *to = convert(unsafe { *first.add(pair * column) });
                }
            }
        }
        Ok(())
    }

    fn place(&self, batch: usize, token: usize) -> i64 {
        match &self.places {
            Places::From(offset) => offset.saturating_add(token as i64),
            Places::Packed(ids) => ids[token],
            Places::Ids(ids) => {
                let at = match *ids.strides() {
                    // One sequence of ids serves all.
                    [sequence, step] if ids.shape()[0] > 1 => batch * sequence + token * step,
                    [.., step] => token * step,
                    [] => 0,
                };
                whole(ids, at)
            }
        }
    }
}

#[inline(always)]
fn convert<S: Element, P: Precision>(number: S) -> P {
    P::from_f64(number.widen().to_f64())
}

/// The first numbers of a tensor.
///
/// # Safety
///
/// So many numbers of type `T` lie side by side from the tensor's address on, for as long as they are used.
unsafe fn slice<'a, T>(tensor: &Tensor, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; tensors begin where a number can, which was checked.
    unsafe { std::slice::from_raw_parts(tensor.address as *const T, count) }
}

fn check_ids(name: &str, ids: &Tensor) -> PyResult<()> {
    ids.check_memory(name)?;
    match ids.kind {
        Kind::I32 | Kind::I64 => Ok(()),
        kind => Err(raised(format!("{name} has type {}; expected int32 or int64", kind.name()))),
    }
}

/// A whole number of a tensor, by its distance from the first.
fn whole(tensor: &Tensor, at: usize) -> i64 {
    // SAFETY: callers ask for elements that the tensor's shape and strides reach; its type was checked.
    unsafe {
        match tensor.kind {
            Kind::I32 => (*(tensor.address as *const i32).add(at)).into(),
            _ => *(tensor.address as *const i64).add(at),
        }
    }
}

/// The positions of the tokens of packed sequences, from their cumulative lengths.
fn packed(ends: &Tensor, batch: usize, length: usize) -> PyResult<Vec<i64>> {
    check_ids("cu_seqlens", ends)?;
    let &[count] = ends.shape() else {
        return Err(raised(format!("cu_seqlens has shape {:?}; expected one axis", ends.shape())));
    };
    if batch != 1 {
        return Err(raised(format!("got cu_seqlens with a batch of {batch}; expected a batch of 1")));
    }
    let mut positions = Vec::with_capacity(length);
    for index in 0..count {
        let end = whole(ends, index * ends.strides()[0]);
        let start = positions.len();
        match usize::try_from(end) {
            Ok(end) if end >= start && end <= length => positions.extend(0..(end - start) as i64),
            _ => {
                return Err(raised(format!(
                    "cu_seqlens has {end} after {start}; expected lengths added up, to {length} at the end"
                )));
            }
        }
    }
    if positions.len() != length {
        let end = positions.len();
        return Err(raised(format!("cu_seqlens ends with {end}; expected the length, {length}")));
    }
    Ok(positions)
}
