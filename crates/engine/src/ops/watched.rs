//! The CPU, taking note of what attention gives its weight to. For looking at models, not for running them: the weights
//! of all queries on all keys are kept.

use super::backend::{LinearWork, Part, Terms};
use super::cpu::{OnCpu, host_terms};
use super::{Memory, Real};
use crate::attention::linear::Features;
use crate::attention::softmax::{Mask, Shape};
use crate::attention::{self, Path, Table};
use crate::error::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// The CPU with a notebook. A clone writes into the same one: keep one, give the other to a model.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    seen: Arc<Mutex<Vec<AttentionWeights>>>,
}

/// The weights of one attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionWeights {
    /// Its sizes.
    pub shape: Shape,
    /// `[batch, heads, queries, keys]`: each row sums to 1, and is 0 where a key is not seen.
    pub weights: Vec<f32>,
}

impl Watched {
    /// All that was noted since it was last asked, in order: layer by layer of each forward pass.
    pub fn take(&self) -> Vec<AttentionWeights> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, weights: AttentionWeights) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(weights);
    }
}

/// Queries and keys as they meet where they are so many places apart or more.
type FarParts<'a, T> = ([Part<'a, Memory<T>>; 2], usize);

/// The softmax of the scores with their position terms, in `f64`, by its definition.
fn weights<T: Real>(
    shape: &Shape,
    [q, k]: [Part<'_, Memory<T>>; 2],
    far: Option<FarParts<'_, T>>,
    mask: &Mask,
    terms: &attention::Terms<T>,
) -> Vec<f32> {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
    let first = |part: &Part<'_, Memory<T>>, sequence: usize, token: usize, head: usize| {
        part.offset + sequence * part.sequence + token * part.token + head * head_dim
    };
    let scale = terms.scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt());
    let plus = |q: &[T], vectors: Option<&[T]>, head: usize| -> Vec<f64> {
        let add = |i: usize| vectors.map_or(0.0, |vectors| vectors[head * head_dim + i].to_f64());
        q.iter().enumerate().map(|(i, q)| q.to_f64() + add(i)).collect()
    };
    let meet = |table: &Option<Table<T>>, x: &[f64], head: usize, entry: usize| -> f64 {
        let Some(table) = table else { return 0.0 };
        let row = table.index[entry] as usize * table.heads + if table.heads == 1 { 0 } else { head };
        dot(x, &table.values[row * head_dim..][..head_dim])
    };
    let mut all = Vec::with_capacity(batch * heads * queries * keys);
    for sequence in 0..batch {
        for head in 0..heads {
            for query in 0..queries {
                let distant = far.map(|([q, k], from)| {
                    (plus(&q.buffer[first(&q, sequence, query, head)..][..head_dim], None, head), k, from)
                });
                let q = &q.buffer[first(&q, sequence, query, head)..][..head_dim];
                let (content, position) = (plus(q, terms.content, head), plus(q, terms.position, head));
                let by_segment = terms.segments.as_ref().map(|segments| {
                    let x = plus(q, Some(segments.query), head);
                    let ids = &segments.ids[sequence * keys..][..keys];
                    let vector = |apart: usize| &segments.vectors[(apart * heads + head) * head_dim..];
                    let products = [0, 1].map(|apart| dot(&x, &vector(apart)[..head_dim]));
                    move |key: usize| products[usize::from(ids[key] != ids[keys - queries + query])]
                });
                let seen = mask.seen(shape, sequence, query);
                let is_seen = |key: usize| {
                    seen.contains(&key) && mask.keys.is_none_or(|mask| mask[sequence * keys + key])
                };
                let k_of =
                    |key: usize| &k.buffer[first(&k, sequence, key, head * key_heads / heads)..][..head_dim];
                let products = match &terms.path {
                    Some(path) => {
                        let group = (sequence, head * key_heads / heads);
                        along(path, group, query + keys - queries, &content, keys, &k_of)
                    }
                    None => (0..keys).map(|key| dot(&content, k_of(key))).collect(),
                };
                let gate = |key: usize| match is_seen(key) {
                    true => 1.0 / (1.0 + (-scale * products[key]).exp()),
                    false => 0.0,
                };
                let counted = terms.counted.map(|table| {
                    let gates: Vec<f64> = (0..keys).map(gate).collect();
                    counted(&plus(q, None, head), table, &gates)
                });
                let score = |key: usize| {
                    if !is_seen(key) {
                        return f64::NEG_INFINITY;
                    }
                    let k = k_of(key);
                    let (key_numbers, entry) = (plus(k, None, head), query + keys - 1 - key);
                    let bias = terms.bias.as_ref().map_or(0.0, |bias| {
                        let rows = bias.values.len() / heads;
                        bias.values[head * rows + bias.index[entry] as usize].to_f64()
                    });
                    let tables = meet(&terms.query, &position, head, entry)
                        + meet(&terms.key, &key_numbers, head, entry)
                        + by_segment.as_ref().map_or(0.0, |product| product(key));
                    let place = query + keys - queries;
                    let pair = terms.pairs.as_ref().map_or(0.0, |pairs| {
                        let row = (head * pairs.places + place) * pairs.places;
                        pairs.values[row + key].to_f64()
                    });
                    let gate = terms.gate.as_ref().map_or(0.0, |gate| {
                        let sum =
                            |token: usize| gate.data[sequence * gate.sequence + token * gate.token + head];
                        sum(place).to_f64() - sum(key).to_f64()
                    });
                    let met = match &distant {
                        Some((q, k, from)) if place >= key + from => {
                            dot(q, &k.buffer[first(k, sequence, key, head * key_heads / heads)..][..head_dim])
                        }
                        _ => products[key],
                    };
                    let counted = counted.as_ref().map_or(0.0, |counted| counted[key]);
                    let score = scale * (met + tables) + bias + pair + gate + counted;
                    terms.cap.map_or(score, |cap| cap * (score / cap).tanh())
                };
                let scores: Vec<f64> = (0..keys).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                let share = |score: f64| if sum > 0.0 { ((score - most).exp() / sum) as f32 } else { 0.0 };
                all.extend(scores.into_iter().map(share));
            }
        }
    }
    all
}

/// The products of a query that stands at a place with each key, along the path of the maps between them.
fn along<'a, T: Real>(
    path: &Path<T>,
    (sequence, key_head): (usize, usize),
    place: usize,
    query: &[f64],
    keys: usize,
    k_of: &dyn Fn(usize) -> &'a [T],
) -> Vec<f64> {
    let (mut query, mut products) = (query.to_vec(), vec![0.0; keys]);
    for key in (0..keys).rev() {
        products[key] = dot(&query, k_of(key));
        if key <= place {
            let (w, z) = (&path.w, &path.z);
            let w = &w.data[sequence * w.sequence + key * w.token + key_head * query.len()..][..query.len()];
            let z = z.data[sequence * z.sequence + key * z.token + key_head].to_f64();
            let factor = 2.0 / (1.0 + (-z).exp()) * dot(&query, w);
            query.iter_mut().zip(w).for_each(|(x, w)| *x -= factor * w.to_f64());
        }
    }
    products
}

/// What a query meets at each key, of a table by what it counts from there on.
fn counted<T: Real>(q: &[f64], table: &[T], gates: &[f64]) -> Vec<f64> {
    let rows: Vec<f64> = table.chunks_exact(q.len()).map(|row| dot(q, row)).collect();
    let last = rows.len() - 1;
    let at = |key: usize| {
        let place = gates[key..].iter().sum::<f64>().min(last as f64);
        let (row, part) = (place as usize, place.fract());
        (1.0 - part) * rows[row] + part * rows[last.min(row + 1)]
    };
    (0..gates.len()).map(at).collect()
}

/// The weights of linear attention, by their definition: of either sign where features are rotated.
fn linear_weights<T: Real>(work: &LinearWork<T>, features: &Features<T>) -> Vec<f32> {
    let LinearWork { batch, length, heads, .. } = *work;
    let Features { queries: [qn, qd], keys: [kn, kd], .. } = features;
    let m = qn.len() / (batch * length * heads);
    let row = |list: &[T], sequence: usize, token: usize, head: usize| -> Vec<f64> {
        let first = ((sequence * length + token) * heads + head) * m;
        list[first..][..m].iter().map(|x| x.to_f64()).collect()
    };
    let mut all = Vec::with_capacity(batch * heads * length * length);
    for sequence in 0..batch {
        for head in 0..heads {
            for query in 0..length {
                let (n, d) = (row(qn, sequence, query, head), row(qd, sequence, query, head));
                let is_seen = |key: usize| {
                    (!work.is_causal || key <= query)
                        && work.mask.is_none_or(|mask| mask[sequence * length + key])
                };
                let product = |x: &[f64], keys: &[T], key: usize| -> f64 {
                    let k = row(keys, sequence, key, head);
                    x.iter().zip(&k).map(|(x, k)| x * k).sum()
                };
                let total: f64 =
                    (0..length).filter(|&key| is_seen(key)).map(|key| product(&d, kd, key)).sum();
                all.extend((0..length).map(|key| match is_seen(key) && total != 0.0 {
                    true => (product(&n, kn, key) / total) as f32,
                    false => 0.0,
                }));
            }
        }
    }
    all
}

fn dot<T: Real>(a: &[f64], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b.to_f64()).sum()
}

impl OnCpu for Watched {
    fn before_attend<T: Real>(
        &self,
        shape: &Shape,
        [q, k]: [Part<'_, Memory<T>>; 2],
        mask: &Mask,
        terms: &Terms<'_, Memory<T>>,
    ) {
        let weights = weights(shape, [q, k], None, mask, &host_terms(terms, shape.head_dim));
        self.note(AttentionWeights { shape: *shape, weights });
    }

    fn before_attend_far<T: Real>(
        &self,
        shape: &Shape,
        near: [Part<'_, Memory<T>>; 2],
        far: FarParts<'_, T>,
        mask: &Mask,
        terms: &Terms<'_, Memory<T>>,
    ) {
        let weights = weights(shape, near, Some(far), mask, &host_terms(terms, shape.head_dim));
        self.note(AttentionWeights { shape: *shape, weights });
    }

    fn before_attend_linear<T: Real>(
        &self,
        work: &LinearWork<'_, T>,
        joined: &Memory<T>,
        turns: Option<&[T]>,
    ) -> Result<()> {
        let LinearWork { batch, length, heads, head_dim, .. } = *work;
        let shape = Shape { batch, queries: length, keys: length, heads, key_heads: heads, head_dim };
        let weights = linear_weights(work, &Features::new(work, (joined, turns), None)?);
        self.note(AttentionWeights { shape, weights });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::softmax::Reach;
    use crate::graph::mix;
    use crate::ops::{Backend, TermSegments};

    #[test]
    fn what_is_noted_gives_the_output() {
        let shape = Shape { batch: 2, queries: 5, keys: 7, heads: 4, key_heads: 2, head_dim: 3 };
        let numbers = |seed: u64, len: usize| {
            let mut memory = Memory::<f64>::zeros(len).unwrap();
            for (index, number) in memory.iter_mut().enumerate() {
                *number = (mix(seed ^ mix(index as u64)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
            }
            memory
        };
        let (q, k, v) = (numbers(1, 2 * 5 * 12), numbers(2, 2 * 7 * 6), numbers(3, 2 * 7 * 6));
        let part = |buffer, token, tokens| Part { buffer, offset: 0, token, sequence: token * tokens };
        // A key that is not there, and queries that see what came before.
        let keys: Vec<bool> = (0..14).map(|key| key != 9).collect();
        let (query, vectors) = (numbers(4, 12), numbers(5, 24));
        let ids: Vec<u32> = (0..14).map(|token| token % 5 / 2).collect();
        let (table, w, z) = (numbers(6, 4 * 3), numbers(7, 2 * 7 * 6), numbers(8, 2 * 7 * 2));
        let all = [(Reach::All, false), (Reach::Causal, true), (Reach::Prefix(&[4, 1]), false)];
        for (reach, has_segments) in all {
            let segments =
                has_segments.then_some(TermSegments { query: &query, vectors: &vectors, ids: &ids });
            let counted = has_segments.then_some(&table);
            // Queries that stand between keys, without a mask.
            let maps = [part(&w, 6, 7), part(&z, 2, 7)];
            let path = (!has_segments).then_some(maps);
            let terms = Terms { segments, counted, path, ..Terms::default() };
            let watched = Watched::default();
            let mut out = Memory::zeros(2 * 5 * 12).unwrap();
            let scratch = watched.scratch().unwrap();
            let mask = Mask { keys: Some(&keys), reach, ..Mask::default() };
            let qkv = [part(&q, 12, 5), part(&k, 6, 7), part(&v, 6, 7)];
            watched.attend(&shape, qkv, &mask, &terms, &mut out, &scratch).unwrap();
            let seen = watched.take();
            assert_eq!((seen.len(), seen[0].shape, watched.take().len()), (1, shape, 0));
            for (row, weights) in seen[0].weights.chunks(7).enumerate() {
                let (sequence, head, query) = (row / 20, row / 5 % 4, row % 5);
                assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                for feature in 0..3 {
                    let value = |key: usize| v[(sequence * 7 + key) * 6 + head / 2 * 3 + feature];
                    let expected: f64 = (0..7).map(|key| f64::from(weights[key]) * value(key)).sum();
                    let got = out[(sequence * 5 + query) * 12 + head * 3 + feature];
                    assert!((got - expected).abs() < 1e-6, "{got} {expected}");
                }
            }
        }
    }
}
