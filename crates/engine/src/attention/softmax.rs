//! Softmax attention in blocks: scores of some queries against some keys at a time, never all against all.
//!
//! For each head the keys and values are packed once into the panels that the products read. Then, for a block of queries,
//! block after block of keys: the scores; their exponentials relative to the largest so far; the sum of values weighted by
//! them. When a later block has a larger score, what was summed before is scaled down. The order of additions depends on
//! the sizes alone, not on threads.

pub use super::mask::{Chunks, Mask, Reach};
use super::rows::{Rows, Running, exponentials};
use crate::ops::gemm::{Columns, Level, Run, Start, Target};
use crate::ops::{Memory, Real};
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence.
    pub keys: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; a divisor of the query heads.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
}

/// Vectors of heads in memory: `[batch, tokens, heads, head_dim]` with steps between sequences and tokens.
#[derive(Clone, Copy)]
pub struct Heads<'a, T> {
    /// The numbers, from the first head of the first token on.
    pub data: &'a [T],
    /// Numbers from one token to the next.
    pub token: usize,
    /// Numbers from one sequence to the next.
    pub sequence: usize,
}

impl<'a, T> Heads<'a, T> {
    /// From one head of the first token of a sequence on.
    pub(super) fn head(&self, shape: &Shape, sequence: usize, head: usize) -> &'a [T] {
        &self.data[sequence * self.sequence + head * shape.head_dim..]
    }
}

/// Queries worked on at a time.
const QUERY_BLOCK: usize = 64;
/// Panels of keys worked on at a time.
const PANELS: usize = 8;

/// Memory for attentions, one part a thread. Grows with the largest shape it has seen.
pub struct Workspace<T>(Vec<Mutex<Scratch<T>>>);

/// Memory of one thread.
struct Scratch<T> {
    /// Panels of keys `[panels, head_dim, width]`.
    keys: Memory<T>,
    /// Panels of values `[panels, keys, width]`.
    values: Memory<T>,
    /// `[QUERY_BLOCK, PANELS · width]`
    scores: Memory<T>,
    /// The largest score and the sum of exponentials of each query, and by what earlier sums shrink.
    largest: [T; QUERY_BLOCK],
    total: [T; QUERY_BLOCK],
    shrink: [T; QUERY_BLOCK],
}

impl<T: Real> Workspace<T> {
    /// For the threads of the current pool; `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        let part = || {
            let empty = || Memory::zeros(0);
            let zeros = [T::ZERO; QUERY_BLOCK];
            Some(Mutex::new(Scratch {
                keys: empty()?,
                values: empty()?,
                scores: empty()?,
                largest: zeros,
                total: zeros,
                shrink: zeros,
            }))
        };
        (0..rayon::current_num_threads().max(1)).map(|_| part()).collect::<Option<_>>().map(Workspace)
    }
}

/// out = softmax(scale·q·kᵀ)·v for every sequence and head, with a scale of 1/√head_dim where none is given. `out` is
/// `[batch, queries, heads · head_dim]`. A query that sees no key gives zeros. `false` if there was not enough memory.
#[must_use]
pub fn attend<T: Real>(
    shape: &Shape,
    (q, k, v): (Heads<T>, Heads<T>, Heads<T>),
    mask: &Mask,
    scale: Option<f64>,
    out: &mut [T],
    workspace: &Workspace<T>,
) -> bool {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
    let scale = T::of(scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt()));
    assert_eq!(out.len(), batch * queries * heads * head_dim, "the shape of an attention");
    check_inputs(shape, [&q, &k, &v], mask);
    if out.is_empty() {
        return true;
    }
    if keys == 0 {
        out.fill(T::ZERO);
        return true;
    }
    let target = Target(out.as_mut_ptr());
    // One head of one sequence is one piece of work: its keys are packed once.
    (0..batch * heads).into_par_iter().with_max_len(1).all(|index| {
        let (sequence, head) = (index / heads, index % heads);
        let slot = rayon::current_thread_index().unwrap_or(0) % workspace.0.len();
        let mut scratch = workspace.0[slot].lock().unwrap_or_else(PoisonError::into_inner);
        let widths = Widths::of::<T>(shape);
        if !scratch.grow(&widths, shape) {
            return false;
        }
        let key_head = head / (heads / key_heads);
        pack_keys(shape, &widths, k.head(shape, sequence, key_head), k.token, &mut scratch.keys);
        pack_values(shape, &widths, v.head(shape, sequence, key_head), v.token, &mut scratch.values);
        let mut first = 0;
        while first < queries {
            let count = QUERY_BLOCK.min(queries - first);
            let at = (sequence * queries + first) * heads * head_dim + head * head_dim;
            // SAFETY: `count` rows of this sequence, from this head's first column on: within `out`, whose size was
            // checked. No other piece of work has these rows and columns.
            unsafe {
                let piece =
                    Piece { sequence, first, count, out: target.pointer().add(at), step: heads * head_dim };
                piece.attend(
                    shape,
                    &widths,
                    &q.head(shape, sequence, head)[first * q.token..],
                    q.token,
                    (mask, scale),
                    &mut scratch,
                );
            }
            first += count;
        }
        true
    })
}

/// Numbers that a thread holds for the head it works on: panels of its keys and values, and scores of a block of queries against
/// some panels.
pub fn numbers_per_thread<T: Real>(keys: usize, head_dim: usize) -> usize {
    let level = Level::best();
    let (key_panel, value_panel) = (T::width(level, keys), T::width(level, head_dim));
    keys.next_multiple_of(key_panel) * head_dim
        + keys * head_dim.next_multiple_of(value_panel)
        + QUERY_BLOCK * PANELS * key_panel
}

/// Panics unless q, k and v lie within their memory and the mask has this shape.
pub(super) fn check_inputs<T>(shape: &Shape, [q, k, v]: [&Heads<T>; 3], mask: &Mask) {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
    assert!(key_heads > 0 && heads.is_multiple_of(key_heads), "heads share key heads evenly");
    for (x, tokens, heads) in [(q, queries, heads), (k, keys, key_heads), (v, keys, key_heads)] {
        let end =
            batch.saturating_sub(1) * x.sequence + tokens.saturating_sub(1) * x.token + heads * head_dim;
        assert!(batch * tokens == 0 || end <= x.data.len(), "vectors within their memory");
    }
    assert!(mask.keys.is_none_or(|mask| mask.len() == batch * keys), "a mask has an entry for every key");
    if let Reach::Prefix(prefixes) = mask.reach {
        assert_eq!(prefixes.len(), batch, "a prefix for every sequence");
    }
    if let Some(chunks) = mask.chunks {
        assert!(chunks.size > 0 && chunks.starts.len() == batch, "pieces of every sequence");
    }
}

/// The widths of panels.
struct Widths {
    level: Level,
    keys: usize,
    values: usize,
}

impl Widths {
    fn of<T: Real>(shape: &Shape) -> Self {
        let level = Level::best();
        Widths { level, keys: T::width(level, shape.keys), values: T::width(level, shape.head_dim) }
    }

    /// Keys worked on at a time.
    fn block(&self) -> usize {
        self.keys * PANELS
    }
}

impl<T: Real> Scratch<T> {
    /// Makes sure of enough memory; `false` if there is not.
    fn grow(&mut self, widths: &Widths, shape: &Shape) -> bool {
        let keys = shape.keys.next_multiple_of(widths.keys) * shape.head_dim;
        let values = shape.head_dim.next_multiple_of(widths.values) * shape.keys;
        for (memory, len) in [
            (&mut self.keys, keys),
            (&mut self.values, values),
            (&mut self.scores, QUERY_BLOCK * widths.block()),
        ] {
            if memory.len() < len {
                match Memory::zeros(len) {
                    Some(more) => *memory = more,
                    None => return false,
                }
            }
        }
        true
    }
}

/// Keys `[keys, head_dim]`, `step` apart, into panels `[panels, head_dim, width]`.
fn pack_keys<T: Real>(shape: &Shape, widths: &Widths, keys: &[T], step: usize, panels: &mut [T]) {
    let (dim, width) = (shape.head_dim, widths.keys);
    for first in (0..shape.keys).step_by(width) {
        let columns = Columns { inputs: dim, step, columns: width.min(shape.keys - first), width };
        T::pack_columns(widths.level, &keys[first * step..], columns, T::ONE, &mut panels[first * dim..]);
    }
}

/// Values `[keys, head_dim]`, `step` apart, into panels `[panels, keys, width]`.
fn pack_values<T: Real>(shape: &Shape, widths: &Widths, values: &[T], step: usize, panels: &mut [T]) {
    let (dim, width) = (shape.head_dim, widths.values);
    for first in (0..dim).step_by(width) {
        let columns = width.min(dim - first);
        let panel = &mut panels[first * shape.keys..];
        for key in 0..shape.keys {
            panel[key * width..][..columns].copy_from_slice(&values[key * step + first..][..columns]);
        }
    }
}

/// Some queries of one head and where their results go.
struct Piece<T> {
    sequence: usize,
    first: usize,
    count: usize,
    out: *mut T,
    step: usize,
}

impl<T: Real> Piece<T> {
    /// # Safety
    ///
    /// `count` rows of head_dim numbers, `step` apart, are valid to read and write at `out`, by nobody else.
    unsafe fn attend(
        &self,
        shape: &Shape,
        widths: &Widths,
        q: &[T],
        q_step: usize,
        (mask, scale): (&Mask, T),
        scratch: &mut Scratch<T>,
    ) {
        let (dim, block) = (shape.head_dim, widths.block());
        assert!(q.len() >= (self.count - 1) * q_step + dim, "queries within their memory");
        scratch.largest.fill(T::NEG_INFINITY);
        scratch.total.fill(T::ZERO);
        let seen = |query: usize| mask.seen(shape, self.sequence, query);
        // What the first and the last query see bounds what any does; panels are read whole.
        let (first, last) = (seen(self.first), seen(self.first + self.count - 1));
        let (from, visible) = (first.start / widths.keys * widths.keys, last.end);
        let masked = mask.keys.map(|mask| &mask[self.sequence * shape.keys..][..shape.keys]);
        for start in (from..visible).step_by(block) {
            let count = block.min(visible - start);
            for panel in (0..count).step_by(widths.keys) {
                let run = Run {
                    x: q.as_ptr(),
                    x_step: q_step,
                    x_column: 1,
                    rows: self.count,
                    inputs: dim,
                    panel: scratch.keys[(start + panel) * dim..][..dim * widths.keys].as_ptr(),
                    width: widths.keys,
                    out: scratch.scores[panel..].as_mut_ptr(),
                    out_step: block,
                    columns: widths.keys.min(count - panel),
                    start: Start::Zero,
                    plus: None,
                };
                // SAFETY: the queries were checked above, the panel was sliced, and the scores have `QUERY_BLOCK` rows of
                // `block` numbers.
                unsafe { T::run(widths.level, &run) };
            }
            for row in 0..self.count {
                let seen = seen(self.first + row);
                let scores = &mut scratch.scores[row * block..][..count];
                if let Some(masked) = masked {
                    for (score, &there) in scores.iter_mut().zip(&masked[start..]) {
                        *score = if there { *score } else { T::NEG_INFINITY };
                    }
                }
                scores[seen.end.saturating_sub(start).min(count)..].fill(T::NEG_INFINITY);
                scores[..seen.start.saturating_sub(start).min(count)].fill(T::NEG_INFINITY);
            }
            let Scratch { scores, largest, total, shrink, .. } = scratch;
            let running = Running {
                largest: &mut largest[..self.count],
                total: &mut total[..self.count],
                shrink: &mut shrink[..self.count],
            };
            exponentials(widths.level, Rows { data: scores, step: block, count }, scale, running);
            if start > from {
                for (row, &shrink) in shrink.iter().enumerate().take(self.count).filter(|x| *x.1 != T::ONE) {
                    // SAFETY: a row of this piece.
                    let out = unsafe { std::slice::from_raw_parts_mut(self.out.add(row * self.step), dim) };
                    out.iter_mut().for_each(|x| *x *= shrink);
                }
            }
            for column in (0..dim).step_by(widths.values) {
                let panel =
                    &scratch.values[column * shape.keys + start * widths.values..][..count * widths.values];
                let run = Run {
                    x: scratch.scores.as_ptr(),
                    x_step: block,
                    x_column: 1,
                    rows: self.count,
                    inputs: count,
                    panel: panel.as_ptr(),
                    width: widths.values,
                    // SAFETY: a column of this piece's rows.
                    out: unsafe { self.out.add(column) },
                    out_step: self.step,
                    columns: widths.values.min(dim - column),
                    start: if start == from { Start::Zero } else { Start::Target },
                    plus: None,
                };
                // SAFETY: scores and panel as above; the rows and columns of this piece.
                unsafe { T::run(widths.level, &run) };
            }
        }
        for row in 0..self.count {
            // SAFETY: a row of this piece.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.add(row * self.step), dim) };
            let total = scratch.total[row];
            if total == T::ZERO {
                out.fill(T::ZERO);
            } else {
                let inverse = T::ONE / total;
                out.iter_mut().for_each(|x| *x *= inverse);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All against all, in `f64`.
    fn naive(shape: &Shape, q: &[f64], k: &[f64], v: &[f64], mask: &Mask) -> Vec<f64> {
        let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
        let mut out = vec![0.0; batch * queries * heads * head_dim];
        for b in 0..batch {
            for i in 0..queries {
                for h in 0..heads {
                    let g = h / (heads / key_heads);
                    let q = &q[((b * queries + i) * heads + h) * head_dim..][..head_dim];
                    let key = |j: usize| ((b * keys + j) * key_heads + g) * head_dim;
                    let score = |j: usize| {
                        let product: f64 = q.iter().zip(&k[key(j)..]).map(|(q, k)| q * k).sum();
                        product / (head_dim as f64).sqrt()
                    };
                    let is_near =
                        |j: usize| mask.window.is_none_or(|window| (i + keys).abs_diff(j + queries) < window);
                    let is_together = |j: usize| {
                        mask.chunks.is_none_or(|Chunks { size, starts }| {
                            let piece =
                                |token: i64| (token - starts[b] as i64).div_euclid(size as i64).max(-1);
                            piece(j as i64) == piece((i + keys).saturating_sub(queries) as i64)
                        })
                    };
                    let seen = |j: &usize| {
                        *j < mask.reach.of(shape, b, i)
                            && mask.keys.is_none_or(|mask| mask[b * keys + j])
                            && is_near(*j)
                            && is_together(*j)
                    };
                    let seen: Vec<usize> = (0..keys).filter(seen).collect();
                    let largest = seen.iter().map(|&j| score(j)).fold(f64::NEG_INFINITY, f64::max);
                    let total: f64 = seen.iter().map(|&j| (score(j) - largest).exp()).sum();
                    let out = &mut out[((b * queries + i) * heads + h) * head_dim..][..head_dim];
                    for &j in &seen {
                        let weight = (score(j) - largest).exp() / total;
                        out.iter_mut().zip(&v[key(j)..]).for_each(|(out, v)| *out += weight * v);
                    }
                }
            }
        }
        out
    }

    fn check<T: Real>(shape: Shape, mask: &Mask, bound: f64) {
        let numbers = |count: usize, seed: usize| -> Vec<f64> {
            (0..count).map(|i| f64::from(((i * 7919 + seed) % 1013) as u32) / 300.0 - 1.7).collect()
        };
        let Shape { batch, queries, keys, heads, key_heads, head_dim } = shape;
        let q = numbers(batch * queries * heads * head_dim, 3);
        let (k, v) = (
            numbers(batch * keys * key_heads * head_dim, 5),
            numbers(batch * keys * key_heads * head_dim, 11),
        );
        let cast = |list: &[f64]| list.iter().map(|&x| T::of(x)).collect::<Vec<T>>();
        let (tq, tk, tv) = (cast(&q), cast(&k), cast(&v));
        fn rows<T>(data: &[T], heads: usize, tokens: usize, dim: usize) -> Heads<'_, T> {
            Heads { data, token: heads * dim, sequence: tokens * heads * dim }
        }
        let mut out = vec![T::of(9.0); q.len()];
        let workspace = Workspace::new().unwrap();
        let all = (
            rows(&tq, heads, queries, head_dim),
            rows(&tk, key_heads, keys, head_dim),
            rows(&tv, key_heads, keys, head_dim),
        );
        assert!(attend(&shape, all, mask, None, &mut out, &workspace));
        for (got, exact) in out.iter().zip(naive(&shape, &q, &k, &v, mask)) {
            assert!((got.to_f64() - exact).abs() <= bound, "{shape:?}: {got:?} {exact}");
        }
    }

    #[test]
    fn blocks_give_what_all_against_all_gives() {
        for (batch, queries, keys, heads, key_heads, head_dim) in [
            (1, 1, 1, 1, 1, 2),
            (2, 5, 5, 3, 3, 4),
            (1, 7, 19, 4, 2, 6),
            (2, 65, 65, 2, 1, 16),
            (1, 3, 50, 1, 1, 64),
            (1, 130, 130, 2, 2, 24),
            (1, 70, 900, 1, 1, 8),
            (1, 2, 0, 2, 2, 4),
            (1, 9, 400, 1, 1, 80),
        ] {
            let shape = Shape { batch, queries, keys, heads, key_heads, head_dim };
            let there: Vec<bool> = (0..batch * keys).map(|i| i % 3 != 1 && i % keys.max(1) > 2).collect();
            let prefixes: Vec<usize> = (0..batch).map(|b| 2 + b).collect();
            for keys in [None, Some(&there[..])] {
                for reach in [Reach::All, Reach::Causal, Reach::Prefix(&prefixes)] {
                    for window in [None, Some(1), Some(3), Some(40), Some(1000)] {
                        let mask = Mask { keys, reach, window, chunks: None };
                        check::<f32>(shape, &mask, 4e-6);
                        check::<f64>(shape, &mask, 1e-13);
                    }
                    for size in [1, 3, 40, 64, 1000, i64::MAX as usize] {
                        let starts: Vec<usize> = (0..batch).map(|b| 3 * (1 - b)).collect();
                        let chunks = Some(Chunks { size, starts: &starts });
                        let window = (size == 40).then_some(7);
                        check::<f64>(shape, &Mask { keys, reach, window, chunks }, 1e-13);
                    }
                }
            }
        }
    }
}
