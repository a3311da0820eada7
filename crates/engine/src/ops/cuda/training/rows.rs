//! Rows side by side, codes of positions, and one vector for each text.
//!
//! Columns of rows are copied into columns of other rows, which is all that `Beside`, `Columns`, `Concatenate` and `Every` are: every
//! `step`-th row of `[rows, width]` is a column of `[rows / step, step · width]`.

use super::{Launcher, narrow};
use crate::error::Result;
use crate::ops::cuda::Arithmetic;
use gpu::{Function, Module, Size, Span};

/// Bytes of a wide access.
const WIDE: usize = 16;
/// Threads of a block that sums over rows: chunks of a row, and stripes of rows. As in kernels/rows.cu.
const LANES: usize = 32;
const STRIPES: usize = 8;

/// A kernel `[f32, bf16]`, for numbers one by one and for 16 bytes at a time.
struct Kernel([[Function; 2]; 2]);

impl Kernel {
    fn find(module: &Module, name: &str) -> gpu::Result<Kernel> {
        let pair = |kind: &str| -> gpu::Result<[Function; 2]> {
            let wide = format!("{name}_{kind}_wide");
            Ok([module.function(&format!("{name}_{kind}"))?, module.function(&wide)?])
        };
        Ok(Kernel([pair("f32")?, pair("bf16")?]))
    }

    /// The kernel to launch, and the numbers that a thread of it takes: 16 bytes where all steps and addresses allow it.
    fn choose(&self, arithmetic: Arithmetic, steps: &[usize], places: &[u64]) -> (&Function, usize) {
        let count = WIDE / arithmetic.size();
        let is_wide = steps.iter().all(|step| step.is_multiple_of(count))
            && places.iter().all(|place| place.is_multiple_of(WIDE as u64));
        let [one, wide] = &self.0[usize::from(arithmetic == Arithmetic::Bf16)];
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
    pub(super) positions: [Function; 2],
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
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
    /// From the first row on.
    pub rows: Span,
    /// Numbers from row to row.
    pub width: usize,
    pub first: usize,
}

impl Columns {
    /// The address of the first number of so many columns of so many rows.
    fn place(&self, gpu: &Launcher, arithmetic: Arithmetic, [rows, count]: [usize; 2]) -> Result<u64> {
        let size = arithmetic.size();
        let end = if rows == 0 { 0 } else { (rows - 1) * self.width + self.first + count };
        Ok(gpu.at(self.rows, end * size)? + (self.first * size) as u64)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
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
    gpu: &Launcher,
    arithmetic: Arithmetic,
    from: &Columns,
    to: &Columns,
    [rows, count]: [usize; 2],
    accumulate: bool,
) -> Result<()> {
    let place = |columns: &Columns| columns.place(gpu, arithmetic, [rows, count]);
    let places = [place(from)?, place(to)?];
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
    // SAFETY: columns within their rows.
    unsafe { gpu.launch(kernel, Size::each(chunks), (work,)) }
}

/// Codes of positions `[rows, width]`, `f32`, for every text.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    pub codes: Span,
    pub rows: usize,
    pub width: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CodesWork {
    a: u64,
    codes: u64,
    out: u64,
    out_width: u64,
    chunks: u32,
    row: u32,
    codes_rows: u32,
}

/// out = a + codes: columns of `texts` times as many rows as the codes have, from a `[texts · rows, width]` or nothing.
pub(crate) fn add_codes(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    a: Span,
    codes: &Codes,
    out: &Columns,
    texts: usize,
) -> Result<()> {
    let count = texts * codes.rows;
    let place = out.place(gpu, arithmetic, [count, codes.width])?;
    let a = gpu.maybe(a, count * codes.width * arithmetic.size())?;
    let table = gpu.floats(codes.codes, codes.rows * codes.width)?;
    let (kernel, chunk) = kernels.codes.choose(arithmetic, &[codes.width, out.width], &[a, table, place]);
    let chunks = texts * codes.rows * codes.width / chunk;
    let work = CodesWork {
        a,
        codes: table,
        out: place,
        out_width: out.width as u64,
        chunks: narrow(chunks)?,
        row: narrow(codes.width / chunk)?,
        codes_rows: narrow(codes.rows)?,
    };
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(kernel, Size::each(chunks), (work,)) }
}

#[repr(C)]
#[derive(Clone, Copy)]
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

/// The gradient of codes, which is in their place here: the sum over all texts of columns of dy, in an order of its own that is
/// the same in every run. Sets it, or adds to it.
pub(crate) fn add_codes_backward(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    dy: &Columns,
    gradient: &Codes,
    texts: usize,
    accumulate: bool,
) -> Result<()> {
    let place = dy.place(gpu, arithmetic, [texts * gradient.rows, gradient.width])?;
    let sums = gpu.floats(gradient.codes, gradient.rows * gradient.width)?;
    let (kernel, chunk) =
        kernels.codes_backward.choose(arithmetic, &[gradient.width, dy.width], &[sums, place]);
    let chunks = gradient.rows * gradient.width / chunk;
    let work = CodesBackwardWork {
        dy: place,
        gradient: sums,
        dy_width: dy.width as u64,
        texts: narrow(texts)?,
        chunks: narrow(chunks)?,
        row: narrow(gradient.width / chunk)?,
        codes_rows: narrow(gradient.rows)?,
        accumulate: accumulate.into(),
    };
    let size = Size::new(chunks.div_ceil(LANES), [LANES, STRIPES]);
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(kernel, size, (work,)) }
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
    pub mask: Span,
    pub batch: usize,
    pub length: usize,
    pub width: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
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
    /// Bytes of all tokens, and of one vector for each text.
    fn bytes(&self, arithmetic: Arithmetic) -> (usize, usize) {
        let vectors = self.batch * self.width * arithmetic.size();
        (self.length * vectors, vectors)
    }

    fn work(&self, gpu: &Launcher, [from, to]: [u64; 2], chunks: usize, chunk: usize) -> Result<TextsWork> {
        Ok(TextsWork {
            mask: gpu.at(self.mask, self.batch * self.length.div_ceil(64) * size_of::<u64>())?,
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
    gpu: &Launcher,
    arithmetic: Arithmetic,
    pool: Pool,
    texts: &Texts,
    x: Span,
    out: Span,
) -> Result<()> {
    let kernel = if pool == Pool::Mean { &kernels.means } else { &kernels.lasts };
    let (tokens, vectors) = texts.bytes(arithmetic);
    let (x, out) = (gpu.at(x, tokens)?, gpu.at(out, vectors)?);
    let (kernel, chunk) = kernel.choose(arithmetic, &[texts.width], &[x, out]);
    let chunks = texts.batch * texts.width / chunk;
    let size = match pool {
        Pool::Last => Size::each(chunks),
        Pool::Mean => {
            let blocks = texts.batch * (texts.width / chunk).div_ceil(LANES);
            Size::new(blocks, [LANES, STRIPES])
        }
    };
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(kernel, size, (texts.work(gpu, [x, out], chunks, chunk)?,)) }
}

/// dx, the gradient of the tokens, from dy `[batch, width]`. Sets it (to 0 where a token has no part in its text's vector), or adds to
/// it.
#[expect(clippy::too_many_arguments, reason = "what goes back, where, and whether it is added")]
pub(crate) fn pool_backward(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    pool: Pool,
    texts: &Texts,
    dy: Span,
    dx: Span,
    accumulate: bool,
) -> Result<()> {
    let kernel = if pool == Pool::Mean { &kernels.means_backward } else { &kernels.lasts_backward };
    let (tokens, vectors) = texts.bytes(arithmetic);
    let (dy, dx) = (gpu.at(dy, vectors)?, gpu.at(dx, tokens)?);
    let (kernel, chunk) = kernel.choose(arithmetic, &[texts.width], &[dy, dx]);
    let chunks = texts.batch * texts.length * texts.width / chunk;
    let work = TextsWork { accumulate: accumulate.into(), ..texts.work(gpu, [dy, dx], chunks, chunk)? };
    // SAFETY: memory of these sizes.
    unsafe { gpu.launch(kernel, Size::each(chunks), (work,)) }
}

const _: () = assert!(size_of::<ColumnsWork>() == 48 && size_of::<CodesWork>() == 48);
const _: () = assert!(size_of::<CodesBackwardWork>() == 48 && size_of::<TextsWork>() == 48);

#[cfg(test)]
mod tests;
