//! Scores over a path of maps (PaTH): each token s has a map H_s = I − β_s·w_s·w_sᵀ, and a query meets a key through those of the
//! tokens after the key, up to the query: k_jᵀ·H_(j+1)·…·H_i·q_i.
//!
//! Tokens are taken in blocks. With the w of a block as rows of W, its β on the diagonal of D, and U what of W·Wᵀ is above the
//! diagonal, the maps of a block are together I − Wᵀ·T·W with T = (I + D·U)⁻¹·D, and those of some tokens in a row are the same with
//! that part of T, because T is a triangle. So with A what of K·Wᵀ is above the diagonal, and
//!
//! ```text
//! G = A·T        M = Tᵀ·W        K̃ = K − G·W
//! ```
//!
//! queries that stand behind a block meet its keys as Q·K̃ᵀ and leave it as Q − (Q·Wᵀ)·M; those that stand within it meet them as
//! Q·Kᵀ − C·Gᵀ and leave it as Q − C·M, with C what of Q·Wᵀ is not after the query. Tiles of keys come from the last block to the first.
//!
//! ```text
//! mod.rs        the term, and what is made of each block beforehand
//! triangle.rs   T of a block, and the way back through all that is made of it
//! tile.rs       queries against a block, forward and backward, and token by token where there are few
//! ```

mod tile;
mod triangle;

use super::softmax::{Heads, Shape};
use super::terms::Attention;
use super::tile::{QUERIES, Tile, Workspace};
use crate::ops::multiply::Strided;
use crate::ops::{Memory, Real};
use rayon::prelude::*;
use std::sync::PoisonError;
use triangle::Triangle;

/// Tokens of a block.
pub(super) const BLOCK: usize = 64;

/// The maps of tokens.
#[derive(Clone, Copy)]
pub struct Path<'a, T> {
    /// w `[batch, keys, key_heads, head_dim]`, of length 1.
    pub w: Heads<'a, T>,
    /// z `[batch, keys, key_heads]`: β = 2·σ(z).
    pub z: Heads<'a, T>,
}

/// The gradients of [`Path`], without gaps.
pub struct PathGradients<'a, T> {
    /// `[batch, keys, key_heads, head_dim]`
    pub w: &'a mut [T],
    /// `[batch, keys, key_heads]`
    pub z: &'a mut [T],
}

/// What is made of a block beforehand, in one piece of memory: G `[BLOCK, BLOCK]`, M and K̃ `[BLOCK, head_dim]`; or the gradients of
/// these.
pub(super) struct Made<'a, T> {
    g: &'a [T],
    m: &'a [T],
    k: &'a [T],
}

/// Numbers of that piece.
fn piece(dim: usize) -> usize {
    BLOCK * (BLOCK + 2 * dim)
}

impl<'a, T> Made<'a, T> {
    /// That of a block, of those of its head.
    fn of(all: &'a [T], block: usize, dim: usize) -> Self {
        let piece = &all[block * piece(dim)..][..piece(dim)];
        let (g, rest) = piece.split_at(BLOCK * BLOCK);
        let (m, k) = rest.split_at(BLOCK * dim);
        Made { g, m, k }
    }
}

/// The same, to be written: G, M and K̃.
fn parts<T>(all: &mut [T], block: usize, dim: usize) -> [&mut [T]; 3] {
    let piece = &mut all[block * piece(dim)..][..piece(dim)];
    let (g, rest) = piece.split_at_mut(BLOCK * BLOCK);
    let (m, k) = rest.split_at_mut(BLOCK * dim);
    [g, m, k]
}

/// Memory of one thread.
pub(super) struct Walk<T> {
    /// The queries as they meet a tile, `[QUERIES, head_dim]`.
    pub queries: Memory<T>,
    /// C, and its gradient, `[QUERIES, BLOCK]`.
    meets: Memory<T>,
    dmeets: Memory<T>,
    triangle: Triangle<T>,
    /// The queries as they meet each of their tiles, `[tiles, QUERIES, head_dim]`, for the way back.
    states: Memory<T>,
    /// The gradients of what was made of each block.
    dmade: Memory<T>,
    /// Those of w and z of the tokens, `[keys, head_dim]` and `[keys]`.
    pub dw: Memory<T>,
    pub dz: Memory<T>,
}

impl<T: Real> Walk<T> {
    /// `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        let empty = || Memory::zeros(0);
        Some(Walk {
            queries: empty()?,
            meets: empty()?,
            dmeets: empty()?,
            triangle: Triangle::new()?,
            states: empty()?,
            dmade: empty()?,
            dw: empty()?,
            dz: empty()?,
        })
    }

    /// Makes sure of enough memory for heads of this size and, on the way back, so many keys; `false` if there is not.
    pub fn fit(&mut self, dim: usize, keys: usize) -> bool {
        let blocks = keys.div_ceil(BLOCK);
        let fit = |memory: &mut Memory<T>, rows: usize, row: usize| {
            rows.checked_mul(row).is_some_and(|len| memory.fit(len))
        };
        self.triangle.fit()
            && fit(&mut self.queries, QUERIES, dim)
            && fit(&mut self.meets, QUERIES, BLOCK)
            && fit(&mut self.dmeets, QUERIES, BLOCK)
            && fit(&mut self.states, blocks * QUERIES, dim)
            && fit(&mut self.dmade, blocks, piece(dim))
            && fit(&mut self.dw, keys, dim)
            && fit(&mut self.dz, keys, 1)
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        let Walk { queries, meets, dmeets, states, dmade, dw, dz, .. } = self;
        let all = [queries, meets, dmeets, states, dmade, dw, dz];
        all.iter().map(|memory| memory.len()).sum::<usize>() * size_of::<T>() + self.triangle.bytes()
    }
}

impl<'a, T: Real> Attention<'a, T> {
    /// Whether queries are so few that each is led over the tokens by itself: what is made of blocks pays for many.
    pub(super) fn is_led(&self) -> bool {
        let Shape { queries, keys, heads, key_heads, .. } = self.shape;
        queries < keys && queries * (heads / key_heads.max(1)) < BLOCK
    }

    /// Makes of all blocks what queries need, `[batch · key_heads, blocks, …]`; `false` if there is not enough memory.
    pub(super) fn make_blocks(&self, workspace: &mut Workspace<T>) -> bool {
        let Some(path) = &self.terms.path else { return true };
        let Shape { batch, keys, key_heads, head_dim, .. } = self.shape;
        let (blocks, piece) = (keys.div_ceil(BLOCK), piece(head_dim));
        let all = (batch * key_heads).checked_mul(blocks).and_then(|count| count.checked_mul(piece));
        if !all.is_some_and(|len| workspace.made.fit(len)) {
            return false;
        }
        let Workspace { threads, made, .. } = workspace;
        made.par_chunks_exact_mut(piece).enumerate().with_max_len(1).for_each(|(index, made)| {
            let slot = rayon::current_thread_index().unwrap_or(0) % threads.len();
            let mut scratch = threads[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let (head, block) = (index / blocks, index % blocks);
            let tokens = Tokens { sequence: head / key_heads, key_head: head % key_heads, block };
            let triangle = &mut scratch.walk.triangle;
            let count = self.triangle(path, &tokens, triangle);
            let given = (self.w_of(path, &tokens), self.keys_of(&tokens));
            triangle.make(given, count, parts(made, 0, head_dim));
        });
        true
    }

    /// What was made of the blocks of a tile's head; nothing where none was made.
    pub(super) fn made<'m>(&self, made: &'m [T], tile: &Tile) -> &'m [T] {
        let Shape { keys, key_heads, head_dim, .. } = self.shape;
        if self.terms.path.is_none() || made.is_empty() {
            return &[];
        }
        let each = keys.div_ceil(BLOCK) * piece(head_dim);
        &made[(tile.sequence * key_heads + self.key_head(tile.head)) * each..][..each]
    }

    /// W of a block.
    fn w_of(&self, path: &Path<'a, T>, tokens: &Tokens) -> Strided<'a, T> {
        let w = path.w.head(&self.shape, tokens.sequence, tokens.key_head);
        Strided::rows(&w[tokens.first() * path.w.token..], path.w.token)
    }

    /// K of a block.
    fn keys_of(&self, tokens: &Tokens) -> Strided<'a, T> {
        let k = self.k.head(&self.shape, tokens.sequence, tokens.key_head);
        Strided::rows(&k[tokens.first() * self.k.token..], self.k.token)
    }

    /// The triangle of a block; returns how many tokens it has.
    fn triangle(&self, path: &Path<'a, T>, tokens: &Tokens, triangle: &mut Triangle<T>) -> usize {
        let Shape { keys, head_dim, .. } = self.shape;
        let count = BLOCK.min(keys - tokens.first());
        for (token, beta) in triangle.beta[..count].iter_mut().enumerate() {
            *beta = self.beta(path, tokens, token);
        }
        triangle.find(self.w_of(path, tokens), count, head_dim);
        count
    }

    /// β of a token of a block.
    fn beta(&self, path: &Path<'a, T>, tokens: &Tokens, token: usize) -> f64 {
        let first = tokens.sequence * path.z.sequence + tokens.key_head;
        let z = path.z.data[first + (tokens.first() + token) * path.z.token].to_f64();
        2.0 / (1.0 + (-z).exp())
    }
}

/// A block of tokens of a key head.
#[derive(Clone, Copy)]
struct Tokens {
    sequence: usize,
    key_head: usize,
    block: usize,
}

impl Tokens {
    /// Its first token.
    fn first(&self) -> usize {
        self.block * BLOCK
    }
}
