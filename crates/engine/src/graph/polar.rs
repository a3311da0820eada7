//! Features as magnitudes at phases: each number of a query or a key becomes a pair, whose length is ln(1 + e^x) and whose angle
//! says nothing of what is read (PoPE). A rotation of the pairs then says where it stands.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;
use rayon::prelude::*;

/// Queries, keys and values side by side, as heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polar {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub key_heads: usize,
    /// Features of a head, before they become pairs.
    pub head_dim: usize,
}

/// ln(1 + e^x).
fn magnitude(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl Polar {
    /// Numbers of queries and of keys.
    fn widths(self) -> [usize; 2] {
        [self.heads * self.head_dim, self.key_heads * self.head_dim]
    }

    /// Numbers of a row.
    fn row(self) -> usize {
        (self.heads + 2 * self.key_heads) * self.head_dim
    }

    /// (cos δ, sin δ) of each feature of keys.
    fn turns<T: Real>(self, phases: Option<&[T]>, turns: &mut [(f64, f64)]) {
        for (index, turn) in turns.iter_mut().enumerate() {
            let (sin, cos) = phases.map_or((0.0, 1.0), |phases| phases[index].to_f64().sin_cos());
            *turn = (cos, sin);
        }
    }

    /// `[tokens, (heads + 2 · key_heads) · head_dim]` → twice as wide: of a query (μ, 0), of a key (μ·cos δ, μ·sin δ), of a value
    /// (x, 0), with μ = ln(1 + e^x). δ `[key_heads, head_dim]` is 0 where it is not given.
    pub(crate) fn forward<T: Real>(self, joined: &[T], phases: Option<&[T]>, out: &mut [T]) {
        let mut turns = vec![(1.0, 0.0); self.widths()[1]];
        self.turns(phases, &mut turns);
        self.spread(joined, &turns, out);
    }

    fn spread<T: Real>(self, joined: &[T], turns: &[(f64, f64)], out: &mut [T]) {
        let ([query, key], row) = (self.widths(), self.row());
        let rows = out.par_chunks_exact_mut(2 * row).zip(joined.par_chunks_exact(row));
        rows.for_each(|(out, joined)| {
            for (index, (out, &x)) in out.chunks_exact_mut(2).zip(joined).enumerate() {
                let pair = match index {
                    _ if index < query => (magnitude(x.to_f64()), 0.0),
                    _ if index < query + key => {
                        let (magnitude, (cos, sin)) = (magnitude(x.to_f64()), turns[index - query]);
                        (magnitude * cos, magnitude * sin)
                    }
                    _ => (x.to_f64(), 0.0),
                };
                (out[0], out[1]) = (T::of(pair.0), T::of(pair.1));
            }
        });
    }
}

impl<T: Real> Builder<T> {
    /// Queries, keys and values `[tokens, (heads + 2 · key_heads) · head_dim]` with a pair for each number: that of a query is
    /// (μ, 0), of a key (μ·cos δ, μ·sin δ), of a value (x, 0), with μ = ln(1 + e^x). The phases δ are `[key_heads, head_dim]`.
    pub fn polar(&mut self, joined: Value, phases: Option<Value>, heads: Polar) -> Value {
        let out = self.value(joined.rows, 2 * joined.width);
        let turns = vec![(1.0, 0.0); heads.widths()[1]];
        self.add(Spread { joined, phases, heads, turns, out });
        out
    }

    /// The first number of each pair: x `[rows, 2 · n]` → `[rows, n]`.
    pub fn firsts(&mut self, x: Value) -> Value {
        let out = self.value(x.rows, x.width / 2);
        self.add(Firsts { x, out });
        out
    }
}

pub(super) struct Spread {
    joined: Value,
    phases: Option<Value>,
    heads: Polar,
    /// (cos δ, sin δ), of the last forward pass.
    turns: Vec<(f64, f64)>,
    out: Value,
}

impl<T: Real> Operation<T> for Spread {
    fn forward(&mut self, values: &mut Values<T>) {
        let Spread { joined, phases, heads, turns, out } = self;
        values.write(*out, |values, out| {
            heads.turns(phases.map(|phases| values.get(phases)), turns);
            heads.spread(values.get(*joined), turns, out);
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let ([query, key], row) = (self.heads.widths(), self.heads.row());
        let turns = &self.turns[..];
        let joined = values.get(self.joined);
        gradients.add(self.joined, |gradients, dx| {
            let given = gradients.get(self.out).par_chunks_exact(2 * row).zip(joined.par_chunks_exact(row));
            dx.par_chunks_exact_mut(row).zip(given).for_each(|(dx, (dy, x))| {
                for (index, ((dx, &x), dy)) in dx.iter_mut().zip(x).zip(dy.chunks_exact(2)).enumerate() {
                    let (first, second) = (dy[0].to_f64(), dy[1].to_f64());
                    // dμ/dx = 1/(1 + e^(−x))
                    let slope = || 1.0 / (1.0 + (-x.to_f64()).exp());
                    *dx += T::of(match index {
                        _ if index < query => first * slope(),
                        _ if index < query + key => {
                            let (cos, sin) = turns[index - query];
                            (first * cos + second * sin) * slope()
                        }
                        _ => first,
                    });
                }
            });
        });
        let Some(phases) = self.phases else { return };
        gradients.add(phases, |gradients, sums| {
            // One feature after the other, each over all tokens: an order that no thread changes.
            let dy = gradients.get(self.out);
            sums.par_iter_mut().zip(turns).enumerate().for_each(|(index, (sum, &(cos, sin)))| {
                let tokens = dy.chunks_exact(2 * row).zip(joined.chunks_exact(row));
                let of = |(dy, x): (&[T], &[T])| {
                    let at = query + index;
                    let (first, second) = (dy[2 * at].to_f64(), dy[2 * at + 1].to_f64());
                    magnitude(x[at].to_f64()) * (second * cos - first * sin)
                };
                *sum += T::of(tokens.map(of).sum::<f64>());
            });
        });
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        Err(crate::error::Error::Device("the encoding pope has no form for a GPU; use the CPU".into()))
    }
}

pub(super) struct Firsts {
    x: Value,
    out: Value,
}

impl<T: Real> Operation<T> for Firsts {
    fn forward(&mut self, values: &mut Values<T>) {
        values.write(self.out, |values, out| {
            let firsts = values.get(self.x).iter().step_by(2);
            out.iter_mut().zip(firsts).for_each(|(out, &x)| *out = x);
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        gradients.add(self.x, |gradients, dx| {
            let given = gradients.get(self.out);
            dx.iter_mut().step_by(2).zip(given).for_each(|(dx, &dy)| *dx += dy);
        });
    }
}
