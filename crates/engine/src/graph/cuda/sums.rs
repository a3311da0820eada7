//! Gradients of what all rows share: parts of sums over rows, which one launch at the end of the way back adds up.
//!
//! The gradient of a bias is the sum of the columns of a gradient that has just been written. Where what wrote it can sum as it
//! writes (a norm, an activation), it does, and nothing is read once more.

use super::Lowering;
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::norm::SUMS;
use crate::ops::cuda::training::pointwise::Slope;
use crate::ops::cuda::training::sums::{Columns, Parts};
use gpu::Span;

/// Sums that are still in parts, and what wrote a gradient last.
#[derive(Default)]
pub(super) struct Sums {
    parts: Vec<Parts>,
    last: Option<Last>,
}

/// The piece of work of the way back that was added last, if it can sum the columns of what it writes.
struct Last {
    /// Pieces of work up to it.
    count: usize,
    writes: Span,
    size: [usize; 2],
    writer: Writer,
}

/// What writes a gradient and can sum its columns.
pub(super) enum Writer {
    /// A norm, which has left parts of them beside its own sums: `[parts, SUMS, width]`.
    Norm { partials: Span, parts: usize },
    /// An activation.
    Slope(Slope),
}

impl Lowering<'_> {
    /// Parts of a sum that is made at the end of the way back.
    pub(super) fn add_parts(&mut self, parts: Parts) {
        self.sums.parts.push(parts);
    }

    /// Says that the piece of work which was just added can sum the columns of the gradient that it writes, `[rows, width]`.
    pub(super) fn can_sum(&mut self, writes: Span, size: [usize; 2], writer: Writer) {
        self.sums.last = Some(Last { count: self.backward_len(), writes, size, writer });
    }

    /// Adds the sums of the columns of x `[rows, width]`, a gradient, to out `[width]` by the end of the way back.
    pub(super) fn sum_columns(&mut self, storage: Storage, x: Span, size: [usize; 2], out: Span) {
        let [rows, width] = size;
        let (count, vector) = (self.backward_len(), width * size_of::<f32>());
        let is_last = |last: &Last| (last.count, last.writes, last.size) == (count, x, size);
        match self.sums.last.take().filter(is_last).map(|last| last.writer) {
            Some(Writer::Norm { partials, parts }) => {
                let partials = partials.from((SUMS - 1) * vector);
                return self.add_parts(Parts { partials, parts, step: SUMS * width, out, count: width });
            }
            Some(Writer::Slope(slope)) => {
                if let Some(division) = slope.division() {
                    let partials = self.memory(division.bytes(width));
                    self.replace_last_backward(move |gpu| gpu.slope_and_sums(&slope, division, partials));
                    return self.add_parts(Parts {
                        partials,
                        parts: division.splits,
                        step: width,
                        out,
                        count: width,
                    });
                }
            }
            None => {}
        }
        let columns = Columns { storage, x, rows, width };
        let division = columns.division();
        let partials = self.memory(division.bytes(width));
        self.backward(move |gpu| gpu.sum_columns(&columns, partials));
        self.add_parts(Parts { partials, parts: division.splits, step: width, out, count: width });
    }

    /// The end of the way back: adds up all parts. Sums that go to the same numbers are made one after the other.
    pub(super) fn sum_parts(&mut self) {
        let mut left = std::mem::take(&mut self.sums.parts);
        while !left.is_empty() {
            let (mut now, mut later): (Vec<Parts>, Vec<Parts>) = Default::default();
            for parts in left {
                let is_later = now.iter().chain(&later).any(|other| parts.meets(other));
                if is_later { later.push(parts) } else { now.push(parts) }
            }
            let table: Vec<u64> = now.iter().flat_map(Parts::entries).flatten().collect();
            let table = self.constant(&table);
            self.backward(move |gpu| {
                // SAFETY: the table was just made of these parts, and nothing writes it.
                unsafe { gpu.sum_parts(&now, table) }
            });
            left = later;
        }
    }
}
