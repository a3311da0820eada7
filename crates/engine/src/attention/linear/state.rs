//! Linear attention as a recurrence: token after token in constant time and memory.

use super::forward::run;
use super::rows::{add, dot, inverse};
use super::workspace::Part;
use super::{Inputs, Options, Shape, Workspace};
use crate::ops::{Memory, Real};
use rayon::prelude::*;

/// What causal linear attention knows of the tokens so far: S = Σ kn_j v_jᵀ and z = Σ kd_j of each head of each sequence. Its
/// size does not depend on how many there were.
pub struct State<T> {
    batch: usize,
    heads: usize,
    features: usize,
    value_dim: usize,
    s: Memory<T>,
    z: Memory<T>,
}

impl<T: Real> State<T> {
    /// Before the first token; the shape's length does not matter. `None` if there is not enough memory.
    pub fn new(shape: &Shape) -> Option<Self> {
        let Shape { batch, heads, features, value_dim, .. } = *shape;
        assert!(heads * features * value_dim > 0, "an attention without heads or features");
        let z = shape.tasks().checked_mul(features)?;
        let s = z.checked_mul(value_dim)?;
        Some(State { batch, heads, features, value_dim, s: Memory::zeros(s)?, z: Memory::zeros(z)? })
    }

    /// S `[batch, heads, features, value_dim]`.
    pub fn s(&self) -> &[T] {
        &self.s
    }

    /// z `[batch, heads, features]`.
    pub fn z(&self) -> &[T] {
        &self.z
    }

    /// Heads of a sequence.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The state of some of its sequences, in this order; one may come more than once. `None` if there is not enough memory.
    pub fn pick(&self, sequences: &[usize]) -> Option<Self> {
        let State { batch, heads, features, value_dim, .. } = *self;
        let mut state = State::new(&Shape { batch: sequences.len(), length: 0, heads, features, value_dim })?;
        for (own, picked) in [(&self.s, &mut state.s), (&self.z, &mut state.z)] {
            let each = own.len() / batch;
            for (picked, sequence) in picked.chunks_exact_mut(each).zip(sequences) {
                picked.copy_from_slice(&own[sequence * each..][..each]);
            }
        }
        Some(state)
    }

    /// Forgets all tokens.
    pub fn reset(&mut self) {
        self.s.fill(T::ZERO);
        self.z.fill(T::ZERO);
    }

    /// Multiplies S and z of one head: as if the features of all its keys so far had been. With a factor e^(old − new) keys
    /// that were shifted by an old maximum join keys shifted by a new one ([`Shift`](super::Shift)).
    pub fn rescale(&mut self, sequence: usize, head: usize, factor: T) {
        assert!(sequence < self.batch && head < self.heads, "a head of this state");
        let task = sequence * self.heads + head;
        let m = self.features;
        let size = m * self.value_dim;
        let numbers = self.s[task * size..][..size].iter_mut().chain(&mut self.z[task * m..][..m]);
        numbers.for_each(|x| *x *= factor);
    }

    /// The next token of every sequence: takes its key and value in, then
    /// out = qnᵀS / (qd·z + eps).
    ///
    /// Inputs and `out` are those of [`attend`](super::attend) with a length of 1: `[batch, 1, heads, ..]`. It is causal
    /// whatever the options say.
    pub fn step(&mut self, inputs: &Inputs<T>, options: &Options, out: &mut [T]) {
        self.shape(1).check(inputs, options, out);
        let (m, e, heads) = (self.features, self.value_dim, self.heads);
        let states = self.s.par_chunks_exact_mut(m * e).zip(self.z.par_chunks_exact_mut(m));
        // A head is a few microseconds of work.
        let tasks = states.zip(out.par_chunks_exact_mut(e)).enumerate().with_min_len(4);
        tasks.for_each(|(task, ((s, z), out))| {
            let row = |width: usize| task * width..(task + 1) * width;
            let (qn, kn) = (&inputs.qn[row(m)], &inputs.kn[row(m)]);
            let (qd, kd) = (&inputs.qd[row(m)], &inputs.kd[row(m)]);
            let value = &inputs.v[row(e)];
            let is_there = options.keys.is_none_or(|keys| keys[task / heads]);
            if is_there {
                add(z, T::ONE, kd);
            }
            out.fill(T::ZERO);
            for ((s, &q), &k) in s.chunks_exact_mut(e).zip(qn).zip(kn) {
                if is_there {
                    add(s, k, value);
                }
                add(out, q, s);
            }
            let scale = inverse(dot(qd, z) + T::of(options.eps));
            out.iter_mut().for_each(|x| *x *= scale);
        });
    }

    /// The next `length` tokens of every sequence at once: what [`step`](State::step) gives one by one, but for rounding, at
    /// the speed of [`attend`](super::attend), whose shapes these are. `false` if there was not enough memory.
    #[must_use]
    pub fn extend(
        &mut self,
        length: usize,
        inputs: &Inputs<T>,
        options: &Options,
        out: &mut [T],
        workspace: &mut Workspace<T>,
    ) -> bool {
        let shape = self.shape(length);
        shape.check(inputs, options, out);
        if out.is_empty() {
            return true;
        }
        let Some(part) = workspace.fit(&shape, false) else { return false };
        let (m, e) = (self.features, self.value_dim);
        let memory = &mut workspace.memory[..];
        let states = self.s.chunks_exact_mut(m * e).zip(self.z.chunks_exact_mut(m));
        for (memory, (s, z)) in memory.chunks_exact_mut(part).zip(states) {
            let part = Part::split(&shape, false, memory);
            part.s.copy_from_slice(s);
            part.z.copy_from_slice(z);
        }
        run(&shape, inputs, &Options { causal: true, ..*options }, out, (memory, part));
        let states = self.s.chunks_exact_mut(m * e).zip(self.z.chunks_exact_mut(m));
        for (memory, (s, z)) in memory.chunks_exact_mut(part).zip(states) {
            let part = Part::split(&shape, false, memory);
            s.copy_from_slice(part.s);
            z.copy_from_slice(part.z);
        }
        true
    }

    fn shape(&self, length: usize) -> Shape {
        let State { batch, heads, features, value_dim, .. } = *self;
        Shape { batch, length, heads, features, value_dim }
    }
}
