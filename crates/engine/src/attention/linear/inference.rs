//! Linear attention of a model that runs: from joined queries, keys and values to results, at once or token after token.

use super::{Inputs, Options, Shape, Shift, State, Workspace, attend};
use crate::error::{Error, Result};
use crate::graph::{FeatureMap, TurnedHeads};
use crate::ops::{LinearWork, Real};
use rope::{Positions, Table, Turn, ViewMut};

/// What linear attention knows of the tokens so far.
pub struct Carried<T> {
    state: State<T>,
    /// `[batch, heads]`: what was subtracted from the exponents of keys so far; −∞ before the first.
    shifts: Vec<T>,
}

impl<T: Real> Carried<T> {
    /// Before the first token.
    pub fn new(queries: FeatureMap, [batch, heads, head_dim]: [usize; 3]) -> Result<Self> {
        let features = queries.features(head_dim);
        let shape = Shape { batch, length: 0, heads, features, value_dim: head_dim };
        let state = State::new(&shape).ok_or(Error::Memory { what: "the cache" })?;
        Ok(Carried { state, shifts: vec![T::NEG_INFINITY; batch * heads] })
    }

    /// The state of some of its texts, in this order; one may come more than once.
    pub fn pick(&self, texts: &[usize]) -> Result<Self> {
        let state = self.state.pick(texts).ok_or(Error::Memory { what: "the cache" })?;
        let heads = state.heads();
        let shifts = texts.iter().flat_map(|text| &self.shifts[text * heads..][..heads]).copied().collect();
        Ok(Carried { state, shifts })
    }
}

/// Queries and keys of the numerator and of the denominator, and values: each without gaps.
pub(crate) struct Features<T> {
    pub queries: [Vec<T>; 2],
    pub keys: [Vec<T>; 2],
    pub values: Vec<T>,
    shape: Shape,
}

impl<T: Real> Features<T> {
    /// Of joined queries, keys and values `[batch · length, 3 · heads · head_dim]`, which turn by the work's rotation or by turns
    /// `[batch · length, heads · features]`; keys join those of a state.
    pub fn new(
        work: &LinearWork<T>,
        (joined, turns): (&[T], Option<&[T]>),
        carried: Option<&mut Carried<T>>,
    ) -> Result<Self> {
        let LinearWork { form, batch, length, heads, head_dim, .. } = *work;
        let width = heads * head_dim;
        let part = |part: usize| -> Vec<T> {
            joined.chunks_exact(3 * width).flat_map(|row| &row[part * width..][..width]).copied().collect()
        };
        let (mut q, mut k, mut v) = (part(0), part(1), part(2));
        let turn = |x: &mut [T], table: &Table<T>, dim: usize| -> Result<()> {
            let steps = [length * heads * dim, heads * dim, dim];
            let mut view = ViewMut::strided(x, [batch, length, heads, dim], steps)?;
            Ok(table.at(Positions::From(work.first))?.rotate(Turn::Forward, &mut view)?)
        };
        // By which tokens turn: queries and keys alike, where it is by what is read.
        let turn_both = |q: &mut [T], k: &mut [T], dim: usize| -> Result<()> {
            if let Some((queries, keys, _)) = work.rotation {
                turn(q, queries, dim)?;
                turn(k, keys, dim)?;
            }
            if let Some(turns) = turns {
                let all =
                    TurnedHeads { step: heads * dim, offset: 0, heads, key_heads: heads, head_dim: dim };
                [q, k].into_iter().for_each(|x| all.forward(turns, x));
            }
            Ok(())
        };
        if form.rotates_before {
            turn_both(&mut q, &mut k, head_dim)?;
        }
        let (sizes, features) = ([batch, length, heads], form.queries.features(head_dim));
        let mut query_features = vec![T::ZERO; batch * length * heads * features];
        let mut key_features = query_features.clone();
        form.queries.map::<T>(head_dim)?.forward(sizes, &q, Shift::Row, &mut query_features);
        let (map, mut shifts) = (form.keys.map::<T>(head_dim)?, vec![T::ZERO; batch * heads]);
        map.forward(sizes, &k, Shift::Largest { keys: work.mask, shifts: &mut shifts }, &mut key_features);
        if let Some(carried) = carried {
            carried.join(&mut shifts);
            map.forward(sizes, &k, Shift::Head(&shifts), &mut key_features);
        }
        let (mut rotated_queries, mut rotated_keys) = (query_features.clone(), key_features.clone());
        if !form.rotates_before {
            turn_both(&mut rotated_queries, &mut rotated_keys, features)?;
        }
        if let Some((queries, _, true)) = work.rotation {
            turn(&mut v, queries, head_dim)?;
        }
        Ok(Features {
            queries: [rotated_queries, query_features],
            keys: [rotated_keys, key_features],
            values: v,
            shape: Shape { batch, length, heads, features, value_dim: head_dim },
        })
    }
}

impl<T: Real> Carried<T> {
    /// Brings what is known and new keys to the same shifts, the larger of both.
    fn join(&mut self, shifts: &mut [T]) {
        let heads = self.state.heads();
        for (task, (old, new)) in self.shifts.iter_mut().zip(shifts).enumerate() {
            *new = new.maximum(*old);
            if *old != T::NEG_INFINITY && *old != *new {
                self.state.rescale(task / heads, task % heads, (*old - *new).exp());
            }
            *old = *new;
        }
    }
}

/// Results `[batch · length, heads · head_dim]` of joined queries, keys and values, and what they turn by where it is given.
pub fn infer<T: Real>(
    work: &LinearWork<T>,
    joined_and_turns: (&[T], Option<&[T]>),
    mut carried: Option<&mut Carried<T>>,
    out: &mut [T],
) -> Result<()> {
    let features = Features::new(work, joined_and_turns, carried.as_deref_mut())?;
    let Features { queries: [qn, qd], keys: [kn, kd], values, shape } = &features;
    let inputs = Inputs { qn, kn, qd, kd, v: values };
    // Features may carry a common factor, which cancels only without an ε.
    let options = Options { causal: work.is_causal, keys: work.mask, eps: 0.0 };
    let none = || Error::Memory { what: "attention" };
    let mut workspace = Workspace::new().ok_or_else(none)?;
    let is_done = match carried {
        Some(carried) => carried.state.extend(work.length, &inputs, &options, out, &mut workspace),
        None => attend(shape, &inputs, &options, out, &mut workspace),
    };
    is_done.then_some(()).ok_or_else(none)
}
