//! Sums over rows, which are gradients of what all rows share: biases, and what norms multiply with.
//!
//! Blocks leave their parts of a sum in memory of its own, and one launch at the end of the way back adds up all parts of all
//! sums, each in one order: so a sum has the same bits in every run, and none costs a launch of its own.

use super::{Either, Launcher, Storage, Stored, chunk, either, narrow};
use crate::error::Result;
use gpu::{Function, Module, Size, Span};

/// Blocks of a launch that sums columns, about: enough for the largest chips.
const BLOCKS: usize = 512;
/// Numbers of a part that a block adds up.
const ACROSS: usize = 32;

pub(crate) struct Kernels {
    columns: Stored<Either>,
    parts: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let columns = Stored::load(|kind| either(module, &format!("{kind}_columns")))?;
        Ok(Kernels { columns, parts: module.function("sum_parts")? })
    }
}

/// How the sums of columns are divided: tiles of columns by parts of the rows.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    /// Numbers that a thread takes at a time.
    pub chunk: usize,
    pub tiles: usize,
    pub splits: usize,
}

impl Division {
    /// Of rows of so many numbers of `chunk` a thread, into about `blocks`; a split has at least 32 rows.
    pub fn new(rows: usize, width: usize, chunk: usize, blocks: usize) -> Division {
        let tiles = width.div_ceil(32 * chunk);
        Division { chunk, tiles, splits: rows.div_ceil(32).clamp(1, (blocks / tiles).max(1)) }
    }

    /// Bytes of all parts.
    pub fn bytes(self, width: usize) -> usize {
        self.splits * width * size_of::<f32>()
    }
}

/// Parts of the sums of the columns of x `[rows, width]`.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub storage: Storage,
    pub x: Span,
    pub rows: usize,
    pub width: usize,
}

impl Columns {
    pub fn division(&self) -> Division {
        Division::new(self.rows, self.width, chunk(self.storage, self.width, &[self.x]), BLOCKS)
    }
}

/// Parts of a sum, and where it goes.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    /// The first number of the first part, and all that follows.
    pub partials: Span,
    pub parts: usize,
    /// Numbers from part to part.
    pub step: usize,
    /// What the sum is added to: as many numbers as a part has.
    pub out: Span,
    pub count: usize,
}

/// As the kernels' struct.
const ENTRY: usize = 4;

impl Parts {
    /// The entries of the table that the kernel reads, one for each of its blocks.
    pub fn entries(&self) -> impl Iterator<Item = [u64; ENTRY]> {
        let Parts { partials, parts, step, out, count } = *self;
        (0..count).step_by(ACROSS).map(move |first| {
            let at = (first * size_of::<f32>()) as u64;
            let (parts, step) = (parts as u64, (step as u64) << 32);
            [partials.address() + at, out.address() + at, step | parts, ACROSS.min(count - first) as u64]
        })
    }

    /// Whether both add to the same numbers, and one must be first.
    pub fn meets(&self, other: &Parts) -> bool {
        let end = |span: Span| span.address() + span.bytes() as u64;
        self.out.address() < end(other.out) && other.out.address() < end(self.out)
    }

    fn check(&self, gpu: &Launcher) -> Result<()> {
        let Parts { partials, parts, step, out, count } = *self;
        gpu.floats(partials, (parts - 1) * step + count)?;
        gpu.floats(out, count).map(drop)
    }
}

impl Launcher<'_> {
    /// Leaves parts of sums of columns, `[splits, width]`.
    pub(crate) fn sum_columns(&self, work: &Columns, partials: Span) -> Result<()> {
        let Columns { storage, x, rows, width } = *work;
        let Division { chunk, tiles, splits } = work.division();
        let kernel = &self.training()?.sums.columns.of(storage)[usize::from(chunk > 1)];
        let list = (
            self.numbers(x, storage, rows * width)?,
            self.floats(partials, splits * width)?,
            narrow(rows)?,
            narrow(width)?,
            narrow(splits)?,
        );
        // SAFETY: x has these rows, and there is a part for each split.
        unsafe { self.launch(kernel, Size::new(tiles * splits, [32, 8]), list) }
    }

    /// Adds up parts: `table` has their entries.
    ///
    /// # Safety
    ///
    /// The table in the GPU's memory is that of these parts, one after the other.
    pub(crate) unsafe fn sum_parts(&self, all: &[Parts], table: Span) -> Result<()> {
        all.iter().try_for_each(|parts| parts.check(self))?;
        let blocks: usize = all.iter().map(|parts| parts.entries().count()).sum();
        let list = (self.at(table, blocks * ENTRY * size_of::<u64>())?,);
        // SAFETY: an entry for each block, all of whose memory was just looked up, as the caller promises.
        unsafe { self.launch(&self.training()?.sums.parts, Size::new(blocks, [256, 1]), list) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_divided_among_blocks() {
        let parts = Parts {
            partials: Span::new(4096, 4 * 500),
            parts: 5,
            step: 100,
            out: Span::new(8192, 4 * 70),
            count: 70,
        };
        let entries: Vec<_> = parts.entries().collect();
        let (sizes, second) = (entries.iter().map(|entry| entry[3]).collect::<Vec<_>>(), entries[1]);
        assert_eq!(sizes, [32, 32, 6]);
        assert_eq!(second[..3], [4096 + 128, 8192 + 128, 100 << 32 | 5]);
        let beside = Parts { out: Span::new(8192 + 280, 4), ..parts };
        assert!(parts.meets(&parts) && !parts.meets(&beside) && !beside.meets(&parts));
    }
}
