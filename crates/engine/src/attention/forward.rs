//! The forward of an attention for training: tile after tile, with a running softmax.

use super::dropout::Keep;
use super::rows::{Rows, Running, drop, exponentials};
use super::softmax::Shape;
use super::terms::Attention;
use super::tile::{KEYS, QUERIES, SPAN, Scratch, Tile, Workspace, add_product};
use crate::ops::Real;
use crate::ops::gemm::Level;
use crate::ops::multiply::{Strided, Threads, multiply};
use rayon::prelude::*;
use std::sync::PoisonError;

impl<T: Real> Attention<'_, T> {
    /// Results into `out` `[batch, queries, heads · head_dim]` and, for the backward, the logarithm of each query's sum of
    /// exponentials into `lse` `[batch, queries, heads]`. A query that sees no key gives zeros (and −∞). `false` if there
    /// was not enough memory.
    ///
    /// # Panics
    ///
    /// If inputs, terms or results do not fit the shape.
    #[must_use]
    pub fn forward(&self, out: &mut [T], lse: &mut [T], workspace: &mut Workspace<T>) -> bool {
        self.check();
        let Shape { batch, queries, heads, head_dim, .. } = self.shape;
        let width = heads * head_dim;
        assert_eq!(out.len(), batch * queries * width, "the shape of an attention");
        assert_eq!(lse.len(), batch * queries * heads, "the shape of an attention");
        if out.is_empty() {
            return true;
        }
        let is_made = match self.terms.path.is_some() && !self.is_led() {
            true => self.fit(workspace, 0) && self.make_blocks(workspace),
            false => self.fit(workspace, 0) && workspace.made.fit(0),
        };
        if !is_made {
            return false;
        }
        let keep = self.dropout.as_ref().map(Keep::new);
        let Workspace { threads, made, .. } = workspace;
        // Some queries with all their heads are one piece of work: their results lie side by side.
        let sequences = out.par_chunks_mut(queries * width).zip(lse.par_chunks_mut(queries * heads));
        sequences.enumerate().with_max_len(1).for_each(|(sequence, (out, lse))| {
            let blocks = out.par_chunks_mut(QUERIES * width).zip(lse.par_chunks_mut(QUERIES * heads));
            blocks.enumerate().with_max_len(1).for_each(|(block, (out, lse))| {
                let slot = rayon::current_thread_index().unwrap_or(0) % threads.len();
                let mut scratch = threads[slot].lock().unwrap_or_else(PoisonError::into_inner);
                for head in 0..heads {
                    let query = block * QUERIES;
                    let tile = Tile { sequence, head, query, queries: lse.len() / heads, key: 0, keys: 0 };
                    let results = Results { out: &mut out[head * head_dim..], lse: &mut lse[head..] };
                    self.forward_block(tile, self.made(made, &tile), keep, results, &mut scratch);
                }
            });
        });
        true
    }

    /// One head of some queries against all their keys.
    fn forward_block(
        &self,
        mut tile: Tile,
        made: &[T],
        keep: Option<Keep>,
        Results { out, lse }: Results<T>,
        scratch: &mut Scratch<T>,
    ) {
        let Shape { heads, head_dim: dim, .. } = self.shape;
        let (width, level) = (heads * dim, Level::best());
        scratch.largest.fill(T::NEG_INFINITY);
        scratch.total.fill(T::ZERO);
        self.prepare(&tile, scratch);
        let seen = self.seen(tile.sequence, tile.query, tile.queries);
        let tiles = self.tiles(&tile, &seen);
        for n in 0..tiles.count {
            let is_first = n == 0;
            (tile.key, tile.keys) = tiles.at(if self.is_from_the_last() { tiles.count - 1 - n } else { n });
            self.scores(&tile, made, scratch);
            self.leave(&tile, made, &mut scratch.walk);
            let Scratch { scores, largest, total, shrink, .. } = &mut *scratch;
            let running = Running {
                largest: &mut largest[..tile.queries],
                total: &mut total[..tile.queries],
                shrink: &mut shrink[..tile.queries],
            };
            exponentials(level, Rows { data: scores, step: KEYS, count: tile.keys }, T::ONE, running);
            if !is_first {
                let changed = shrink.iter().enumerate().take(tile.queries).filter(|x| *x.1 != T::ONE);
                for (i, &shrink) in changed {
                    out[i * width..][..dim].iter_mut().for_each(|x| *x *= shrink);
                }
            }
            if let Some(keep) = keep {
                for (i, row) in scores.chunks_exact_mut(KEYS).take(tile.queries).enumerate() {
                    drop(level, &mut row[..tile.keys], keep, self.index(&tile, i));
                }
            }
            let weights = Strided::rows(&scratch.scores, KEYS);
            let sizes = [tile.queries, dim, tile.keys];
            multiply((out, width), weights, self.values(&tile), sizes, 1.0, !is_first, Threads::One);
            if let Some(table) = &self.terms.value {
                let Scratch { scores, value, products, .. } = &mut *scratch;
                self.gather(table, &tile, value);
                value.sum((scores, KEYS), products, [tile.queries, tile.keys]);
                let (sums, vectors) = (Strided::rows(products, SPAN), Strided::rows(&value.vectors, dim));
                add_product((out, width), sums, vectors, [tile.queries, dim, value.slots()], 1.0);
            }
        }
        let kept = T::of(keep.map_or(1.0, |keep| keep.scale));
        for i in 0..tile.queries {
            let (out, total) = (&mut out[i * width..][..dim], scratch.total[i]);
            if total == T::ZERO {
                out.fill(T::ZERO);
                lse[i * heads] = T::NEG_INFINITY;
            } else {
                let factor = kept / total;
                out.iter_mut().for_each(|x| *x *= factor);
                lse[i * heads] = scratch.largest[i] + T::of(total.to_f64().ln());
            }
        }
    }

    /// The dropout's index of the first weight of a row of a tile.
    pub(super) fn index(&self, tile: &Tile, row: usize) -> u64 {
        let Shape { queries, keys, heads, .. } = self.shape;
        let row = (tile.sequence * heads + tile.head) * queries + tile.query + row;
        row as u64 * keys as u64 + tile.key as u64
    }
}

/// Where the results of one head of some queries go, from its first on; rows are all heads apart.
struct Results<'a, T> {
    out: &'a mut [T],
    lse: &'a mut [T],
}
