//! Vectors that queries meet by what they count (CoPE): each token from a key up to the query counts by a gate of the two, and the
//! sum, which need not be whole, stands between two rows of a table.
//!
//! What a query has counted at a key is a sum over the keys from that one on, so tiles of keys come from the last to the first,
//! each with what was counted behind it. The gradient of a gate is a sum over the keys before, so on the way back they come from the
//! first to the last; what was counted behind each tile is then found beforehand.

use super::softmax::Shape;
use super::terms::Attention;
use super::tile::{KEYS, QUERIES, Scratch, Tile, Tiles, add_product, product};
use crate::ops::dispatch::vectorised;
use crate::ops::multiply::Strided;
use crate::ops::{Memory, Real};

/// Queries whose sums run side by side: each waits for its own last addition.
const SIDE: usize = 8;

/// Memory of one thread for what queries count.
pub(super) struct Counts<T> {
    /// The gates of a tile, `[QUERIES, KEYS]`; on the way back then the gradient of its products of queries and keys.
    pub gates: Memory<T>,
    /// What each query has counted at each key, `[QUERIES, KEYS]`.
    places: Memory<T>,
    /// q·E, and its gradient, `[QUERIES, rows + 1]`: the last row twice, so that every row has one behind it.
    products: Memory<T>,
    dproducts: Memory<T>,
    /// What each query has counted behind the tile.
    behind: [f64; QUERIES],
    /// The same of all tiles of some queries, `[tiles, QUERIES]`, for the way back.
    carried: Memory<f64>,
    /// The sum of the gradients of places before the tile.
    before: [f64; QUERIES],
}

impl<T: Real> Counts<T> {
    /// `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        let empty = || Memory::zeros(0);
        Some(Counts {
            gates: empty()?,
            places: empty()?,
            products: empty()?,
            dproducts: empty()?,
            behind: [0.0; QUERIES],
            carried: Memory::zeros(0)?,
            before: [0.0; QUERIES],
        })
    }

    /// Makes sure of enough memory for a table of so many rows and, on the way back, so many keys; `false` if there is not.
    pub fn fit(&mut self, rows: usize, keys: usize) -> bool {
        let Some(all) = rows.checked_add(1).and_then(|rows| rows.checked_mul(QUERIES)) else { return false };
        let dproducts = if keys > 0 { all } else { 0 };
        self.gates.fit(QUERIES * KEYS)
            && self.places.fit(QUERIES * KEYS)
            && self.products.fit(all)
            && self.dproducts.fit(dproducts)
            && self.carried.fit(keys.div_ceil(KEYS) * QUERIES)
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        let Counts { gates, places, products, dproducts, .. } = self;
        let numbers = [gates, places, products, dproducts].map(|memory| memory.len()).iter().sum::<usize>();
        numbers * size_of::<T>() + self.carried.len() * size_of::<f64>()
    }
}

/// Where in a table a place stands: the row before it, and how far it is from there to the next. `last` is the last row.
#[inline(always)]
fn between<T: Real>(place: T, last: usize) -> (usize, T) {
    let row = (place.to_f64() as usize).min(last);
    (row, if row == last { T::ZERO } else { place - T::of(row as f64) })
}

vectorised! {
    /// x → 1/(1 + e^(−x)).
    fn squash<T>(numbers: &mut [T]) = squash_each
}

#[inline(always)]
fn squash_each<T: Real>(numbers: &mut [T]) {
    for x in numbers {
        // In the form that is 0 where a key is hidden.
        let power = if *x > T::LARGEST_EXPONENT { T::LARGEST_EXPONENT } else { *x }.exp();
        *x = power / (T::ONE + power);
    }
}

impl<T: Real> Attention<'_, T> {
    /// The rows of E; 0 where there is none.
    pub(super) fn counted_rows(&self) -> usize {
        self.terms.counted.map_or(0, |table| table.len() / self.shape.head_dim.max(1))
    }

    /// Begins with some queries: nothing is counted yet, and q·E for every row.
    pub(super) fn begin_counts(&self, tile: &Tile, counts: &mut Counts<T>) {
        let (Some(table), dim, rows) = (self.terms.counted, self.shape.head_dim, self.counted_rows()) else {
            return;
        };
        counts.behind.fill(0.0);
        let (products, vectors) = (&mut counts.products, Strided::rows(table, dim).transposed());
        product((products, rows + 1), self.queries(tile), vectors, [tile.queries, rows, dim], 1.0);
        for row in products.chunks_exact_mut(rows + 1).take(tile.queries) {
            row[rows] = row[rows - 1];
        }
    }

    /// Gates of a tile from its products of queries and keys, and what each query has counted behind it and in it.
    fn count(&self, tile: &Tile, scores: &[T], counts: &mut Counts<T>) {
        let Counts { gates, places, behind, .. } = counts;
        gates[..tile.queries * KEYS].copy_from_slice(&scores[..tile.queries * KEYS]);
        self.hide(tile, gates);
        for row in gates.chunks_exact_mut(KEYS).take(tile.queries) {
            squash(&mut row[..tile.keys]);
        }
        for first in (0..tile.queries).step_by(SIDE) {
            let side = first..tile.queries.min(first + SIDE);
            for key in (0..tile.keys).rev() {
                for i in side.clone() {
                    behind[i] += gates[i * KEYS + key].to_f64();
                    places[i * KEYS + key] = T::of(behind[i]);
                }
            }
        }
    }

    /// Adds what queries meet by what they count to the products of a tile. Before it, `behind` is of the tiles behind; after it,
    /// of this one too.
    pub(super) fn add_counted(&self, tile: &Tile, scores: &mut [T], counts: &mut Counts<T>) {
        let rows = self.counted_rows();
        self.count(tile, scores, counts);
        let tables = counts.products.chunks_exact(rows + 1);
        let places = counts.places.chunks_exact(KEYS);
        let all = scores.chunks_exact_mut(KEYS).zip(places).zip(tables).take(tile.queries);
        for ((scores, places), table) in all {
            for (score, &place) in scores.iter_mut().zip(&places[..tile.keys]) {
                let (row, part) = between(place, rows - 1);
                *score += table[row] + part * (table[row + 1] - table[row]);
            }
        }
    }

    /// Finds what queries have counted behind each of their tiles, and begins with their gradients.
    pub(super) fn carry_counts(&self, mut tile: Tile, tiles: &Tiles, scratch: &mut Scratch<T>) {
        let (dim, rows, scale) = (self.shape.head_dim, self.counted_rows(), self.scale());
        for index in (0..tiles.count).rev() {
            (tile.key, tile.keys) = tiles.at(index);
            let Scratch { scores, content, counts, .. } = scratch;
            counts.carried[index * QUERIES..][..QUERIES].copy_from_slice(&counts.behind);
            if index > 0 {
                let keys = self.keys(&tile).transposed();
                let sizes = [tile.queries, tile.keys, dim];
                product((scores, KEYS), self.content(&tile, content), keys, sizes, scale);
                self.count(&tile, scores, counts);
            }
        }
        scratch.counts.before.fill(0.0);
        scratch.counts.dproducts[..tile.queries * (rows + 1)].fill(T::ZERO);
    }

    /// Takes what was counted behind a tile, by its number among those of its queries.
    pub(super) fn recall_counts(&self, index: usize, counts: &mut Counts<T>) {
        let Counts { behind, carried, .. } = counts;
        behind.copy_from_slice(&carried[index * QUERIES..][..QUERIES]);
    }

    /// From the gradient of a tile's scores, `ds`, that of its products of queries and keys, left in `gates`: with z = q·E and w the
    /// part between two rows, dz[row] = ds·(1 − w), dz[row + 1] = ds·w, dp = ds·(z[row + 1] − z[row]). A key's gate is in the
    /// places of that key and of all before it.
    pub(super) fn counted_backward(&self, tile: &Tile, ds: &[T], counts: &mut Counts<T>) {
        let rows = self.counted_rows();
        let Counts { gates, places, products, dproducts, before, .. } = counts;
        for i in 0..tile.queries {
            let (table, dtable) =
                (&products[i * (rows + 1)..][..rows + 1], &mut dproducts[i * (rows + 1)..][..rows + 1]);
            let (ds, places) = (&ds[i * KEYS..][..tile.keys], &places[i * KEYS..][..tile.keys]);
            let gates = &mut gates[i * KEYS..][..tile.keys];
            for ((gate, &place), &ds) in gates.iter_mut().zip(places).zip(ds) {
                let (row, part) = between(place, rows - 1);
                dtable[row] += ds * (T::ONE - part);
                dtable[row + 1] += ds * part;
                before[i] += (ds * (table[row + 1] - table[row])).to_f64();
                *gate = ds + T::of(before[i]) * *gate * (T::ONE - *gate);
            }
        }
    }

    /// What came back to q·E: added to the gradient of the queries, and to that of the table, `[rows, head_dim]`, where it is asked
    /// for.
    pub(super) fn end_counts(&self, tile: &Tile, dq: &mut [T], dtable: &mut [T], counts: &Counts<T>) {
        let (Some(table), Shape { head_dim: dim, .. }, rows) =
            (self.terms.counted, self.shape, self.counted_rows())
        else {
            return;
        };
        let given = Strided::rows(&counts.dproducts, rows + 1);
        add_product((dq, dim), given, Strided::rows(table, dim), [tile.queries, dim, rows], 1.0);
        if !dtable.is_empty() {
            let sizes = [rows, dim, tile.queries];
            add_product((dtable, dim), given.transposed(), self.queries(tile), sizes, 1.0);
        }
    }
}
