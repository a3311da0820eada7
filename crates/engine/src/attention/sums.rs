//! Where the gradients of an attention go: those of queries, keys and values to their places, those of terms, which all
//! sequences share, first to memory of each head of each sequence, and then in order into one sum.

use super::softmax::Shape;
use super::terms::Place;
use crate::ops::Real;
use crate::ops::dispatch::vectorised;
use crate::ops::gemm::Target;
use crate::ops::pass::give;
use rayon::prelude::*;
use std::marker::PhantomData;

/// Rows added by one thread at a time.
const ROWS: usize = 32;

/// The gradients of queries, of keys or of values, `[batch, tokens, heads, head_dim]` at their place, which tasks write head
/// by head.
pub(super) struct Vectors<'a, T> {
    target: Target<T>,
    place: Place,
    dim: usize,
    /// Whether they are added to.
    accumulate: bool,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T: Real> Vectors<'a, T> {
    /// Those of q, k and v.
    ///
    /// # Panics
    ///
    /// If they are not within their buffers, or not apart from each other.
    pub fn all(
        shape: &Shape,
        buffers: &'a mut [&mut [T]],
        places: [Place; 3],
        accumulate: bool,
    ) -> [Vectors<'a, T>; 3] {
        let Shape { batch, queries, keys, heads, key_heads, head_dim: dim } = *shape;
        let sizes = [(queries, heads * dim), (keys, key_heads * dim), (keys, key_heads * dim)];
        let is_there = |which: usize| batch * sizes[which].0 > 0;
        for which in (0..3).filter(|&which| is_there(which)) {
            let (place, (tokens, row)) = (places[which], sizes[which]);
            let alone = place.alone(batch, tokens);
            let sequence = (tokens - 1) * place.token + row;
            assert!(row <= alone.token && sequence <= alone.sequence, "places of gradients overlap");
            let end = place.offset + (batch - 1) * place.sequence + sequence;
            assert!(end <= buffers[place.buffer].len(), "gradients within their memory");
        }
        for (first, second) in [(0, 1), (0, 2), (1, 2)] {
            let (a, b) = (places[first], places[second]);
            if a.buffer == b.buffer && is_there(first) && is_there(second) {
                let [(a_tokens, a_row), (b_tokens, b_row)] = [sizes[first], sizes[second]];
                assert_eq!((a.token, a.sequence, a_tokens), (b.token, b.sequence, b_tokens), "places alike");
                // Side by side in every token.
                let span = (a.offset + a_row).max(b.offset + b_row) - a.offset.min(b.offset);
                let (alone, sequence) = (a.alone(batch, a_tokens), (a_tokens - 1) * a.token + span);
                let is_apart = span >= a_row + b_row && span <= alone.token && sequence <= alone.sequence;
                assert!(is_apart, "places of gradients overlap");
            }
        }
        // One pointer for each buffer: to make another would end the first's right to it.
        let mut pointers = [std::ptr::null_mut(); 3];
        for which in 0..3 {
            let earlier = (0..which).find(|&other| places[other].buffer == places[which].buffer);
            pointers[which] = match earlier {
                Some(other) => pointers[other],
                None => buffers[places[which].buffer].as_mut_ptr(),
            };
        }
        [0, 1, 2].map(|which| Vectors {
            target: Target(pointers[which]),
            place: places[which],
            dim,
            accumulate,
            borrow: PhantomData,
        })
    }

    /// Those of all keys, `[batch, keys, key_heads, dim]` without gaps, added to.
    ///
    /// # Panics
    ///
    /// If the memory is not of that size.
    pub fn plain(shape: &Shape, numbers: &'a mut [T], dim: usize) -> Vectors<'a, T> {
        let Shape { batch, keys, key_heads, .. } = *shape;
        let token = key_heads * dim;
        assert_eq!(numbers.len(), batch * keys * token, "the gradient of a term has its shape");
        let place = Place { buffer: 0, offset: 0, token, sequence: keys * token };
        let target = Target(numbers.as_mut_ptr());
        Vectors { target, place, dim, accumulate: true, borrow: PhantomData }
    }

    /// Gives the vectors `[rows, head_dim]` of one head of one sequence, from a token on.
    ///
    /// # Safety
    ///
    /// Sequence, tokens and head are there, and nobody else writes them meanwhile.
    pub unsafe fn give(&self, sequence: usize, token: usize, head: usize, vectors: &[T]) {
        let Place { offset, token: step, sequence: sequences, .. } = self.place;
        let first = offset + sequence * sequences + token * step + head * self.dim;
        give_rows(vectors, self.dim, &self.target, (first, step), self.accumulate);
    }
}

vectorised! {
    fn give_rows<T>(rows: &[T], dim: usize, target: &Target<T>, at: (usize, usize), accumulate: bool) = give_each
}

/// Gives rows to their places in the target, from a first on and `step` apart. For `Vectors::give` alone.
#[inline(always)]
fn give_each<T: Real>(
    rows: &[T],
    dim: usize,
    target: &Target<T>,
    (first, step): (usize, usize),
    accumulate: bool,
) {
    for (index, row) in rows.chunks_exact(dim).enumerate() {
        // SAFETY: within the buffer, as `Vectors::all` has checked, and nobody else's, as `Vectors::give` was promised.
        let out = unsafe { std::slice::from_raw_parts_mut(target.pointer().add(first + index * step), dim) };
        for (out, &x) in out.iter_mut().zip(row) {
            *out = if accumulate { *out + x } else { x };
        }
    }
}

/// How many terms have gradients.
pub(super) const PARTS: usize = 11;

/// What one head of one sequence gives to the terms.
pub(super) struct Sums<'a, T> {
    pub content: &'a mut [T],
    pub position: &'a mut [T],
    pub bias: &'a mut [T],
    pub query: &'a mut [T],
    pub key: &'a mut [T],
    pub value: &'a mut [T],
    pub segment_query: &'a mut [T],
    pub segment_vectors: &'a mut [T],
    pub pairs: &'a mut [T],
    pub counted: &'a mut [T],
    pub gate: &'a mut [T],
}

impl<'a, T> Sums<'a, T> {
    pub fn new(mut memory: &'a mut [T], parts: &[usize; PARTS]) -> Self {
        let mut next = |part: usize| {
            let (first, rest) = std::mem::take(&mut memory).split_at_mut(part);
            memory = rest;
            first
        };
        let [
            content,
            position,
            bias,
            query,
            key,
            value,
            segment_query,
            segment_vectors,
            pairs,
            counted,
            gate,
        ] = parts.map(&mut next);
        Sums {
            content,
            position,
            bias,
            query,
            key,
            value,
            segment_query,
            segment_vectors,
            pairs,
            counted,
            gate,
        }
    }
}

/// A part of what all heads of all sequences have summed.
pub(super) struct Pieces<'a, T> {
    pub shape: &'a Shape,
    /// `[batch · heads, size]`
    pub memory: &'a [T],
    pub size: usize,
    /// Where the part begins.
    pub offset: usize,
}

impl<T: Real> Pieces<'_, T> {
    /// Some numbers of the part of one head.
    fn of(&self, sequence: usize, head: usize, first: usize, count: usize) -> &[T] {
        let index = sequence * self.shape.heads + head;
        &self.memory[index * self.size + self.offset + first..][..count]
    }

    /// Adds what each sequence and head has for its tokens to `[batch, tokens, heads]`.
    pub fn add_tokens(&self, sums: &mut [T], tokens: usize) {
        let heads = self.shape.heads;
        for (sequence, sums) in sums.chunks_exact_mut(tokens * heads).enumerate() {
            for head in 0..heads {
                let given = self.of(sequence, head, 0, tokens);
                sums[head..].iter_mut().step_by(heads).zip(given).for_each(|(sum, &x)| *sum += x);
            }
        }
    }

    /// Adds each head's rows, `row` numbers long, over all sequences to a table `[rows, table_heads, row]`.
    pub fn add_table(&self, table: &mut [T], table_heads: usize, row: usize) {
        let Shape { batch, heads, .. } = *self.shape;
        let rows = table.par_chunks_mut(row).with_min_len(ROWS);
        rows.enumerate().for_each(|(index, target)| {
            let (first, head) = (index / table_heads * row, index % table_heads);
            let shared = if table_heads == heads { head..head + 1 } else { 0..heads };
            for head in shared {
                for sequence in 0..batch {
                    give(self.of(sequence, head, first, row), target, true);
                }
            }
        });
    }
}

impl Place {
    /// Steps that nobody takes, of one sequence or one token, may be anything: as long as it gets.
    pub(super) fn alone(self, batch: usize, tokens: usize) -> Place {
        let token = if tokens <= 1 { usize::MAX } else { self.token };
        let sequence = if batch <= 1 { usize::MAX } else { self.sequence };
        Place { token, sequence, ..self }
    }
}
