//! Where each token stands: which row of a table it takes.

use crate::error::{Error, Result, brief};
use crate::trig::MAX_POSITION;

/// The positions of the tokens of a `[batch, length]` input, shared by all heads.
///
/// Nothing is guessed from sizes: ids for one sequence and ids for a batch are different variants.
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// Token i of every sequence stands at this position + i. With a KV cache: the number of cached tokens.
    From(i64),
    /// `[length]`: the same position ids for every sequence.
    Ids(Ids<'a>),
    /// `[batch, length]`: position ids for every sequence (left padding, different cache lengths).
    BatchIds(Ids<'a>),
    /// Several sequences one after another in one row of the batch. `ends` are the cumulative lengths (`cu_seqlens`,
    /// with or without the leading 0); positions start again at 0 in each.
    Packed {
        /// Where each sequence ends, not decreasing; the last is the length.
        ends: Ids<'a>,
    },
    /// `[length]`: row i of the table for token i of every sequence. For tables of listed positions.
    Rows,
    /// `[batch, length]`: row b·length + i of the table for token i of sequence b. For tables of listed positions.
    BatchRows,
}

/// Whole numbers of the usual types, borrowed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Ids<'a> {
    /// 32 bits, signed.
    I32(&'a [i32]),
    /// 64 bits, signed.
    I64(&'a [i64]),
    /// 32 bits, unsigned.
    U32(&'a [u32]),
}

impl Ids<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Ids::I32(ids) => ids.len(),
            Ids::I64(ids) => ids.len(),
            Ids::U32(ids) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> i64 {
        match self {
            Ids::I32(ids) => ids[index].into(),
            Ids::I64(ids) => ids[index],
            Ids::U32(ids) => ids[index].into(),
        }
    }

    /// The smallest and the largest, if there are any.
    fn bounds(&self) -> Option<(i64, i64)> {
        (0..self.len()).map(|i| self.get(i)).fold(None, |bounds, id| match bounds {
            None => Some((id, id)),
            Some((low, high)) => Some((id.min(low), id.max(high))),
        })
    }

    /// How many sequences of a packed row end at or before this token.
    fn ended(&self, token: usize) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.get(middle) <= token as i64 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

macro_rules! ids_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a [$type]> for Ids<'a> {
            fn from(ids: &'a [$type]) -> Self { Ids::$variant(ids) }
        }
        impl<'a> From<&'a Vec<$type>> for Ids<'a> {
            fn from(ids: &'a Vec<$type>) -> Self { Ids::$variant(ids) }
        }
        impl<'a, const N: usize> From<&'a [$type; N]> for Ids<'a> {
            fn from(ids: &'a [$type; N]) -> Self { Ids::$variant(ids) }
        }
    )*};
}
ids_from!(i32 => I32, i64 => I64, u32 => U32);

impl<'a> Positions<'a> {
    /// The same ids for every sequence, `[length]`.
    pub fn ids(ids: impl Into<Ids<'a>>) -> Self {
        Positions::Ids(ids.into())
    }

    /// Ids for every sequence, `[batch, length]`.
    pub fn batch_ids(ids: impl Into<Ids<'a>>) -> Self {
        Positions::BatchIds(ids.into())
    }

    /// Packed sequences by their cumulative lengths.
    pub fn packed(ends: impl Into<Ids<'a>>) -> Self {
        Positions::Packed { ends: ends.into() }
    }
}

/// Positions `[2, height · width]` of an image's patches, row by row: the row of each, then the column of each.
/// For [`Axes::Axial`](crate::Axes::Axial) with two axes, or as the image part of M-RoPE positions.
pub fn image_grid(height: usize, width: usize) -> Result<Vec<f64>> {
    let bytes = (height as u128 * width as u128).saturating_mul(16);
    let mut positions = Vec::new();
    let patches = height.checked_mul(width).and_then(|patches| {
        positions.try_reserve_exact(patches.checked_mul(2)?).ok()?;
        Some(patches)
    });
    let patches = patches.ok_or(Error::Memory { bytes })?;
    positions.extend((0..patches).map(|patch| (patch / width) as f64));
    positions.extend((0..patches).map(|patch| (patch % width) as f64));
    Ok(positions)
}

/// The rows that a table has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Covered {
    /// Positions start, start + 1, …
    Range { start: i64, rows: usize },
    /// Rows whose positions were listed one by one.
    Listed { rows: usize },
}

impl std::fmt::Display for Covered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Covered::Range { start, rows } => write!(f, "positions {start}..{}", start + *rows as i64),
            Covered::Listed { rows } => write!(f, "{rows} listed positions"),
        }
    }
}

impl Covered {
    pub fn rows(&self) -> usize {
        match self {
            Covered::Range { rows, .. } | Covered::Listed { rows } => *rows,
        }
    }

    /// Checks all that can be checked without knowing the input's shape.
    pub fn check(&self, positions: &Positions) -> Result<()> {
        match (self, positions) {
            (Covered::Range { .. }, Positions::From(_)) => Ok(()),
            (Covered::Range { .. }, Positions::Ids(ids) | Positions::BatchIds(ids)) => match ids.bounds() {
                Some((low, high)) => self.check_range(low, high),
                None => Ok(()),
            },
            (Covered::Range { .. }, Positions::Packed { ends }) => {
                let (mut start, mut longest) = (0, 0);
                for index in 0..ends.len() {
                    let end = ends.get(index);
                    if end < start {
                        let value = format!("{end} after {start}");
                        return Err(Error::argument(
                            "ends",
                            value,
                            "cumulative lengths that do not decrease",
                        ));
                    }
                    longest = longest.max(end - start);
                    start = end;
                }
                if longest > 0 { self.check_range(0, longest - 1) } else { Ok(()) }
            }
            (Covered::Listed { .. }, Positions::Rows | Positions::BatchRows) => Ok(()),
            (Covered::Range { .. }, _) => Err(Error::argument(
                "positions",
                "Rows",
                "From, Ids, BatchIds or Packed: the table covers a range of positions",
            )),
            (Covered::Listed { .. }, _) => Err(Error::argument(
                "positions",
                "From, Ids or Packed",
                "Rows or BatchRows: the table's positions were listed one by one",
            )),
        }
    }

    /// Checks that the positions fit an input of this shape.
    pub fn check_shape(&self, positions: &Positions, batch: usize, length: usize) -> Result<()> {
        let expect = |what, got: usize, expected: usize, axes: &str| match got == expected {
            true => Ok(()),
            false => Err(Error::shape(what, format!("{got}"), format!("{expected} ({axes})"))),
        };
        match positions {
            Positions::From(start) if length > 0 => {
                let last = i64::try_from(length - 1).ok().and_then(|reach| start.checked_add(reach));
                let last = last.ok_or_else(|| self.missing(i64::MAX))?;
                self.check_range(*start, last)
            }
            Positions::From(_) => Ok(()),
            Positions::Ids(ids) => expect("position ids", ids.len(), length, "[length]"),
            Positions::BatchIds(ids) => {
                expect("position ids", ids.len(), batch.saturating_mul(length), "[batch, length]")
            }
            Positions::Packed { ends } => {
                if batch > 1 {
                    return Err(Error::shape("packed sequences", format!("batch {batch}"), "batch 1"));
                }
                let end = if ends.is_empty() { 0 } else { ends.get(ends.len() - 1) };
                expect("last of the cumulative lengths", end as usize, length, "the length")
            }
            Positions::Rows => expect("rows of the table", self.rows(), length, "[length]"),
            Positions::BatchRows => {
                expect("rows of the table", self.rows(), batch.saturating_mul(length), "[batch, length]")
            }
        }
    }

    fn check_range(&self, low: i64, high: i64) -> Result<()> {
        let Covered::Range { start, rows } = *self else { return Ok(()) };
        let end = start + rows as i64;
        match (low >= start, high < end) {
            (true, true) => Ok(()),
            (false, _) => Err(self.missing(low)),
            (true, false) => Err(self.missing(high)),
        }
    }

    fn missing(&self, position: i64) -> Error {
        Error::Position { position, covered: self.to_string() }
    }

    /// The row of a token, for positions that passed both checks.
    #[inline(always)]
    pub fn row(&self, positions: &Positions, batch: usize, token: usize, length: usize) -> usize {
        let start = match self {
            Covered::Range { start, .. } => *start,
            Covered::Listed { .. } => 0,
        };
        let position = match positions {
            Positions::From(first) => first + token as i64,
            Positions::Ids(ids) => ids.get(token),
            Positions::BatchIds(ids) => ids.get(batch * length + token),
            Positions::Packed { ends } => match ends.ended(token) {
                0 => token as i64,
                ended => token as i64 - ends.get(ended - 1),
            },
            Positions::Rows => token as i64,
            Positions::BatchRows => (batch * length + token) as i64,
        };
        (position - start) as usize
    }

    /// How many tokens of `token..end` take consecutive rows, from the first on.
    #[inline(always)]
    pub fn consecutive(
        &self,
        positions: &Positions,
        batch: usize,
        token: usize,
        end: usize,
        length: usize,
    ) -> usize {
        let run = |ids: &Ids, first: usize| {
            let count = end - token;
            (1..count)
                .find(|&i| ids.get(first + i) != ids.get(first + i - 1).wrapping_add(1))
                .unwrap_or(count)
        };
        match positions {
            Positions::From(_) | Positions::Rows | Positions::BatchRows => end - token,
            Positions::Ids(ids) => run(ids, token),
            Positions::BatchIds(ids) => run(ids, batch * length + token),
            Positions::Packed { ends } => (ends.get(ends.ended(token)) as usize).min(end) - token,
        }
    }
}

/// Checks that positions are ones whose angle can be computed.
pub(crate) fn check_positions(positions: impl Iterator<Item = f64>) -> Result<()> {
    let limit = MAX_POSITION as f64;
    for position in positions {
        if !(-limit..=limit).contains(&position) {
            return Err(Error::argument("position", brief(position), "a number from −2^53 to 2^53"));
        }
    }
    Ok(())
}
