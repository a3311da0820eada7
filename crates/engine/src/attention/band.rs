//! The vectors that a tile of queries and keys needs of a table by distance.
//!
//! A tile of n queries and m keys has n + m − 1 distances. The place of query i and key j among them is n − 1 − i + j: along
//! a query's row places follow one another, along a key's column they run backwards. Neighbouring distances that share a
//! row of the table (far ones, where distances are clipped or in buckets) share one vector, a slot.

use super::terms::Table;
use super::tile::SPAN;
use crate::ops::{Memory, Real};

/// Queries worked on together where a tile is read along its keys: a cache line of `f32`.
const LINE: usize = 16;

/// The vectors of a table for one tile.
pub(super) struct Band<T> {
    /// `[slots, head_dim]`
    pub vectors: Memory<T>,
    /// The slot of each place.
    slots: Vec<u32>,
    /// The row of the table of each slot.
    rows: Vec<u32>,
}

impl<T: Real> Band<T> {
    /// `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        let list = || Vec::with_capacity(SPAN);
        Some(Band { vectors: Memory::zeros(0)?, slots: list(), rows: list() })
    }

    /// How many vectors there are.
    pub fn slots(&self) -> usize {
        self.rows.len()
    }

    /// Takes the vectors of one head for these entries of the table's index, the last distance first.
    pub fn gather(&mut self, table: &Table<T>, head: usize, dim: usize, entries: &[u32]) {
        self.slots.clear();
        self.rows.clear();
        let head = if table.heads == 1 { 0 } else { head };
        for &row in entries.iter().rev() {
            if self.rows.last() != Some(&row) {
                let at = self.rows.len() * dim;
                let from = (row as usize * table.heads + head) * dim;
                self.vectors[at..at + dim].copy_from_slice(&table.values[from..from + dim]);
                self.rows.push(row);
            }
            self.slots.push(self.rows.len() as u32 - 1);
        }
    }

    /// Whether each place has a slot of its own.
    fn is_dense(&self) -> bool {
        self.rows.len() == self.slots.len()
    }

    /// tile[i, j] += products[i, slot of i and j]; both `[queries, …]` with `step` and `SPAN` numbers a row.
    pub fn add(&self, products: &[T], (tile, step): (&mut [T], usize), [queries, keys]: [usize; 2]) {
        for i in 0..queries {
            let (tile, first) = (&mut tile[i * step..][..keys], queries - 1 - i);
            let products = &products[i * SPAN..][..self.slots()];
            if self.is_dense() {
                tile.iter_mut().zip(&products[first..]).for_each(|(x, &product)| *x += product);
            } else {
                let slots = &self.slots[first..];
                tile.iter_mut().zip(slots).for_each(|(x, &slot)| *x += products[slot as usize]);
            }
        }
    }

    /// The transpose of `add`: sums[i, slot] = the sum of tile[i, j] over the keys j of the slot.
    pub fn sum(&self, (tile, step): (&[T], usize), sums: &mut [T], [queries, keys]: [usize; 2]) {
        for i in 0..queries {
            let (tile, first) = (&tile[i * step..][..keys], queries - 1 - i);
            let sums = &mut sums[i * SPAN..][..self.slots()];
            sums.fill(T::ZERO);
            if self.is_dense() {
                sums[first..first + keys].copy_from_slice(tile);
            } else {
                tile.iter().zip(&self.slots[first..]).for_each(|(&x, &slot)| sums[slot as usize] += x);
            }
        }
    }

    /// tile[i, j] += products[j, slot of i and j]: as `add`, with products `[keys, …]`.
    pub fn add_by_key(&self, products: &[T], (tile, step): (&mut [T], usize), [queries, keys]: [usize; 2]) {
        for block in (0..queries).step_by(LINE) {
            let last = queries.min(block + LINE);
            for j in 0..keys {
                let products = &products[j * SPAN..][..self.slots()];
                let slots = &self.slots[queries - last + j..queries - block + j];
                for (i, &slot) in (block..last).rev().zip(slots) {
                    tile[i * step + j] += products[slot as usize];
                }
            }
        }
    }

    /// The transpose of `add_by_key`: sums[j, slot] = the sum of tile[i, j] over the queries i of the slot.
    pub fn sum_by_key(&self, (tile, step): (&[T], usize), sums: &mut [T], [queries, keys]: [usize; 2]) {
        for j in 0..keys {
            sums[j * SPAN..][..self.slots()].fill(T::ZERO);
        }
        for block in (0..queries).step_by(LINE) {
            let last = queries.min(block + LINE);
            for j in 0..keys {
                let sums = &mut sums[j * SPAN..][..self.slots()];
                let slots = &self.slots[queries - last + j..queries - block + j];
                for (i, &slot) in (block..last).rev().zip(slots) {
                    sums[slot as usize] += tile[i * step + j];
                }
            }
        }
    }

    /// Adds vectors `[slots, head_dim]` to the rows of the table that they belong to, `[rows, head_dim]`.
    pub fn scatter(&self, vectors: &[T], rows: &mut [T], dim: usize) {
        for (vector, &row) in vectors.chunks_exact(dim).zip(&self.rows) {
            let row = &mut rows[row as usize * dim..][..dim];
            row.iter_mut().zip(vector).for_each(|(sum, &x)| *sum += x);
        }
    }
}
