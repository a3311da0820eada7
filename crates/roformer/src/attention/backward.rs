//! The backward of an attention for training: the scores once more, tile by tile, and their gradients.
//!
//! One head of one sequence is one piece of work, with memory of its own for all it adds to. Afterwards those are summed,
//! in an order that does not depend on threads.

use super::dropout::Keep;
use super::rows::slopes;
use super::softmax::Shape;
use super::sums::{Pieces, Sums};
use super::terms::{Attention, Gradients, Table, TermGradients};
use super::tile::{KEYS, QUERIES, SPAN, Scratch, Tile, Workspace, add_product, product};
use crate::ops::Real;
use crate::ops::gemm::Level;
use crate::ops::multiply::Strided;
use rayon::prelude::*;
use std::sync::PoisonError;

impl<T: Real> Attention<'_, T> {
    /// Adds to `gradients`, from the gradient of the results and what the forward gave: `slope` and `out` `[batch, queries,
    /// heads · head_dim]`, `lse` `[batch, queries, heads]`. `false` if there was not enough memory; then nothing is added.
    ///
    /// # Panics
    ///
    /// If inputs, terms or gradients do not fit the shape.
    #[must_use]
    pub fn backward(
        &self,
        (slope, out, lse): (&[T], &[T], &[T]),
        gradients: Gradients<T>,
        workspace: &mut Workspace<T>,
    ) -> bool {
        self.check();
        let Shape { batch, queries, keys, heads, key_heads, head_dim } = self.shape;
        let results = batch * queries * heads * head_dim;
        assert!(slope.len() == results && out.len() == results, "the shape of an attention");
        assert_eq!(lse.len(), batch * queries * heads, "the shape of an attention");
        let parts = self.parts(&gradients.terms);
        let Gradients { buffers, q, k, v, mut terms } = gradients;
        for (place, tokens, heads) in [(q, queries, heads), (k, keys, key_heads), (v, keys, key_heads)] {
            let (place, row) = (place.alone(batch, tokens), heads * head_dim);
            if batch * tokens > 0 {
                let sequence = (tokens - 1) * place.token + row;
                assert!(row <= place.token && sequence <= place.sequence, "places of gradients overlap");
                let end = place.offset + (batch - 1) * place.sequence + sequence;
                assert!(end <= buffers[place.buffer].len(), "gradients within their memory");
            }
        }
        if results == 0 || keys == 0 {
            return true;
        }
        let size = parts.iter().sum::<usize>();
        let Some(all) = size.checked_mul(batch * heads) else { return false };
        if !workspace.fit(head_dim) || !workspace.gradients.fit(all) {
            return false;
        }
        let Workspace { threads, gradients } = workspace;
        let keep = self.dropout.as_ref().map(Keep::new);
        gradients.par_chunks_exact_mut(size).enumerate().with_max_len(1).for_each(|(index, memory)| {
            let slot = rayon::current_thread_index().unwrap_or(0) % threads.len();
            let mut scratch = threads[slot].lock().unwrap_or_else(PoisonError::into_inner);
            memory.fill(T::ZERO);
            let mut sums = Sums::new(memory, &parts);
            let (sequence, head) = (index / heads, index % heads);
            for query in (0..queries).step_by(QUERIES) {
                let queries = QUERIES.min(queries - query);
                let tile = Tile { sequence, head, query, queries, key: 0, keys: 0 };
                self.backward_block(tile, keep, (slope, out, lse), &mut sums, &mut scratch);
            }
        });
        let mut pieces = Pieces { shape: &self.shape, memory: gradients, size, offset: 0 };
        let group = heads / key_heads;
        for ((place, tokens, group), part) in
            [(q, queries, 1), (k, keys, group), (v, keys, group)].into_iter().zip(parts)
        {
            pieces.add_heads(buffers[place.buffer], place, tokens, group);
            pieces.offset += part;
        }
        let TermGradients { content, position, bias, query, key, value } = &mut terms;
        let table_heads = [
            heads,
            heads,
            heads,
            self.terms.query.map_or(1, |table| table.heads),
            self.terms.key.map_or(1, |table| table.heads),
            self.terms.value.map_or(1, |table| table.heads),
        ];
        let targets = [content, position, bias, query, key, value];
        for (index, (target, table_heads)) in targets.into_iter().zip(table_heads).enumerate() {
            let part = parts[3 + index];
            if let (Some(target), true) = (target, part > 0) {
                // A bias has a row of numbers for each head, everything else has vectors.
                let row = if index == 2 { part } else { head_dim };
                pieces.add_table(target, table_heads, row);
            }
            pieces.offset += part;
        }
        true
    }

    /// How many numbers one head of one sequence has of q, k, v, u, v, b, R, R′ and V; none of what is not asked for.
    fn parts(&self, gradients: &TermGradients<T>) -> [usize; 9] {
        let Shape { queries, keys, heads, head_dim, .. } = self.shape;
        let heads = heads.max(1);
        let TermGradients { content, position, bias, query, key, value } = gradients;
        let terms = &self.terms;
        let one = |gradient: &Option<&mut [T]>, values: Option<&[T]>, heads: usize| {
            let Some(gradient) = gradient else { return 0 };
            let values = values.expect("a gradient of a term that is there");
            assert_eq!(gradient.len(), values.len(), "the gradient of a term has its shape");
            values.len() / heads
        };
        let table = |gradient, table: Option<Table<T>>| {
            one(gradient, table.map(|table| table.values), table.map_or(1, |table| table.heads.max(1)))
        };
        [
            queries * head_dim,
            keys * head_dim,
            keys * head_dim,
            one(content, terms.content, heads),
            one(position, terms.position, heads),
            one(bias, terms.bias.map(|bias| bias.values), heads),
            table(query, terms.query),
            table(key, terms.key),
            table(value, terms.value),
        ]
    }

    /// One head of some queries against all their keys.
    fn backward_block(
        &self,
        mut tile: Tile,
        keep: Option<Keep>,
        (slope, out, lse): (&[T], &[T], &[T]),
        sums: &mut Sums<T>,
        scratch: &mut Scratch<T>,
    ) {
        let Shape { queries, heads, head_dim: dim, .. } = self.shape;
        let width = heads * dim;
        let first = tile.sequence * queries + tile.query;
        let slope = &slope[first * width + tile.head * dim..];
        let out = &out[first * width + tile.head * dim..];
        let lse = &lse[first * heads + tile.head..];
        for i in 0..tile.queries {
            // The sum of weight times gradient over a row of weights is that of result times gradient over the result.
            let pairs = slope[i * width..][..dim].iter().zip(&out[i * width..][..dim]);
            scratch.total[i] = pairs.map(|(&slope, &out)| slope * out).sum();
            // Of a query that sees nothing every score is −∞, and every weight shall be 0.
            let lse = lse[i * heads];
            scratch.largest[i] = if lse == T::NEG_INFINITY { T::ZERO } else { lse };
        }
        let slope = Strided::rows(slope, width);
        self.prepare(&tile, scratch);
        scratch.turned.fill(T::ZERO);
        let seen = self.seen(tile.sequence, tile.query, tile.queries);
        for key in seen.clone().step_by(KEYS) {
            (tile.key, tile.keys) = (key, KEYS.min(seen.end - key));
            self.slopes(&tile, keep, slope, scratch);
            self.add_inputs(&tile, slope, sums, scratch);
            self.add_terms(&tile, slope, sums, scratch);
        }
        let q = &mut sums.q[tile.query * dim..][..tile.queries * dim];
        let turned = &scratch.turned[..tile.queries * dim];
        // What reached the queries by way of keys reached u, too, and what by way of the table reached v.
        for (sum, rows) in [(&mut sums.content, &*q), (&mut sums.position, turned)] {
            for row in rows.chunks_exact(dim) {
                sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
            }
        }
        if self.terms.query.is_some() {
            q.iter_mut().zip(turned).for_each(|(sum, &x)| *sum += x);
        }
    }

    /// The weights of a tile, after dropout, into the scratch's `scores`, and the gradient of its scores into `slopes`.
    fn slopes(&self, tile: &Tile, keep: Option<Keep>, slope: Strided<T>, scratch: &mut Scratch<T>) {
        let dim = self.shape.head_dim;
        self.scores(tile, scratch);
        let Scratch { scores, slopes: ds, value, products, largest, total, .. } = scratch;
        let sizes = [tile.queries, tile.keys, dim];
        product((ds, KEYS), slope, self.values(tile).transposed(), sizes, 1.0);
        if let Some(table) = &self.terms.value {
            self.gather(table, tile, value);
            let vectors = Strided::rows(&value.vectors, dim).transposed();
            product((products, SPAN), slope, vectors, [tile.queries, value.slots(), dim], 1.0);
            value.add(products, (ds, KEYS), [tile.queries, tile.keys]);
        }
        let level = Level::best();
        let rows = scores.chunks_exact_mut(KEYS).zip(ds.chunks_exact_mut(KEYS));
        for (i, (scores, ds)) in rows.take(tile.queries).enumerate() {
            let rows = (&mut scores[..tile.keys], &mut ds[..tile.keys]);
            let keep = keep.map(|keep| (keep, self.index(tile, i)));
            slopes(level, rows, (largest[i], total[i]), keep);
        }
    }

    /// Adds what a tile gives to q, k and v where they meet each other.
    fn add_inputs(&self, tile: &Tile, slope: Strided<T>, sums: &mut Sums<T>, scratch: &Scratch<T>) {
        let (dim, scale) = (self.shape.head_dim, self.scale());
        let (weights, ds) = (Strided::rows(&scratch.scores, KEYS), Strided::rows(&scratch.slopes, KEYS));
        let q = &mut sums.q[tile.query * dim..];
        add_product((q, dim), ds, self.keys(tile), [tile.queries, dim, tile.keys], scale);
        let sizes = [tile.keys, dim, tile.queries];
        let queries = self.content(tile, &scratch.content);
        add_product((&mut sums.k[tile.key * dim..], dim), ds.transposed(), queries, sizes, scale);
        add_product((&mut sums.v[tile.key * dim..], dim), weights.transposed(), slope, sizes, 1.0);
    }

    /// Adds what a tile gives to the tables, and to q and k where they meet those. The bands must be the tile's.
    fn add_terms(&self, tile: &Tile, slope: Strided<T>, sums: &mut Sums<T>, scratch: &mut Scratch<T>) {
        let (dim, scale) = (self.shape.head_dim, self.scale());
        let sizes = [tile.queries, tile.keys];
        let Scratch {
            scores,
            slopes: ds,
            position,
            turned,
            query,
            key,
            value,
            products,
            vectors,
            biases,
            ..
        } = scratch;
        if !sums.value.is_empty() {
            value.sum((scores, KEYS), products, sizes);
            let by_slot = Strided::rows(products, SPAN).transposed();
            product((vectors, dim), by_slot, slope, [value.slots(), dim, tile.queries], 1.0);
            value.scatter(vectors, sums.value, dim);
        }
        if self.terms.query.is_some() {
            query.sum((ds, KEYS), products, sizes);
            let (by_slot, slots) = (Strided::rows(products, SPAN), query.slots());
            let band = Strided::rows(&query.vectors, dim);
            add_product((turned, dim), by_slot, band, [tile.queries, dim, slots], scale);
            if !sums.query.is_empty() {
                let queries = self.position(tile, position);
                let sizes = [slots, dim, tile.queries];
                product((vectors, dim), by_slot.transposed(), queries, sizes, scale);
                query.scatter(vectors, sums.query, dim);
            }
        }
        if self.terms.key.is_some() {
            key.sum_by_key((ds, KEYS), products, sizes);
            let (by_slot, slots) = (Strided::rows(products, SPAN), key.slots());
            let band = Strided::rows(&key.vectors, dim);
            let k = &mut sums.k[tile.key * dim..];
            add_product((k, dim), by_slot, band, [tile.keys, dim, slots], scale);
            if !sums.key.is_empty() {
                let sizes = [slots, dim, tile.keys];
                product((vectors, dim), by_slot.transposed(), self.keys(tile), sizes, scale);
                key.scatter(vectors, sums.key, dim);
            }
        }
        if let (Some(bias), false) = (&self.terms.bias, sums.bias.is_empty()) {
            let biases = &mut biases[..tile.queries + tile.keys - 1];
            biases.fill(T::ZERO);
            for (i, row) in ds.chunks_exact(KEYS).take(tile.queries).enumerate() {
                let biases = &mut biases[tile.queries - 1 - i..];
                biases.iter_mut().zip(&row[..tile.keys]).for_each(|(sum, &x)| *sum += x);
            }
            let entries = tile.entries(bias.index, self.shape.keys).iter().rev();
            entries.zip(biases).for_each(|(&row, x)| sums.bias[row as usize] += *x);
        }
    }
}
