//! What runs a model's operations: memory of its own, and a dozen operations on it.
//!
//! A model is written once over this trait and never asks which device it runs on. So no operation allocates, reads
//! results back or takes a closure, each returns its own error, and sums have an order that does not depend on the number of threads. Every operation
//! is generic over `f32`, which runs, and `f64`, which checks it.

use super::memory::{filled, is_available};
use super::{Activation, Real, Span};
use crate::attention::kept::KeptSize;
use crate::attention::softmax::{Mask, Shape};
use crate::error::{Error, Result, WORK};
use crate::graph::{Angles, Gate, LinearForm, Polar, TurnedHeads};
use rope::Table;

/// A device.
pub trait Backend: Send + Sync {
    /// Numbers in the device's memory.
    type Buffer<T: Real>: Send + Sync;
    /// A weight in the form that products want, with its bias.
    type Matrix<T: Real>: Send + Sync;
    /// Rows that are looked up by their number, such as embeddings of words.
    type Words<T: Real>: Send + Sync;
    /// Memory that attention needs for itself.
    type Scratch<T: Real>: Send + Sync;
    /// What linear attention knows of the tokens so far.
    type State<T: Real>: Send + Sync;
    /// Keys and values of tokens already seen, as attention multiplies them.
    type Kept<T: Real>: Send + Sync;

    /// Zeros.
    fn zeros<T: Real>(&self, len: usize) -> Result<Self::Buffer<T>>;
    /// Makes a buffer `len` numbers long, of any values, without allocating where it was as long before.
    fn fit<T: Real>(&self, buffer: &mut Self::Buffer<T>, len: usize) -> Result<()>;
    /// Whether there is memory for so many numbers now; asked before much is asked for.
    fn has_room<T: Real>(&self, numbers: u128) -> bool {
        is_available(numbers.saturating_mul(size_of::<T>() as u128))
    }
    /// Runs work that calls many operations, where they begin soonest. On the CPU that is a thread of the pool: an operation that is called
    /// from any other wakes the pool and is waited for.
    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }
    /// Whether [`attend`](Self::attend) takes texts that lie one behind the other, where there are no terms.
    fn packs_texts(&self) -> bool {
        false
    }
    /// Copies numbers to the device; the buffer has their length.
    fn upload<T: Real>(&self, from: &[T], to: &mut Self::Buffer<T>) -> Result<()>;
    /// Copies a buffer back; `to` has its length.
    fn download<T: Real>(&self, from: &Self::Buffer<T>, to: &mut [T]) -> Result<()>;

    /// Copies a buffer of this length back into a new list.
    fn list<T: Real>(&self, from: &Self::Buffer<T>, len: usize) -> Result<Vec<T>> {
        let mut list = filled(len, T::ZERO).ok_or(Error::Memory { what: WORK })?;
        self.download(from, &mut list)?;
        Ok(list)
    }

    /// Room for a weight `[outputs, inputs]` and its bias.
    fn matrix<T: Real>(&self, outputs: usize, inputs: usize) -> Result<Self::Matrix<T>>;
    /// Sets rows of a weight, `[count, inputs]`, from `first` on.
    fn set_rows<T: Real>(&self, matrix: &mut Self::Matrix<T>, first: usize, rows: &[T]) -> Result<()>;
    /// Sets the bias of the outputs from `first` on.
    fn set_bias<T: Real>(&self, matrix: &mut Self::Matrix<T>, first: usize, bias: &[T]) -> Result<()>;
    /// The bytes a weight takes.
    fn matrix_bytes<T: Real>(&self, matrix: &Self::Matrix<T>) -> usize;
    /// Room for rows `[rows, width]` that are looked up.
    fn words<T: Real>(&self, rows: usize, width: usize) -> Result<Self::Words<T>>;
    /// Sets numbers of them, from number `first` on.
    fn set_words<T: Real>(&self, words: &mut Self::Words<T>, first: usize, numbers: &[T]) -> Result<()>;
    /// Memory for attentions.
    fn scratch<T: Real>(&self) -> Result<Self::Scratch<T>>;

    /// out = activation(x·Wᵀ + bias): x `[rows, inputs]`, out `[rows, outputs]`.
    fn product<T: Real>(
        &self,
        matrix: &Self::Matrix<T>,
        x: &Self::Buffer<T>,
        activation: Activation,
        out: &mut Self::Buffer<T>,
    ) -> Result<()>;

    /// x ← norm(x + residual)·weight + bias, row by row of the weight's width.
    fn layer_norm<T: Real>(
        &self,
        x: &mut Self::Buffer<T>,
        residual: Option<&Self::Buffer<T>>,
        weight: &Self::Buffer<T>,
        bias: &Self::Buffer<T>,
        epsilon: f64,
    ) -> Result<()>;

    /// x ← (x + residual)/√(mean of squares + ε)·weight, row by row of the weight's width.
    fn rms_norm<T: Real>(
        &self,
        x: &mut Self::Buffer<T>,
        residual: Option<&Self::Buffer<T>>,
        weight: &Self::Buffer<T>,
        epsilon: f64,
    ) -> Result<()>;

    /// x ← x + delta and out = norm(x), row by row of the weight's width: with a bias as [`layer_norm`](Self::layer_norm), else
    /// as [`rms_norm`](Self::rms_norm).
    fn add_norm<T: Real>(
        &self,
        x: &mut Self::Buffer<T>,
        delta: Option<&Self::Buffer<T>>,
        weight: &Self::Buffer<T>,
        bias: Option<&Self::Buffer<T>>,
        epsilon: f64,
        out: &mut Self::Buffer<T>,
    ) -> Result<()>;

    /// Norms heads of the weight's width as [`rms_norm`](Self::rms_norm) does rows.
    fn rms_norm_heads<T: Real>(
        &self,
        x: &mut Self::Buffer<T>,
        heads: HeadRows,
        weight: &Self::Buffer<T>,
        epsilon: f64,
    ) -> Result<()>;

    /// out `[rows, wide]` = activation(gate)·up: a row of gate_up `[rows, 2 · wide]` is gate and then up.
    fn gate<T: Real>(
        &self,
        gate_up: &Self::Buffer<T>,
        wide: usize,
        activation: Activation,
        out: &mut Self::Buffer<T>,
    ) -> Result<()>;

    /// Row i of out `[ids, width]` = the word of id i + the kind of type i (the first kind without types).
    fn embed<T: Real>(
        &self,
        words_and_ids: (&Self::Words<T>, &[u32]),
        kinds_and_types: (&Self::Buffer<T>, Option<&[u32]>),
        width: usize,
        out: &mut Self::Buffer<T>,
    ) -> Result<()>;

    /// x ← x + rows: row i of every sequence of x `[batch, length, width]` gets row `first` + i of `rows` `[…, width]`.
    fn add_rows<T: Real>(
        &self,
        x: &mut Self::Buffer<T>,
        rows: &Self::Buffer<T>,
        first: usize,
        size: [usize; 3],
    ) -> Result<()>;

    /// Rotates heads in place, from `offset` on: token i stands at `first` + i.
    fn rotate<T: Real>(
        &self,
        table: &Table<T>,
        first: i64,
        x: &mut Self::Buffer<T>,
        offset: usize,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()>;

    /// out = softmax(q·kᵀ/√d)·v, `[batch, queries, heads · head_dim]`, with the position terms of
    /// [`attention::terms`](crate::attention::terms).
    fn attend<T: Real>(
        &self,
        shape: &Shape,
        qkv: [Part<'_, Self::Buffer<T>>; 3],
        mask: &Mask,
        terms: &Terms<'_, Self::Buffer<T>>,
        out: &mut Self::Buffer<T>,
        scratch: &Self::Scratch<T>,
    ) -> Result<()>;

    /// Room for keys and values as attention without terms multiplies them; `None` where it takes them as they come.
    fn kept<T: Real>(&self, _size: KeptSize) -> Result<Option<Self::Kept<T>>> {
        Ok(None)
    }

    /// Keeps keys and values `[batch, count, key_heads · head_dim]` of the tokens from `first` on.
    fn append<T: Real>(
        &self,
        keys_and_values: [Part<'_, Self::Buffer<T>>; 2],
        kept: &mut Self::Kept<T>,
        first: usize,
        count: usize,
    ) -> Result<()>;

    /// [`attend`](Self::attend) without terms, to the first keys and values that are kept.
    fn attend_kept<T: Real>(
        &self,
        shape: &Shape,
        queries_and_kept: (Part<'_, Self::Buffer<T>>, &Self::Kept<T>),
        mask: &Mask,
        scale: Option<f64>,
        out: &mut Self::Buffer<T>,
        scratch: &Self::Scratch<T>,
    ) -> Result<()>;

    /// What is kept of some of its texts, in this order; one may come more than once.
    fn pick_kept<T: Real>(&self, kept: &Self::Kept<T>, texts: &[usize]) -> Result<Self::Kept<T>>;

    /// [`attend`](Self::attend) where queries and keys that are `from` places apart or more meet as others, `far`, and those that are
    /// nearer as they are: one softmax over both. Of the terms it has a scale and a cap.
    #[expect(clippy::too_many_arguments, reason = "those of `attend` and two more")]
    fn attend_far<T: Real>(
        &self,
        _shape: &Shape,
        _qkv: [Part<'_, Self::Buffer<T>>; 3],
        _far: [Part<'_, Self::Buffer<T>>; 2],
        _from: usize,
        _mask: &Mask,
        _terms: &Terms<'_, Self::Buffer<T>>,
        _out: &mut Self::Buffer<T>,
        _scratch: &Self::Scratch<T>,
    ) -> Result<()> {
        Err(Error::Device("the encoding extend has no form for this device; use the CPU".into()))
    }

    /// Rotates heads in place, from `offset` on, by a table of listed positions, which has a row for each token of a text.
    fn rotate_rows<T: Real>(
        &self,
        _table: &Table<T>,
        _x: &mut Self::Buffer<T>,
        _offset: usize,
        _shape: [usize; 4],
        _steps: [usize; 3],
    ) -> Result<()> {
        Err(Error::Device("the encoding extend has no form for this device; use the CPU".into()))
    }

    /// Linear attention over queries, keys and values side by side, `[batch · length, 3 · heads · head_dim]`, not rotated
    /// yet: out `[batch · length, heads · head_dim]`. With turns `[batch · length, heads · features]` queries and keys turn by those
    /// ([`turn`](Self::turn)) in place of the work's rotation. With a state the tokens follow those that it knows, and join them.
    fn attend_linear<T: Real>(
        &self,
        work: &LinearWork<'_, T>,
        joined: &Self::Buffer<T>,
        turns: Option<&Self::Buffer<T>>,
        state: Option<&mut Self::State<T>>,
        out: &mut Self::Buffer<T>,
    ) -> Result<()>;

    /// What linear attention knows of no tokens yet; the size is `[batch, heads, head_dim]`.
    fn state<T: Real>(&self, form: LinearForm, size: [usize; 3]) -> Result<Self::State<T>>;

    /// The state of some of its texts, in this order; one may come more than once.
    fn pick_state<T: Real>(&self, state: &Self::State<T>, texts: &[usize]) -> Result<Self::State<T>>;

    /// Copies `[batch, tokens, width]` from one buffer into another: there from an offset on, with steps from token to token
    /// and from sequence to sequence.
    fn copy<T: Real>(
        &self,
        from: Part<'_, Self::Buffer<T>>,
        to: &mut Self::Buffer<T>,
        at: (usize, usize, usize),
        size: [usize; 3],
    ) -> Result<()>;

    /// Row i of out `[rows, width]` = row `rows[i]` of `from` `[…, width]`.
    fn gather<T: Real>(
        &self,
        from: &Self::Buffer<T>,
        rows: &[u32],
        width: usize,
        out: &mut Self::Buffer<T>,
    ) -> Result<()> {
        for (index, &row) in rows.iter().enumerate() {
            let part = Part { buffer: from, offset: row as usize * width, token: width, sequence: width };
            self.copy(part, out, (index * width, width, width), [1, 1, width])?;
        }
        Ok(())
    }

    /// Sums over tokens, `[batch, length, heads]`, of what gates make of `read` `[batch, length, heads]`: into `sums`, where a token has
    /// 2 · heads numbers, its sums and what rounding left of them. They go on from the token before, where there is one.
    fn accumulate<T: Real>(
        &self,
        _gate: Gate,
        _read: &Self::Buffer<T>,
        _sums: &mut Self::Buffer<T>,
        _work: &Accumulate,
    ) -> Result<()> {
        Err(Error::Device("the encoding forget has no form for this device; use the CPU".into()))
    }

    /// Queries, keys and values side by side, `[tokens, (heads + 2 · key_heads) · head_dim]`, each feature as a pair: magnitude and
    /// 0 of queries, a magnitude at its phase of keys, the number and 0 of values ([`Builder::polar`](crate::graph::Builder::polar)).
    fn polar<T: Real>(
        &self,
        _joined: &Self::Buffer<T>,
        _phases: Option<&Self::Buffer<T>>,
        _work: Polar,
        _out: &mut Self::Buffer<T>,
    ) -> Result<()> {
        Err(Error::Device("the encoding pope has no form for this device; use the CPU".into()))
    }

    /// The first number of each pair: x `[…, 2 · n]`, out `[…, n]`.
    fn firsts<T: Real>(&self, _x: &Self::Buffer<T>, _out: &mut Self::Buffer<T>) -> Result<()> {
        Err(Error::Device("the encoding pope has no form for this device; use the CPU".into()))
    }

    /// (cos, sin) of angles that sum up over tokens, out `[batch · length, 2 · n]`, where z `[batch · length, n]` says how far each token turns
    /// each pair ([`Builder::sum_angles`](crate::graph::Builder::sum_angles)). They go on from those of `kept` `[batch, n, 2]`, which are
    /// then those of the last token; from 0 where nothing is kept.
    fn sum_angles<T: Real>(
        &self,
        _angles: &Angles,
        _z: &Self::Buffer<T>,
        _kept: Option<&mut Self::Buffer<T>>,
        _batch: usize,
        _out: &mut Self::Buffer<T>,
    ) -> Result<()> {
        Err(Error::Device("the encoding selective has no form for this device; use the CPU".into()))
    }

    /// Turns heads of x `[tokens, step]` in place by (c, s) of each token, `[tokens, key_heads · head_dim]`.
    fn turn<T: Real>(
        &self,
        _turns: &Self::Buffer<T>,
        _x: &mut Self::Buffer<T>,
        _heads: TurnedHeads,
    ) -> Result<()> {
        Err(Error::Device(
            "the encodings selective, fope and axial have no form for this device; use the CPU".into(),
        ))
    }

    /// x ← x + rows: token i of x `[tokens, width]` gets row `named[i]` of `rows` `[…, width]`, by the places of digits or of tokens in
    /// texts that lie one behind the other.
    fn add_named_rows<T: Real>(
        &self,
        _x: &mut Self::Buffer<T>,
        _rows: &Self::Buffer<T>,
        _named: &[u32],
        _width: usize,
    ) -> Result<()> {
        Err(Error::Device(
            "the encodings abacus and coupled have no form for this device; use the CPU".into(),
        ))
    }

    /// out `[batch, width]` = the mean over the tokens of x `[batch, tokens, width]`.
    fn mean<T: Real>(&self, x: &Self::Buffer<T>, size: [usize; 3], out: &mut Self::Buffer<T>) -> Result<()>;

    /// Copies back what [`pool`](crate::ops::pool::pool) makes of spans of the rows of x `[…, width]`, `[spans, width]`, and no row itself.
    fn pool<T: Real>(&self, x: &Self::Buffer<T>, width: usize, spans: &[Span]) -> Result<Vec<T>>;
}

/// The terms of an attention, on a device: those of [`attention::Terms`](crate::attention::Terms). The default has none.
#[derive(Debug)]
pub struct Terms<'a, M> {
    /// The factor of scores; 1/√head_dim if there is none.
    pub scale: Option<f64>,
    /// c: scores become c·tanh(s/c).
    pub cap: Option<f64>,
    /// u `[heads, head_dim]`
    pub content: Option<&'a M>,
    /// v `[heads, head_dim]`
    pub position: Option<&'a M>,
    /// b `[heads, rows]`
    pub bias: Option<TermRows<'a, M>>,
    /// R `[rows, heads or 1, head_dim]`
    pub query: Option<TermRows<'a, M>>,
    /// R′
    pub key: Option<TermRows<'a, M>>,
    /// V
    pub value: Option<TermRows<'a, M>>,
    /// E, with z and c.
    pub segments: Option<TermSegments<'a, M>>,
    /// B `[heads, places, places]`, and how many places there are.
    pub pairs: Option<(&'a M, usize)>,
    /// g: one number for each token and head, `[batch, keys, heads]`.
    pub gate: Option<Part<'a, M>>,
    /// C `[rows, head_dim]`
    pub counted: Option<&'a M>,
    /// The maps of tokens: w `[batch, keys, key_heads, head_dim]` and z `[batch, keys, key_heads]`.
    pub path: Option<[Part<'a, M>; 2]>,
}

/// Vectors that queries meet by whether a key is of their segment: as [`Segments`](crate::attention::Segments).
#[derive(Debug)]
pub struct TermSegments<'a, M> {
    /// z `[heads, head_dim]`
    pub query: &'a M,
    /// E `[2, heads, head_dim]`
    pub vectors: &'a M,
    /// c `[batch, keys]`
    pub ids: &'a [u32],
}

/// Rows of a table, chosen by the distance.
#[derive(Debug)]
pub struct TermRows<'a, M> {
    /// Row by row.
    pub values: &'a M,
    /// Numbers of a row.
    pub width: usize,
    /// `[queries + keys − 1]`: the row for each distance, as in [`Table::index`](crate::attention::Table::index).
    pub index: &'a [u32],
}

impl<M> Default for Terms<'_, M> {
    fn default() -> Self {
        Terms {
            scale: None,
            cap: None,
            content: None,
            position: None,
            bias: None,
            query: None,
            key: None,
            value: None,
            segments: None,
            pairs: None,
            gate: None,
            counted: None,
            path: None,
        }
    }
}

impl<M> Terms<'_, M> {
    /// Whether there is none but a factor of scores, so that an attention is the plain one.
    pub fn is_empty(&self) -> bool {
        let Terms { scale: _, cap, content, position, bias, query, key, value, segments, .. } = self;
        let Terms { pairs, gate, counted, path, .. } = self;
        let tables = [bias, query, key, value];
        cap.is_none()
            && content.is_none()
            && position.is_none()
            && segments.is_none()
            && pairs.is_none()
            && gate.is_none()
            && counted.is_none()
            && path.is_none()
            && tables.iter().all(|table| table.is_none())
    }
}

/// Where sums over tokens stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulate {
    /// Texts.
    pub batch: usize,
    /// New tokens of a text.
    pub length: usize,
    /// Heads.
    pub heads: usize,
    /// Tokens of a text before those.
    pub past: usize,
    /// Tokens of a text that there is room for.
    pub capacity: usize,
}

/// Heads in rows: in each row of `step` numbers, from `offset` on, `heads` vectors side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRows {
    /// From row to row.
    pub step: usize,
    /// The first number of the first head.
    pub offset: usize,
    /// How many heads there are.
    pub heads: usize,
}

/// What linear attention is told besides its queries, keys and values.
pub struct LinearWork<'a, T> {
    /// The feature maps, and when rotation comes.
    pub form: LinearForm,
    /// Texts.
    pub batch: usize,
    /// Tokens of a text.
    pub length: usize,
    /// Heads.
    pub heads: usize,
    /// Features of a head, before the feature maps.
    pub head_dim: usize,
    /// Whether a token sees only what came before.
    pub is_causal: bool,
    /// Which tokens are real, `[batch, length]`; all if absent.
    pub mask: Option<&'a [bool]>,
    /// The tables of queries and of keys, and whether values are rotated too.
    pub rotation: Option<(&'a Table<T>, &'a Table<T>, bool)>,
    /// The position of the first token.
    pub first: i64,
}

/// Vectors in a buffer: from `offset` on, `token` numbers from one token to the next and `sequence` to the next sequence.
#[derive(Debug)]
pub struct Part<'a, M> {
    /// The buffer.
    pub buffer: &'a M,
    /// The first number.
    pub offset: usize,
    /// From token to token.
    pub token: usize,
    /// From sequence to sequence.
    pub sequence: usize,
}

impl<M> Clone for Part<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Part<'_, M> {}
