//! Rows of a table by their ids, sums of several rows with weights, and their gradients.

use super::dispatch::vectorised;
use super::real::Real;
use super::reduce::{PARALLEL, by_columns};
use rayon::prelude::*;

/// Row i of out `[ids, width]` = row `ids[i]` of the table `[entries, width]`, or += where `accumulate`.
pub fn gather<T: Real>(table: &[T], ids: &[u32], width: usize, out: &mut [T], accumulate: bool) {
    assert_eq!(out.len(), ids.len() * width, "the output of an embedding");
    if width == 0 {
        return;
    }
    let row = |(out, &id): (&mut [T], &u32)| {
        let entry = &table[id as usize * width..][..width];
        if accumulate {
            add(out, entry, T::ONE);
        } else {
            out.copy_from_slice(entry);
        }
    };
    if out.len() < PARALLEL {
        out.chunks_exact_mut(width).zip(ids).for_each(row);
    } else {
        out.par_chunks_exact_mut(width).zip(ids).with_min_len(8).for_each(row);
    }
}

/// Row `ids[i]` of dtable `[entries, width]` += row i of dy `[ids, width]`, in the order of the ids.
pub fn gather_backward<T: Real>(dy: &[T], ids: &[u32], width: usize, dtable: &mut [T]) {
    assert_eq!(dy.len(), ids.len() * width, "the output of an embedding");
    by_columns(dtable, width, dy.len() >= PARALLEL, |mut columns| {
        let range = columns.range();
        for (dy, &id) in dy.chunks_exact(width).zip(ids) {
            add(columns.row(id as usize), &dy[range.clone()], T::ONE);
        }
    });
}

/// Sums of a table's rows with weights: what positions that are learned, hierarchical or random are made of.
#[derive(Clone, Copy, Debug)]
pub struct Combination<'a, T> {
    /// `[count, terms]`: rows of the table.
    pub rows: &'a [u32],
    /// `[count, terms]`: what each is multiplied with. A term with the weight 0 is left out, whatever its row.
    pub weights: &'a [T],
    /// How many rows each sum has.
    pub terms: usize,
}

impl<T: Real> Combination<'_, T> {
    /// Row k of out `[outputs, width]` = Σ weight·(row of the table `[entries, width]`), or += where `accumulate`, over the
    /// terms of combination k mod count: every sequence of a batch takes the same positions.
    pub fn forward(&self, table: &[T], width: usize, out: &mut [T], accumulate: bool) {
        self.check(width, out.len());
        if width == 0 {
            return;
        }
        let row = |(index, out): (usize, &mut [T])| {
            if !accumulate {
                out.fill(T::ZERO);
            }
            for (row, weight) in self.of(index) {
                add(out, &table[row * width..][..width], weight);
            }
        };
        if out.len() < PARALLEL {
            out.chunks_exact_mut(width).enumerate().for_each(row);
        } else {
            out.par_chunks_exact_mut(width).with_min_len(8).enumerate().for_each(row);
        }
    }

    /// The table's gradient: dtable `[entries, width]` += weight·(row of dy `[outputs, width]`), output by output.
    pub fn backward(&self, dy: &[T], width: usize, dtable: &mut [T]) {
        self.check(width, dy.len());
        by_columns(dtable, width, dy.len() >= PARALLEL, |mut columns| {
            let range = columns.range();
            for (index, dy) in dy.chunks_exact(width).enumerate() {
                for (row, weight) in self.of(index) {
                    add(columns.row(row), &dy[range.clone()], weight);
                }
            }
        });
    }

    /// The terms of an output.
    fn of(&self, output: usize) -> impl Iterator<Item = (usize, T)> {
        let first = output % (self.rows.len() / self.terms) * self.terms;
        let (rows, weights) = (&self.rows[first..][..self.terms], &self.weights[first..][..self.terms]);
        let pairs = rows.iter().zip(weights).filter(|(_, weight)| **weight != T::ZERO);
        pairs.map(|(&row, &weight)| (row as usize, weight))
    }

    fn check(&self, width: usize, out: usize) {
        assert_eq!(self.rows.len(), self.weights.len(), "rows and weights of a combination");
        assert!(self.terms > 0 && self.rows.len().is_multiple_of(self.terms), "terms of a combination");
        assert!(out == 0 || out.is_multiple_of(width), "the output of a combination");
        assert!(out == 0 || !self.rows.is_empty(), "no combinations");
    }
}

vectorised! { fn add<T>(out: &mut [T], x: &[T], weight: T) = add_row }

#[inline(always)]
fn add_row<T: Real>(out: &mut [T], x: &[T], weight: T) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out += weight * *x);
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, dot, gradient, list, on_any_threads};
    use super::*;

    const SIZES: [(usize, usize, usize); 6] =
        [(1, 1, 1), (5, 7, 3), (1, 65, 4), (40, 1, 6), (3, 64, 9), (300, 130, 11)];

    /// `count` row numbers below `entries`, some of them often.
    fn ids(count: usize, entries: usize) -> Vec<u32> {
        (0..count).map(|i| ((i * i * 7 + i / 3) % entries) as u32).collect()
    }

    #[test]
    fn gathered_rows_and_their_gradient() {
        fn run<T: Real>(ids: &[u32], width: usize, entries: usize) -> Vec<T> {
            let (table, dy) = (list::<T>(1, entries * width), list::<T>(2, ids.len() * width));
            on_any_threads(|| {
                let (mut out, mut dtable) = (vec![T::ONE; dy.len()], vec![T::ONE; table.len()]);
                gather(&table, ids, width, &mut out, true);
                gather(&table, &ids[..1], width, &mut out[..width], false);
                gather_backward(&dy, ids, width, &mut dtable);
                [out, dtable].concat()
            })
        }
        for (count, width, entries) in SIZES {
            let ids = ids(count, entries);
            let out = run::<f64>(&ids, width, entries);
            let (table, dy) = (list::<f64>(1, entries * width), list::<f64>(2, count * width));
            let at = |table: &[f64], i: usize| table[ids[i / width] as usize * width + i % width];
            for (i, out) in out[..count * width].iter().enumerate() {
                assert_eq!(*out, at(&table, i) + if i < width { 0.0 } else { 1.0 });
            }
            let dtable: Vec<f64> = out[count * width..].iter().map(|d| d - 1.0).collect();
            let all = |table: &[f64]| (0..count * width).map(|i| at(table, i)).collect::<Vec<f64>>();
            gradient("table", &table, &dtable, |table| dot(&all(table), &dy));
            close("f32", &run::<f32>(&ids, width, entries), &out, 32.0);
        }
    }

    #[test]
    fn combinations_and_their_gradient() {
        fn run<T: Real>(rows: &[u32], width: usize, entries: usize, terms: usize) -> Vec<T> {
            let count = rows.len() / terms;
            let (table, dy) = (list::<T>(1, entries * width), list::<T>(2, 2 * count * width));
            let mut weights = list::<T>(3, rows.len());
            weights[0] = T::ZERO;
            let combination = Combination { rows, weights: &weights, terms };
            on_any_threads(|| {
                let (mut more, mut dtable) = (vec![T::ONE; dy.len()], vec![T::ONE; table.len()]);
                let mut out = more.clone();
                combination.forward(&table, width, &mut more, true);
                combination.forward(&table, width, &mut out, false);
                combination.backward(&dy, width, &mut dtable);
                [more, out, dtable].concat()
            })
        }
        for ((count, width, entries), terms) in
            SIZES.into_iter().flat_map(|size| [1, 2, 3].map(|t| (size, t)))
        {
            let mut rows = ids(count * terms, entries);
            // Left out, so that no row needs to be there.
            rows[0] = u32::MAX;
            let out = run::<f64>(&rows, width, entries, terms);
            let (table, dy) = (list::<f64>(1, entries * width), list::<f64>(2, 2 * count * width));
            let mut weights = list::<f64>(3, rows.len());
            weights[0] = 0.0;
            let value = |table: &[f64], i: usize| -> f64 {
                let first = i / width % count * terms;
                let term = |t: usize| match rows[t] {
                    u32::MAX => 0.0,
                    row => weights[t] * table[row as usize * width + i % width],
                };
                (first..first + terms).map(term).sum()
            };
            let len = 2 * count * width;
            for i in 0..len {
                assert!((out[i] - 1.0 - value(&table, i)).abs() < 1e-14);
                assert!((out[len + i] - value(&table, i)).abs() < 1e-14);
            }
            let dtable: Vec<f64> = out[2 * len..].iter().map(|d| d - 1.0).collect();
            let all = |table: &[f64]| (0..len).map(|i| value(table, i)).collect::<Vec<f64>>();
            gradient("table", &table, &dtable, |table| dot(&all(table), &dy));
            close("f32", &run::<f32>(&rows, width, entries, terms), &out, 32.0);
        }
    }

    #[test]
    #[should_panic(expected = "row 3 of 3")]
    fn a_row_that_is_not_there_is_refused() {
        gather_backward(&[1.0f32, 2.0], &[3], 2, &mut [0.0; 6]);
    }
}
