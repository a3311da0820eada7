//! Sums of columns: the gradients of biases.

use super::{Either, Launcher, Storage, Stored, chunk, either, narrow};
use crate::error::Result;
use gpu::{Module, Size, Span};

/// Blocks of a launch, about: enough for the largest chips.
const BLOCKS: usize = 256;

pub(crate) struct Kernels {
    columns: Stored<Either>,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        Ok(Kernels { columns: Stored::load(|kind| either(module, &format!("{kind}_columns")))? })
    }
}

/// The sums of the columns of x `[rows, width]`, added to out `[width]`.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub storage: Storage,
    pub x: Span,
    pub out: Span,
    pub rows: usize,
    pub width: usize,
    /// As many bytes as [`Columns::scratch`] says.
    pub scratch: Span,
    /// As many bytes of 0 as [`Columns::counters`] says, which are 0 again afterwards.
    pub counters: Span,
}

impl Columns {
    fn tiles(&self) -> (usize, usize) {
        let count = chunk(self.storage, self.width, &[self.x]);
        (count, self.width.div_ceil(32 * count))
    }

    fn splits(&self) -> usize {
        // A split has at least 32 rows.
        self.rows.div_ceil(32).clamp(1, (BLOCKS / self.tiles().1).max(1))
    }

    pub fn scratch(&self) -> usize {
        // The address may be aligned worse than it was when this was asked.
        BLOCKS.max(self.splits()) * self.width * size_of::<f32>()
    }

    pub fn counters(&self) -> usize {
        self.width.div_ceil(32) * size_of::<u32>()
    }
}

impl Launcher<'_> {
    pub(crate) fn sum_columns(&self, work: &Columns) -> Result<()> {
        let ((count, tiles), splits) = (work.tiles(), work.splits());
        let kernel = &self.training()?.sums.columns.of(work.storage)[usize::from(count > 1)];
        let size = Size::new(tiles * splits, [32, 8]);
        let list = (
            self.numbers(work.x, work.storage, work.rows * work.width)?,
            self.floats(work.out, work.width)?,
            self.floats(work.scratch, splits * work.width)?,
            self.at(work.counters, tiles * size_of::<u32>())?,
            narrow(work.rows)?,
            narrow(work.width)?,
            narrow(splits)?,
        );
        // SAFETY: x has these rows, out this width, the scratch a part for each split, the counters one for each tile.
        unsafe { self.launch(kernel, size, list) }
    }
}
