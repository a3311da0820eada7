//! Scores of some queries against some keys, with all position terms, and the memory for them.

use super::band::Band;
use super::counted::Counts;
use super::path::Walk;
use super::softmax::Shape;
use super::terms::{Attention, Pairs, Segments, Table};
use crate::ops::multiply::{Strided, Threads, multiply};
use crate::ops::{Memory, Real, cap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Queries of a tile.
pub(super) const QUERIES: usize = 64;
/// Keys of a tile.
pub(super) const KEYS: usize = 128;
/// Distances of a tile.
pub(super) const SPAN: usize = QUERIES + KEYS - 1;

/// Memory for attentions: a part for each thread, and what each head of each sequence gives to the gradients of the position
/// terms before they are summed.
/// Grows with the largest shape it has seen.
pub struct Workspace<T> {
    pub(super) threads: Vec<Mutex<Scratch<T>>>,
    /// `[batch · heads, …]`; the layout is the backward's.
    pub(super) gradients: Memory<T>,
    /// What is made of the maps of tokens beforehand.
    pub(super) made: Memory<T>,
}

impl<T: Real> Workspace<T> {
    /// For the threads of the current pool; `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        let threads = rayon::current_num_threads().max(1);
        let threads = (0..threads).map(|_| Scratch::new().map(Mutex::new)).collect::<Option<_>>()?;
        Some(Workspace { threads, gradients: Memory::zeros(0)?, made: Memory::zeros(0)? })
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        let scratch = |scratch: &Mutex<Scratch<T>>| {
            let scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
            let Scratch { scores, ds, content, position, segmented, products, vectors, .. } = &*scratch;
            let Scratch { dq, dq_by_table, dq_by_segment, dk, dv, .. } = &*scratch;
            let bands = [&scratch.query.vectors, &scratch.key.vectors, &scratch.value.vectors];
            let queries = [content, position, segmented, dq, dq_by_table, dq_by_segment];
            let others = [scores, ds, products, vectors, dk, dv].into_iter().chain(queries);
            let numbers = bands.into_iter().chain(others).map(|memory| memory.len()).sum::<usize>();
            numbers * size_of::<T>() + scratch.counts.bytes() + scratch.walk.bytes()
        };
        let shared = self.gradients.len() + self.made.len();
        self.threads.iter().map(scratch).sum::<usize>() + shared * size_of::<T>()
    }
}

/// Memory of one thread.
pub(super) struct Scratch<T> {
    /// Scores, then weights `[QUERIES, KEYS]`.
    pub scores: Memory<T>,
    /// The gradient of weights, then of scores `[QUERIES, KEYS]`.
    pub ds: Memory<T>,
    /// Queries plus u, plus v, and plus z `[queries, head_dim]`, where there are such.
    pub content: Memory<T>,
    pub position: Memory<T>,
    pub segmented: Memory<T>,
    /// The gradient of the tile's queries, and by way of the query table or of segments alone, `[QUERIES, head_dim]`.
    pub dq: Memory<T>,
    pub dq_by_table: Memory<T>,
    pub dq_by_segment: Memory<T>,
    /// The gradients of all keys and values of a head `[keys, head_dim]`.
    pub dk: Memory<T>,
    pub dv: Memory<T>,
    pub query: Band<T>,
    pub key: Band<T>,
    pub value: Band<T>,
    /// What queries count.
    pub counts: Counts<T>,
    /// Queries on their way over a path.
    pub walk: Walk<T>,
    /// Products with a band, or sums over its slots: `SPAN` numbers for each query or each key.
    pub products: Memory<T>,
    /// The gradient of a band `[SPAN, head_dim]`.
    pub vectors: Memory<T>,
    /// Biases, or their gradients, by place.
    pub biases: [T; SPAN],
    /// The largest score and the sum of exponentials of each query, and by what earlier sums shrink.
    pub largest: [T; QUERIES],
    pub total: [T; QUERIES],
    pub shrink: [T; QUERIES],
}

impl<T: Real> Scratch<T> {
    fn new() -> Option<Self> {
        let empty = || Memory::zeros(0);
        Some(Scratch {
            scores: Memory::zeros(QUERIES * KEYS)?,
            ds: Memory::zeros(QUERIES * KEYS)?,
            content: empty()?,
            position: empty()?,
            segmented: empty()?,
            dq: empty()?,
            dq_by_table: empty()?,
            dq_by_segment: empty()?,
            dk: empty()?,
            dv: empty()?,
            query: Band::new()?,
            key: Band::new()?,
            value: Band::new()?,
            counts: Counts::new()?,
            walk: Walk::new()?,
            products: Memory::zeros(QUERIES.max(KEYS) * SPAN)?,
            vectors: empty()?,
            biases: [T::ZERO; SPAN],
            largest: [T::ZERO; QUERIES],
            total: [T::ZERO; QUERIES],
            shrink: [T::ZERO; QUERIES],
        })
    }

    fn fit(&mut self, dim: usize, keys: usize) -> bool {
        [
            (&mut self.content, QUERIES),
            (&mut self.position, QUERIES),
            (&mut self.segmented, QUERIES),
            (&mut self.dq, QUERIES),
            (&mut self.dq_by_table, QUERIES),
            (&mut self.dq_by_segment, QUERIES),
            (&mut self.dk, keys),
            (&mut self.dv, keys),
            (&mut self.query.vectors, SPAN),
            (&mut self.key.vectors, SPAN),
            (&mut self.value.vectors, SPAN),
            (&mut self.vectors, SPAN),
        ]
        .into_iter()
        .all(|(memory, rows)| rows.checked_mul(dim).is_some_and(|len| memory.fit(len)))
    }
}

/// Some queries and some keys of one head of one sequence.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub sequence: usize,
    pub head: usize,
    /// The first query, and how many.
    pub query: usize,
    pub queries: usize,
    /// The first key, and how many.
    pub key: usize,
    pub keys: usize,
}

/// The tiles of keys of some queries, each `step` keys wide and none beyond `limit`.
pub(super) struct Tiles {
    pub start: usize,
    pub step: usize,
    pub limit: usize,
    pub count: usize,
}

impl Tiles {
    /// The first key of a tile, and how many it has.
    pub fn at(&self, index: usize) -> (usize, usize) {
        let key = self.start + index * self.step;
        (key, self.step.min(self.limit - key))
    }
}

/// out = scale·a·b, by the thread that calls.
pub(super) fn product<T: Real>(
    out: (&mut [T], usize),
    a: Strided<T>,
    b: Strided<T>,
    sizes: [usize; 3],
    scale: f64,
) {
    multiply(out, a, b, sizes, scale, false, Threads::One);
}

/// As `product`, added to what is there.
pub(super) fn add_product<T: Real>(
    out: (&mut [T], usize),
    a: Strided<T>,
    b: Strided<T>,
    sizes: [usize; 3],
    scale: f64,
) {
    multiply(out, a, b, sizes, scale, true, Threads::One);
}

impl Tile {
    /// The entries of an index that belong to the distances of the tile, the last place first.
    pub fn entries<'a>(&self, index: &'a [u32], all_keys: usize) -> &'a [u32] {
        &index[self.query + all_keys - self.key - self.keys..][..self.queries + self.keys - 1]
    }
}

impl<'a, T: Real> Attention<'a, T> {
    /// The keys that the mask leaves of a sequence, without the hidden ones before and after.
    pub(super) fn present(&self, sequence: usize) -> Range<usize> {
        let keys = self.shape.keys;
        let Some(mask) = self.mask.keys else { return 0..keys };
        let mask = &mask[sequence * keys..][..keys];
        match (mask.iter().position(|&there| there), mask.iter().rposition(|&there| there)) {
            (Some(first), Some(last)) => first..last + 1,
            _ => 0..0,
        }
    }

    /// The keys that any of some queries sees, and perhaps others among them.
    pub(super) fn seen(&self, sequence: usize, query: usize, queries: usize) -> Range<usize> {
        let Range { start, end } = self.present(sequence);
        // What the first and the last of them see bounds what any does.
        let seen = |query: usize| self.mask.seen(&self.shape, sequence, query);
        let (start, end) = (start.max(seen(query).start), end.min(seen(query + queries - 1).end));
        start.min(end)..end
    }

    /// The queries of a tile as they lie in memory.
    pub(super) fn queries(&self, tile: &Tile) -> Strided<'a, T> {
        let q = self.q.head(&self.shape, tile.sequence, tile.head);
        Strided::rows(&q[tile.query * self.q.token..], self.q.token)
    }

    /// The keys of a tile.
    pub(super) fn keys(&self, tile: &Tile) -> Strided<'a, T> {
        let k = self.k.head(&self.shape, tile.sequence, self.key_head(tile.head));
        Strided::rows(&k[tile.key * self.k.token..], self.k.token)
    }

    /// The values of a tile.
    pub(super) fn values(&self, tile: &Tile) -> Strided<'a, T> {
        let v = self.v.head(&self.shape, tile.sequence, self.key_head(tile.head));
        Strided::rows(&v[tile.key * self.v.token..], self.v.token)
    }

    /// Makes sure of enough memory, on the way back for so many keys; `false` if there is not.
    pub(super) fn fit(&self, workspace: &mut Workspace<T>, keys: usize) -> bool {
        let (dim, counted) = (self.shape.head_dim, self.counted_rows());
        workspace.threads.iter_mut().all(|scratch| {
            let scratch = scratch.get_mut().unwrap_or_else(PoisonError::into_inner);
            scratch.fit(dim, keys)
                && (counted == 0 || scratch.counts.fit(counted, keys))
                && (self.terms.path.is_none() || scratch.walk.fit(dim, keys))
        })
    }

    /// The tiles of the keys that some queries see.
    pub(super) fn tiles(&self, tile: &Tile, seen: &Range<usize>) -> Tiles {
        match self.terms.path.is_some() && !seen.is_empty() {
            true => self.path_tiles(tile, seen),
            false => {
                let count = seen.len().div_ceil(KEYS);
                Tiles { start: seen.start, step: KEYS, limit: seen.end, count }
            }
        }
    }

    /// Whether tiles come from the last to the first: what lies between a key and a query has a part in their score.
    pub(super) fn is_from_the_last(&self) -> bool {
        self.terms.counted.is_some() || self.terms.path.is_some()
    }

    /// Adds u, v and z to the queries of a tile, for all tiles of these queries.
    pub(super) fn prepare(&self, tile: &Tile, scratch: &mut Scratch<T>) {
        let dim = self.shape.head_dim;
        self.begin_counts(tile, &mut scratch.counts);
        let queries = self.queries(tile);
        for (vectors, target) in [
            (self.terms.content, &mut scratch.content),
            (self.terms.position, &mut scratch.position),
            (self.terms.segments.map(|segments| segments.query), &mut scratch.segmented),
        ] {
            let Some(vectors) = vectors else { continue };
            let vector = &vectors[tile.head * dim..][..dim];
            for (i, row) in target.chunks_exact_mut(dim).take(tile.queries).enumerate() {
                let query = &queries.data[i * queries.row..][..dim];
                for ((sum, &q), &x) in row.iter_mut().zip(query).zip(vector) {
                    *sum = q + x;
                }
            }
        }
        if self.terms.path.is_some() {
            self.begin_path(tile, &scratch.content, &mut scratch.walk);
        }
    }

    /// The queries of a tile where they meet keys; `content` is the scratch's.
    pub(super) fn content<'s>(&self, tile: &Tile, content: &'s [T]) -> Strided<'s, T>
    where
        'a: 's,
    {
        match self.terms.content {
            Some(_) => Strided::rows(content, self.shape.head_dim),
            None => self.queries(tile),
        }
    }

    /// The queries of a tile where they meet the query table; `position` is the scratch's.
    pub(super) fn position<'s>(&self, tile: &Tile, position: &'s [T]) -> Strided<'s, T>
    where
        'a: 's,
    {
        match self.terms.position {
            Some(_) => Strided::rows(position, self.shape.head_dim),
            None => self.queries(tile),
        }
    }

    /// Gathers the vectors of a table for a tile.
    pub(super) fn gather(&self, table: &Table<T>, tile: &Tile, band: &mut Band<T>) {
        band.gather(table, tile.head, self.shape.head_dim, tile.entries(table.index, self.shape.keys));
    }

    /// The vectors of a head for keys of a query's segment and for others, `[2, head_dim]`.
    pub(super) fn segment_vectors(&self, segments: &Segments<'a, T>, head: usize) -> Strided<'a, T> {
        let Shape { heads, head_dim, .. } = self.shape;
        Strided::rows(&segments.vectors[head * head_dim..], heads * head_dim)
    }

    /// For each query of a tile, whether each key is of another segment.
    pub(super) fn apart<'s>(
        &self,
        segments: &'s Segments<'a, T>,
        tile: &'s Tile,
    ) -> impl Iterator<Item = impl Iterator<Item = bool> + 's> + 's {
        let Shape { queries, keys, .. } = self.shape;
        let ids = &segments.ids[tile.sequence * keys..][..keys];
        let own = &ids[keys - queries + tile.query..][..tile.queries];
        let others = &ids[tile.key..][..tile.keys];
        own.iter().map(move |own| others.iter().map(move |other| other != own))
    }

    /// The numbers of B for one query of a tile and its keys.
    pub(super) fn pairs(&self, pairs: &Pairs<'a, T>, tile: &Tile, row: usize) -> &'a [T] {
        &pairs.values[self.first_pair(pairs, tile, row)..][..tile.keys]
    }

    /// Where they begin, in the numbers of all heads.
    fn first_pair(&self, pairs: &Pairs<T>, tile: &Tile, row: usize) -> usize {
        tile.head * pairs.places * pairs.places + self.first_pair_of_head(pairs.places, tile, row)
    }

    /// Where they begin, in the numbers of the head.
    pub(super) fn first_pair_of_head(&self, places: usize, tile: &Tile, row: usize) -> usize {
        let Shape { queries, keys, .. } = self.shape;
        (keys - queries + tile.query + row) * places + tile.key
    }

    /// The scores of a tile into the scratch's `scores`; −∞ where the mask hides a key. The queries must be prepared. The
    /// bands of the query and the key table are gathered on the way. `made` is what was made of the maps of the head's tokens.
    pub(super) fn scores(&self, tile: &Tile, made: &[T], scratch: &mut Scratch<T>) {
        let (dim, scale) = (self.shape.head_dim, self.scale());
        let sizes = [tile.queries, tile.keys];
        match &self.terms.path {
            Some(path) => self.path_scores(path, tile, made, scratch),
            None => {
                let (queries, keys) = (self.content(tile, &scratch.content), self.keys(tile).transposed());
                product((&mut scratch.scores, KEYS), queries, keys, [tile.queries, tile.keys, dim], scale);
            }
        }
        let Scratch { scores, position, segmented, query, key, counts, products, biases, .. } = scratch;
        if self.terms.counted.is_some() {
            self.add_counted(tile, scores, counts);
        }
        if let Some(table) = &self.terms.query {
            self.gather(table, tile, query);
            let vectors = Strided::rows(&query.vectors, dim).transposed();
            let sizes = [tile.queries, query.slots(), dim];
            product((products, SPAN), self.position(tile, position), vectors, sizes, scale);
            query.add(products, (scores, KEYS), [tile.queries, tile.keys]);
        }
        if let Some(table) = &self.terms.key {
            self.gather(table, tile, key);
            let vectors = Strided::rows(&key.vectors, dim).transposed();
            product((products, SPAN), self.keys(tile), vectors, [tile.keys, key.slots(), dim], scale);
            key.add_by_key(products, (scores, KEYS), sizes);
        }
        if let Some(segments) = &self.terms.segments {
            let vectors = self.segment_vectors(segments, tile.head).transposed();
            let queries = Strided::rows(segmented, dim);
            product((products, SPAN), queries, vectors, [tile.queries, 2, dim], scale);
            let rows = scores.chunks_exact_mut(KEYS).zip(products.chunks_exact(SPAN));
            for ((row, products), apart) in rows.zip(self.apart(segments, tile)) {
                row.iter_mut().zip(apart).for_each(|(score, apart)| *score += products[usize::from(apart)]);
            }
        }
        if let Some(bias) = &self.terms.bias {
            let rows = bias.values.len() / self.shape.heads;
            let values = &bias.values[tile.head * rows..][..rows];
            let entries = tile.entries(bias.index, self.shape.keys).iter().rev();
            biases.iter_mut().zip(entries).for_each(|(x, &row)| *x = values[row as usize]);
            for (i, row) in scores.chunks_exact_mut(KEYS).take(tile.queries).enumerate() {
                let biases = &biases[tile.queries - 1 - i..][..tile.keys];
                row.iter_mut().zip(biases).for_each(|(score, &bias)| *score += bias);
            }
        }
        if let Some(pairs) = &self.terms.pairs {
            for (i, row) in scores.chunks_exact_mut(KEYS).take(tile.queries).enumerate() {
                let pairs = self.pairs(pairs, tile, i);
                row.iter_mut().zip(pairs).for_each(|(score, &pair)| *score += pair);
            }
        }
        if let Some(gate) = &self.terms.gate {
            let Shape { queries, keys, .. } = self.shape;
            let sums = &gate.data[tile.sequence * gate.sequence + tile.head..];
            let of_key = biases[..tile.keys].iter_mut().enumerate();
            of_key.for_each(|(j, sum)| *sum = sums[(tile.key + j) * gate.token]);
            for (i, row) in scores.chunks_exact_mut(KEYS).take(tile.queries).enumerate() {
                let own = sums[(keys - queries + tile.query + i) * gate.token];
                let of_keys = &biases[..tile.keys];
                row.iter_mut().zip(of_keys).for_each(|(score, &sum)| *score += own - sum);
            }
        }
        if let Some(limit) = self.terms.cap {
            let rows = scores.chunks_exact_mut(KEYS).take(tile.queries);
            rows.for_each(|row| cap::apply(&mut row[..tile.keys], limit));
        }
        self.hide(tile, scores);
    }

    /// −∞ for what the mask hides.
    pub(super) fn hide(&self, tile: &Tile, scores: &mut [T]) {
        let shape = &self.shape;
        let seen = |query: usize| self.mask.seen(shape, tile.sequence, query);
        // What all see: no later query sees less at the end, no earlier one less at the start.
        let (first, last) = (seen(tile.query), seen(tile.query + tile.queries - 1));
        if self.mask.keys.is_none() && last.start <= tile.key && first.end >= tile.key + tile.keys {
            return;
        }
        let there = self.mask.keys.map(|mask| &mask[tile.sequence * shape.keys + tile.key..][..tile.keys]);
        for (i, row) in scores.chunks_exact_mut(KEYS).take(tile.queries).enumerate() {
            let row = &mut row[..tile.keys];
            if let Some(there) = there {
                for (score, &there) in row.iter_mut().zip(there) {
                    *score = if there { *score } else { T::NEG_INFINITY };
                }
            }
            let seen = seen(tile.query + i);
            row[seen.end.saturating_sub(tile.key).min(tile.keys)..].fill(T::NEG_INFINITY);
            row[..seen.start.saturating_sub(tile.key).min(tile.keys)].fill(T::NEG_INFINITY);
        }
    }
}
