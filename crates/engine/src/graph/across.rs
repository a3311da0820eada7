//! Softmax attention of a decoder's tokens to those that its encoder read: every query sees all that are real, and positions play
//! no part, because the two texts have none in common.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::attention::softmax::{Heads, Mask, Reach, Shape};
use crate::attention::{self, Attention, Dropout, Place, TermGradients};
use crate::ops::Real;

/// What attention to an encoder's output is made of.
#[derive(Clone, Copy, Debug)]
pub struct Across {
    /// Queries, `[batch · length, heads · head_dim]`.
    pub queries: Value,
    /// Keys and values of what the encoder gave, side by side, `[batch · source length, 2 · heads · head_dim]`.
    pub others: Value,
    /// Texts.
    pub batch: usize,
    /// Heads of queries, keys and values.
    pub heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// What scores are multiplied by, if not 1/√head_dim.
    pub scale: Option<f64>,
    /// The chance that a weight is dropped, in training.
    pub dropout: f64,
}

impl<T: Real> Builder<T> {
    /// softmax(scores)·values over the real tokens of the batch's source, `[batch · length, heads · head_dim]`.
    pub fn attend_across(&mut self, across: Across) -> Value {
        let rows = across.queries.rows;
        let (out, lse) = (self.value(rows, across.heads * across.head_dim), self.value(rows, across.heads));
        let site = self.site();
        self.add(Crossing { across, out, lse, site, workspace: None });
        out
    }
}

pub(super) struct Crossing<T> {
    across: Across,
    out: Value,
    /// The logarithm of each sum of exponentials, for the way back.
    lse: Value,
    site: u64,
    workspace: Option<attention::Workspace<T>>,
}

impl<T: Real> Crossing<T> {
    fn attention<'a>(&self, values: &'a Values<T>) -> Attention<'a, T> {
        let Across { queries, others, batch, heads, head_dim, scale, dropout } = self.across;
        let (length, keys, given) = (queries.rows / batch, others.rows / batch, &values.batch);
        let other = |part: usize| Heads {
            data: &values.get(others)[part * heads * head_dim..],
            token: others.width,
            sequence: keys * others.width,
        };
        Attention {
            shape: Shape { batch, queries: length, keys, heads, key_heads: heads, head_dim },
            q: Heads { data: values.get(queries), token: queries.width, sequence: length * queries.width },
            k: other(0),
            v: other(1),
            mask: Mask {
                keys: (!given.source_mask.is_empty()).then_some(&given.source_mask[..]),
                reach: Reach::All,
                ..Mask::default()
            },
            terms: attention::Terms { scale, ..attention::Terms::default() },
            dropout: (given.is_training && dropout > 0.0).then_some(Dropout {
                probability: dropout,
                seed: given.seed,
                step: given.step,
                site: self.site,
            }),
        }
    }

    /// Memory is asked for on the first step, and its lack is a panic: nothing in a step can be undone.
    fn workspace(&mut self) -> attention::Workspace<T> {
        self.workspace.take().or_else(attention::Workspace::new).expect("memory for attention")
    }
}

impl<T: Real> Operation<T> for Crossing<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let mut workspace = self.workspace();
        let (this, lse_value) = (&*self, self.lse);
        let mut lse = values.store.lend(lse_value);
        values.write(this.out, |values, out| {
            assert!(this.attention(values).forward(out, &mut lse, &mut workspace), "memory for attention");
        });
        values.store.values[lse_value.index] = Some(lse);
        self.workspace = Some(workspace);
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let mut workspace = self.workspace();
        let (this, Across { queries, others, batch, heads, head_dim, .. }) = (&*self, self.across);
        gradients.add_each([queries, others], |gradients, [to_queries, to_others]| {
            let place = |buffer: usize, offset: usize, value: Value| Place {
                buffer,
                offset,
                token: value.width,
                sequence: value.rows / batch * value.width,
            };
            let given = attention::Gradients {
                buffers: &mut [to_queries, to_others],
                accumulate: true,
                q: place(0, 0, queries),
                k: place(1, 0, others),
                v: place(1, heads * head_dim, others),
                terms: TermGradients::default(),
            };
            let known = (gradients.get(this.out), values.get(this.out), values.get(this.lse));
            assert!(this.attention(values).backward(known, given, &mut workspace), "memory for attention");
        });
        self.workspace = Some(workspace);
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        Err(crate::ops::cuda::no_encoder())
    }
}
