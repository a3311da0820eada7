//! Loops over rows of scores, compiled for the best instruction set that the machine has.

use super::dropout::Keep;
use crate::ops::Real;
use crate::ops::gemm::Level;

/// A loop. Implementations are `#[inline(always)]`, so that each caller below compiles it for its own instructions.
trait Pass {
    type Output;
    fn run(self) -> Self::Output;
}

/// Runs a loop with the instructions of a level.
fn run<P: Pass>(level: Level, pass: P) -> P::Output {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the features are there.
        Level::Avx512 => unsafe { run_avx512(pass) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { run_avx2(pass) },
        Level::Portable => pass.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn run_avx512<P: Pass>(pass: P) -> P::Output {
    pass.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2<P: Pass>(pass: P) -> P::Output {
    pass.run()
}

/// Scores → e^(score·scale − largest), in place, with the largest of these and of `before`. Returns it and the sum.
pub(super) fn exponentials<T: Real>(level: Level, scores: &mut [T], scale: T, before: T) -> (T, T) {
    run(level, Exponentials { scores, scale, before })
}

struct Exponentials<'a, T> {
    scores: &'a mut [T],
    scale: T,
    before: T,
}

impl<T: Real> Pass for Exponentials<'_, T> {
    type Output = (T, T);

    #[inline(always)]
    fn run(self) -> (T, T) {
        let Exponentials { scores, scale, before } = self;
        // Whole chunks first: their lanes stay in a register.
        let mut lanes = [T::NEG_INFINITY; 16];
        let mut chunks = scores.chunks_exact_mut(16);
        for chunk in &mut chunks {
            for (lane, score) in lanes.iter_mut().zip(chunk) {
                *score *= scale;
                *lane = score.maximum(*lane);
            }
        }
        for (lane, score) in lanes.iter_mut().zip(chunks.into_remainder()) {
            *score *= scale;
            *lane = score.maximum(*lane);
        }
        let largest = lanes.iter().fold(before, |largest, &lane| lane.maximum(largest));
        if largest == T::NEG_INFINITY {
            // Nothing to see so far; or scores that are no numbers, which stay.
            let mut total = T::ZERO;
            for score in scores {
                if *score == T::NEG_INFINITY {
                    *score = T::ZERO;
                }
                total += *score;
            }
            return (largest, total);
        }
        let mut sums = [T::ZERO; 16];
        let mut chunks = scores.chunks_exact_mut(16);
        for chunk in &mut chunks {
            for (sum, score) in sums.iter_mut().zip(chunk) {
                *score = (*score - largest).exp();
                *sum += *score;
            }
        }
        for (sum, score) in sums.iter_mut().zip(chunks.into_remainder()) {
            *score = (*score - largest).exp();
            *sum += *score;
        }
        (largest, sums.into_iter().sum())
    }
}

/// Sets the weights that a dropout drops to 0; `index` is that of the first. Those that stay are not scaled.
pub(super) fn drop<T: Real>(level: Level, weights: &mut [T], keep: Keep, index: u64) {
    run(level, Drop { weights, keep, index });
}

struct Drop<'a, T> {
    weights: &'a mut [T],
    keep: Keep,
    index: u64,
}

impl<T: Real> Pass for Drop<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (index, weight) in (self.index..).zip(self.weights) {
            *weight = if self.keep.keeps(index) { *weight } else { T::ZERO };
        }
    }
}

/// The backward of a row of the softmax. `scores` becomes the weights e^(score − lse) after dropout. `slopes` comes as the
/// gradient of those, and becomes the gradient of the scores; `delta` is the row's sum of weight times gradient.
pub(super) fn slopes<T: Real>(
    level: Level,
    (scores, slopes): (&mut [T], &mut [T]),
    (lse, delta): (T, T),
    keep: Option<(Keep, u64)>,
) {
    run(level, Slopes { scores, slopes, lse, delta, keep });
}

struct Slopes<'a, T> {
    scores: &'a mut [T],
    slopes: &'a mut [T],
    lse: T,
    delta: T,
    keep: Option<(Keep, u64)>,
}

impl<T: Real> Pass for Slopes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Slopes { scores, slopes, lse, delta, keep } = self;
        let Some((keep, index)) = keep else {
            for (score, slope) in scores.iter_mut().zip(slopes) {
                let weight = (*score - lse).exp();
                *slope = weight * (*slope - delta);
                *score = weight;
            }
            return;
        };
        let scale = T::of(keep.scale);
        for ((index, score), slope) in (index..).zip(scores).zip(slopes) {
            let weight = (*score - lse).exp();
            let factor = if keep.keeps(index) { scale } else { T::ZERO };
            *slope = weight * (factor * *slope - delta);
            *score = weight * factor;
        }
    }
}
