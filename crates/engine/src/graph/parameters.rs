//! The flat buffer of parameters: what is where, under which name, and what it is at first.

use crate::ops::{Real, dropout};
use std::ops::Range;

/// A range of the flat buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    start: usize,
    len: usize,
}

impl Parameter {
    /// Where it is.
    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// What a tensor is at first.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// Normal numbers with this standard deviation.
    Normal(f64),
    /// The same number everywhere.
    Constant(f64),
    /// These numbers.
    Given(Vec<f64>),
}

/// A named tensor in the flat buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name in a checkpoint.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where it is.
    pub range: Range<usize>,
    /// What it is at first.
    pub init: Init,
    /// Whether it goes on where the one before it ends, both being parts of one parameter.
    pub(crate) is_joined: bool,
}

impl Entry {
    /// Whether weight decay is usually applied: to matrices, not to biases and norms.
    pub fn is_matrix(&self) -> bool {
        self.shape.len() > 1
    }
}

/// All tensors, in the order of the flat buffer.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    entries: Vec<Entry>,
    /// Second names, and what they stand for.
    others: Vec<(String, Parameter)>,
}

impl Parameters {
    /// Adds a tensor at the end.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize], init: Init) -> Parameter {
        let (start, len) = (self.len(), shape.iter().product());
        let range = start..start + len;
        self.entries.push(Entry { name: name.into(), shape: shape.into(), range, init, is_joined: false });
        Parameter { start, len }
    }

    /// Adds tensors `[rows, inputs]` (or `[rows]`, where `inputs` is `None`), one below the other, as one parameter.
    pub fn add_joined(&mut self, parts: &[(String, usize)], inputs: Option<usize>, init: &Init) -> Parameter {
        let (start, first) = (self.len(), self.entries.len());
        for (name, rows) in parts {
            let shape: Vec<usize> = std::iter::once(*rows).chain(inputs).collect();
            self.add(name.clone(), &shape, init.clone());
        }
        self.entries.iter_mut().skip(first + 1).for_each(|entry| entry.is_joined = true);
        Parameter { start, len: self.len() - start }
    }

    /// Gives a tensor another name, where there is one of this name.
    pub fn rename(&mut self, from: &str, to: &str) {
        self.entries.iter_mut().filter(|entry| entry.name == from).for_each(|entry| entry.name = to.into());
    }

    /// Lets a tensor be found under a second name too: whoever asks by that name shares it.
    pub fn share(&mut self, name: impl Into<String>, parameter: Parameter) {
        self.others.push((name.into(), parameter));
    }

    /// A tensor by its name, or by a second one.
    pub fn find(&self, name: &str) -> Option<Parameter> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let own = entry.map(|entry| Parameter { start: entry.range.start, len: entry.range.len() });
        let other = || self.others.iter().find(|(other, _)| other == name).map(|&(_, parameter)| parameter);
        own.or_else(other)
    }

    /// Each tensor's place, and whether weight decay is applied to it: to matrices, but not to tables of an encoding, which
    /// mean what they say at any size. Decay would pull frequencies to 0.
    pub fn decaying(&self) -> Vec<(Range<usize>, bool)> {
        let decays = |entry: &Entry| entry.is_matrix() && !entry.name.starts_with("position.");
        self.entries.iter().map(|entry| (entry.range.clone(), decays(entry))).collect()
    }

    /// The numbers of all tensors.
    pub fn len(&self) -> usize {
        self.entries.last().map_or(0, |entry| entry.range.end)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All tensors.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Sets every tensor to what it is at first. Its numbers depend on the seed, its name and its shape alone: two models
    /// have the same where they have a tensor in common.
    pub fn initialise<T: Real>(&self, seed: u64, out: &mut [T]) {
        for entry in &self.entries {
            let out = &mut out[entry.range.clone()];
            match &entry.init {
                Init::Constant(value) => out.fill(T::of(*value)),
                Init::Given(values) => {
                    out.iter_mut().zip(values).for_each(|(out, &value)| *out = T::of(value))
                }
                Init::Normal(deviation) => {
                    let name = entry.name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
                    });
                    let state = mix(mix(seed) ^ name);
                    for (index, out) in out.iter_mut().enumerate() {
                        *out = T::of(deviation * normal(state, index as u64));
                    }
                }
            }
        }
    }
}

/// What SplitMix64 gives next after a state: well mixed bits from any number.
#[inline]
pub fn mix(state: u64) -> u64 {
    dropout::mix(state.wrapping_add(dropout::GAMMA))
}

/// A normal number from a state and an index: Box and Muller's, of two uniform ones.
pub fn normal(state: u64, index: u64) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (a, b) = (unit(mix(state ^ (2 * index))), unit(mix(state ^ (2 * index + 1))));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}
