//! AdamW over one flat buffer of parameters, and clipping by the norm of all gradients.

use super::dispatch::vectorised;
use super::real::Real;
use super::reduce::{self, BLOCK, PARALLEL};
use rayon::prelude::*;
use std::ops::Range;

/// What stays the same from step to step. The default is that of `torch.optim.AdamW`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// How much of the mean of the gradients stays at each step.
    pub beta1: f64,
    /// How much of the mean of their squares stays.
    pub beta2: f64,
    /// What is added to the root of the squares.
    pub epsilon: f64,
    /// How much of a parameter goes at each step, times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01 }
    }
}

/// How a step changes the parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// What stays the same from step to step.
    pub adam: AdamW,
    /// The number of the step, from 1 on.
    pub step: u64,
    /// The learning rate.
    pub rate: f64,
    /// The largest norm of a gradient; 0 for any.
    pub clip: f64,
}

/// All that changes from step to step: four numbers, which a device can keep where its kernels read them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// learning rate · weight decay
    pub decay: f64,
    /// learning rate / (1 − β₁ᵗ)
    pub rate: f64,
    /// √(1 − β₂ᵗ)
    pub root: f64,
    /// What gradients are multiplied with before they are used: see [`clip_coefficient`].
    pub clip: f64,
}

/// The optimizer's buffers, one number a parameter each.
#[derive(Debug)]
pub struct State<'a, T> {
    /// The parameters.
    pub parameters: &'a mut [T],
    /// dL/d(parameter), summed over the steps of gradient accumulation.
    pub gradients: &'a [T],
    /// The running mean of the gradients, 0 before the first step.
    pub first: &'a mut [T],
    /// The running mean of their squares, 0 before the first step.
    pub second: &'a mut [T],
}

impl AdamW {
    /// The numbers of step t = 1, 2, …
    pub fn at(&self, t: u64, learning_rate: f64, clip: f64) -> Step {
        Step {
            decay: learning_rate * self.weight_decay,
            rate: learning_rate / (1.0 - self.beta1.powf(t as f64)),
            root: (1.0 - self.beta2.powf(t as f64)).sqrt(),
            clip,
        }
    }

    /// One step for the parameters in these ranges; weights decay where the flag says so. What is in no range stays.
    ///
    /// As in `torch.optim.AdamW`, with g the clipped gradient: p −= decay·p; m = β₁·m + (1 − β₁)·g;
    /// v = β₂·v + (1 − β₂)·g²; p −= rate·m/(√v/root + ε).
    pub fn apply<T: Real>(&self, step: &Step, state: &mut State<T>, ranges: &[(Range<usize>, bool)]) {
        let len = state.parameters.len();
        let lens = [state.gradients.len(), state.first.len(), state.second.len()];
        assert_eq!(lens, [len; 3], "the buffers of an optimizer");
        for (range, decays) in ranges {
            let p = &mut state.parameters[range.clone()];
            let g = &state.gradients[range.clone()];
            let (m, v) = (&mut state.first[range.clone()], &mut state.second[range.clone()]);
            let step = Step { decay: if *decays { step.decay } else { 0.0 }, ..*step };
            if range.len() < PARALLEL {
                update(self, &step, p, g, m, v);
            } else {
                let (p, g) = (p.par_chunks_mut(BLOCK), g.par_chunks(BLOCK));
                let (m, v) = (m.par_chunks_mut(BLOCK), v.par_chunks_mut(BLOCK));
                p.zip(g).zip(m).zip(v).for_each(|(((p, g), m), v)| update(self, &step, p, g, m, v));
            }
        }
    }
}

vectorised! {
    fn update<T>(adam: &AdamW, step: &Step, p: &mut [T], g: &[T], m: &mut [T], v: &mut [T]) = update_block
}

#[inline(always)]
fn update_block<T: Real>(adam: &AdamW, step: &Step, p: &mut [T], g: &[T], m: &mut [T], v: &mut [T]) {
    let (decay, rate, root) = (T::of(step.decay), T::of(step.rate), T::of(step.root));
    let (clip, epsilon) = (T::of(step.clip), T::of(adam.epsilon));
    let (old1, new1) = (T::of(adam.beta1), T::of(1.0 - adam.beta1));
    let (old2, new2) = (T::of(adam.beta2), T::of(1.0 - adam.beta2));
    for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
        let g = *g * clip;
        *m = old1 * *m + new1 * g;
        *v = old2 * *v + new2 * g * g;
        *p = *p - decay * *p;
        *p = *p - rate * *m / ((*v).sqrt() / root + epsilon);
    }
}

/// √Σ g²: the squares in `f64`, summed in an order that does not depend on the number of threads.
pub fn global_norm<T: Real>(gradients: &[T]) -> f64 {
    reduce::sum(gradients.len(), |range| squares(&gradients[range])).sqrt()
}

/// Numbers whose squares are summed by themselves, before their sum joins the others: a list that is cut elsewhere has another
/// norm in its last bits.
pub const NORM_BLOCK: usize = BLOCK;

/// Σ g² of each block of [`NORM_BLOCK`] numbers, for [`norm_of_blocks`].
pub fn squares_of_blocks<T: Real>(gradients: &[T]) -> Vec<f64> {
    match gradients.len() < PARALLEL {
        true => gradients.chunks(BLOCK).map(squares).collect(),
        false => gradients.par_chunks(BLOCK).map(squares).collect(),
    }
}

/// The norm of a list whose blocks, in order, have these sums of squares: to the bit [`global_norm`] of the whole list.
pub fn norm_of_blocks(squares: &[f64]) -> f64 {
    squares.iter().fold(0.0, |total, sum| total + sum).sqrt()
}

vectorised! { fn squares<T>(x: &[T]) -> f64 = sum_squares }

#[inline(always)]
fn sum_squares<T: Real>(x: &[T]) -> f64 {
    let mut lanes = [0.0; 16];
    for chunk in x.chunks(16) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x.to_f64() * x.to_f64();
        }
    }
    lanes.into_iter().sum()
}

/// What `torch.nn.utils.clip_grad_norm_` multiplies gradients of this norm with: max / (norm + 10⁻⁶), at most 1.
pub fn clip_coefficient(norm: f64, max: f64) -> f64 {
    let coefficient = max / (norm + 1e-6);
    // Written so that NaN stays NaN.
    if coefficient > 1.0 { 1.0 } else { coefficient }
}

/// Scales the gradients so that their norm is at most `max`, and gives the norm they had. A step can do the same on its way:
/// [`Step::clip`].
pub fn clip<T: Real>(gradients: &mut [T], max: f64) -> f64 {
    let norm = global_norm(gradients);
    let coefficient = T::of(clip_coefficient(norm, max));
    if gradients.len() < PARALLEL {
        gradients.iter_mut().for_each(|g| *g *= coefficient);
    } else {
        let blocks = gradients.par_chunks_mut(BLOCK);
        blocks.for_each(|block| block.iter_mut().for_each(|g| *g *= coefficient));
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, list, on_any_threads};
    use super::*;

    const ADAM: AdamW = AdamW { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1 };

    fn rate(t: u64) -> f64 {
        1e-2 / t as f64
    }

    /// Parameters, m and v after five steps; every step clips.
    fn run<T: Real>(len: usize, ranges: &[(Range<usize>, bool)]) -> Vec<T> {
        on_any_threads(|| {
            let mut p = list::<T>(1, len);
            let (mut m, mut v) = (vec![T::ZERO; len], vec![T::ZERO; len]);
            for t in 1..=5 {
                let gradients = list::<T>(1 + t, len);
                let step = ADAM.at(t, rate(t), clip_coefficient(global_norm(&gradients), 1.0));
                let mut state =
                    State { parameters: &mut p, gradients: &gradients, first: &mut m, second: &mut v };
                ADAM.apply(&step, &mut state, ranges);
            }
            [p, m, v].concat()
        })
    }

    #[test]
    fn five_steps_are_those_of_the_formulas() {
        for len in [4, 77, 100_003] {
            let ranges = [(0..len / 2, true), (len / 2..len / 2 + 1, false), (len / 2 + 2..len, false)];
            let out = run::<f64>(len, &ranges);
            for index in (0..len).step_by(if len > 100 { 997 } else { 1 }) {
                let (mut p, mut m, mut v) = (list::<f64>(1, len)[index], 0.0f64, 0.0f64);
                let start = p;
                for t in 1..=5 {
                    let gradients = list::<f64>(1 + t, len);
                    let norm = gradients.iter().map(|g| g * g).sum::<f64>().sqrt();
                    let g = gradients[index] * (1.0 / (norm + 1e-6)).min(1.0);
                    p -= rate(t) * if index < len / 2 { 0.1 } else { 0.0 } * p;
                    m = 0.9 * m + (1.0 - 0.9) * g;
                    v = 0.99 * v + (1.0 - 0.99) * g * g;
                    let (first, second) = (1.0 - 0.9f64.powi(t as i32), 1.0 - 0.99f64.powi(t as i32));
                    p -= rate(t) / first * m / (v.sqrt() / second.sqrt() + 1e-8);
                }
                if index == len / 2 + 1 {
                    (p, m, v) = (start, 0.0, 0.0);
                }
                for (got, wanted) in [(out[index], p), (out[len + index], m), (out[2 * len + index], v)] {
                    assert!((got - wanted).abs() <= 1e-13, "{index} of {len}: {got} but {wanted}");
                }
            }
            // v, as a square, is near 0 beside p: so each list by itself.
            let single = run::<f32>(len, &ranges);
            for (what, part) in ["p", "m", "v"].into_iter().zip([0..len, len..2 * len, 2 * len..3 * len]) {
                close(what, &single[part.clone()], &out[part], 16.0);
            }
        }
    }

    #[test]
    fn norms_are_clipped_as_torch_does() {
        for len in [1, 5, 1000, 100_003] {
            let gradients = list::<f32>(9, len);
            let exact = gradients.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            let norm = on_any_threads(|| vec![global_norm(&gradients)])[0];
            assert!((norm - exact).abs() < 1e-12 * exact);
            for max in [0.5 * norm, 2.0 * norm + 1.0] {
                let clipped = on_any_threads(|| {
                    let mut gradients = gradients.clone();
                    assert_eq!(clip(&mut gradients, max), norm);
                    gradients
                });
                let wanted = norm.min(max * norm / (norm + 1e-6));
                assert!((global_norm(&clipped) - wanted).abs() < 1e-6 * wanted, "{len}");
                assert_eq!(clipped == gradients, max > norm);
            }
        }
        // A list in parts, cut between blocks.
        for len in [0, 1, 4096, 4097, 2 * 256 * 4096 + 5] {
            let gradients = list::<f32>(9, len);
            for parts in [1, 2, 3, 5] {
                let blocks = len.div_ceil(NORM_BLOCK);
                let at = |part: usize| (part * blocks / parts * NORM_BLOCK).min(len);
                let squares =
                    (0..parts).flat_map(|part| squares_of_blocks(&gradients[at(part)..at(part + 1)]));
                let norm = norm_of_blocks(&squares.collect::<Vec<_>>());
                assert_eq!(norm.to_bits(), global_norm(&gradients).to_bits(), "{len} in {parts}");
            }
        }
        assert_eq!(clip_coefficient(0.0, 1.0), 1.0);
        assert!(clip_coefficient(f64::NAN, 1.0).is_nan());
        assert_eq!(global_norm::<f32>(&[]), 0.0);
        // Squares that f32 cannot hold.
        assert!((global_norm(&[1e30f32, 1e30]) / 1e30 - 2f64.sqrt()).abs() < 1e-6);
    }
}
