//! Queries against a block of tokens: their scores, how they leave it, and the way back.

use super::{BLOCK, Made, Path, Tokens, Walk, parts};
use crate::attention::softmax::Shape;
use crate::attention::terms::Attention;
use crate::attention::tile::{KEYS, QUERIES, Scratch, Tile, Tiles, add_product, product};
use crate::ops::Real;
use crate::ops::dispatch::vectorised;
use crate::ops::multiply::Strided;

vectorised! {
    /// Leads a query over one token: returns its product with the key, and takes it through the token's map where it has one.
    fn lead<T>(query: &mut [T], key: &[T], map: Option<(&[T], T)>) -> T = lead_each
}

#[inline(always)]
fn lead_each<T: Real>(query: &mut [T], key: &[T], map: Option<(&[T], T)>) -> T {
    let dot = |a: &[T], b: &[T]| {
        let mut lanes = [T::ZERO; 16];
        let (a, b) = (a.chunks(16), b.chunks(16));
        a.zip(b).for_each(|(a, b)| {
            lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (&a, &b))| *lane += a * b);
        });
        lanes.into_iter().sum::<T>()
    };
    let score = dot(query, key);
    if let Some((w, beta)) = map {
        let factor = beta * dot(query, w);
        query.iter_mut().zip(w).for_each(|(q, &w)| *q = *q - factor * w);
    }
    score
}

impl<'a, T: Real> Attention<'a, T> {
    /// Begins with some queries, where they stand. They must be prepared.
    pub(in crate::attention) fn begin_path(&self, tile: &Tile, content: &[T], walk: &mut Walk<T>) {
        let (dim, queries) = (self.shape.head_dim, self.content(tile, content));
        for (i, out) in walk.queries.chunks_exact_mut(dim).take(tile.queries).enumerate() {
            out.copy_from_slice(&queries.data[i * queries.row..][..dim]);
        }
    }

    /// The tiles of blocks from the first that some queries see up to where the last of them stands.
    pub(in crate::attention) fn path_tiles(&self, tile: &Tile, seen: &std::ops::Range<usize>) -> Tiles {
        let start = seen.start / BLOCK * BLOCK;
        let end = seen.end.max(self.place(tile, tile.queries - 1) + 1);
        Tiles { start, step: BLOCK, limit: self.shape.keys, count: (end - start).div_ceil(BLOCK) }
    }

    /// The place of a query of a tile among the tokens.
    fn place(&self, tile: &Tile, row: usize) -> usize {
        let Shape { queries, keys, .. } = self.shape;
        keys - queries + tile.query + row
    }

    /// Whether all queries of a tile stand behind its tokens, or at the last.
    fn is_behind(&self, tile: &Tile) -> bool {
        self.place(tile, 0) + 1 >= tile.key + tile.keys
    }

    fn tokens(&self, tile: &Tile) -> Tokens {
        Tokens { sequence: tile.sequence, key_head: self.key_head(tile.head), block: tile.key / BLOCK }
    }

    /// C: the products of the queries with the w of a tile's tokens, 0 for those after the query.
    fn meet(&self, path: &Path<'a, T>, tile: &Tile, walk: &mut Walk<T>) {
        let (dim, sizes) = (self.shape.head_dim, [tile.queries, tile.keys, self.shape.head_dim]);
        let w = self.w_of(path, &self.tokens(tile));
        let Walk { queries, meets, .. } = walk;
        product((meets, BLOCK), Strided::rows(queries, dim), w.transposed(), sizes, 1.0);
        self.hide_after(tile, meets);
    }

    /// 0 for tokens after the query.
    fn hide_after(&self, tile: &Tile, meets: &mut [T]) {
        if self.is_behind(tile) {
            return;
        }
        for (i, row) in meets.chunks_exact_mut(BLOCK).take(tile.queries).enumerate() {
            let count = (self.place(tile, i) + 1).saturating_sub(tile.key).min(tile.keys);
            row[count..tile.keys].fill(T::ZERO);
        }
    }

    /// The scores of a tile from its queries as they meet it. Where nothing was made of blocks, queries are led over the tokens, and
    /// have left the tile afterwards; else [`leave`](Self::leave) is still to come.
    pub(in crate::attention) fn path_scores(
        &self,
        path: &Path<'a, T>,
        tile: &Tile,
        made: &[T],
        scratch: &mut Scratch<T>,
    ) {
        let Scratch { scores, walk, .. } = scratch;
        let (dim, scale) = (self.shape.head_dim, self.scale());
        if made.is_empty() {
            return self.lead(path, tile, scores, walk);
        }
        self.meet(path, tile, walk);
        let made = Made::of(made, tile.key / BLOCK, dim);
        let (queries, sizes) = (Strided::rows(&walk.queries, dim), [tile.queries, tile.keys, dim]);
        if self.is_behind(tile) {
            let keys = Strided::rows(made.k, dim).transposed();
            return product((scores, KEYS), queries, keys, sizes, scale);
        }
        product((scores, KEYS), queries, self.keys(tile).transposed(), sizes, scale);
        let (meets, g) = (Strided::rows(&walk.meets, BLOCK), Strided::rows(made.g, BLOCK).transposed());
        add_product((scores, KEYS), meets, g, [tile.queries, tile.keys, tile.keys], -scale);
    }

    /// Takes the queries through the maps of a tile: Q − C·M.
    pub(in crate::attention) fn leave(&self, tile: &Tile, made: &[T], walk: &mut Walk<T>) {
        if self.terms.path.is_none() || made.is_empty() {
            return;
        }
        let dim = self.shape.head_dim;
        let made = Made::of(made, tile.key / BLOCK, dim);
        let Walk { queries, meets, .. } = walk;
        let (meets, m) = (Strided::rows(meets, BLOCK), Strided::rows(made.m, dim));
        add_product((queries, dim), meets, m, [tile.queries, dim, tile.keys], -1.0);
    }

    /// The same token by token, with the scores on the way.
    fn lead(&self, path: &Path<'a, T>, tile: &Tile, scores: &mut [T], walk: &mut Walk<T>) {
        let (dim, scale, tokens) = (self.shape.head_dim, T::of(self.scale()), self.tokens(tile));
        let (w, k) = (self.w_of(path, &tokens), self.keys_of(&tokens));
        for key in (0..tile.keys).rev() {
            let beta = T::of(self.beta(path, &tokens, key));
            let (w, k) = (&w.data[key * w.row..][..dim], &k.data[key * k.row..][..dim]);
            for (i, query) in walk.queries.chunks_exact_mut(dim).take(tile.queries).enumerate() {
                let map = (tile.key + key <= self.place(tile, i)).then_some((w, beta));
                scores[i * KEYS + key] = scale * lead(query, k, map);
            }
        }
    }

    /// Walks over the tiles of some queries and keeps how they meet each.
    pub(in crate::attention) fn keep_states(
        &self,
        mut tile: Tile,
        tiles: &Tiles,
        made: &[T],
        walk: &mut Walk<T>,
    ) {
        let Some(path) = &self.terms.path else { return };
        let each = QUERIES * self.shape.head_dim;
        for index in (0..tiles.count).rev() {
            (tile.key, tile.keys) = tiles.at(index);
            let Walk { queries, states, .. } = &mut *walk;
            states[index * each..][..each].copy_from_slice(queries);
            if index > 0 {
                self.meet(path, &tile, walk);
                self.leave(&tile, made, walk);
            }
        }
    }

    /// Takes the queries as they meet a tile, by its number.
    pub(in crate::attention) fn recall_state(&self, index: usize, walk: &mut Walk<T>) {
        let each = QUERIES * self.shape.head_dim;
        let Walk { queries, states, .. } = walk;
        queries.copy_from_slice(&states[index * each..][..each]);
    }

    /// Begins with the gradients of a key head: nothing has come back yet.
    pub(in crate::attention) fn begin_path_gradients(&self, walk: &mut Walk<T>) {
        [&mut walk.dmade, &mut walk.dw].into_iter().for_each(|memory| memory.fill(T::ZERO));
    }

    /// The way back through a tile: from the gradient of its scores, and that of its queries as they left it (`dq`), to that of the
    /// queries as they met it (`dq` too), of its keys (`dk`, of all keys), of its w, and of what was made of its block. All are added to.
    pub(in crate::attention) fn path_backward(
        &self,
        path: &Path<'a, T>,
        tile: &Tile,
        made: &[T],
        (ds, dq, dk): (Strided<T>, &mut [T], &mut [T]),
        walk: &mut Walk<T>,
    ) {
        let (dim, scale, block) = (self.shape.head_dim, self.scale(), tile.key / BLOCK);
        let (rows, keys, is_behind) = (tile.queries, tile.keys, self.is_behind(tile));
        let (made, w) = (Made::of(made, block, dim), self.w_of(path, &self.tokens(tile)));
        let Walk { queries, meets, dmeets, dmade, dw, .. } = walk;
        let [dg, dm, dturned] = parts(dmade, block, dim);
        let (q, c) = (Strided::rows(queries, dim), Strided::rows(meets, BLOCK));
        let (of_meets, of_keys) = ([rows, keys, dim], [keys, dim, rows]);
        // Q − C·M
        product(
            (dmeets, BLOCK),
            Strided::rows(dq, dim),
            Strided::rows(made.m, dim).transposed(),
            of_meets,
            -1.0,
        );
        add_product((dm, dim), c.transposed(), Strided::rows(dq, dim), of_keys, -1.0);
        if is_behind {
            // Q·K̃ᵀ
            add_product((dq, dim), ds, Strided::rows(made.k, dim), [rows, dim, keys], scale);
            add_product((dturned, dim), ds.transposed(), q, of_keys, scale);
        } else {
            // Q·Kᵀ − C·Gᵀ
            add_product((dmeets, BLOCK), ds, Strided::rows(made.g, BLOCK), [rows, keys, keys], -scale);
            add_product((dg, BLOCK), ds.transposed(), c, [keys, keys, rows], -scale);
            self.hide_after(tile, dmeets);
            add_product((dq, dim), ds, self.keys(tile), [rows, dim, keys], scale);
            add_product((&mut dk[tile.key * dim..], dim), ds.transposed(), q, of_keys, scale);
        }
        // C = Q·Wᵀ
        let dc = Strided::rows(dmeets, BLOCK);
        add_product((dq, dim), dc, w, [rows, dim, keys], 1.0);
        add_product((&mut dw[tile.key * dim..], dim), dc.transposed(), q, of_keys, 1.0);
    }

    /// The way back through what was made of the blocks of a key head, to its keys (`dk`, added to), w and z.
    pub(in crate::attention) fn end_path(
        &self,
        path: &Path<'a, T>,
        [sequence, key_head]: [usize; 2],
        made: &[T],
        dk: &mut [T],
        walk: &mut Walk<T>,
    ) {
        let Shape { keys, head_dim: dim, .. } = self.shape;
        let Walk { triangle, dmade, dw, dz, .. } = walk;
        for block in 0..keys.div_ceil(BLOCK) {
            let tokens = Tokens { sequence, key_head, block };
            let count = self.triangle(path, &tokens, triangle);
            let numbers = tokens.first() * dim..(tokens.first() + count) * dim;
            let given = (self.w_of(path, &tokens), self.keys_of(&tokens));
            let [dg, dm, dturned] = parts(dmade, block, dim);
            let gradients =
                (&mut dk[numbers.clone()], &mut dw[numbers], &mut dz[tokens.first()..tokens.first() + count]);
            triangle.back(given, &Made::of(made, block, dim), [dg, dm, dturned], gradients);
        }
    }
}
