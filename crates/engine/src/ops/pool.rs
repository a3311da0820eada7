//! Rows become one: the vector of a text, from those of its tokens.

use super::Real;
use super::memory::filled;
use rayon::prelude::*;

/// Rows that stand one after the other in `[…, width]`, and how they become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The number of the first.
    pub first: usize,
    /// How many there are.
    pub rows: usize,
    /// What is made of them.
    pub kind: Pool,
}

/// What is made of rows, number by number. Sums are in `f64`, row after row, and rounded once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pool {
    /// Their sum, divided by a number.
    Sum {
        /// What it is divided by.
        over: f64,
    },
    /// Their sum, each as often as its place says, divided by a number.
    Places {
        /// The place of the first row; those after it stand at the next ones.
        first: usize,
        /// What it is divided by.
        over: f64,
    },
    /// The largest of them, and NaN where one is; 0 of no rows.
    Largest,
}

impl Span {
    /// The number of the row behind the last; `None` if it is too large a number.
    pub fn end(&self) -> Option<usize> {
        self.first.checked_add(self.rows)
    }

    /// The one row, into `out` `[width]`, from x `[…, width]`.
    fn pool<T: Real>(&self, x: &[T], out: &mut [T]) {
        let rows = x[self.first * out.len()..].chunks_exact(out.len().max(1)).take(self.rows);
        let sum = |weight: &dyn Fn(usize) -> f64| {
            let mut total = vec![0.0f64; out.len()];
            for (index, row) in rows.clone().enumerate() {
                let weight = weight(index);
                total.iter_mut().zip(row).for_each(|(total, x)| *total += weight * x.to_f64());
            }
            total
        };
        let (total, over) = match self.kind {
            Pool::Sum { over } => (sum(&|_| 1.0), over),
            Pool::Places { first, over } => (sum(&|index| (first + index) as f64), over),
            Pool::Largest => {
                out.fill(T::ZERO);
                for (index, row) in rows.enumerate() {
                    for (most, &x) in out.iter_mut().zip(row) {
                        // What is not a number stays: it is larger than nothing, and nothing is larger.
                        let is_number = x.partial_cmp(&x).is_some();
                        if index == 0 || *most < x || !is_number {
                            *most = x;
                        }
                    }
                }
                return;
            }
        };
        out.iter_mut().zip(total).for_each(|(out, total)| *out = T::of(total / over));
    }
}

/// A row of each span, `[spans, width]`, from x `[…, width]`; `None` if there is no memory for them.
///
/// # Panics
///
/// If a span lies beyond x.
pub fn pool<T: Real>(x: &[T], width: usize, spans: &[Span]) -> Option<Vec<T>> {
    let mut out = filled(spans.len() * width, T::ZERO)?;
    out.par_chunks_exact_mut(width.max(1)).zip(spans).for_each(|(out, span)| span.pool(x, out));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let x = [1.0f32, -1.0, 2.0, -5.0, 6.0, -3.0, 0.0, f32::MIN];
        let span = |first, rows, kind| Span { first, rows, kind };
        let spans = [
            span(0, 3, Pool::Sum { over: 3.0 }),
            span(1, 2, Pool::Sum { over: 0.5 }),
            span(0, 3, Pool::Places { first: 1, over: 6.0 }),
            span(1, 2, Pool::Places { first: 4, over: 2.0 }),
            span(0, 3, Pool::Largest),
            span(3, 1, Pool::Largest),
            span(3, 0, Pool::Largest),
            span(4, 0, Pool::Sum { over: 1.0 }),
        ];
        let wanted = [
            [3.0, -3.0],
            [16.0, -16.0],
            [23.0 / 6.0, -20.0 / 6.0],
            [19.0, -17.5],
            [6.0, -1.0],
            [0.0, f32::MIN],
            [0.0, 0.0],
            [0.0, 0.0],
        ];
        assert_eq!(pool(&x, 2, &spans).unwrap(), wanted.concat());
    }

    #[test]
    fn what_is_not_a_number_stays() {
        for x in [[1.0, f32::NAN, 3.0], [1.0, 3.0, f32::NAN], [f32::NAN, 1.0, 3.0]] {
            for kind in [Pool::Largest, Pool::Sum { over: 3.0 }] {
                assert!(pool(&x, 1, &[Span { first: 0, rows: 3, kind }]).unwrap()[0].is_nan());
            }
        }
    }
}
