//! Sums of rows of a table, which encodings make codes of positions of.

use super::rows::Kernels;
use super::{Launcher, THREADS, narrow};
use crate::error::Result;
use gpu::{Function, Size, Span};

/// Sums of three rows of a table, all `f32`.
#[derive(Clone, Copy)]
pub(crate) struct Positions {
    /// `[entries, width]`: read forward; on the way back its gradient, which is added to.
    pub table: Span,
    pub entries: usize,
    /// `[length, 3]`, `u32`.
    pub rows: Span,
    /// `[length, 3]` and then `[entries + 1]`, `u32`: the places of the weights, those first whose row is the first and those without
    /// weight last, and where those of each row begin. Of the way back.
    pub order: Span,
    /// `[length, 3]`, `f32`. A row with the weight 0 is not read.
    pub weights: Span,
    /// `[length, width]`: set forward; on the way back its gradient.
    pub out: Span,
    pub length: usize,
    pub width: usize,
}

/// As `Positions` in kernels/rows.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct PositionsWork {
    table: u64,
    rows: u64,
    order: u64,
    starts: u64,
    weights: u64,
    out: u64,
    length: u32,
    width: u32,
}

impl Positions {
    /// # Safety
    ///
    /// The table has the rows, but for those with the weight 0, and the order is theirs.
    unsafe fn launch(&self, gpu: &Launcher, kernel: &Function, size: Size) -> Result<()> {
        let (count, places) = (self.length * self.width, 3 * self.length * size_of::<u32>());
        narrow(count)?;
        let order = gpu.maybe(self.order, order_bytes(self.length, self.entries))?;
        let work = PositionsWork {
            table: gpu.floats(self.table, self.entries * self.width)?,
            rows: gpu.at(self.rows, places)?,
            order,
            starts: order + places as u64,
            weights: gpu.floats(self.weights, 3 * self.length)?,
            out: gpu.floats(self.out, count)?,
            length: narrow(self.length)?,
            width: narrow(self.width)?,
        };
        // SAFETY: memory of these sizes, and rows that the table has, as the caller promises.
        unsafe { gpu.launch(kernel, size, (work,)) }
    }
}

/// out = Σ weight·(row of the table).
///
/// # Safety
///
/// The table has the rows, but for those with the weight 0.
pub(crate) unsafe fn position_rows(kernels: &Kernels, gpu: &Launcher, work: &Positions) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { work.launch(gpu, &kernels.positions[0], Size::each(work.length * work.width)) }
}

/// Adds to the table's gradient: what comes back to a row in the order of the tokens.
///
/// # Safety
///
/// The table has the rows, but for those with the weight 0, and the order is that of these rows and weights.
pub(crate) unsafe fn position_rows_backward(
    kernels: &Kernels,
    gpu: &Launcher,
    work: &Positions,
) -> Result<()> {
    let size = Size::new(work.entries, [work.width.next_multiple_of(32).min(THREADS), 1]);
    // SAFETY: as the caller promises.
    unsafe { work.launch(gpu, &kernels.positions[1], size) }
}

const _: () = assert!(size_of::<PositionsWork>() == 56);

/// Bytes of what [`in_order`] gives.
pub(crate) fn order_bytes(length: usize, entries: usize) -> usize {
    (3 * length + entries + 1) * size_of::<u32>()
}

/// The places of terms, those first whose row is the first and those without a weight last; then where those of each row begin, and
/// where the last end.
pub(crate) fn in_order(terms: impl Iterator<Item = (u32, f64)>, rows: usize) -> Vec<u32> {
    // A weight that is 0 in `f32` is that of a row which need not be there.
    let keys: Vec<usize> =
        terms.map(|(row, weight)| if weight as f32 == 0.0 { rows } else { row as usize }).collect();
    let mut starts = vec![0u32; rows + 2];
    for &key in &keys {
        starts[key + 1] += 1;
    }
    for row in 0..=rows {
        starts[row + 1] += starts[row];
    }
    let (mut order, mut next) = (vec![0; keys.len()], starts.clone());
    for (place, &key) in (0u32..).zip(&keys) {
        order[next[key] as usize] = place;
        next[key] += 1;
    }
    order.extend(&starts[..=rows]);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cuda::Arithmetic;
    use crate::ops::cuda::training::check::{close, done, gpu, numbers};
    use crate::ops::embedding::Combination;

    #[test]
    fn terms_come_in_the_order_of_their_rows() {
        let terms = [(2, 1.0), (0, 0.5), (9, 0.0), (0, 0.5), (2, 1.0), (1, 1.0)];
        assert_eq!(in_order(terms.into_iter(), 4), [1, 3, 5, 0, 4, 2, 0, 2, 3, 5, 5]);
    }

    #[test]
    fn positions_are_sums_of_rows() {
        let Some(gpu) = gpu() else { return };
        let (kernels, launcher) = (&gpu.kernels().rows, &gpu.launcher());
        let (length, width, entries) = (70, 33, 9);
        let table = numbers(Arithmetic::F32, 1, entries * width);
        let mut weights = numbers(Arithmetic::F32, 2, 3 * length);
        let mut rows: Vec<u32> = (0..3 * length as u32).map(|index| index * 5 % entries as u32).collect();
        // A row that is not there has no weight.
        (weights[4], rows[4]) = (0.0, u32::MAX);
        let combination = Combination { rows: &rows, weights: &weights, terms: 3 };
        let mut expected = vec![0.0; length * width];
        combination.forward(&table, width, &mut expected, false);
        let (there, out) = (gpu.put(&table), gpu.put(&vec![9f32; length * width]));
        let (rows_there, weights_there) = (gpu.put(&rows), gpu.put(&weights));
        let terms = rows.iter().copied().zip(weights.iter().map(|&weight| f64::from(weight)));
        let order = gpu.put(&in_order(terms, entries));
        let work = Positions {
            table: there.span(),
            entries,
            order: order.span(),
            rows: rows_there.span(),
            weights: weights_there.span(),
            out: out.span(),
            length,
            width,
        };
        // SAFETY: rows below the number of entries, but for the one without weight.
        done(unsafe { position_rows(kernels, launcher, &work) });
        close("positions", Arithmetic::F32, &gpu.get(&out, expected.len()), &expected, 8.0);
        let mut sums = table.clone();
        combination.backward(&expected, width, &mut sums);
        // SAFETY: as above.
        done(unsafe { position_rows_backward(kernels, launcher, &work) });
        let first = gpu.get::<f32>(&there, sums.len());
        close("their gradient", Arithmetic::F32, &first, &sums, 64.0);
        // The same bits in every run.
        for _ in 0..3 {
            there.upload(there.span(), &table).unwrap();
            // SAFETY: as above.
            done(unsafe { position_rows_backward(kernels, launcher, &work) });
            assert_eq!(gpu.get::<f32>(&there, sums.len()), first);
        }
    }
}
