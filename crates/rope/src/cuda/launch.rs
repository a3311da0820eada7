//! From a rotation to a launch: which kernel, how many threads, and its one argument. Nothing is allocated.

use super::kernels::Number;
use super::table::{Rows, Trig};
use super::view::{View, ViewMut};
use crate::error::{Error, Result};
use crate::kernel::view::{Shape, Strides};
use crate::pairing::Order;
use crate::rotate::Turn;
use gpu::{Size, SliceMut, Stream};

/// Threads of a block, at most. What is best was measured (docs/gpu.md): a token's 40 heads of 128 in 16 bits, in halves.
const THREADS: usize = 320;
/// Threads of other blocks.
const SMALL: usize = 64;
/// Bytes of a wide access.
const WIDE: usize = 16;
/// Bytes of a table that stay in the second-level cache (50 MB on an H200, 40 MB on an A100) beside what passes through it.
const KEPT: usize = 8 << 20;
/// Blocks that a launch may have along its second and third axes.
const MOST: usize = 65_535;
/// Threads that a block may have along its third axis.
const MOST_DEEP: usize = 64;

/// Queries or keys: where they are read and where they are written, as addresses that views vouch for.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    shape: Shape,
    source: u64,
    from: Strides,
    target: u64,
    to: Strides,
}

impl Tensor {
    pub fn in_place<T>(x: &ViewMut<T>) -> Tensor {
        Tensor { shape: x.shape, source: x.pointer, from: x.strides, target: x.pointer, to: x.strides }
    }

    /// Read, and not written.
    pub fn read<T>(x: &View<T>) -> Tensor {
        Tensor { shape: x.shape, source: x.pointer, from: x.strides, target: 0, to: x.strides }
    }

    pub fn between<T>(x: &View<T>, y: &ViewMut<T>) -> Tensor {
        Tensor { shape: x.shape, source: x.pointer, from: x.strides, target: y.pointer, to: y.strides }
    }

    /// Whether every vector, read and written, begins at a multiple of a wide access.
    fn is_wide(&self, size: usize) -> bool {
        let steps = |strides: Strides| {
            let Shape { batch, length, heads, .. } = self.shape;
            [(batch, strides.batch), (length, strides.length), (heads, strides.heads)]
                .iter()
                .all(|&(count, stride)| count <= 1 || (stride * size).is_multiple_of(WIDE))
        };
        (self.source | self.target).is_multiple_of(WIDE as u64) && steps(self.from) && steps(self.to)
    }
}

/// As `Side` in kernels.cu.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Side {
    source: u64,
    target: u64,
    from: [i64; 3],
    to: [i64; 3],
    heads: u32,
    groups: u32,
}

/// As `Work` in kernels.cu.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    sides: [Side; 2],
    cos: u64,
    sin: u64,
    ids: u64,
    count: i64,
    start: i64,
    rows: u32,
    stride: u32,
    batch: u32,
    length: u32,
    positions: u32,
    by_batch: u32,
    pairs: u32,
    offset: u32,
    lanes: u32,
    copies: u32,
    blocks: u32,
    reciprocal: u32,
    heads_apart: u32,
    conjugate: u32,
}

const _: () = assert!(size_of::<Side>() == 72 && size_of::<Work>() == 240, "as in kernels.cu");

impl Side {
    fn new(tensor: &Tensor, size: usize) -> Result<Side> {
        let bytes = |s: Strides| [s.batch, s.length, s.heads].map(|stride| (stride * size) as i64);
        Ok(Side {
            source: tensor.source,
            target: tensor.target,
            from: bytes(tensor.from),
            to: bytes(tensor.to),
            heads: narrow("heads", tensor.shape.heads)?,
            groups: 0,
        })
    }
}

impl Work {
    /// All that does not depend on how the work is divided. Positions were checked against the shape.
    pub fn new<T: Number>(rows: &Rows, turn: Turn, q: &Tensor, k: Option<&Tensor>) -> Result<Work> {
        let (table, lookup, size) = (rows.table, rows.lookup, size_of::<T>());
        let k = k.map_or(Ok(Side::default()), |k| Side::new(k, size))?;
        let Trig { cos, sin, stride } = table.trig(turn);
        Ok(Work {
            sides: [Side::new(q, size)?, k],
            cos,
            sin,
            ids: lookup.ids,
            count: lookup.count as i64,
            start: lookup.start,
            rows: narrow("rows of a table", table.rows())?,
            stride: narrow("numbers from row to row of a table", stride)?,
            batch: narrow("batch", q.shape.batch)?,
            length: narrow("length", q.shape.length)?,
            positions: lookup.kind,
            by_batch: lookup.by_batch.into(),
            pairs: table.rope().pairs() as u32,
            offset: narrow("rotary_offset", table.rope().rotary_offset().saturating_mul(size))?,
            conjugate: (turn != Turn::Forward).into(),
            ..Work::default()
        })
    }
}

fn narrow(name: &'static str, value: usize) -> Result<u32> {
    let fits = i32::try_from(value).map(|value| value as u32);
    fits.map_err(|_| Error::argument(name, value, "less than 2^31 on a GPU; rotate in parts"))
}

/// Rotates q, and k if there is one, in one launch. Shapes and devices have been checked.
pub(super) fn rotate<T: Number>(
    rows: &Rows,
    stream: &Stream,
    turn: Turn,
    q: &Tensor,
    k: Option<&Tensor>,
) -> Result<()> {
    let rope = rows.table.rope();
    let (pairs, offset, head_dim) = (rope.pairs(), rope.rotary_offset(), rope.head_dim());
    let (input, output) = (rope.pairing().input(), rope.pairing().output());
    let (from, to) = if turn == Turn::Forward { (input, output) } else { (output, input) };
    let Shape { batch, length, .. } = q.shape;
    if q.shape.is_empty() && k.is_none_or(|k| k.shape.is_empty()) || batch * length == 0 {
        return Ok(());
    }
    let size = size_of::<T>();
    let in_place = q.source == q.target;
    let halves = from == Order::Half && to == Order::Half;
    let chunk = if halves { WIDE / size } else { WIDE / 2 / size };
    let beyond = if in_place { 0 } else { head_dim - 2 * pairs };
    let wide = pairs.is_multiple_of(chunk)
        && (offset * size).is_multiple_of(WIDE)
        && (beyond * size).is_multiple_of(WIDE)
        && rows.table.trig(turn).is_wide()
        && q.is_wide(size)
        && k.is_none_or(|k| k.is_wide(size))
        && pairs / chunk + beyond * size / WIDE <= THREADS;
    let lanes = if wide { pairs / chunk } else { pairs };

    let mut work = Work::new::<T>(rows, turn, q, k)?;
    let kernels = &rows.table.kernels;
    if in_place && from != to && !(lanes <= 32 && lanes.is_power_of_two()) {
        // A warp a vector, as many as fit in the shared memory that every chip has.
        let vector = 2 * pairs * size_of::<f32>();
        let warps = (32 * 1024 / vector).clamp(1, 8);
        let vectors = (batch * length).saturating_mul(q.shape.heads + k.map_or(0, |k| k.shape.heads));
        let blocks = vectors.div_ceil(warps).min(64 * rows.table.device.multiprocessors());
        let size = Size::new(blocks, [32, warps]).shared(warps * vector);
        // SAFETY: the kernel's argument; what it leads to lies within views and a table that are there, and buffers are not
        // freed before the GPU is done with them, or that their maker promised.
        return Ok(unsafe { kernels.reorder::<T>(from).launch(stream, size, (work,)) }?);
    }
    let copies = if wide { beyond * size / WIDE } else { beyond };
    (work.lanes, work.copies) = (lanes as u32, narrow("head_dim", copies)?);
    // Heads of a thread, as in kernels.cu.
    let heads_a_thread = if wide && !halves { 8 / size as u32 } else { 1 };
    work.sides.iter_mut().for_each(|side| side.groups = side.heads.div_ceil(heads_a_thread));
    let groups = (work.sides[0].groups + work.sides[1].groups) as usize;

    let across = (lanes + copies).min(THREADS);
    let heads_apart = q.to.heads > q.to.length && batch <= MOST;
    let threads = if halves && size == 2 && !heads_apart { THREADS } else { SMALL };
    let most = (threads / across).max(1);
    // A block takes all heads of a few tokens where heads are side by side, else a few tokens of one head.
    let together = if heads_apart { 1 } else { groups.min(most) };
    let blocks = groups.div_ceil(together);
    let together = groups.div_ceil(blocks);
    let tokens = (most / together).clamp(1, length.min(MOST_DEEP));
    let (first, grid) = if heads_apart {
        // In the order of memory: the tokens of a head, then the next head. But only so many of them as have rows of the table that
        // the second-level cache keeps until all heads and sequences have used them; then the next so many.
        let row = 2 * pairs * size_of::<f32>();
        let stretch = (KEPT / row / tokens).clamp(1, length.div_ceil(tokens));
        (stretch, [stretch.saturating_mul(blocks), batch, length.div_ceil(tokens).div_ceil(stretch)])
    } else {
        // The second axis of a launch is short; the third takes what is beyond it.
        (blocks, [blocks.saturating_mul(length.div_ceil(tokens)), batch.min(MOST), batch.div_ceil(MOST)])
    };
    work.heads_apart = heads_apart.into();
    work.blocks = narrow("heads", first)?;
    work.reciprocal = (1u64 << 32).div_ceil(first as u64) as u32;
    if grid[0] > i32::MAX as usize || grid[2] > MOST {
        let expected = "fewer sequences, tokens or heads: rotate them in parts";
        return Err(Error::shape("a launch", q.shape.to_string(), expected));
    }
    let function = kernels.rotate::<T>(from, to, wide, in_place);
    let size = Size::grid(grid, [across, together, tokens]);
    // SAFETY: as above.
    Ok(unsafe { function.launch(stream, size, (work,)) }?)
}

/// Where the gradient of frequencies goes: sums over slices of the tokens `[slices, pairs]`, and their total `[pairs]`.
pub(super) struct Sums<'a> {
    pub slices: SliceMut<'a, f64>,
    pub total: SliceMut<'a, f64>,
}

/// Sums the gradient of frequencies over `slices` slices of the tokens, then the slices. Shapes and devices have been checked.
/// `start` is the table's first position.
pub(super) fn gradient<T: Number>(
    rows: &Rows,
    stream: &Stream,
    [y, dy]: [Tensor; 2],
    start: i64,
    slices: usize,
    sums: &mut Sums,
) -> Result<()> {
    let rope = rows.table.rope();
    let pairs = rope.pairs();
    assert!(sums.total.len() == pairs && sums.slices.len() >= slices * pairs, "sums of all pairs");
    let work = Work::new::<T>(rows, Turn::Forward, &y, Some(&dy))?;
    let kernels = &rows.table.kernels;
    let across = pairs.min(128);
    let columns = pairs.div_ceil(across);
    let sum = kernels.gradient::<T>(rope.pairing().output());
    let [first, second] =
        [[slices, columns, 1], [columns, 1, 1]].map(|grid| Size::grid(grid, [across, 1, 1]));
    let (parts, total) = (sums.slices.pointer(), sums.total.pointer());
    // SAFETY: as in `rotate`; the sums have a number for each slice and pair, the total one for each pair.
    unsafe {
        sum.launch(stream, first, (work, parts, start))?;
        kernels.gradient_total.launch(stream, second, (parts, total, slices as u32, pairs as u32))?;
    }
    Ok(())
}
