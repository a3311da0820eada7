//! Softmax attention in blocks: scores of some queries against some keys at a time, never all against all.
//!
//! For each head the keys and values are packed once into the panels that the products read. Then, for a block of queries,
//! block after block of keys: the scores; their exponentials relative to the largest so far; the sum of values weighted by
//! them. When a later block has a larger score, what was summed before is scaled down. The order of additions depends on
//! the sizes alone, not on threads. For one query, as a decoder has it token after token, a block of keys and values is packed when
//! it is its turn, and none that the query does not see: so they are read from memory once.

use super::kept::Kept;
pub use super::mask::{Chunks, Mask, Reach};
use super::panels::{self, KEY_BLOCK, KeptHead, Panels, Vectors};
use super::rows::Running;
use crate::ops::gemm::Target;
use crate::ops::share::share;
use crate::ops::{Memory, Precision, Real};
use std::sync::atomic::{AtomicBool, Ordering};
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

    /// The same where texts of several lengths may lie one behind the other.
    fn of(&self, shape: &Shape, mask: &Mask, sequence: usize, head: usize) -> &'a [T] {
        match mask.texts {
            None => self.head(shape, sequence, head),
            Some(texts) => &self.data[texts[sequence].start * self.token + head * shape.head_dim..],
        }
    }
}

/// Queries worked on at a time.
pub(super) const QUERY_BLOCK: usize = 64;

/// Memory for attentions, one part a thread. Grows with the largest shape it has seen.
pub struct Workspace<T> {
    parts: Vec<Mutex<Scratch<T>>>,
    /// Whether products are of 16 bits.
    is_narrow: bool,
}

/// Memory of one thread.
struct Scratch<T> {
    panels: Panels<T>,
    /// `[QUERY_BLOCK, KEY_BLOCK]`
    scores: Memory<T>,
    /// The largest score and the sum of exponentials of each query, and by what earlier sums shrink.
    largest: [T; QUERY_BLOCK],
    total: [T; QUERY_BLOCK],
    shrink: [T; QUERY_BLOCK],
}

impl<T: Real> Workspace<T> {
    /// For the threads of the current pool; `None` if there is not enough memory.
    pub fn new() -> Option<Self> {
        Self::with(Precision::F32)
    }

    /// The same with a precision. Below `f32`, queries, keys, values and weights are rounded to 16 bits before they are multiplied.
    pub fn with(precision: Precision) -> Option<Self> {
        let part = || {
            let zeros = [T::ZERO; QUERY_BLOCK];
            Some(Mutex::new(Scratch {
                panels: Panels::new(precision)?,
                scores: Memory::zeros(QUERY_BLOCK * KEY_BLOCK)?,
                largest: zeros,
                total: zeros,
                shrink: zeros,
            }))
        };
        let parts = (0..rayon::current_num_threads().max(1)).map(|_| part()).collect::<Option<_>>()?;
        Some(Workspace { parts, is_narrow: panels::is_narrow::<T>(precision) })
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
    check_inputs(shape, [&q, &k, &v], mask);
    attend_from(shape, q, Source::Rows(k, v), (mask, scale), out, workspace)
}

/// [`attend`] to the first keys and values of those that are kept. The workspace multiplies in 16 bits.
#[must_use]
pub fn attend_kept<T: Real>(
    shape: &Shape,
    (q, kept): (Heads<T>, &Kept),
    mask: &Mask,
    scale: Option<f64>,
    out: &mut [T],
    workspace: &Workspace<T>,
) -> bool {
    let size = kept.size();
    let is_its =
        (size.batch, size.key_heads, size.head_dim) == (shape.batch, shape.key_heads, shape.head_dim);
    assert!(is_its && shape.keys <= size.capacity, "keys and values that are kept");
    assert!(workspace.is_narrow && mask.texts.is_none(), "products in 16 bits, of texts of one length");
    // Nobody reads rows of keys and values: those of the queries stand for them.
    check_inputs(&Shape { keys: 0, ..*shape }, [&q, &q, &q], &Mask { keys: None, ..*mask });
    assert!(
        mask.keys.is_none_or(|keys| keys.len() == shape.batch * shape.keys),
        "a mask has an entry for every key"
    );
    attend_from(shape, q, Source::Kept(kept), (mask, scale), out, workspace)
}

/// Where keys and values are.
#[derive(Clone, Copy)]
enum Source<'a, T> {
    Rows(Heads<'a, T>, Heads<'a, T>),
    Kept(&'a Kept),
}

/// Attention to keys and values of which it has been checked that they are there.
fn attend_from<T: Real>(
    shape: &Shape,
    q: Heads<T>,
    source: Source<T>,
    (mask, scale): (&Mask, Option<f64>),
    out: &mut [T],
    workspace: &Workspace<T>,
) -> bool {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
    let scale = T::of(scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt()));
    let rows = mask.texts.map_or(batch * queries, |texts| texts.last().map_or(0, |last| last.end));
    assert_eq!(out.len(), rows * heads * head_dim, "the shape of an attention");
    if out.is_empty() {
        return true;
    }
    if keys == 0 {
        out.fill(T::ZERO);
        return true;
    }
    let target = Target(out.as_mut_ptr());
    let threads = rayon::current_num_threads();
    // One head of one sequence is one piece of work, for which its keys are packed; its queries are divided where there would be too
    // little to do for all threads.
    let blocks = queries.div_ceil(QUERY_BLOCK);
    let parts = (2 * threads).div_ceil(batch * heads).min(blocks);
    let part = blocks.div_ceil(parts) * QUERY_BLOCK;
    let parts = queries.div_ceil(part);
    // Of one query the heads that share keys are rows of one piece, so that those are read once; fewer where threads would have nothing
    // to do.
    let together = match mask.texts {
        None if queries == 1 => {
            (heads / key_heads).div_ceil(threads.div_ceil(batch * key_heads)).min(QUERY_BLOCK)
        }
        _ => 1,
    };
    let shares = (heads / key_heads).div_ceil(together);
    let has_memory = AtomicBool::new(true);
    share(batch * key_heads * shares * parts, |indices| {
        for index in indices {
            let (pair, begin) = (index / parts, index % parts * part);
            let heads_of_text = key_heads * shares;
            // Of texts of several lengths each thread has some heads of all: texts are sorted, and the longest ones are most of the work.
            let (sequence, share) = match mask.texts {
                None => (pair / heads_of_text, pair % heads_of_text),
                Some(_) => (pair % batch, pair / batch),
            };
            // The text as it is alone.
            let shape = &match mask.texts {
                None => *shape,
                Some(texts) => {
                    Shape { queries: texts[sequence].len(), keys: texts[sequence].len(), ..*shape }
                }
            };
            let queries = shape.queries;
            if begin >= queries {
                continue;
            }
            let row = mask.texts.map_or(sequence * queries, |texts| texts[sequence].start);
            let slot = rayon::current_thread_index().unwrap_or(0) % workspace.parts.len();
            let mut scratch = workspace.parts[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let (key_head, first_head) = (share / shares, share % shares * together);
            let head = key_head * (heads / key_heads) + first_head;
            let count_together = together.min(heads / key_heads - first_head);
            let mut is_done = true;
            let packing = match source {
                Source::Kept(kept) => Packing::Kept(kept.head(sequence, key_head)),
                Source::Rows(k, v) => {
                    let keys = Vectors { data: k.of(shape, mask, sequence, key_head), step: k.token };
                    let values = Vectors { data: v.of(shape, mask, sequence, key_head), step: v.token };
                    match queries {
                        1 => Packing::EachBlock(keys, values),
                        _ => {
                            is_done = scratch.panels.pack(shape, 0..shape.keys, keys, values);
                            Packing::Done
                        }
                    }
                }
            };
            for first in (begin..queries.min(begin + part)).step_by(QUERY_BLOCK) {
                let is_one = queries == 1;
                let count = if is_one { count_together } else { QUERY_BLOCK.min(queries - first) };
                let [q_step, out_step] =
                    if is_one { [head_dim, head_dim] } else { [q.token, heads * head_dim] };
                let at = (row + first) * heads * head_dim + head * head_dim;
                // SAFETY: `count` rows of this sequence, from this head's first column on, or as many heads of its one query: within
                // `out`, whose size was checked. No other piece of work has these rows and columns.
                unsafe {
                    let out = panels::Target { out: target.pointer().add(at), step: out_step, count };
                    let q = &q.of(shape, mask, sequence, head)[first * q.token..];
                    let q = Vectors { data: q, step: q_step };
                    let piece = Piece { sequence, first, is_one, out, packing };
                    is_done = is_done && piece.attend(shape, q, (mask, scale), &mut scratch);
                }
            }
            if !is_done {
                has_memory.store(false, Ordering::Relaxed);
            }
        }
    });
    has_memory.into_inner()
}

/// Numbers that a thread holds for the head it works on: panels of its keys and values, and scores of a block of queries against
/// some panels.
pub fn numbers_per_thread<T: Real>(keys: usize, head_dim: usize) -> usize {
    panels::numbers::<T>(keys, head_dim) + QUERY_BLOCK * KEY_BLOCK
}

/// Panics unless q, k and v lie within their memory and the mask has this shape.
pub(super) fn check_inputs<T>(shape: &Shape, [q, k, v]: [&Heads<T>; 3], mask: &Mask) {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
    assert!(key_heads > 0 && heads.is_multiple_of(key_heads), "heads share key heads evenly");
    for (x, tokens, heads) in [(q, queries, heads), (k, keys, key_heads), (v, keys, key_heads)] {
        let last = match mask.texts {
            None => batch.saturating_sub(1) * x.sequence + tokens.saturating_sub(1) * x.token,
            Some(texts) => texts.last().map_or(0, |last| last.end.saturating_sub(1)) * x.token,
        };
        assert!(
            batch * tokens == 0 || last + heads * head_dim <= x.data.len(),
            "vectors within their memory"
        );
    }
    if let Some(texts) = mask.texts {
        let ends = texts.iter().map(|text| text.end);
        let starts = std::iter::once(0).chain(ends);
        let is_in_order =
            texts.iter().zip(starts).all(|(text, start)| text.start == start && start <= text.end);
        let is_within = texts.iter().all(|text| text.len() <= queries) && queries == keys;
        assert!(texts.len() == batch && is_in_order && is_within, "texts one behind the other");
        assert!(mask.keys.is_none() && mask.chunks.is_none(), "texts without a mask");
    }
    assert!(mask.keys.is_none_or(|mask| mask.len() == batch * keys), "a mask has an entry for every key");
    if let Reach::Prefix(prefixes) = mask.reach {
        assert_eq!(prefixes.len(), batch, "a prefix for every sequence");
    }
    if let Some(chunks) = mask.chunks {
        assert!(chunks.size > 0 && chunks.starts.len() == batch, "pieces of every sequence");
    }
}

/// Some queries of one head, or one query of some heads that share keys, and where their results go.
struct Piece<'a, T> {
    sequence: usize,
    first: usize,
    is_one: bool,
    out: panels::Target<T>,
    packing: Packing<'a, T>,
}

/// How a piece comes to panels of keys and values.
#[derive(Clone, Copy)]
enum Packing<'a, T> {
    /// All are packed.
    Done,
    /// Those of a block are packed when it is its turn.
    EachBlock(Vectors<'a, T>, Vectors<'a, T>),
    Kept(KeptHead<'a>),
}

impl<T: Real> Piece<'_, T> {
    /// `false` if there was not enough memory.
    ///
    /// # Safety
    ///
    /// Rows of head_dim numbers are valid to read and write at `out`, by nobody else.
    unsafe fn attend(
        &self,
        shape: &Shape,
        q: Vectors<T>,
        (mask, scale): (&Mask, T),
        scratch: &mut Scratch<T>,
    ) -> bool {
        let (dim, rows) = (shape.head_dim, self.out.count);
        let Scratch { panels, scores, largest, total, shrink } = scratch;
        if !panels.begin(q, rows, dim) {
            return false;
        }
        largest.fill(T::NEG_INFINITY);
        total.fill(T::ZERO);
        let seen =
            |row: usize| mask.seen(shape, self.sequence, self.first + if self.is_one { 0 } else { row });
        let masked = mask.keys.map(|mask| &mask[self.sequence * shape.keys..][..shape.keys]);
        let there =
            masked.map_or(shape.keys, |there| there.iter().rposition(|&x| x).map_or(0, |last| last + 1));
        // What the first and the last query see bounds what any does; panels are read whole.
        let (from, until) = (seen(0).start, seen(rows - 1).end.min(there));
        let width = panels.width(shape.keys);
        let from = from / width * width;
        for start in (from..until).step_by(KEY_BLOCK) {
            let count = KEY_BLOCK.min(until - start);
            let block = start..start + count;
            let kept = match self.packing {
                Packing::Done => None,
                Packing::Kept(kept) => Some(kept),
                Packing::EachBlock(keys, values) => {
                    if !panels.pack(shape, block.clone(), keys, values) {
                        return false;
                    }
                    None
                }
            };
            let target = panels::Target { out: scores.as_mut_ptr(), step: KEY_BLOCK, count: rows };
            // SAFETY: the queries were begun with; the scores have `QUERY_BLOCK` rows of `KEY_BLOCK` numbers.
            unsafe { panels.scores(q, dim, block.clone(), kept, target) };
            for row in 0..rows {
                let seen = seen(row);
                let scores = &mut scores[row * KEY_BLOCK..][..count];
                if let Some(masked) = masked {
                    for (score, &there) in scores.iter_mut().zip(&masked[start..]) {
                        *score = if there { *score } else { T::NEG_INFINITY };
                    }
                }
                scores[seen.end.saturating_sub(start).min(count)..].fill(T::NEG_INFINITY);
                scores[..seen.start.saturating_sub(start).min(count)].fill(T::NEG_INFINITY);
            }
            let running = Running {
                largest: &mut largest[..rows],
                total: &mut total[..rows],
                shrink: &mut shrink[..rows],
            };
            panels.soften(scores, count, scale, running);
            if start > from {
                for (row, &shrink) in shrink.iter().enumerate().take(rows).filter(|x| *x.1 != T::ONE) {
                    // SAFETY: the caller's promise, for a row of this piece.
                    unsafe { self.row(row, dim) }.iter_mut().for_each(|x| *x *= shrink);
                }
            }
            // SAFETY: the caller's promise, handed on.
            unsafe { panels.weigh(scores, shape, block, kept, start == from, self.out) };
        }
        for (row, &total) in total.iter().enumerate().take(rows) {
            // SAFETY: the caller's promise, for a row of this piece.
            let out = unsafe { self.row(row, dim) };
            if total == T::ZERO {
                out.fill(T::ZERO);
            } else {
                let inverse = T::ONE / total;
                out.iter_mut().for_each(|x| *x *= inverse);
            }
        }
        true
    }

    /// # Safety
    ///
    /// As of `attend`; a row of this piece.
    #[expect(clippy::mut_from_ref, reason = "the numbers belong to this piece, not to what describes it")]
    unsafe fn row(&self, row: usize, dim: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.out.out.add(row * self.out.step), dim) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::narrow::Bf16;

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

    /// Below `f32`, of vectors that are numbers of 16 bits already: what is left to be rounded to them are weights.
    fn check<T: Real>(shape: Shape, mask: &Mask, precision: Precision, bound: f64) {
        let rounded = |x: f64| match precision {
            Precision::F32 => x,
            _ => f64::from(Bf16::of(x as f32).wide()),
        };
        let numbers = |count: usize, seed: usize| -> Vec<f64> {
            (0..count).map(|i| rounded(f64::from(((i * 7919 + seed) % 1013) as u32) / 300.0 - 1.7)).collect()
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
        let workspace = Workspace::with(precision).unwrap();
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
            (2, 1, 50, 4, 2, 64),
            (1, 1, 900, 2, 2, 80),
            (2, 1, 21, 1, 1, 6),
            (1, 1, 385, 2, 1, 130),
            (2, 5, 5, 3, 3, 4),
            (1, 7, 19, 4, 2, 6),
            (2, 65, 65, 2, 1, 16),
            (1, 3, 50, 1, 1, 64),
            (1, 130, 130, 2, 2, 24),
            (1, 90, 90, 1, 1, 8),
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
                        let mask = Mask { keys, reach, window, ..Mask::default() };
                        check::<f32>(shape, &mask, Precision::F32, 4e-6);
                        check::<f64>(shape, &mask, Precision::F32, 1e-13);
                        // Weights that are off by 2⁻⁹ at most, of values below 1.7.
                        check::<f32>(shape, &mask, Precision::Bf16, 1.7 / 512.0 + 4e-6);
                        check::<f64>(shape, &mask, Precision::Bf16, 1e-13);
                    }
                    for size in [1, 3, 40, 64, 1000, i64::MAX as usize] {
                        let starts: Vec<usize> = (0..batch).map(|b| 3 * (1 - b)).collect();
                        let chunks = Some(Chunks { size, starts: &starts });
                        let window = (size == 40).then_some(7);
                        let mask = Mask { keys, reach, window, chunks, ..Mask::default() };
                        check::<f64>(shape, &mask, Precision::F32, 1e-13);
                    }
                }
            }
        }
    }

    #[test]
    fn one_query_has_the_bits_that_it_has_among_others() {
        let (batch, heads, key_heads, head_dim) = (2, 4, 2, 40);
        for keys in [2, 63, 64, 385, 1000] {
            let row = (heads + 2 * key_heads) * head_dim;
            let numbers = |seed: usize| ((seed * 7919 + 3) % 1013) as f32 / 300.0 - 1.7;
            let joined: Vec<f32> = (0..batch * keys * row).map(numbers).collect();
            let part = |first: usize| Heads { data: &joined[first..], token: row, sequence: keys * row };
            let (k, v) = (part(heads * head_dim), part((heads + key_heads) * head_dim));
            let there: Vec<bool> = (0..batch * keys).map(|i| i % 7 != 1).collect();
            // Without a window: blocks of keys begin where the first of some queries sees any.
            for keys_there in [None, Some(&there[..])] {
                let mask = Mask { reach: Reach::Causal, keys: keys_there, ..Mask::default() };
                for precision in [Precision::F32, Precision::Bf16] {
                    let workspace = Workspace::with(precision).unwrap();
                    let run = |queries: usize| {
                        let shape = Shape { batch, queries, keys, heads, key_heads, head_dim };
                        let q = part((keys - queries) * row);
                        let mut out = vec![9.0; batch * queries * heads * head_dim];
                        assert!(attend(&shape, (q, k, v), &mask, None, &mut out, &workspace));
                        out
                    };
                    let (all, one) = (run(keys), run(1));
                    let width = heads * head_dim;
                    for (all, one) in all.chunks_exact(keys * width).zip(one.chunks_exact(width)) {
                        assert_eq!(all[(keys - 1) * width..], *one, "{keys} keys, {precision:?}");
                    }
                }
            }
        }
    }
}
