//! Rows that become one on the GPU: only the results are copied back.

use super::kernels::narrow;
use super::memory::as_list;
use super::{Buffer, Cuda};
use crate::error::Result;
use crate::ops::{Pool, Real, Span};
use gpu::{Block, Size};
use std::sync::PoisonError;

/// A span as the kernel has it: the first row, its place, the divisor, and in one number the rows and, above them, what is made of them.
type Work = [u64; 4];

impl Cuda {
    /// See [`Backend::pool`](crate::ops::Backend::pool).
    pub(super) fn pool_rows<T: Real>(&self, x: &Buffer<T>, width: usize, spans: &[Span]) -> Result<Vec<T>> {
        self.check_type::<T>()?;
        let count = spans.len() * width;
        if count == 0 {
            return as_list(Vec::new());
        }
        let is_within = |span: &Span| span.end().is_some_and(|end| end <= x.len / width);
        assert!(spans.iter().all(is_within), "spans of the rows");
        let work = spans.iter().map(|span| {
            let (kind, place, over): (u64, f64, f64) = match span.kind {
                Pool::Sum { over } => (0, 0.0, over),
                Pool::Places { first, over } => (1, first as f64, over),
                Pool::Largest => (2, 0.0, 1.0),
            };
            let rows = u64::from(narrow(span.rows)?);
            Ok([span.first as u64, f64::to_bits(place), f64::to_bits(over), rows | kind << 32])
        });
        let work = work.collect::<Result<Vec<Work>>>()?.concat();
        let queue = &self.0.queue;
        let told = Block::new(queue, size_of_val(&*work))?;
        told.upload(told.span(), &work)?;
        let out = Block::new(queue, count * size_of::<f32>())?;
        let all =
            (x.at(0, self.0.arithmetic.size()), told.pointer(), out.pointer(), count as u64, narrow(width)?);
        // SAFETY: the five arguments of the kernel; the spans' rows are within x, and out has `count` numbers.
        unsafe { self.set().pool.launch(queue.stream(), Size::each(count), all) }?;
        self.state().end()?;
        let mut landing = self.0.landing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = landing.download(&out, out.span())?;
        as_list(bytes.chunks_exact(size_of::<f32>()).map(super::memory::number).collect())
    }
}
