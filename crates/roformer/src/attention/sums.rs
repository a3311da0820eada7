//! What one head of one sequence sums, and how those of all become the gradients.

use super::softmax::Shape;
use super::terms::Place;
use crate::ops::Real;
use rayon::prelude::*;

/// Rows added by one thread at a time.
const ROWS: usize = 32;

/// What one head of one sequence adds to.
pub(super) struct Sums<'a, T> {
    pub q: &'a mut [T],
    pub k: &'a mut [T],
    pub v: &'a mut [T],
    pub content: &'a mut [T],
    pub position: &'a mut [T],
    pub bias: &'a mut [T],
    pub query: &'a mut [T],
    pub key: &'a mut [T],
    pub value: &'a mut [T],
}

impl<'a, T> Sums<'a, T> {
    pub fn new(mut memory: &'a mut [T], parts: &[usize; 9]) -> Self {
        let [q, k, v, content, position, bias, query, key, value] = parts.map(|part| {
            let (first, rest) = std::mem::take(&mut memory).split_at_mut(part);
            memory = rest;
            first
        });
        Sums { q, k, v, content, position, bias, query, key, value }
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

    /// Adds vectors `[tokens, head_dim]` of each head where they belong, `group` heads to one.
    pub fn add_heads(&self, buffer: &mut [T], place: Place, tokens: usize, group: usize) {
        let Shape { batch, heads, head_dim: dim, .. } = *self.shape;
        let place = place.alone(batch, tokens);
        let sequences = buffer[place.offset..].par_chunks_mut(place.sequence).take(batch);
        sequences.enumerate().for_each(|(sequence, rows)| {
            let rows = rows.par_chunks_mut(place.token).take(tokens).with_min_len(ROWS);
            rows.enumerate().for_each(|(token, row)| {
                for head in 0..heads {
                    let target = &mut row[head / group * dim..][..dim];
                    add(target, self.of(sequence, head, token * dim, dim));
                }
            });
        });
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
                    add(target, self.of(sequence, head, first, row));
                }
            }
        });
    }
}

fn add<T: Real>(target: &mut [T], source: &[T]) {
    target.iter_mut().zip(source).for_each(|(sum, &x)| *sum += x);
}

impl Place {
    /// Steps that nobody takes, of one sequence or one token, may be anything: as long as it gets.
    pub(super) fn alone(self, batch: usize, tokens: usize) -> Place {
        let token = if tokens <= 1 { usize::MAX } else { self.token };
        let sequence = if batch <= 1 { usize::MAX } else { self.sequence };
        Place { token, sequence, ..self }
    }
}
