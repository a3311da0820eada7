//! Angles that sum up over the tokens of a text: each token turns every pair of features on by θ·z, and z comes of what is read
//! (Selective RoPE). With z = 1 everywhere they are the angles of rotary embedding.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::error::{Error, Result, WORK};
use crate::ops::Real;
use crate::ops::memory::filled;
use rayon::prelude::*;
use std::f64::consts::TAU;

/// How fast pairs turn whose angles sum up over tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Angles {
    /// θ of each pair of a head; all heads have the same.
    pub theta: Vec<f64>,
    /// Heads, each with angles of its own.
    pub heads: usize,
}

/// An angle that is `by` larger, less whole turns, in two numbers of the type: the angle, and what rounding left of it. That is
/// what a cache keeps, so a text has the same bits however it is cut into steps.
fn advance<T: Real>([angle, rest]: [T; 2], by: f64) -> [T; 2] {
    let sum = angle.to_f64() + rest.to_f64() + by;
    let sum = sum - TAU * (sum / TAU).round();
    let angle = T::of(sum);
    [angle, T::of(sum - angle.to_f64())]
}

impl Angles {
    /// Angles of a token.
    fn count(&self) -> usize {
        self.theta.len() * self.heads
    }

    /// One text: out `[length, 2 · n]`, (cos, sin) of each of n pairs, of z `[length, n]`. The angles go on from those of `kept`
    /// `[n, 2]`, which are then those of the last token.
    fn follow<T: Real>(&self, z: &[T], kept: &mut [T], out: &mut [T]) {
        let count = self.count();
        for (z, out) in z.chunks_exact(count).zip(out.chunks_exact_mut(2 * count)) {
            let pairs = z.iter().zip(self.theta.iter().cycle());
            let numbers = kept.chunks_exact_mut(2).zip(out.chunks_exact_mut(2));
            for ((z, theta), (kept, out)) in pairs.zip(numbers) {
                let [angle, rest] = advance([kept[0], kept[1]], theta * z.to_f64());
                let (sin, cos) = (angle.to_f64() + rest.to_f64()).sin_cos();
                (kept[0], kept[1]) = (angle, rest);
                (out[0], out[1]) = (T::of(cos), T::of(sin));
            }
        }
    }

    /// Each of some texts.
    fn follow_each<T: Real>(&self, z: &[T], kept: &mut [T], out: &mut [T]) {
        let (count, batch) = (self.count(), kept.len() / (2 * self.count()));
        let texts = z.par_chunks_exact(z.len() / batch).zip(kept.par_chunks_exact_mut(2 * count));
        let texts = texts.zip(out.par_chunks_exact_mut(out.len() / batch));
        texts.for_each(|((z, kept), out)| self.follow(z, kept, out));
    }

    /// As [`Backend::sum_angles`](crate::ops::Backend::sum_angles) has it.
    pub(crate) fn sum<T: Real>(
        &self,
        z: &[T],
        kept: Option<&mut [T]>,
        batch: usize,
        out: &mut [T],
    ) -> Result<()> {
        match kept {
            Some(kept) => self.follow_each(z, kept, out),
            None => {
                let none = filled(batch * 2 * self.count(), T::ZERO);
                self.follow_each(z, &mut none.ok_or(Error::Memory { what: WORK })?, out);
            }
        }
        Ok(())
    }
}

impl<T: Real> Builder<T> {
    /// `[batch · length, 2 · n]`: (cos, sin) of the angles θ·Σ z over the tokens so far, where z `[batch · length, n]` has a number
    /// for each pair of each head.
    pub fn sum_angles(&mut self, z: Value, angles: Angles, length: usize) -> Value {
        let out = self.value(z.rows, 2 * z.width);
        let texts = z.rows / length * z.width;
        let (kept, sums) = (vec![T::ZERO; 2 * texts], vec![0.0; texts]);
        self.add(SumAngles { z, angles, length, out, kept, sums });
        out
    }
}

pub(super) struct SumAngles<T> {
    z: Value,
    angles: Angles,
    length: usize,
    out: Value,
    /// `[batch, n, 2]`: the angles of the last token.
    kept: Vec<T>,
    /// `[batch, n]`: gradients of angles, summed over the tokens from the last on.
    sums: Vec<f64>,
}

impl<T: Real> Operation<T> for SumAngles<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let SumAngles { z, angles, out, kept, .. } = self;
        kept.fill(T::ZERO);
        values.write(*out, |values, out| angles.follow_each(values.get(*z), kept, out));
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let SumAngles { z, angles, length, out, sums, .. } = self;
        let (count, text) = (z.width, *length * z.width);
        sums.fill(0.0);
        gradients.add(*z, |gradients, dz| {
            let (turns, dturns) = (values.get(*out), gradients.get(*out));
            let texts = turns.par_chunks_exact(2 * text).zip(dturns.par_chunks_exact(2 * text));
            let texts = texts.zip(sums.par_chunks_exact_mut(count));
            dz.par_chunks_exact_mut(text).zip(texts).for_each(|(dz, ((turns, dturns), sums))| {
                let rows = turns.chunks_exact(2 * count).zip(dturns.chunks_exact(2 * count));
                for (dz, (turns, dturns)) in dz.chunks_exact_mut(count).zip(rows).rev() {
                    let pairs = turns.chunks_exact(2).zip(dturns.chunks_exact(2));
                    let sums = sums.iter_mut().zip(angles.theta.iter().cycle());
                    for ((dz, (sum, theta)), (turn, dturn)) in dz.iter_mut().zip(sums).zip(pairs) {
                        let [cos, sin, dcos, dsin] =
                            [turn[0], turn[1], dturn[0], dturn[1]].map(|x| x.to_f64());
                        // A token's z is in its own angle and in all that follow.
                        *sum += cos * dsin - sin * dcos;
                        *dz += T::of(theta * *sum);
                    }
                }
            });
        });
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        Err(Error::Device("the encoding selective has no form for a GPU; use the CPU".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far out an angle in one `f32` would be off by hundredths; and the same text in two steps has the same bits.
    #[test]
    fn angles_stay_exact_however_a_text_is_cut() {
        let angles = Angles { theta: vec![1.0, 0.3], heads: 2 };
        let z: Vec<f32> = (0..4 * 50_000).map(|index| 0.5 + (index * 7919 % 1013) as f32 / 600.0).collect();
        let run = |cuts: &[usize]| {
            let (mut kept, mut out) = (vec![0f32; 8], vec![0f32; 2 * z.len()]);
            let mut first = 0;
            for &cut in cuts {
                angles.follow(&z[4 * first..4 * cut], &mut kept, &mut out[8 * first..8 * cut]);
                first = cut;
            }
            out
        };
        let whole = run(&[50_000]);
        assert!(whole == run(&[1, 2, 77, 40_000, 50_000]));
        for pair in 0..4 {
            let total: f64 = z.iter().skip(pair).step_by(4).map(|&z| f64::from(z)).sum();
            let exact = (total * angles.theta[pair % 2]).sin_cos();
            let got = &whole[8 * 49_999 + 2 * pair..][..2];
            let error = (f64::from(got[0]) - exact.1).abs().max((f64::from(got[1]) - exact.0).abs());
            assert!(error < 1e-7, "pair {pair}: {error:e}");
        }
    }
}
