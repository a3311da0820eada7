//! A bias that a small network makes of how far a key is, as a part of how far it could be (FIRE):
//! B_h[i, j] = Σ_s v_hs·max(0, w_s·x + b_s), x = ψ(i − j)/ψ(max(L, i)), ψ(r) = ln(1 + c·r).

use super::{Builder, Gradients, Operation, Parameter, Value, Values};
use crate::ops::Real;

/// The parameters of the network.
#[derive(Clone, Copy, Debug)]
pub struct FireWeights {
    /// ln c and ln L, `[1, 2]`.
    pub scale: Parameter,
    /// w and b of each hidden number, `[hidden, 2]`.
    pub inner: Parameter,
    /// v, `[heads, hidden]`. A bias for each head would be added to all scores of a query, and change nothing.
    pub outer: Parameter,
}

impl<T: Real> Builder<T> {
    /// `[heads · length, length]`: the bias of each head for a query at place i and a key at place j ≤ i; 0 for keys ahead.
    pub fn fire(&mut self, weights: FireWeights, heads: usize, length: usize) -> Value {
        let out = self.value(heads * length, length);
        let FireWeights { scale, inner, outer } = weights;
        let zeros = || [scale, inner, outer].map(|parameter| vec![0.0; parameter.range().len()]);
        let active = vec![0.0; inner.range().len() / 2];
        self.add(Fire { weights, out, known: zeros(), sums: zeros(), active });
        out
    }
}

pub(super) struct Fire {
    weights: FireWeights,
    out: Value,
    /// The parameters, their gradients, and what is active of the hidden numbers: memory that every step uses.
    known: [Vec<f64>; 3],
    sums: [Vec<f64>; 3],
    active: Vec<f64>,
}

/// The parameters in double precision.
fn read<T: Real>(values: &Values<T>, weights: &FireWeights, known: &mut [Vec<f64>; 3]) {
    let FireWeights { scale, inner, outer } = *weights;
    for (known, parameter) in known.iter_mut().zip([scale, inner, outer]) {
        known.iter_mut().zip(values.parameter(parameter)).for_each(|(known, x)| *known = x.to_f64());
    }
}

/// x for a query at place i and a key r before it, and its derivatives by ln c and by ln L.
fn input(c: f64, threshold: f64, i: usize, r: usize) -> (f64, f64, f64) {
    let most = threshold.max(i as f64);
    let (near, far) = ((c * r as f64).ln_1p(), (c * most).ln_1p());
    // dψ(r)/d(ln c) = c·r/(1 + c·r), and dψ(L)/d(ln L) is the same at L.
    let slope = |r: f64| c * r / (1.0 + c * r);
    let x = near / far;
    let by_threshold = if threshold > i as f64 { -x * slope(most) / far } else { 0.0 };
    (x, (slope(r as f64) - x * slope(most)) / far, by_threshold)
}

impl<T: Real> Operation<T> for Fire {
    fn forward(&mut self, values: &mut Values<T>) {
        let Fire { weights, out, known, active, .. } = self;
        let length = out.width;
        values.write(*out, |values, out| {
            read(values, weights, known);
            let [scale, inner, outer] = &*known;
            let (c, threshold, hidden) = (scale[0].exp(), scale[1].exp(), active.len());
            for i in 0..length {
                for j in 0..=i {
                    let (x, ..) = input(c, threshold, i, i - j);
                    for (active, own) in active.iter_mut().zip(inner.chunks_exact(2)) {
                        *active = (own[0] * x + own[1]).max(0.0);
                    }
                    for (head, outer) in outer.chunks_exact(hidden).enumerate() {
                        let sum: f64 = outer.iter().zip(&*active).map(|(v, x)| v * x).sum();
                        out[(head * length + i) * length + j] = T::of(sum);
                    }
                }
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let Fire { weights, out, known, sums, active } = self;
        let (length, FireWeights { scale, inner, outer }) = (out.width, *weights);
        read(values, weights, known);
        let [known_scale, known_inner, known_outer] = &*known;
        let (c, threshold, hidden) = (known_scale[0].exp(), known_scale[1].exp(), active.len());
        sums.iter_mut().for_each(|sums| sums.fill(0.0));
        let ranges = [scale.range(), inner.range(), outer.range()];
        let (given, dout) = gradients.each_parameter(ranges, *out);
        let [dscale, dinner, douter] = &mut *sums;
        for i in 0..length {
            for j in 0..=i {
                let (x, by_c, by_threshold) = input(c, threshold, i, i - j);
                let of_head = |head: usize| dout[(head * length + i) * length + j].to_f64();
                let mut dx = 0.0;
                for s in 0..hidden {
                    let own = &known_inner[2 * s..2 * s + 2];
                    let active = own[0] * x + own[1];
                    if active <= 0.0 {
                        continue;
                    }
                    let mut back = 0.0;
                    for (head, (v, dv)) in known_outer[s..]
                        .iter()
                        .step_by(hidden)
                        .zip(douter[s..].iter_mut().step_by(hidden))
                        .enumerate()
                    {
                        *dv += of_head(head) * active;
                        back += of_head(head) * v;
                    }
                    dinner[2 * s] += back * x;
                    dinner[2 * s + 1] += back;
                    dx += back * own[0];
                }
                dscale[0] += dx * by_c;
                dscale[1] += dx * by_threshold;
            }
        }
        for (given, sums) in given.into_iter().zip(sums) {
            given.iter_mut().zip(&*sums).for_each(|(given, &sum)| *given += T::of(sum));
        }
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        Err(crate::error::Error::Device("the encoding fire has no form for a GPU; use the CPU".into()))
    }
}
