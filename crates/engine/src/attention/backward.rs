//! The backward of an attention for training: the scores once more, tile by tile, and their gradients.
//!
//! One key head of one sequence, with all its query heads, is one piece of work: nobody else gives to its queries, keys and
//! values. What it gives to position terms has memory of its own; afterwards that of all is summed, in an order that does not
//! depend on threads.

use super::dropout::Keep;
use super::path::PathGradients;
use super::rows::{Rows, dots, score_gradients};
use super::softmax::Shape;
use super::sums::{PARTS, Pieces, Sums, Vectors};
use super::terms::{Attention, Gradients, Table, TermGradients};
use super::tile::{KEYS, QUERIES, SPAN, Scratch, Tile, Workspace, add_product, product};
use crate::ops::Real;
use crate::ops::gemm::Level;
use crate::ops::multiply::{Strided, Threads, multiply};
use crate::ops::pass::give;
use rayon::prelude::*;
use std::sync::PoisonError;

/// What the way back knows: the gradient of the results, the results, the logarithms of sums of exponentials, and what was made of the
/// maps of the head's tokens.
struct Known<'a, T> {
    dout: &'a [T],
    out: &'a [T],
    lse: &'a [T],
    made: &'a [T],
}

impl<T: Real> Attention<'_, T> {
    /// The gradients, from that of the results and what the forward gave: `dout` and `out` `[batch, queries,
    /// heads · head_dim]`, `lse` `[batch, queries, heads]`. `false` if there was not enough memory; then nothing is given.
    ///
    /// # Panics
    ///
    /// If inputs, terms or gradients do not fit the shape.
    #[must_use]
    pub fn backward(
        &self,
        (dout, out, lse): (&[T], &[T], &[T]),
        gradients: Gradients<T>,
        workspace: &mut Workspace<T>,
    ) -> bool {
        self.check();
        let Shape { batch, queries, keys, heads, key_heads, head_dim } = self.shape;
        let results = batch * queries * heads * head_dim;
        assert!(dout.len() == results && out.len() == results, "the shape of an attention");
        assert_eq!(lse.len(), batch * queries * heads, "the shape of an attention");
        let parts = self.parts(&gradients.terms);
        let Gradients { buffers, accumulate, q, k, v, mut terms } = gradients;
        let given = Vectors::all(&self.shape, buffers, [q, k, v], accumulate);
        if results == 0 {
            return true;
        }
        let (tasks, group, size) = (batch * key_heads, heads / key_heads, parts.iter().sum::<usize>());
        // Without terms a task has memory of one number, so that there are as many parts as tasks.
        let part = (group * size).max(1);
        let Some(all) = part.checked_mul(tasks) else { return false };
        if !self.fit(workspace, keys) || !self.make_blocks(workspace) || !workspace.gradients.fit(all) {
            return false;
        }
        let Workspace { threads, gradients, made } = workspace;
        let path_given = terms.path.take().map(|PathGradients { w, z }| {
            [Vectors::plain(&self.shape, w, head_dim), Vectors::plain(&self.shape, z, 1)]
        });
        let keep = self.dropout.as_ref().map(Keep::new);
        gradients.par_chunks_exact_mut(part).enumerate().with_max_len(1).for_each(|(task, memory)| {
            let slot = rayon::current_thread_index().unwrap_or(0) % threads.len();
            let mut scratch = threads[slot].lock().unwrap_or_else(PoisonError::into_inner);
            memory.fill(T::ZERO);
            let (sequence, key_head) = (task / key_heads, task % key_heads);
            for index in 0..group {
                let head = key_head * group + index;
                let mut sums = Sums::new(&mut memory[index * size..][..size], &parts);
                for query in (0..queries).step_by(QUERIES) {
                    let queries = QUERIES.min(queries - query);
                    let tile = Tile { sequence, head, query, queries, key: 0, keys: 0 };
                    let is_first = index == 0 && query == 0;
                    let known = Known { dout, out, lse, made: self.made(made, &tile) };
                    self.backward_block(tile, is_first, keep, known, &mut sums, &mut scratch);
                    // SAFETY: rows of this task's head.
                    unsafe { given[0].give(sequence, query, head, &scratch.dq[..queries * head_dim]) };
                }
            }
            if let Some(path) = &self.terms.path {
                let tile = Tile { sequence, head: key_head * group, query: 0, queries: 0, key: 0, keys: 0 };
                let Scratch { dk, walk, .. } = &mut *scratch;
                self.end_path(path, [sequence, key_head], self.made(made, &tile), dk, walk);
                for (given, numbers) in path_given.iter().flatten().zip([&walk.dw, &walk.dz]) {
                    // SAFETY: rows of this task's key head.
                    unsafe { given.give(sequence, 0, key_head, numbers) };
                }
            }
            for (given, vectors) in given[1..].iter().zip([&scratch.dk, &scratch.dv]) {
                // SAFETY: rows of this task's key head.
                unsafe { given.give(sequence, 0, key_head, &vectors[..keys * head_dim]) };
            }
        });
        let mut pieces = Pieces { shape: &self.shape, memory: gradients, size, offset: 0 };
        let TermGradients {
            content,
            position,
            bias,
            query,
            key,
            value,
            segment_query,
            segment_vectors,
            pairs,
            gate,
            counted,
            path: _,
        } = &mut terms;
        let table_heads = [
            heads,
            heads,
            heads,
            self.terms.query.map_or(1, |table| table.heads),
            self.terms.key.map_or(1, |table| table.heads),
            self.terms.value.map_or(1, |table| table.heads),
            heads,
            heads,
            heads,
            1,
        ];
        let targets =
            [content, position, bias, query, key, value, segment_query, segment_vectors, pairs, counted];
        for (index, (target, table_heads)) in targets.into_iter().zip(table_heads).enumerate() {
            let part = parts[index];
            if let (Some(target), true) = (target, part > 0) {
                // Biases have a row of numbers for each head, everything else has vectors.
                let row = if [2, 8].contains(&index) { part } else { head_dim };
                pieces.add_table(target, table_heads, row);
            }
            pieces.offset += part;
        }
        if let Some(gate) = gate {
            pieces.add_tokens(gate, keys);
        }
        true
    }

    /// How many numbers one head of one sequence has of u, v, b, R, R′, V, z, E, B, C and g; none of what is not asked for.
    fn parts(&self, gradients: &TermGradients<T>) -> [usize; PARTS] {
        let heads = self.shape.heads.max(1);
        let TermGradients {
            content, position, bias, query, key, value, segment_query, segment_vectors, ..
        } = gradients;
        let TermGradients { pairs, gate, counted, .. } = gradients;
        let Shape { batch, keys, .. } = self.shape;
        assert!(gate.as_ref().is_none_or(|gate| gate.len() == batch * keys * heads), "a sum for every token");
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
            one(content, terms.content, heads),
            one(position, terms.position, heads),
            one(bias, terms.bias.map(|bias| bias.values), heads),
            table(query, terms.query),
            table(key, terms.key),
            table(value, terms.value),
            one(segment_query, terms.segments.map(|segments| segments.query), heads),
            one(segment_vectors, terms.segments.map(|segments| segments.vectors), heads),
            one(pairs, terms.pairs.map(|pairs| pairs.values), heads),
            one(counted, terms.counted, 1),
            gate.as_ref().map_or(0, |_| keys),
        ]
    }

    /// One head of some queries against all their keys: leaves the gradient of the queries in the scratch's `dq`, and adds to
    /// that of the keys and values in `dk` and `dv`, or sets it if these are the first.
    fn backward_block(
        &self,
        mut tile: Tile,
        is_first: bool,
        keep: Option<Keep>,
        Known { dout, out, lse, made }: Known<T>,
        sums: &mut Sums<T>,
        scratch: &mut Scratch<T>,
    ) {
        let Shape { queries, heads, head_dim: dim, .. } = self.shape;
        let width = heads * dim;
        let first = tile.sequence * queries + tile.query;
        let dout = &dout[first * width + tile.head * dim..];
        let out = &out[first * width + tile.head * dim..];
        let lse = &lse[first * heads + tile.head..];
        // The sum of weight times gradient over a row of weights is that of result times gradient over the result.
        dots(Level::best(), (dout, out), (width, dim), &mut scratch.total[..tile.queries]);
        for (i, largest) in scratch.largest[..tile.queries].iter_mut().enumerate() {
            // Of a query that sees nothing every score is −∞, and every weight shall be 0.
            let lse = lse[i * heads];
            *largest = if lse == T::NEG_INFINITY { T::ZERO } else { lse };
        }
        let dout = Strided::rows(dout, width);
        self.prepare(&tile, scratch);
        let seen = self.seen(tile.sequence, tile.query, tile.queries);
        if self.terms.query.is_some() {
            scratch.dq_by_table[..tile.queries * dim].fill(T::ZERO);
        }
        if self.terms.segments.is_some() {
            scratch.dq_by_segment[..tile.queries * dim].fill(T::ZERO);
        }
        if is_first {
            for sum in [&mut scratch.dk, &mut scratch.dv] {
                sum[..seen.start * dim].fill(T::ZERO);
                sum[seen.end * dim..].fill(T::ZERO);
            }
        }
        let (is_counted, path) = (self.terms.counted.is_some(), self.terms.path.is_some());
        if seen.is_empty() || path {
            scratch.dq[..tile.queries * dim].fill(T::ZERO);
        }
        let tiles = self.tiles(&tile, &seen);
        if is_counted {
            self.carry_counts(tile, &tiles, scratch);
        }
        if path {
            if is_first {
                scratch.dk.fill(T::ZERO);
                self.begin_path_gradients(&mut scratch.walk);
            }
            self.keep_states(tile, &tiles, made, &mut scratch.walk);
        }
        for index in 0..tiles.count {
            (tile.key, tile.keys) = tiles.at(index);
            if is_counted {
                self.recall_counts(index, &mut scratch.counts);
            }
            if path {
                self.recall_state(index, &mut scratch.walk);
            }
            self.score_gradients(&tile, keep, dout, made, scratch);
            if is_counted {
                self.counted_backward(&tile, &scratch.ds, &mut scratch.counts);
            }
            self.add_inputs(&tile, dout, (index > 0, !is_first), made, scratch);
            self.add_terms(&tile, dout, sums, scratch);
        }
        let Scratch { dq, dq_by_table, dq_by_segment, counts, .. } = scratch;
        let [q, by_table, by_segment] =
            [dq, dq_by_table, dq_by_segment].map(|memory| &mut memory[..tile.queries * dim]);
        // What reached the queries by way of keys reached u, too, what by way of the table v, and by way of segments z.
        if !sums.content.is_empty() {
            q.chunks_exact(dim).for_each(|row| give(row, sums.content, true));
        }
        for (is_there, by_way, added) in [
            (self.terms.query.is_some(), by_table, &mut *sums.position),
            (self.terms.segments.is_some(), by_segment, &mut *sums.segment_query),
        ] {
            if is_there && !added.is_empty() {
                by_way.chunks_exact(dim).for_each(|row| give(row, added, true));
            }
            if is_there {
                give(by_way, q, true);
            }
        }
        self.end_counts(&tile, q, sums.counted, counts);
    }

    /// The weights of a tile, after dropout, into the scratch's `scores`, and the gradient of its scores into `ds`.
    fn score_gradients(
        &self,
        tile: &Tile,
        keep: Option<Keep>,
        dout: Strided<T>,
        made: &[T],
        scratch: &mut Scratch<T>,
    ) {
        let dim = self.shape.head_dim;
        self.scores(tile, made, scratch);
        let Scratch { scores, ds, value, products, largest, total, .. } = scratch;
        let sizes = [tile.queries, tile.keys, dim];
        product((ds, KEYS), dout, self.values(tile).transposed(), sizes, 1.0);
        if let Some(table) = &self.terms.value {
            self.gather(table, tile, value);
            let vectors = Strided::rows(&value.vectors, dim).transposed();
            product((products, SPAN), dout, vectors, [tile.queries, value.slots(), dim], 1.0);
            value.add(products, (ds, KEYS), [tile.queries, tile.keys]);
        }
        let [scores, ds] = [scores, ds].map(|data| Rows { data, step: KEYS, count: tile.keys });
        let keep = keep.map(|keep| (keep, self.index(tile, 0), self.shape.keys as u64));
        score_gradients(
            Level::best(),
            (scores, ds),
            (&largest[..tile.queries], &total[..tile.queries]),
            keep,
            self.terms.cap,
        );
    }

    /// What a tile gives to q and to k and v where they meet each other, added or set as `accumulate` says of both.
    fn add_inputs(
        &self,
        tile: &Tile,
        dout: Strided<T>,
        accumulate: (bool, bool),
        made: &[T],
        scratch: &mut Scratch<T>,
    ) {
        let (dim, scale) = (self.shape.head_dim, self.scale());
        let Scratch { scores, ds, content, counts, walk, dq, dk, dv, .. } = scratch;
        // Where something is counted, the products of queries and keys are more than a part of scores.
        let ds = if self.terms.counted.is_some() { &counts.gates } else { ds };
        let (weights, ds) = (Strided::rows(scores, KEYS), Strided::rows(ds, KEYS));
        let (sizes, first, one) = ([tile.keys, dim, tile.queries], tile.key * dim, Threads::One);
        multiply((&mut dv[first..], dim), weights.transposed(), dout, sizes, 1.0, accumulate.1, one);
        if let Some(path) = &self.terms.path {
            return self.path_backward(path, tile, made, (ds, dq, dk), walk);
        }
        let queries = self.content(tile, content);
        multiply((&mut dk[first..], dim), ds.transposed(), queries, sizes, scale, accumulate.1, one);
        let sizes = [tile.queries, dim, tile.keys];
        multiply((dq, dim), ds, self.keys(tile), sizes, scale, accumulate.0, one);
    }

    /// Adds what a tile gives to the tables, and to q and k where they meet those. The bands must be the tile's.
    fn add_terms(&self, tile: &Tile, dout: Strided<T>, sums: &mut Sums<T>, scratch: &mut Scratch<T>) {
        let (dim, scale) = (self.shape.head_dim, self.scale());
        let sizes = [tile.queries, tile.keys];
        let Scratch {
            scores,
            ds,
            position,
            segmented,
            dq_by_table,
            dq_by_segment,
            dk,
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
            product((vectors, dim), by_slot, dout, [value.slots(), dim, tile.queries], 1.0);
            value.scatter(vectors, sums.value, dim);
        }
        if self.terms.query.is_some() {
            query.sum((ds, KEYS), products, sizes);
            let (by_slot, slots) = (Strided::rows(products, SPAN), query.slots());
            let band = Strided::rows(&query.vectors, dim);
            add_product((dq_by_table, dim), by_slot, band, [tile.queries, dim, slots], scale);
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
            let k = &mut dk[tile.key * dim..];
            add_product((k, dim), by_slot, band, [tile.keys, dim, slots], scale);
            if !sums.key.is_empty() {
                let sizes = [slots, dim, tile.keys];
                product((vectors, dim), by_slot.transposed(), self.keys(tile), sizes, scale);
                key.scatter(vectors, sums.key, dim);
            }
        }
        if let Some(segments) = &self.terms.segments {
            let rows = ds.chunks_exact(KEYS).zip(products.chunks_exact_mut(SPAN));
            for ((row, sums), apart) in rows.zip(self.apart(segments, tile)) {
                let mut both = [T::ZERO; 2];
                row.iter().zip(apart).for_each(|(&x, apart)| both[usize::from(apart)] += x);
                sums[..2].copy_from_slice(&both);
            }
            let (by_vector, vectors) =
                (Strided::rows(products, SPAN), self.segment_vectors(segments, tile.head));
            add_product((dq_by_segment, dim), by_vector, vectors, [tile.queries, dim, 2], scale);
            if !sums.segment_vectors.is_empty() {
                let (sizes, queries) = ([2, dim, tile.queries], Strided::rows(segmented, dim));
                let vectors = &mut *sums.segment_vectors;
                add_product((vectors, dim), by_vector.transposed(), queries, sizes, scale);
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
        if let (Some(pairs), false) = (&self.terms.pairs, sums.pairs.is_empty()) {
            for (i, row) in ds.chunks_exact(KEYS).take(tile.queries).enumerate() {
                let given = &mut sums.pairs[self.first_pair_of_head(pairs.places, tile, i)..][..tile.keys];
                given.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
            }
        }
        if !sums.gate.is_empty() {
            let Shape { queries, keys, .. } = self.shape;
            for (i, row) in ds.chunks_exact(KEYS).take(tile.queries).enumerate() {
                let given = &mut sums.gate[tile.key..][..tile.keys];
                given.iter_mut().zip(row).for_each(|(sum, &x)| *sum = *sum - x);
                // A query's own sum is added to all its scores, whose gradients sum to 0, but for those behind a cap.
                if self.terms.cap.is_some() {
                    let own = &mut sums.gate[keys - queries + tile.query + i];
                    *own += row[..tile.keys].iter().copied().sum::<T>();
                }
            }
        }
    }
}
