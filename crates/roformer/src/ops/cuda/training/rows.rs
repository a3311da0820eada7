//! Rows side by side, codes of positions, and one vector for each text.
//!
//! Columns of rows are copied into columns of other rows, which is all that `Beside`, `Columns`, `Concatenate` and `Every` are: every
//! `step`-th row of `[rows, width]` is a column of `[rows / step, step · width]`.

use super::narrow;
use crate::ops::cuda::kernels::{Size, launch};
use crate::ops::cuda::memory::Queue;
use crate::ops::cuda::{Arithmetic, Fault};
use rope::cuda::{Device, Function, Module};

/// Bytes of a wide access.
const WIDE: usize = 16;
/// Threads of a block that sums over rows: chunks of a row, and stripes of rows. As in kernels/rows.cu.
const LANES: usize = 32;
const STRIPES: usize = 8;

/// A kernel `[f32, bf16]`, for numbers one by one and for 16 bytes at a time.
#[derive(Clone, Copy)]
struct Kernel([[Function; 2]; 2]);

impl Kernel {
    fn find(module: &Module, name: &str) -> rope::Result<Kernel> {
        let pair = |kind: &str| -> rope::Result<[Function; 2]> {
            let wide = format!("{name}_{kind}_wide");
            Ok([module.function(&format!("{name}_{kind}"))?, module.function(&wide)?])
        };
        Ok(Kernel([pair("f32")?, pair("bf16")?]))
    }

    /// The kernel to launch, and the numbers that a thread of it takes: 16 bytes where all steps and addresses allow it.
    fn choose(&self, arithmetic: Arithmetic, steps: &[usize], places: &[u64]) -> (Function, usize) {
        let count = WIDE / arithmetic.size();
        let is_wide = steps.iter().all(|step| step.is_multiple_of(count))
            && places.iter().all(|place| place.is_multiple_of(WIDE as u64));
        let [one, wide] = self.0[usize::from(arithmetic == Arithmetic::Bf16)];
        if is_wide { (wide, count) } else { (one, 1) }
    }
}

/// The kernels of this part.
pub(crate) struct Kernels {
    columns: Kernel,
    codes: Kernel,
    codes_backward: Kernel,
    means: Kernel,
    means_backward: Kernel,
    lasts: Kernel,
    lasts_backward: Kernel,
    positions: [Function; 2],
}

impl Kernels {
    pub fn load(module: &Module, _device: &Device) -> rope::Result<Kernels> {
        let find = |name: &str| Kernel::find(module, name);
        Ok(Kernels {
            columns: find("rows_columns")?,
            codes: find("rows_codes")?,
            codes_backward: find("rows_codes_backward")?,
            means: find("rows_means")?,
            means_backward: find("rows_means_backward")?,
            lasts: find("rows_lasts")?,
            lasts_backward: find("rows_lasts_backward")?,
            positions: [module.function("rows_positions")?, module.function("rows_positions_backward")?],
        })
    }
}

/// Columns `first .. first + count` of rows of so many numbers.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// The address of the first row.
    pub rows: u64,
    /// Numbers from row to row.
    pub width: usize,
    pub first: usize,
}

impl Columns {
    fn place(&self, arithmetic: Arithmetic) -> u64 {
        self.rows + (self.first * arithmetic.size()) as u64
    }
}

#[repr(C)]
struct ColumnsWork {
    from: u64,
    to: u64,
    from_width: u64,
    to_width: u64,
    chunks: u32,
    row: u32,
    accumulate: u32,
}

/// Copies `count` columns of `rows` rows, or adds them to what is there. All else stays.
pub(crate) fn copy_columns(
    kernels: &Kernels,
    queue: &Queue,
    arithmetic: Arithmetic,
    from: &Columns,
    to: &Columns,
    [rows, count]: [usize; 2],
    accumulate: bool,
) -> Result<(), Fault> {
    let places = [from, to].map(|columns| columns.place(arithmetic));
    let (kernel, chunk) = kernels.columns.choose(arithmetic, &[from.width, to.width, count], &places);
    let chunks = rows * count / chunk;
    let work = ColumnsWork {
        from: places[0],
        to: places[1],
        from_width: from.width as u64,
        to_width: to.width as u64,
        chunks: narrow(chunks)?,
        row: narrow(count / chunk)?,
        accumulate: accumulate.into(),
    };
    // SAFETY: the program's memory: columns within their rows.
    unsafe { launch(queue, kernel, Size::each(chunks), &work) }
}

/// Codes of positions `[rows, width]`, `f32`, for every text.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    pub codes: u64,
    pub rows: usize,
    pub width: usize,
}

#[repr(C)]
struct CodesWork {
    a: u64,
    codes: u64,
    out: u64,
    out_width: u64,
    chunks: u32,
    row: u32,
    codes_rows: u32,
}

/// out = a + codes: columns of `texts` times as many rows as the codes have, from a `[texts · rows, width]` or, at address 0, nothing.
pub(crate) fn add_codes(
    kernels: &Kernels,
    queue: &Queue,
    arithmetic: Arithmetic,
    a: u64,
    codes: &Codes,
    out: &Columns,
    texts: usize,
) -> Result<(), Fault> {
    let place = out.place(arithmetic);
    let (kernel, chunk) =
        kernels.codes.choose(arithmetic, &[codes.width, out.width], &[a, codes.codes, place]);
    let chunks = texts * codes.rows * codes.width / chunk;
    let work = CodesWork {
        a,
        codes: codes.codes,
        out: place,
        out_width: out.width as u64,
        chunks: narrow(chunks)?,
        row: narrow(codes.width / chunk)?,
        codes_rows: narrow(codes.rows)?,
    };
    // SAFETY: the program's memory, of these sizes.
    unsafe { launch(queue, kernel, Size::each(chunks), &work) }
}

#[repr(C)]
struct CodesBackwardWork {
    dy: u64,
    gradient: u64,
    dy_width: u64,
    texts: u32,
    chunks: u32,
    row: u32,
    codes_rows: u32,
    accumulate: u32,
}

/// The gradient of codes, which is at their address here: the sum over all texts of columns of dy, in an order of its own that is
/// the same in every run. Sets it, or adds to it.
pub(crate) fn add_codes_backward(
    kernels: &Kernels,
    queue: &Queue,
    arithmetic: Arithmetic,
    dy: &Columns,
    gradient: &Codes,
    texts: usize,
    accumulate: bool,
) -> Result<(), Fault> {
    let place = dy.place(arithmetic);
    let (kernel, chunk) =
        kernels.codes_backward.choose(arithmetic, &[gradient.width, dy.width], &[gradient.codes, place]);
    let chunks = gradient.rows * gradient.width / chunk;
    let work = CodesBackwardWork {
        dy: place,
        gradient: gradient.codes,
        dy_width: dy.width as u64,
        texts: narrow(texts)?,
        chunks: narrow(chunks)?,
        row: narrow(gradient.width / chunk)?,
        codes_rows: narrow(gradient.rows)?,
        accumulate: accumulate.into(),
    };
    let size = Size { blocks: chunks.div_ceil(LANES), threads: [LANES, STRIPES], shared: 0 };
    // SAFETY: the program's memory, of these sizes.
    unsafe { launch(queue, kernel, size, &work) }
}

/// Which vector stands for a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    /// The mean over its real tokens; 0 of a text without.
    Mean,
    /// Its last real token; of a text without, the last.
    Last,
}

/// Texts of tokens `[batch · length, width]`, and which of them are real.
#[derive(Clone, Copy)]
pub(crate) struct Texts {
    /// `[batch, length / 64 rounded up]`, `u64`: a bit a token.
    pub mask: u64,
    pub batch: usize,
    pub length: usize,
    pub width: usize,
}

#[repr(C)]
struct TextsWork {
    mask: u64,
    from: u64,
    to: u64,
    chunks: u32,
    row: u32,
    length: u32,
    words: u32,
    accumulate: u32,
}

impl Texts {
    fn work(&self, [from, to]: [u64; 2], chunks: usize, chunk: usize) -> Result<TextsWork, Fault> {
        Ok(TextsWork {
            mask: self.mask,
            from,
            to,
            chunks: narrow(chunks)?,
            row: narrow(self.width / chunk)?,
            length: narrow(self.length)?,
            words: narrow(self.length.div_ceil(64))?,
            accumulate: 0,
        })
    }
}

/// out `[batch, width]` = one vector for each text of x.
pub(crate) fn pool(
    kernels: &Kernels,
    queue: &Queue,
    arithmetic: Arithmetic,
    pool: Pool,
    texts: &Texts,
    x: u64,
    out: u64,
) -> Result<(), Fault> {
    let kernel = if pool == Pool::Mean { kernels.means } else { kernels.lasts };
    let (kernel, chunk) = kernel.choose(arithmetic, &[texts.width], &[x, out]);
    let chunks = texts.batch * texts.width / chunk;
    let size = match pool {
        Pool::Last => Size::each(chunks),
        Pool::Mean => {
            let blocks = texts.batch * (texts.width / chunk).div_ceil(LANES);
            Size { blocks, threads: [LANES, STRIPES], shared: 0 }
        }
    };
    // SAFETY: the program's memory, of these sizes.
    unsafe { launch(queue, kernel, size, &texts.work([x, out], chunks, chunk)?) }
}

/// dx, the gradient of the tokens, from dy `[batch, width]`. Sets it (to 0 where a token has no part in its text's vector), or adds to
/// it.
#[expect(clippy::too_many_arguments, reason = "what goes back, where, and whether it is added")]
pub(crate) fn pool_backward(
    kernels: &Kernels,
    queue: &Queue,
    arithmetic: Arithmetic,
    pool: Pool,
    texts: &Texts,
    dy: u64,
    dx: u64,
    accumulate: bool,
) -> Result<(), Fault> {
    let kernel = if pool == Pool::Mean { kernels.means_backward } else { kernels.lasts_backward };
    let (kernel, chunk) = kernel.choose(arithmetic, &[texts.width], &[dy, dx]);
    let chunks = texts.batch * texts.length * texts.width / chunk;
    let work = TextsWork { accumulate: accumulate.into(), ..texts.work([dy, dx], chunks, chunk)? };
    // SAFETY: the program's memory, of these sizes.
    unsafe { launch(queue, kernel, Size::each(chunks), &work) }
}

/// Sums of three rows of a table, all `f32`: as `Positions` in kernels/rows.cu.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Positions {
    /// `[entries, width]`: read forward; on the way back its gradient, which is added to.
    pub table: u64,
    /// `[length, 3]`, `u32`.
    pub rows: u64,
    /// `[length, 3]`, `f32`. A row with the weight 0 is not read.
    pub weights: u64,
    /// `[length, width]`: set forward; on the way back its gradient.
    pub out: u64,
    pub length: u32,
    pub width: u32,
}

impl Positions {
    fn launch(&self, queue: &Queue, kernel: Function) -> Result<(), Fault> {
        let count = self.length as usize * self.width as usize;
        narrow(count)?;
        // SAFETY: the program's memory, of these sizes, and rows that the table has.
        unsafe { launch(queue, kernel, Size::each(count), self) }
    }
}

/// out = Σ weight·(row of the table).
pub(crate) fn position_rows(kernels: &Kernels, queue: &Queue, work: &Positions) -> Result<(), Fault> {
    work.launch(queue, kernels.positions[0])
}

/// Adds to the table's gradient. Rows that several positions share are added to in no set order.
pub(crate) fn position_rows_backward(
    kernels: &Kernels,
    queue: &Queue,
    work: &Positions,
) -> Result<(), Fault> {
    work.launch(queue, kernels.positions[1])
}

const _: () = assert!(size_of::<ColumnsWork>() == 48 && size_of::<CodesWork>() == 48);
const _: () = assert!(size_of::<CodesBackwardWork>() == 48 && size_of::<TextsWork>() == 48);
const _: () = assert!(size_of::<Positions>() == 40);

#[cfg(test)]
mod tests;
