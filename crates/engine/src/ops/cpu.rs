//! The operations on the CPU: each is a loop of this folder, over the threads of the current rayon pool.

use super::backend::{Accumulate, Backend, HeadRows, LinearWork, Part, TermRows, Terms};
use super::embedding;
use super::memory::filled;
use super::reduce::PARALLEL;
use super::{Activation, Memory, Precision, Real, Span, Weight, Words, pool};
use crate::attention::kept::{Kept, KeptSize};
use crate::attention::linear::Carried;
use crate::attention::softmax::{self, Heads, Mask, Shape};
use crate::attention::{self, Attention, Bias, Path, merge};
use crate::error::{Error, Result, WORK};
use crate::graph::{Angles, Gate, LinearForm, Polar, TurnedHeads};
use rayon::prelude::*;
use rope::{Positions, Table, Turn, ViewMut};
use std::sync::{Mutex, PoisonError};

/// The CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// What weights, and what they are multiplied with, are kept in.
    pub precision: Precision,
}

/// There is not as much memory as was asked for.
const MEMORY: Error = Error::Memory { what: WORK };

/// Memory that attentions need for themselves: without position terms, and with them.
pub struct Scratch<T> {
    plain: softmax::Workspace<T>,
    terms: Mutex<Option<attention::Workspace<T>>>,
}

/// A device whose memory and arithmetic are the CPU's: [`Cpu`], and [`Watched`](super::Watched), which looks at what attention
/// is given before it runs.
pub trait OnCpu: Send + Sync {
    /// What weights, and what they are multiplied with, are kept in.
    fn precision(&self) -> Precision {
        Precision::F32
    }

    /// Whether attention is given texts one behind the other where they can be: not where somebody looks at what it is given.
    fn packs_texts(&self) -> bool {
        false
    }

    /// Before an attention: its queries, keys, mask and position terms.
    fn before_attend<T: Real>(
        &self,
        _shape: &Shape,
        _queries_and_keys: [Part<'_, Memory<T>>; 2],
        _mask: &Mask,
        _terms: &Terms<'_, Memory<T>>,
    ) {
    }

    /// The same where queries and keys that are so many places apart or more meet as others.
    fn before_attend_far<T: Real>(
        &self,
        _shape: &Shape,
        _queries_and_keys: [Part<'_, Memory<T>>; 2],
        _far: ([Part<'_, Memory<T>>; 2], usize),
        _mask: &Mask,
        _terms: &Terms<'_, Memory<T>>,
    ) {
    }

    /// Before a linear attention that follows no tokens: its queries, keys and values side by side, and what they turn by.
    fn before_attend_linear<T: Real>(
        &self,
        _work: &LinearWork<'_, T>,
        _joined: &Memory<T>,
        _turns: Option<&[T]>,
    ) -> Result<()> {
        Ok(())
    }
}

impl OnCpu for Cpu {
    fn precision(&self) -> Precision {
        self.precision
    }

    fn packs_texts(&self) -> bool {
        true
    }
}

impl<D: OnCpu> Backend for D {
    type Buffer<T: Real> = Memory<T>;
    type Matrix<T: Real> = Weight<T>;
    type Words<T: Real> = Words<T>;
    type Scratch<T: Real> = Scratch<T>;
    type State<T: Real> = Carried<T>;
    type Kept<T: Real> = Kept;

    fn zeros<T: Real>(&self, len: usize) -> Result<Memory<T>> {
        Memory::zeros(len).ok_or(MEMORY)
    }

    fn fit<T: Real>(&self, buffer: &mut Memory<T>, len: usize) -> Result<()> {
        buffer.fit(len).then_some(()).ok_or(MEMORY)
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        rayon::scope(|_| work())
    }

    fn packs_texts(&self) -> bool {
        OnCpu::packs_texts(self)
    }

    fn upload<T: Real>(&self, from: &[T], to: &mut Memory<T>) -> Result<()> {
        to.copy_from_slice(from);
        Ok(())
    }

    fn download<T: Real>(&self, from: &Memory<T>, to: &mut [T]) -> Result<()> {
        to.copy_from_slice(from);
        Ok(())
    }

    fn matrix<T: Real>(&self, outputs: usize, inputs: usize) -> Result<Weight<T>> {
        Weight::zeros(self.precision(), outputs, inputs).ok_or(MEMORY)
    }

    fn set_rows<T: Real>(&self, matrix: &mut Weight<T>, first: usize, rows: &[T]) -> Result<()> {
        matrix.set_rows(first, rows);
        Ok(())
    }

    fn set_bias<T: Real>(&self, matrix: &mut Weight<T>, first: usize, bias: &[T]) -> Result<()> {
        matrix.set_bias(first, bias);
        Ok(())
    }

    fn matrix_bytes<T: Real>(&self, matrix: &Weight<T>) -> usize {
        matrix.bytes()
    }

    fn words<T: Real>(&self, rows: usize, width: usize) -> Result<Words<T>> {
        Words::zeros(self.precision(), rows, width).ok_or(MEMORY)
    }

    fn set_words<T: Real>(&self, words: &mut Words<T>, first: usize, numbers: &[T]) -> Result<()> {
        words.set(first, numbers);
        Ok(())
    }

    fn scratch<T: Real>(&self) -> Result<Scratch<T>> {
        let plain = softmax::Workspace::with(self.precision()).ok_or(MEMORY)?;
        Ok(Scratch { plain, terms: Mutex::new(None) })
    }

    fn product<T: Real>(
        &self,
        matrix: &Weight<T>,
        x: &Memory<T>,
        activation: Activation,
        out: &mut Memory<T>,
    ) -> Result<()> {
        matrix.apply(x, out, activation).then_some(()).ok_or(MEMORY)
    }

    fn layer_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        residual: Option<&Memory<T>>,
        weight: &Memory<T>,
        bias: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        T::layer_norm(x, residual.map_or(&[], |residual| residual), weight, bias, epsilon);
        Ok(())
    }

    fn rms_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        residual: Option<&Memory<T>>,
        weight: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        T::rms_norm(x, residual.map_or(&[], |residual| residual), weight, epsilon);
        Ok(())
    }

    fn add_norm<T: Real>(
        &self,
        x: &mut Memory<T>,
        delta: Option<&Memory<T>>,
        weight: &Memory<T>,
        bias: Option<&Memory<T>>,
        epsilon: f64,
        out: &mut Memory<T>,
    ) -> Result<()> {
        T::add_norm(x, delta.map_or(&[], |delta| delta), weight, bias.map(|bias| &bias[..]), epsilon, out);
        Ok(())
    }

    fn rms_norm_heads<T: Real>(
        &self,
        x: &mut Memory<T>,
        heads: HeadRows,
        weight: &Memory<T>,
        epsilon: f64,
    ) -> Result<()> {
        T::rms_norm_heads(x, heads, weight, epsilon);
        Ok(())
    }

    fn gate<T: Real>(
        &self,
        gate_up: &Memory<T>,
        wide: usize,
        activation: Activation,
        out: &mut Memory<T>,
    ) -> Result<()> {
        T::gate(gate_up, wide, activation, out);
        Ok(())
    }

    fn embed<T: Real>(
        &self,
        (words, ids): (&Words<T>, &[u32]),
        (kinds, types): (&Memory<T>, Option<&[u32]>),
        width: usize,
        out: &mut Memory<T>,
    ) -> Result<()> {
        let row = |(index, (row, &id)): (usize, (&mut [T], &u32))| {
            let kind = types.map_or(0, |types| types[index]) as usize;
            words.read(id as usize * width, row);
            row.iter_mut().zip(&kinds[kind * width..]).for_each(|(x, kind)| *x += *kind);
        };
        match out.len() >= PARALLEL {
            true => out.par_chunks_exact_mut(width).zip(ids).enumerate().with_min_len(8).for_each(row),
            false => out.chunks_exact_mut(width).zip(ids).enumerate().for_each(row),
        }
        Ok(())
    }

    fn add_rows<T: Real>(
        &self,
        x: &mut Memory<T>,
        rows: &Memory<T>,
        first: usize,
        [batch, length, width]: [usize; 3],
    ) -> Result<()> {
        let rows = &rows[first * width..][..length * width];
        for x in x[..batch * length * width].chunks_exact_mut(length * width) {
            x.iter_mut().zip(rows).for_each(|(x, row)| *x += *row);
        }
        Ok(())
    }

    fn rotate<T: Real>(
        &self,
        table: &Table<T>,
        first: i64,
        x: &mut Memory<T>,
        offset: usize,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()> {
        let mut view = ViewMut::strided(&mut x[offset..], shape, steps)?;
        Ok(table.at(Positions::From(first))?.rotate(Turn::Forward, &mut view)?)
    }

    fn attend<T: Real>(
        &self,
        shape: &Shape,
        [q, k, v]: [Part<'_, Memory<T>>; 3],
        mask: &Mask,
        terms: &Terms<'_, Memory<T>>,
        out: &mut Memory<T>,
        scratch: &Scratch<T>,
    ) -> Result<()> {
        self.before_attend(shape, [q, k], mask, terms);
        let (q, k, v) = (heads(q), heads(k), heads(v));
        if terms.is_empty() {
            let is_done = T::attend(shape, (q, k, v), mask, terms.scale, out, &scratch.plain);
            return is_done.then_some(()).ok_or(MEMORY);
        }
        let mut kept = scratch.terms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut workspace = kept.take().or_else(attention::Workspace::new).ok_or(MEMORY)?;
        let mut lse = filled(shape.batch * shape.queries * shape.heads, T::ZERO).ok_or(MEMORY)?;
        let terms = host_terms(terms, shape.head_dim);
        let attention = Attention { shape: *shape, q, k, v, mask: *mask, terms, dropout: None };
        let is_done = T::attend_with_terms(&attention, out, &mut lse, &mut workspace);
        *kept = Some(workspace);
        is_done.then_some(()).ok_or(MEMORY)
    }

    fn kept<T: Real>(&self, size: KeptSize) -> Result<Option<Kept>> {
        Kept::is_for::<T>(self.precision()).then(|| Kept::new(size).ok_or(MEMORY)).transpose()
    }

    fn append<T: Real>(
        &self,
        keys_and_values: [Part<'_, Memory<T>>; 2],
        kept: &mut Kept,
        first: usize,
        count: usize,
    ) -> Result<()> {
        kept.append(keys_and_values.map(heads), first, count);
        Ok(())
    }

    fn attend_kept<T: Real>(
        &self,
        shape: &Shape,
        (q, kept): (Part<'_, Memory<T>>, &Kept),
        mask: &Mask,
        scale: Option<f64>,
        out: &mut Memory<T>,
        scratch: &Scratch<T>,
    ) -> Result<()> {
        let KeptSize { batch, capacity, key_heads, head_dim } = kept.size();
        let is_its = (batch, key_heads, head_dim) == (shape.batch, shape.key_heads, shape.head_dim);
        if !is_its || shape.keys > capacity || !Kept::is_for::<T>(self.precision()) {
            let expected = "those that this model kept, in its precision";
            return Err(Error::input("the keys and values", "of another model", expected));
        }
        T::attend_kept(shape, (heads(q), kept), mask, scale, out, &scratch.plain).then_some(()).ok_or(MEMORY)
    }

    fn pick_kept<T: Real>(&self, kept: &Kept, texts: &[usize]) -> Result<Kept> {
        kept.pick(texts).ok_or(MEMORY)
    }

    fn attend_far<T: Real>(
        &self,
        shape: &Shape,
        [q, k, v]: [Part<'_, Memory<T>>; 3],
        far: [Part<'_, Memory<T>>; 2],
        from: usize,
        mask: &Mask,
        terms: &Terms<'_, Memory<T>>,
        out: &mut Memory<T>,
        scratch: &Scratch<T>,
    ) -> Result<()> {
        self.before_attend_far(shape, [q, k], (far, from), mask, terms);
        let terms = attention::Terms { scale: terms.scale, cap: terms.cap, ..attention::Terms::default() };
        let window = mask.window.map_or(from, |window| window.min(from));
        let near = Mask { window: Some(window), ..*mask };
        let (q, k, v, [far_q, far_k]) = (heads(q), heads(k), heads(v), far.map(heads));
        let near = Attention { shape: *shape, q, k, v, mask: near, terms, dropout: None };
        let far = Attention { q: far_q, k: far_k, mask: Mask { beyond: Some(from), ..*mask }, ..near };
        let mut kept = scratch.terms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut workspace = kept.take().or_else(attention::Workspace::new).ok_or(MEMORY)?;
        let sums = || filled(shape.batch * shape.queries * shape.heads, T::ZERO).ok_or(MEMORY);
        let (mut lse, mut far_lse) = (sums()?, sums()?);
        let mut far_out = filled(out.len(), T::ZERO).ok_or(MEMORY)?;
        let is_done = T::attend_with_terms(&near, out, &mut lse, &mut workspace)
            && T::attend_with_terms(&far, &mut far_out, &mut far_lse, &mut workspace);
        *kept = Some(workspace);
        merge((out, &mut lse), (&far_out, &far_lse), shape.head_dim);
        is_done.then_some(()).ok_or(MEMORY)
    }

    fn rotate_rows<T: Real>(
        &self,
        table: &Table<T>,
        x: &mut Memory<T>,
        offset: usize,
        shape: [usize; 4],
        steps: [usize; 3],
    ) -> Result<()> {
        let mut view = ViewMut::strided(&mut x[offset..], shape, steps)?;
        Ok(table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?)
    }

    fn attend_linear<T: Real>(
        &self,
        work: &LinearWork<'_, T>,
        joined: &Memory<T>,
        turns: Option<&Memory<T>>,
        state: Option<&mut Carried<T>>,
        out: &mut Memory<T>,
    ) -> Result<()> {
        let turns = turns.map(|turns| &turns[..]);
        if state.is_none() {
            self.before_attend_linear(work, joined, turns)?;
        }
        T::attend_linear(work, (joined, turns), state, out)
    }

    fn state<T: Real>(&self, form: LinearForm, size: [usize; 3]) -> Result<Carried<T>> {
        Carried::new(form.queries, size)
    }

    fn pick_state<T: Real>(&self, state: &Carried<T>, texts: &[usize]) -> Result<Carried<T>> {
        state.pick(texts)
    }

    fn copy<T: Real>(
        &self,
        from: Part<'_, Memory<T>>,
        to: &mut Memory<T>,
        (offset, token, sequence): (usize, usize, usize),
        [batch, tokens, width]: [usize; 3],
    ) -> Result<()> {
        for b in 0..batch {
            for t in 0..tokens {
                let source = &from.buffer[from.offset + b * from.sequence + t * from.token..][..width];
                to[offset + b * sequence + t * token..][..width].copy_from_slice(source);
            }
        }
        Ok(())
    }

    fn accumulate<T: Real>(
        &self,
        gate: Gate,
        read: &Memory<T>,
        sums: &mut Memory<T>,
        work: &Accumulate,
    ) -> Result<()> {
        let Accumulate { batch, length, heads, past, capacity } = *work;
        for (sequence, read) in read[..batch * length * heads].chunks_exact(length * heads).enumerate() {
            let rows = &mut sums[sequence * capacity * 2 * heads..][..capacity * 2 * heads];
            for head in 0..heads {
                let before = past.checked_sub(1).map(|token| token * 2 * heads + head);
                let mut sum = before.map_or(0.0, |at| rows[at].to_f64() + rows[at + heads].to_f64());
                for (token, row) in rows.chunks_exact_mut(2 * heads).enumerate().skip(past).take(length) {
                    sum += gate.of(read[(token - past) * heads + head].to_f64());
                    row[head] = T::of(sum);
                    row[heads + head] = T::of(sum - row[head].to_f64());
                }
            }
        }
        Ok(())
    }

    fn polar<T: Real>(
        &self,
        joined: &Memory<T>,
        phases: Option<&Memory<T>>,
        work: Polar,
        out: &mut Memory<T>,
    ) -> Result<()> {
        work.forward(joined, phases.map(|phases| &phases[..]), out);
        Ok(())
    }

    fn firsts<T: Real>(&self, x: &Memory<T>, out: &mut Memory<T>) -> Result<()> {
        out.iter_mut().zip(x.iter().step_by(2)).for_each(|(out, &x)| *out = x);
        Ok(())
    }

    fn sum_angles<T: Real>(
        &self,
        angles: &Angles,
        z: &Memory<T>,
        kept: Option<&mut Memory<T>>,
        batch: usize,
        out: &mut Memory<T>,
    ) -> Result<()> {
        T::sum_angles(angles, z, kept.map(|kept| &mut kept[..]), batch, out)
    }

    fn turn<T: Real>(&self, turns: &Memory<T>, x: &mut Memory<T>, heads: TurnedHeads) -> Result<()> {
        T::turn(&heads, turns, x);
        Ok(())
    }

    fn add_named_rows<T: Real>(
        &self,
        x: &mut Memory<T>,
        rows: &Memory<T>,
        named: &[u32],
        width: usize,
    ) -> Result<()> {
        embedding::gather(rows, named, width, &mut x[..named.len() * width], true);
        Ok(())
    }

    fn pool<T: Real>(&self, x: &Memory<T>, width: usize, spans: &[Span]) -> Result<Vec<T>> {
        pool::pool(x, width, spans).ok_or(MEMORY)
    }

    fn mean<T: Real>(
        &self,
        x: &Memory<T>,
        [batch, tokens, width]: [usize; 3],
        out: &mut Memory<T>,
    ) -> Result<()> {
        let scale = T::ONE / T::of(tokens as f64);
        for b in 0..batch {
            let out = &mut out[b * width..][..width];
            out.fill(T::ZERO);
            for t in 0..tokens {
                let row = &x[(b * tokens + t) * width..][..width];
                out.iter_mut().zip(row).for_each(|(out, x)| *out += *x);
            }
            out.iter_mut().for_each(|out| *out *= scale);
        }
        Ok(())
    }
}

/// Vectors of heads in memory.
fn heads<T>(part: Part<'_, Memory<T>>) -> Heads<'_, T> {
    Heads { data: &part.buffer[part.offset..], token: part.token, sequence: part.sequence }
}

/// Position terms as the CPU's attention takes them.
pub(super) fn host_terms<'a, T: Real>(
    terms: &Terms<'a, Memory<T>>,
    head_dim: usize,
) -> attention::Terms<'a, T> {
    let table = |rows: &Option<TermRows<'a, Memory<T>>>| {
        rows.as_ref().map(|rows| attention::Table {
            values: rows.values,
            heads: rows.width / head_dim,
            index: rows.index,
        })
    };
    attention::Terms {
        scale: terms.scale,
        cap: terms.cap,
        content: terms.content.map(|vector| &**vector),
        position: terms.position.map(|vector| &**vector),
        bias: terms.bias.as_ref().map(|rows| Bias { values: rows.values, index: rows.index }),
        query: table(&terms.query),
        key: table(&terms.key),
        value: table(&terms.value),
        segments: terms.segments.as_ref().map(|own| attention::Segments {
            query: own.query,
            vectors: own.vectors,
            ids: own.ids,
        }),
        pairs: terms.pairs.map(|(values, places)| attention::Pairs { values, places }),
        gate: terms.gate.map(heads),
        counted: terms.counted.map(|table| &**table),
        path: terms.path.map(|[w, z]| Path { w: heads(w), z: heads(z) }),
    }
}
