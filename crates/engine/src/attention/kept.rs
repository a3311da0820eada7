//! Keys and values of tokens already seen, kept in 16 bits as attention multiplies them.
//!
//! A decoder reads all keys and values of the text again for every token that it writes. Kept as they come, they would be rounded and
//! packed again each time; kept in panels, they are read once, in half of the bytes.

use super::panels::{KeptHead, PanelSizes, is_narrow};
use super::softmax::Heads;
use crate::ops::narrow::{Bf16, Precision, set_column, set_row};
use crate::ops::reduce::PARALLEL;
use crate::ops::{Memory, Real};
use rayon::prelude::*;

/// Keys and values of some texts, each head of each in panels of its own.
pub struct Kept {
    /// `[batch, key_heads]`, each panels of keys
    keys: Memory<Bf16>,
    /// `[batch, key_heads]`, each panels of values
    values: Memory<Bf16>,
    size: KeptSize,
    panels: PanelSizes,
    /// Tokens of each text that were written, by a step that failed too.
    written: usize,
}

/// What there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSize {
    /// Texts.
    pub batch: usize,
    /// Tokens of a text.
    pub capacity: usize,
    /// Key and value heads.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
}

impl Kept {
    /// Whether numbers of this type are kept so: where attention multiplies them in 16 bits.
    pub fn is_for<T: Real>(precision: Precision) -> bool {
        is_narrow::<T>(precision)
    }

    /// Room for keys and values; `None` if there is not enough memory.
    pub fn new(size: KeptSize) -> Option<Self> {
        let panels = PanelSizes::new(size.head_dim, size.capacity);
        let heads = size.batch.checked_mul(size.key_heads)?;
        let memory = |each: usize| Memory::zeros(heads.checked_mul(each)?);
        Some(Kept { keys: memory(panels.keys)?, values: memory(panels.values)?, size, panels, written: 0 })
    }

    /// What there is room for.
    pub fn size(&self) -> KeptSize {
        self.size
    }

    /// Keeps keys and values `[batch, count, key_heads, head_dim]` of the tokens from `first` on.
    pub fn append<T: Real>(&mut self, [keys, values]: [Heads<T>; 2], first: usize, count: usize) {
        let KeptSize { batch, capacity, key_heads, head_dim } = self.size;
        assert!(first <= self.written && first + count <= capacity, "tokens that follow, and room for them");
        let PanelSizes { key_width, value_width, depth, value_keys, .. } = self.panels;
        // What a step that failed has left behind them may be no numbers, of which a weight of 0 does not make nothing.
        let left = first + count..self.written;
        let nothing = vec![0.0; if left.is_empty() { 0 } else { head_dim }];
        let one = |(head, (key_panels, value_panels)): (usize, (&mut [Bf16], &mut [Bf16]))| {
            let vectors = [keys, values]
                .map(|x| &x.data[head / key_heads * x.sequence + head % key_heads * head_dim..]);
            for token in 0..count {
                let key = &vectors[0][token * keys.token..][..head_dim];
                let value = &vectors[1][token * values.token..][..head_dim];
                let place = first + token;
                let panel = &mut key_panels[place / key_width * key_width * depth..][..key_width * depth];
                set_column(T::singles(key).unwrap_or(&[]), place % key_width, key_width, panel);
                set_row(T::singles(value).unwrap_or(&[]), place, (value_keys, value_width), value_panels);
            }
            for place in left.clone() {
                set_row(&nothing, place, (value_keys, value_width), value_panels);
            }
        };
        match batch * count * key_heads * head_dim >= PARALLEL {
            true => {
                let keys = self.keys.par_chunks_exact_mut(self.panels.keys.max(1));
                keys.zip(self.values.par_chunks_exact_mut(self.panels.values.max(1)))
                    .enumerate()
                    .for_each(one);
            }
            false => {
                let keys = self.keys.chunks_exact_mut(self.panels.keys.max(1));
                keys.zip(self.values.chunks_exact_mut(self.panels.values.max(1))).enumerate().for_each(one);
            }
        }
        self.written = first + count;
    }

    /// Keys and values of one head of a text.
    pub(super) fn head(&self, sequence: usize, head: usize) -> KeptHead<'_> {
        let PanelSizes { keys, values, value_keys, .. } = self.panels;
        let index = sequence * self.size.key_heads + head;
        KeptHead {
            keys: &self.keys[index * keys..][..keys],
            values: &self.values[index * values..][..values],
            value_keys,
            first: 0,
        }
    }

    /// Those of some of its texts, in this order; one may come more than once. `None` if there is not enough memory.
    pub fn pick(&self, texts: &[usize]) -> Option<Self> {
        let mut picked = Kept::new(KeptSize { batch: texts.len(), ..self.size })?;
        picked.written = self.written;
        let PanelSizes { key_width, value_width, depth, value_keys, keys, values } = self.panels;
        // Of memory that nobody has written to nothing is copied: it would then be taken.
        let written_keys = self.written.next_multiple_of(key_width) * depth;
        let written_rows = self.written.next_multiple_of(2) * value_width;
        for (index, text) in texts.iter().enumerate() {
            for head in 0..self.size.key_heads {
                let [from, to] = [text, &index].map(|text| text * self.size.key_heads + head);
                picked.keys[to * keys..][..written_keys]
                    .copy_from_slice(&self.keys[from * keys..][..written_keys]);
                for panel in (0..values).step_by((value_keys * value_width).max(1)) {
                    picked.values[to * values + panel..][..written_rows]
                        .copy_from_slice(&self.values[from * values + panel..][..written_rows]);
                }
            }
        }
        Some(picked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::softmax::{Chunks, Mask, Reach, Shape, Workspace, attend, attend_kept};

    fn number(seed: usize) -> f32 {
        ((seed * 7919 + 3) % 1013) as f32 / 300.0 - 1.7
    }

    /// Queries, keys and values side by side, `[batch, keys, row]`.
    fn joined(shape: &Shape) -> (Vec<f32>, usize) {
        let row = (shape.heads + 2 * shape.key_heads) * shape.head_dim;
        ((0..shape.batch * shape.keys * row).map(number).collect(), row)
    }

    #[test]
    fn kept_keys_give_the_bits_of_keys_as_they_come() {
        if !Kept::is_for::<f32>(Precision::Bf16) {
            eprintln!("skipped: no instructions for 16 bits");
            return;
        }
        for (batch, queries, keys, heads, key_heads, head_dim) in [
            (1, 1, 1, 1, 1, 2),
            (2, 1, 50, 4, 2, 64),
            (1, 1, 900, 6, 2, 80),
            (2, 1, 385, 8, 1, 6),
            (1, 1, 449, 2, 1, 130),
            (2, 5, 19, 4, 2, 7),
            (1, 70, 900, 2, 1, 8),
            (1, 130, 130, 2, 2, 24),
        ] {
            let shape = Shape { batch, queries, keys, heads, key_heads, head_dim };
            let (data, row) = joined(&shape);
            let part = |first: usize| Heads { data: &data[first..], token: row, sequence: keys * row };
            let (k, v) = (part(heads * head_dim), part((heads + key_heads) * head_dim));
            let q = part((keys - queries) * row);
            let workspace = Workspace::with(Precision::Bf16).unwrap();
            let there: Vec<bool> = (0..batch * keys).map(|i| i % 7 != 1).collect();
            let starts = vec![3; batch];
            for step in [1, 3, 64, 1000] {
                let mut kept =
                    Kept::new(KeptSize { batch, capacity: keys + 70, key_heads, head_dim }).unwrap();
                for first in (0..keys).step_by(step) {
                    let from =
                        |x: Heads<_>| Heads { data: &data[data.len() - x.data.len() + first * row..], ..x };
                    let count = step.min(keys - first);
                    if first == step {
                        // A step that failed with what is no number is made again.
                        let lost = vec![f32::NAN; batch * 70 * row];
                        let lost = Heads { data: &lost[..], token: row, sequence: 70 * row };
                        kept.append([lost, lost], first, 70);
                    }
                    kept.append([from(k), from(v)], first, count);
                }
                let twice: Vec<usize> = (0..batch).rev().chain([0]).collect();
                let picked = kept.pick(&twice).unwrap();
                for keys_there in [None, Some(&there[..])] {
                    for (window, size) in [(None, None), (Some(3), None), (Some(100), None), (None, Some(40))]
                    {
                        let chunks = size.map(|size| Chunks { size, starts: &starts });
                        let mask = Mask {
                            reach: Reach::Causal,
                            keys: keys_there,
                            window,
                            chunks,
                            ..Mask::default()
                        };
                        let mut plain = vec![9.0; batch * queries * heads * head_dim];
                        let mut own = plain.clone();
                        assert!(attend(&shape, (q, k, v), &mask, None, &mut plain, &workspace));
                        assert!(attend_kept(&shape, (q, &kept), &mask, None, &mut own, &workspace));
                        assert!(plain.iter().all(|x| x.is_finite()));
                        assert_eq!(plain, own, "{shape:?}, {step} at a time, {window:?}, {size:?}");
                        if keys_there.is_some() || chunks.is_some() {
                            continue;
                        }
                        // The texts that were picked, the last of them once more the first.
                        let each = queries * heads * head_dim;
                        let queries_of = |&text: &usize| &data[text * keys * row..][..keys * row];
                        let data: Vec<f32> = twice.iter().flat_map(queries_of).copied().collect();
                        let q = Heads { data: &data[(keys - queries) * row..], ..q };
                        let shape = Shape { batch: batch + 1, ..shape };
                        let mut out = vec![9.0; (batch + 1) * each];
                        assert!(attend_kept(&shape, (q, &picked), &mask, None, &mut out, &workspace));
                        for (text, out) in twice.iter().zip(out.chunks_exact(each)) {
                            assert_eq!(out, &plain[text * each..][..each]);
                        }
                    }
                }
            }
        }
    }
}
