//! Rows of a table by id, and their gradient, whose sums have one order whatever the GPU does first.

use super::{Launched, Storage, Stored, arguments, chunk, launch_list, narrow};
use crate::ops::cuda::Cuda;
use crate::ops::cuda::kernels::{Size, launch};
use rope::cuda::{Function, Module};

/// Rows of a block, as the kernels have it.
const GROUP: usize = 32;

pub(crate) struct Kernels {
    /// By 2, 4 and 16 bytes.
    gather: [Function; 3],
    scatter: Stored<Function>,
    join: Function,
}

impl Kernels {
    pub fn load(module: &Module) -> rope::Result<Kernels> {
        let find = |name: &str| module.function(name);
        Ok(Kernels {
            gather: [find("gather_2")?, find("gather_4")?, find("gather_16")?],
            scatter: Stored::load(|kind| find(&format!("{kind}_scatter")))?,
            join: find("scatter_join")?,
        })
    }
}

/// The gradient of looked-up rows; as the kernels' struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Scatter {
    /// `[count, width]`
    pub dy: u64,
    /// `[count]`
    pub ids: u64,
    /// `[count]`: rows of dy, those with the lowest id first.
    pub order: u64,
    /// `[vocabulary, width]`, added to.
    pub table: u64,
    /// As many bytes as [`Scatter::scratch`] says.
    pub scratch: u64,
    pub count: u32,
    pub width: u32,
}

const _: () = assert!(size_of::<Scatter>() == 48);

impl Scatter {
    pub fn scratch(count: usize, width: usize) -> usize {
        count.div_ceil(GROUP) * 2 * width * size_of::<f32>()
    }
}

impl Cuda {
    /// out `[count, width]` = the rows of a table that ids `[count]` name.
    pub(crate) fn look_up_rows(
        &self,
        storage: Storage,
        [table, ids, out]: [u64; 3],
        count: usize,
        width: usize,
    ) -> Launched {
        let wide = chunk(storage, width, &[table, out]);
        let kernels = &self.training()?.embedding;
        let kernel = kernels.gather[if wide > 1 { 2 } else { storage.size() / 4 }];
        let chunks = count * width / wide;
        let list = arguments![table, ids, out, chunks as u64, narrow(width / wide)?];
        // SAFETY: ids were checked against the table when they were set, and out has a row for each.
        unsafe { launch_list(&self.0.queue, kernel, Size::each(chunks), list) }
    }

    /// Adds the gradients of rows to those of the table.
    pub(crate) fn scatter_rows(&self, storage: Storage, work: &Scatter) -> Launched {
        let kernels = &self.training()?.embedding;
        let blocks = (work.count as usize).div_ceil(GROUP);
        let threads = (work.width as usize).next_multiple_of(32).min(256);
        let size = || Size { blocks, threads: [threads, 1], shared: 0 };
        // SAFETY: ids were checked when they were set; the order has each row once; the scratch has two parts a block.
        unsafe {
            launch(&self.0.queue, *kernels.scatter.of(storage), size(), work)?;
            launch(&self.0.queue, kernels.join, size(), work)
        }
    }
}
