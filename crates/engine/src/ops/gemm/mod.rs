//! Products with weights that were packed once: out = x·Wᵀ + bias, then an activation.
//!
//! A weight `[outputs, inputs]` is stored in panels of some outputs each, input by input, so that the inner loop reads it
//! in the order of memory and never again packs it. Rows of x are read where they stand. A tile of rows × one panel is
//! accumulated in registers, input after input; a sum that is stored on the way is taken up again as it was. So the order of
//! additions does not depend on the number of rows or threads.

#[cfg(target_arch = "x86_64")]
mod lanes;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::activation::Activation;
use super::memory::{Memory, Plain};
use super::real::Real;
use super::share::share_blocks;
use rope::Instructions;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;

/// The instruction sets that the loops are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What any CPU runs.
    Portable,
    #[cfg(target_arch = "x86_64")]
    /// AVX2 with FMA.
    Avx2,
    #[cfg(target_arch = "x86_64")]
    /// AVX-512 F, VL, DQ and BW.
    Avx512,
}

impl Level {
    /// All that this machine can run, the best last.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut, reason = "other machines have the portable loops alone")]
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") {
                levels.push(Level::Avx2);
                if has!("avx512f") && has!("avx512vl") && has!("avx512dq") && has!("avx512bw") {
                    levels.push(Level::Avx512);
                }
            }
        }
        levels
    }

    /// The best that may be used, found once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Instructions::best(&Level::available(), Level::needs).unwrap_or(Level::Portable))
    }

    fn needs(self) -> Instructions {
        match self {
            Level::Portable => Instructions::Portable,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Instructions::Avx2,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Instructions::Avx512,
        }
    }
}

/// What a tile starts from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start<T> {
    Zero,
    /// One number a column.
    Bias(*const T),
    /// What is in the target already.
    Target,
}

/// Rows of x times one panel.
///
/// Invariants, kept by whoever makes one: `rows` rows of `inputs` numbers, the rows `x_step` apart and the numbers of a row
/// `x_column`, are valid to read at `x`; a panel of `inputs` × `width` numbers is valid to read at `panel`; `rows` rows of
/// `columns` ≤ `width` numbers, `out_step` apart, are valid to read and write at `out` and touched by nobody else; as many, as
/// far apart as it says, are valid to read at `plus`, if it is there; a bias has `columns` numbers.
#[derive(Clone, Copy)]
pub(crate) struct Run<T> {
    pub x: *const T,
    pub x_step: usize,
    pub x_column: usize,
    pub rows: usize,
    pub inputs: usize,
    pub panel: *const T,
    pub width: usize,
    pub out: *mut T,
    pub out_step: usize,
    pub columns: usize,
    pub start: Start<T>,
    /// Rows that are added to the sums at last, and how far apart they are.
    pub plus: Option<(*const T, usize)>,
    /// What is read after this run, and how many numbers: fetched meanwhile, and not read.
    pub next: Option<(*const T, usize)>,
}

/// The loops for one number type.
pub(crate) trait Kernel: Sized {
    /// The same numbers as `f32`, where that is what they are.
    fn singles(list: &[Self]) -> Option<&[f32]>;
    /// The same numbers as `f32`, where that is what they are.
    fn singles_mut(list: &mut [Self]) -> Option<&mut [f32]>;
    /// The best width of a panel for this many outputs.
    fn width(level: Level, outputs: usize) -> usize;
    /// Rows of a tile for panels of this width.
    fn tile_rows(level: Level, width: usize) -> usize;
    /// Computes a run.
    ///
    /// # Safety
    ///
    /// The run's invariants hold, its width is one that `width` gave for this level, and the level is available.
    unsafe fn run(level: Level, run: &Run<Self>);
    /// Packs a panel: number c of row i of `panel`, whose rows have `width` numbers, is scale·(number i of column c), where
    /// columns begin `step` apart in `from` and have `inputs` numbers each; 0 from `columns` on.
    ///
    /// # Panics
    ///
    /// If `from` or the panel are too short.
    fn pack_columns(level: Level, from: &[Self], shape: Columns, scale: Self, panel: &mut [Self]);
    /// Lends the memory that each thread has for a packed panel of [`DEPTH`] rows. What uses it must not ask for it again.
    fn with_panel<R>(work: impl FnOnce(&mut [Self]) -> R) -> R;
}

/// The sizes of columns that are packed.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// Numbers of a column: rows of the panel.
    pub inputs: usize,
    /// From one column to the next.
    pub step: usize,
    /// How many there are, at most as many as the panel is wide.
    pub columns: usize,
    /// Numbers of a row of the panel.
    pub width: usize,
}

/// Rows of a panel that a thread has memory for: so many of the widest stay in the second-level cache, and as many lines of a
/// transposed left side in the first.
pub(crate) const DEPTH: usize = 512;
/// The widest panel.
const WIDEST: usize = 64;

/// Memory for a panel, aligned to cache lines.
#[repr(align(64))]
struct Panel<T, const LEN: usize>([T; LEN]);

// As part of each thread, rather than allocated: a training step allocates nothing, whichever threads it runs on.
thread_local! {
    static SINGLE: RefCell<Panel<f32, { DEPTH * WIDEST }>> = const { RefCell::new(Panel([0.0; DEPTH * WIDEST])) };
    static DOUBLE: RefCell<Panel<f64, { DEPTH * portable::WIDTH }>> =
        const { RefCell::new(Panel([0.0; DEPTH * portable::WIDTH])) };
}

impl Kernel for f32 {
    fn singles(list: &[f32]) -> Option<&[f32]> {
        Some(list)
    }

    fn singles_mut(list: &mut [f32]) -> Option<&mut [f32]> {
        Some(list)
    }

    fn width(level: Level, outputs: usize) -> usize {
        match level {
            Level::Portable => portable::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::width_avx2(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::width_avx512(outputs),
        }
    }

    fn tile_rows(level: Level, width: usize) -> usize {
        match level {
            Level::Portable => 1,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::ROWS_AVX2,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::rows_avx512(width),
        }
    }

    unsafe fn run(level: Level, run: &Run<f32>) {
        match level {
            // SAFETY: the caller's promise, handed on.
            Level::Portable => unsafe { portable::run(run) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above; the level says that the features are there.
            Level::Avx2 => unsafe { x86::run_avx2(run) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { x86::run_avx512(run) },
        }
    }

    fn pack_columns(level: Level, from: &[f32], shape: Columns, scale: f32, panel: &mut [f32]) {
        match level {
            Level::Portable => portable::pack_columns(from, shape, scale, panel),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that the features are there.
            Level::Avx2 => unsafe { x86::pack_columns_avx2(from, shape, scale, panel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { x86::pack_columns_avx512(from, shape, scale, panel) },
        }
    }

    fn with_panel<R>(work: impl FnOnce(&mut [f32]) -> R) -> R {
        SINGLE.with_borrow_mut(|panel| work(&mut panel.0))
    }
}

impl Kernel for f64 {
    fn singles(_: &[f64]) -> Option<&[f32]> {
        None
    }

    fn singles_mut(_: &mut [f64]) -> Option<&mut [f32]> {
        None
    }

    fn width(_: Level, _: usize) -> usize {
        portable::WIDTH
    }

    fn tile_rows(_: Level, _: usize) -> usize {
        1
    }

    unsafe fn run(_: Level, run: &Run<f64>) {
        // SAFETY: the caller's promise, handed on.
        unsafe { portable::run(run) }
    }

    fn pack_columns(_: Level, from: &[f64], shape: Columns, scale: f64, panel: &mut [f64]) {
        portable::pack_columns(from, shape, scale, panel);
    }

    fn with_panel<R>(work: impl FnOnce(&mut [f64]) -> R) -> R {
        DOUBLE.with_borrow_mut(|panel| work(&mut panel.0))
    }
}

/// Rows and columns of a square.
pub(crate) const SIDE: usize = 16;

/// Writes the columns of a square as rows, which begin `step` apart: numbers, or groups of them, of 32 bits.
///
/// # Panics
///
/// If `to` is too short.
pub(crate) fn turn<P: Plain>(level: Level, square: &[[P; SIDE]; SIDE], to: &mut [P], step: usize) {
    const { assert!(size_of::<P>() == 4, "32 bits") };
    assert!(step >= SIDE && to.len() >= (SIDE - 1) * step + SIDE, "room for a square");
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there; the rows lie within `to`, and any 32 bits are a P.
        Level::Avx512 => unsafe { x86::turn_avx512(square.as_ptr().cast(), to.as_mut_ptr().cast(), step) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::turn_avx2(square.as_ptr().cast(), to.as_mut_ptr().cast(), step) },
        Level::Portable => {
            for (column, to) in to.chunks_mut(step).take(SIDE).enumerate() {
                to.iter_mut().zip(square).for_each(|(to, row)| *to = row[column]);
            }
        }
    }
}

/// A weight packed for products, with its bias.
pub struct Matrix<T> {
    /// `[panels, inputs, width]`, the last panel filled up with zeros.
    panels: Memory<T>,
    /// `[panels · width]`
    bias: Memory<T>,
    inputs: usize,
    outputs: usize,
    width: usize,
    level: Level,
}

impl<T: Real> Matrix<T> {
    /// Room for a weight `[outputs, inputs]` and its bias, all zero; `None` if there is not enough memory.
    pub fn zeros(outputs: usize, inputs: usize) -> Option<Self> {
        Self::zeros_at(Level::best(), outputs, inputs)
    }

    fn zeros_at(level: Level, outputs: usize, inputs: usize) -> Option<Self> {
        let width = T::width(level, outputs);
        let padded = outputs.checked_next_multiple_of(width)?;
        let panels = Memory::kept(padded.checked_mul(inputs)?)?;
        Some(Matrix { panels, bias: Memory::kept(padded)?, inputs, outputs, width, level })
    }

    /// Packs rows `first`, `first` + 1, … of the weight from `rows`, `[count, inputs]`.
    pub fn set_rows(&mut self, first: usize, rows: &[T]) {
        let (inputs, width) = (self.inputs, self.width);
        for (index, row) in rows.chunks_exact(inputs.max(1)).enumerate() {
            let output = first + index;
            assert!(output < self.outputs, "a row of the weight");
            let panel = &mut self.panels[output / width * inputs * width..][..inputs * width];
            for (input, &value) in row.iter().enumerate() {
                panel[input * width + output % width] = value;
            }
        }
    }

    /// Sets the bias of the outputs from `first` on.
    pub fn set_bias(&mut self, first: usize, bias: &[T]) {
        self.bias[first..first + bias.len()].copy_from_slice(bias);
    }

    /// Inputs of the product.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Outputs of the product.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        (self.panels.len() + self.bias.len()) * size_of::<T>()
    }

    /// out = activation(x·Wᵀ + bias), for x `[rows, inputs]` and out `[rows, outputs]`, over the threads of the pool.
    pub fn apply(&self, x: &[T], out: &mut [T], activation: Activation) {
        let (inputs, outputs, width) = (self.inputs, self.outputs, self.width);
        let rows = out.len() / outputs.max(1);
        assert_eq!((x.len(), out.len()), (rows * inputs, rows * outputs), "shapes of a product");
        if rows == 0 || outputs == 0 {
            return;
        }
        let panels = outputs.div_ceil(width);
        let target = Target(out.as_mut_ptr());
        // As many rows as stay in a core's own cache while panel after panel passes by, beside the panel that is read and the one that is
        // fetched meanwhile; of long rows, one part of their inputs after the other. Where there are few panels the rows are divided
        // more, so that there is work for all threads. Rows are divided evenly, at multiples of what a tile has.
        let wanted = (rayon::current_num_threads() * 4).div_ceil(panels).min(rows.div_ceil(LEAST_ROWS));
        let row_blocks = rows.div_ceil(MANY_ROWS).max(wanted);
        let block = rows.div_ceil(row_blocks).next_multiple_of(T::tile_rows(self.level, width));
        let depth = inputs.div_ceil((block * inputs * size_of::<T>()).div_ceil(BLOCK_BYTES).max(1)).max(1);
        share_blocks(rows.div_ceil(block), panels, |row_block, panels| {
            let rows = row_block * block..rows.min((row_block + 1) * block);
            let columns = panels.start * width..outputs.min(panels.end * width);
            self.apply_some(x, rows.clone(), panels, depth, &target);
            if activation != Activation::Identity {
                // All columns at once: they are still in the second-level cache, and few numbers at a time are not worth its while.
                for row in rows {
                    let at = row * outputs + columns.start;
                    // SAFETY: the columns that this thread has just written.
                    let line =
                        unsafe { std::slice::from_raw_parts_mut(target.pointer().add(at), columns.len()) };
                    activation.apply(line);
                }
            }
        });
    }

    /// The product of some rows with some panels, `depth` inputs at a time. No other thread has these rows and columns of the target.
    fn apply_some(
        &self,
        x: &[T],
        rows: Range<usize>,
        panels: Range<usize>,
        depth: usize,
        target: &Target<T>,
    ) {
        let (inputs, outputs, width) = (self.inputs, self.outputs, self.width);
        for input in (0..inputs.max(1)).step_by(depth) {
            let deep = depth.min(inputs - input);
            // This part of a panel: nothing, behind the last one.
            let part = |panel: usize| {
                let from = ((panel * inputs + input) * width).min(self.panels.len());
                &self.panels[from..self.panels.len().min(from + deep * width)]
            };
            for panel in panels.clone() {
                let columns = width.min(outputs - panel * width);
                let next = part(panel + 1);
                let run = Run {
                    x: x[rows.start * inputs + input..].as_ptr(),
                    x_step: inputs,
                    x_column: 1,
                    rows: rows.len(),
                    inputs: deep,
                    panel: part(panel).as_ptr(),
                    width,
                    // SAFETY: row and column are within the target, whose size was checked.
                    out: unsafe { target.pointer().add(rows.start * outputs + panel * width) },
                    out_step: outputs,
                    columns,
                    start: match input {
                        0 => Start::Bias(self.bias[panel * width..][..columns].as_ptr()),
                        _ => Start::Target,
                    },
                    plus: None,
                    next: Some((next.as_ptr(), next.len())),
                };
                // SAFETY: the slices above have the sizes that a run asks for; rows and columns of the target are this thread's;
                // the level is the one that the weight was packed for.
                unsafe { T::run(self.level, &run) };
            }
        }
    }
}

/// Operations in one round of [`peak_loop`].
pub const PEAK_FLOPS: usize = 2 * 20 * 16;

/// A loop that does nothing but multiply and add, to measure what the chip can do.
pub fn peak_loop(rounds: usize) -> f32 {
    match Level::best() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there.
        Level::Avx512 => unsafe { x86::peak_avx512(rounds) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::peak_avx2(rounds) },
        Level::Portable => portable::peak(rounds),
    }
}

/// Rows below which a product is not divided by rows.
const LEAST_ROWS: usize = 96;
/// Bytes of x that stay in the second-level cache beside the panels that pass by: half of a small one (Zen 4 and 5, Cascade Lake).
const BLOCK_BYTES: usize = 1 << 19;
/// Rows for which it pays to read all panels once more. More of them, where they fit, leave the panels less room: slower.
const MANY_ROWS: usize = 128;

/// A target that several threads write different parts of.
pub(crate) struct Target<T>(pub *mut T);
// SAFETY: threads are given different rows or columns.
unsafe impl<T: Send> Sync for Target<T> {}
impl<T> Target<T> {
    /// A method, so that closures borrow the whole of it and not the pointer alone, which cannot be shared.
    pub fn pointer(&self) -> *mut T {
        self.0
    }
}

#[cfg(test)]
mod tests;
