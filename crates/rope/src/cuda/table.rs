//! A table in a GPU's memory, and the rows of it that the tokens of an input take.

use super::kernels::Kernels;
use crate::error::{Error, Result};
use crate::position::Covered;
use crate::rope::{Frequencies, Rope};
use crate::rotate::Turn;
use crate::{Positions as HostPositions, Shape};
use gpu::{Buffer, Device, Slice, Stream};
use std::fmt;
use std::sync::Arc;

/// A [`Table`](crate::Table) in the memory of a GPU: the same numbers, made by the CPU and copied.
pub struct Table {
    pub(super) device: Device,
    pub(super) kernels: Arc<Kernels>,
    rope: Rope,
    covered: Covered,
    frequencies: Frequencies,
    /// Whether rows have scales of their own.
    is_scaled: bool,
    numbers: Numbers,
    /// The same with the inverse scale, where there is one.
    undo: Option<Buffer<f32>>,
}

enum Numbers {
    /// `[rows, 2, pairs]`: a row's cosines, then its sines, so that a token's numbers are read from one place.
    Own(Buffer<f32>),
    /// Somebody else's.
    Lent(Trig),
}

/// Cosines and sines in a GPU's memory, both `[rows, pairs]`.
#[derive(Clone, Copy, Debug)]
pub struct Trig {
    /// The address of the cosines.
    pub cos: u64,
    /// The address of the sines.
    pub sin: u64,
    /// From a row to the next, in numbers: the same for both.
    pub stride: usize,
}

impl Trig {
    /// Whether every row begins at a multiple of the kernels' widest access.
    pub(super) fn is_wide(&self) -> bool {
        (self.cos | self.sin | (self.stride * size_of::<f32>()) as u64).is_multiple_of(16)
    }
}

/// Position ids in a GPU's memory.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Ids<'a> {
    /// 32 bits, signed.
    I32(Slice<'a, i32>),
    /// 64 bits, signed.
    I64(Slice<'a, i64>),
    /// 32 bits, unsigned.
    U32(Slice<'a, u32>),
}

macro_rules! ids_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a Buffer<$type>> for Ids<'a> {
            fn from(ids: &'a Buffer<$type>) -> Self { Ids::$variant(ids.as_slice()) }
        }
        impl<'a> From<Slice<'a, $type>> for Ids<'a> {
            fn from(ids: Slice<'a, $type>) -> Self { Ids::$variant(ids) }
        }
    )*};
}
ids_from!(i32 => I32, i64 => I64, u32 => U32);

impl<'a> Ids<'a> {
    fn parts(&self) -> (Option<&'a Device>, u64, usize, IdType) {
        match *self {
            Ids::I32(ids) => (ids.device(), ids.pointer(), ids.len(), IdType::I32),
            Ids::I64(ids) => (ids.device(), ids.pointer(), ids.len(), IdType::I64),
            Ids::U32(ids) => (ids.device(), ids.pointer(), ids.len(), IdType::U32),
        }
    }
}

/// The type of ids, as the kernels number them.
#[derive(Clone, Copy)]
enum IdType {
    I32 = 1,
    I64 = 2,
    U32 = 3,
}

/// The positions of the tokens of a `[batch, length]` input: the CPU's, or ids that lie in the GPU's memory.
///
/// The CPU's are checked, and an id without a row is an error. Ids on the GPU are checked by the kernel: a vector
/// whose position has no row in the table comes out as NaN, in all its rotary features.
#[derive(Clone, Copy)]
pub enum Positions<'a> {
    /// Positions known to the CPU; ids are copied to the GPU when the rows are made.
    Host(HostPositions<'a>),
    /// `[length]`: the same position ids for every sequence.
    Ids(Ids<'a>),
    /// `[batch, length]`: position ids for every sequence.
    BatchIds(Ids<'a>),
    /// Several sequences one after another in one row of the batch: their cumulative lengths (`cu_seqlens`, with or
    /// without the leading 0). Positions start again at 0 in each; tokens after the last end have none.
    Packed {
        /// Where each sequence ends, not decreasing.
        ends: Ids<'a>,
    },
}

impl<'a> From<HostPositions<'a>> for Positions<'a> {
    fn from(positions: HostPositions<'a>) -> Self {
        Positions::Host(positions)
    }
}

/// The rows of a [`Table`] that the tokens of an input take. Made by [`Table::at`].
pub struct Rows<'a> {
    pub(super) table: &'a Table,
    positions: Positions<'a>,
    pub(super) lookup: Lookup,
    /// Ids of the CPU's, copied; freed with the rows, once the GPU is done.
    _ids: Option<Buffer<i64>>,
}

/// How a kernel finds a token's row.
#[derive(Clone, Copy)]
pub(super) struct Lookup {
    /// 0: rows are counted; 1 to 3: by ids; 4 to 6: by the ends of packed sequences.
    pub kind: u32,
    pub ids: u64,
    pub count: usize,
    /// What is added to a position to find its row.
    pub start: i64,
    /// Whether tokens are counted through all sequences.
    pub by_batch: bool,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { device, rope, covered, .. } = self;
        let mut all = f.debug_struct("Table");
        all.field("device", device).field("rope", rope).field("covered", covered).finish_non_exhaustive()
    }
}

impl Table {
    /// Copies a table to a GPU, and loads the kernels where this is the device's first.
    pub fn new(device: &Device, table: &crate::Table<f32>) -> Result<Table> {
        let pairs = table.rope().pairs();
        Ok(Table {
            device: device.clone(),
            kernels: Kernels::of(device)?,
            rope: table.rope().clone(),
            covered: table.covered(),
            frequencies: table.frequencies().clone(),
            is_scaled: table.is_scaled(),
            numbers: Numbers::Own(device.upload(&rows(table.cos(), table.sin(), pairs)?)?),
            undo: match table.undo() {
                Some((cos, sin)) => Some(device.upload(&rows(cos, sin, pairs)?)?),
                None => None,
            },
        })
    }

    /// A table of numbers that lie in a GPU's memory already. Position p takes row p, or where `is_listed` each token its own
    /// ([`Positions::Rows`](crate::Positions::Rows)). The rope says which features turn, and in which order they are.
    ///
    /// # Safety
    ///
    /// The addresses are of this GPU and aligned to 4 bytes, and all numbers are valid for reads for as long as work that uses the table
    /// runs.
    #[allow(unsafe_code, reason = "what is at an address is its owner's promise")]
    pub unsafe fn from_raw(
        device: &Device,
        rope: &Rope,
        trig: Trig,
        rows: usize,
        is_listed: bool,
    ) -> Result<Table> {
        Ok(Table {
            device: device.clone(),
            kernels: Kernels::of(device)?,
            rope: rope.clone(),
            covered: if is_listed { Covered::Listed { rows } } else { Covered::Range { start: 0, rows } },
            frequencies: Frequencies::default(),
            is_scaled: true,
            numbers: Numbers::Lent(trig),
            undo: None,
        })
    }

    /// Takes the numbers of another table with as many rows and pairs, in the stream's order: after
    /// [`refill`](crate::Table::refill) for other positions or frequencies. Nothing of the GPU's is
    /// allocated.
    pub fn refill(&mut self, stream: &Stream, table: &crate::Table<f32>) -> Result<()> {
        let sizes = |rows: usize, rope: &Rope| format!("{rows} rows of {} pairs", rope.pairs());
        let (got, expected) = (sizes(table.rows(), table.rope()), sizes(self.covered.rows(), &self.rope));
        if got != expected || self.undo.is_some() != table.undo().is_some() {
            let scaled = |undo| if undo { " with an attention factor" } else { "" };
            let (got, expected) = (
                got + scaled(table.undo().is_some()),
                expected + scaled(self.undo.is_some()) + ": make a new table for others",
            );
            return Err(Error::shape("refill", got, expected));
        }
        let pairs = table.rope().pairs();
        let Numbers::Own(numbers) = &mut self.numbers else {
            let expected = "one that was copied: the numbers of this one are somebody else's";
            return Err(Error::argument("table", "of an address", expected));
        };
        numbers.upload(stream, &rows(table.cos(), table.sin(), pairs)?)?;
        if let (Some(buffer), Some((cos, sin))) = (&mut self.undo, table.undo()) {
            buffer.upload(stream, &rows(cos, sin, pairs)?)?;
        }
        self.rope = table.rope().clone();
        self.covered = table.covered();
        self.frequencies = table.frequencies().clone();
        self.is_scaled = table.is_scaled();
        Ok(())
    }

    /// Whether this holds the numbers of a table of the CPU's: of the same range of positions and the same
    /// frequencies. Positions that were listed one by one are not compared, nor are tables whose rows have scales of their own.
    pub fn holds(&self, table: &crate::Table<f32>) -> bool {
        matches!(self.covered, Covered::Range { .. })
            && !(self.is_scaled || table.is_scaled())
            && self.covered == table.covered()
            && self.frequencies == *table.frequencies()
            && self.rope == *table.rope()
    }

    /// Rows for the tokens of an input: [`Positions`](crate::Positions) of the CPU's, or [`Positions`] of the
    /// GPU's. Ids of the CPU's are copied to the GPU here, so rows are best made once for all layers.
    pub fn at<'a>(&'a self, positions: impl Into<Positions<'a>>) -> Result<Rows<'a>> {
        let positions = positions.into();
        let range_start = match self.covered {
            Covered::Range { start, .. } => start,
            Covered::Listed { .. } => 0,
        };
        let counted =
            Lookup { kind: 0, ids: 0, count: 0, start: range_start.wrapping_neg(), by_batch: false };
        let on_device = |ids: &Ids, packed: bool, by_batch: bool| -> Result<Lookup> {
            if let Covered::Listed { .. } = self.covered {
                let expected = "Rows or BatchRows: the table's positions were listed one by one";
                return Err(Error::argument("positions", "ids on the GPU", expected));
            }
            let (device, ids, count, kind) = ids.parts();
            if let Some(device) = device {
                self.device.same(device, "position ids")?;
            }
            Ok(Lookup { kind: kind as u32 + if packed { 3 } else { 0 }, ids, count, by_batch, ..counted })
        };
        let mut owned = None;
        let lookup = match &positions {
            Positions::Host(host) => {
                self.covered.check(host)?;
                let mut upload = |ids: &crate::Ids, packed: bool, by_batch: bool| -> Result<Lookup> {
                    let list: Vec<i64> = (0..ids.len()).map(|index| ids.get(index)).collect();
                    let buffer = owned.insert(self.device.upload(&list)?);
                    on_device(&Ids::I64(buffer.as_slice()), packed, by_batch)
                };
                match host {
                    HostPositions::From(first) => {
                        Lookup { start: first.wrapping_sub(range_start), ..counted }
                    }
                    HostPositions::Rows => counted,
                    HostPositions::BatchRows => Lookup { by_batch: true, ..counted },
                    HostPositions::Ids(ids) => upload(ids, false, false)?,
                    HostPositions::BatchIds(ids) => upload(ids, false, true)?,
                    HostPositions::Packed { ends } => upload(ends, true, false)?,
                }
            }
            Positions::Ids(ids) => on_device(ids, false, false)?,
            Positions::BatchIds(ids) => on_device(ids, false, true)?,
            Positions::Packed { ends } => on_device(ends, true, false)?,
        };
        Ok(Rows { table: self, positions, lookup, _ids: owned })
    }

    /// The cosines and sines that a turn takes.
    #[inline]
    pub(super) fn trig(&self, turn: Turn) -> Trig {
        let of = |numbers: &Buffer<f32>| {
            let (cos, pairs) = (numbers.pointer(), self.rope.pairs());
            Trig { cos, sin: cos + (pairs * size_of::<f32>()) as u64, stride: 2 * pairs }
        };
        match (turn, &self.undo, &self.numbers) {
            (Turn::Inverse, Some(undo), _) => of(undo),
            (_, _, Numbers::Own(numbers)) => of(numbers),
            (_, _, Numbers::Lent(trig)) => *trig,
        }
    }

    /// The address of the cosines, for kernels that fill them anew: those of models that learn their frequencies. Of a table that was
    /// made by [`Table::new`], `[rows, 2, pairs]`, a row's sines after its cosines. What fills them keeps to the order of the streams
    /// that read them.
    #[inline]
    pub fn pointer(&self) -> u64 {
        self.trig(Turn::Forward).cos
    }

    #[inline]
    pub(super) fn covered(&self) -> Covered {
        self.covered
    }

    /// The rope that the table was made from.
    pub fn rope(&self) -> &Rope {
        &self.rope
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.covered.rows()
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Rows<'_> {
    /// Checks an input's shape against the rope and the positions.
    #[inline]
    pub(super) fn check(&self, shape: Shape) -> Result<()> {
        let head_dim = self.table.rope.head_dim();
        if shape.head_dim != head_dim {
            let expected = format!("head_dim {head_dim} as the rope has");
            return Err(Error::shape("rotation", shape.to_string(), expected));
        }
        let expect = |expected: usize, axes: &str| match self.lookup.count == expected {
            true => Ok(()),
            false => {
                let expected = format!("{expected} ({axes})");
                Err(Error::shape("position ids", self.lookup.count.to_string(), expected))
            }
        };
        match &self.positions {
            Positions::Host(host) => self.table.covered.check_shape(host, shape.batch, shape.length),
            Positions::Ids(_) => expect(shape.length, "[length]"),
            Positions::BatchIds(_) => expect(shape.batch.saturating_mul(shape.length), "[batch, length]"),
            Positions::Packed { .. } if shape.batch > 1 => {
                Err(Error::shape("packed sequences", format!("batch {}", shape.batch), "batch 1"))
            }
            Positions::Packed { .. } => Ok(()),
        }
    }
}

/// Cosines and sines `[rows, pairs]` row by row: `[rows, 2, pairs]`.
fn rows(cos: &[f32], sin: &[f32], pairs: usize) -> Result<Vec<f32>> {
    let mut rows = Vec::new();
    let bytes = 2 * size_of_val(cos) as u128;
    rows.try_reserve_exact(2 * cos.len()).map_err(|_| Error::Memory { bytes })?;
    for (cos, sin) in cos.chunks(pairs).zip(sin.chunks(pairs)) {
        rows.extend_from_slice(cos);
        rows.extend_from_slice(sin);
    }
    Ok(rows)
}
