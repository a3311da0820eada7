//! Rows of a table by id, and their gradient, whose sums have one order whatever the GPU does first.

use super::{Launcher, Storage, Stored, chunk, narrow};
use crate::error::Result;
use gpu::{Function, Module, Size, Span};

/// Rows of a block, as the kernels have it.
const GROUP: usize = 32;

pub(crate) struct Kernels {
    /// By 2, 4 and 16 bytes.
    gather: [Function; 3],
    scatter: Stored<Function>,
    join: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let find = |name: &str| module.function(name);
        Ok(Kernels {
            gather: [find("gather_2")?, find("gather_4")?, find("gather_16")?],
            scatter: Stored::load(|kind| find(&format!("{kind}_scatter")))?,
            join: find("scatter_join")?,
        })
    }
}

/// The gradient of looked-up rows.
#[derive(Clone, Copy)]
pub(crate) struct Scatter {
    /// `[count, width]`
    pub dy: Span,
    /// `[count]`
    pub ids: Span,
    /// `[count]`: rows of dy, those with the lowest id first.
    pub order: Span,
    /// `[vocabulary, width]`, added to.
    pub table: Span,
    /// As many bytes as [`Scatter::scratch`] says.
    pub scratch: Span,
    pub count: usize,
    pub width: usize,
}

/// As the kernels' struct.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    dy: u64,
    ids: u64,
    order: u64,
    table: u64,
    scratch: u64,
    count: u32,
    width: u32,
}

const _: () = assert!(size_of::<Arguments>() == 48);

impl Scatter {
    pub fn scratch(count: usize, width: usize) -> usize {
        count.div_ceil(GROUP) * 2 * width * size_of::<f32>()
    }
}

impl Launcher<'_> {
    /// out `[count, width]` = the rows of a table that ids `[count]` name.
    ///
    /// # Safety
    ///
    /// The table has a row for every id.
    pub(crate) unsafe fn look_up_rows(
        &self,
        storage: Storage,
        [table, ids, out]: [Span; 3],
        count: usize,
        width: usize,
    ) -> Result<()> {
        let wide = chunk(storage, width, &[table, out]);
        let kernels = &self.training()?.embedding;
        let kernel = &kernels.gather[if wide > 1 { 2 } else { storage.size() / 4 }];
        let chunks = count * width / wide;
        let list = (
            self.at(table, 0)?,
            self.at(ids, count * size_of::<u32>())?,
            self.numbers(out, storage, count * width)?,
            chunks as u64,
            narrow(width / wide)?,
        );
        // SAFETY: the table has the rows, as the caller promises, and out has one for each id.
        unsafe { self.launch(kernel, Size::each(chunks), list) }
    }

    /// Adds the gradients of rows to those of the table.
    ///
    /// # Safety
    ///
    /// The table has a row for every id, and the order names each row of dy once.
    pub(crate) unsafe fn scatter_rows(&self, storage: Storage, work: &Scatter) -> Result<()> {
        let kernels = &self.training()?.embedding;
        let Scatter { count, width, .. } = *work;
        let blocks = count.div_ceil(GROUP);
        let threads = width.next_multiple_of(32).min(256);
        let ids = count * size_of::<u32>();
        let arguments = Arguments {
            dy: self.numbers(work.dy, storage, count * width)?,
            ids: self.at(work.ids, ids)?,
            order: self.at(work.order, ids)?,
            table: self.at(work.table, 0)?,
            scratch: self.at(work.scratch, Scatter::scratch(count, width))?,
            count: narrow(count)?,
            width: narrow(width)?,
        };
        let size = Size::new(blocks, [threads, 1]);
        // SAFETY: ids and order are as the caller promises; the scratch has two parts per block.
        unsafe {
            self.launch(kernels.scatter.of(storage), size, (arguments,))?;
            self.launch(&kernels.join, size, (arguments,))
        }
    }
}
