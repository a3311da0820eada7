//! Loops over rows of scores, compiled for the best instruction set that the machine has.

use super::dropout::Keep;
use crate::ops::gemm::Level;
use crate::ops::{Real, cap::slope};

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

/// Numbers that loops work on at a time.
const LANES: usize = 16;

/// Rows of `count` numbers, `step` apart. What is behind them, up to a multiple of [`LANES`], is theirs to overwrite: a row of
/// whole lanes costs half as much as one with a few numbers left over.
pub(super) struct Rows<'a, T> {
    pub data: &'a mut [T],
    pub step: usize,
    pub count: usize,
}

impl<T: Real> Rows<'_, T> {
    /// A row with what is behind it.
    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.step..][..self.count.next_multiple_of(LANES)]
    }
}

/// What a softmax knows of each row so far.
pub(super) struct Running<'a, T> {
    /// The largest score.
    pub largest: &'a mut [T],
    /// The sum of the exponentials relative to it.
    pub total: &'a mut [T],
    /// Set: what sums relative to the largest score before are to be multiplied with.
    pub shrink: &'a mut [T],
}

/// Scores → e^(score·scale − largest), in place, with the largest of each row, of these scores and those before.
pub(super) fn exponentials<T: Real>(level: Level, scores: Rows<T>, scale: T, running: Running<T>) {
    run(level, Exponentials { scores, scale, running });
}

struct Exponentials<'a, T> {
    scores: Rows<'a, T>,
    scale: T,
    running: Running<'a, T>,
}

impl<T: Real> Pass for Exponentials<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Exponentials { mut scores, scale, running: Running { largest, total, shrink } } = self;
        // All rows before any is read: what was stored in part cannot be loaded whole at once.
        for row in 0..largest.len() {
            let count = scores.count;
            scores.row(row)[count..].fill(T::NEG_INFINITY);
        }
        for (row, ((largest, total), shrink)) in largest.iter_mut().zip(total).zip(shrink).enumerate() {
            let (most, sum) = exponentials_of(scores.row(row), scale, *largest);
            *shrink = match *largest {
                before if before == most => T::ONE,
                // Nothing so far, as always at first.
                before if before == T::NEG_INFINITY => T::ZERO,
                before => (before - most).exp(),
            };
            *total = *total * *shrink + sum;
            *largest = most;
        }
    }
}

/// One row of whole lanes: returns the largest and the sum.
#[inline(always)]
fn exponentials_of<T: Real>(scores: &mut [T], scale: T, before: T) -> (T, T) {
    let mut lanes = [T::NEG_INFINITY; LANES];
    for chunk in scores.chunks_exact_mut(LANES) {
        for (lane, score) in lanes.iter_mut().zip(chunk) {
            *score *= scale;
            *lane = score.maximum(*lane);
        }
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
    let mut sums = [T::ZERO; LANES];
    for chunk in scores.chunks_exact_mut(LANES) {
        for (sum, score) in sums.iter_mut().zip(chunk) {
            *score = (*score - largest).exp();
            *sum += *score;
        }
    }
    (largest, sums.into_iter().sum())
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

/// Σ a·b of each row, into `out`: rows of `dim` numbers, those of a and b `step` apart.
pub(super) fn dots<T: Real>(level: Level, (a, b): (&[T], &[T]), (step, dim): (usize, usize), out: &mut [T]) {
    run(level, Dots { a, b, step, dim, out });
}

struct Dots<'a, T> {
    a: &'a [T],
    b: &'a [T],
    step: usize,
    dim: usize,
    out: &'a mut [T],
}

impl<T: Real> Pass for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (row, out) in self.out.iter_mut().enumerate() {
            let (a, b) = (&self.a[row * self.step..][..self.dim], &self.b[row * self.step..][..self.dim]);
            let mut lanes = [T::ZERO; LANES];
            let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
            let (a_rest, b_rest) = (a.remainder(), b.remainder());
            for (a, b) in a.zip(b) {
                lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (&a, &b))| *lane += a * b);
            }
            lanes.iter_mut().zip(a_rest.iter().zip(b_rest)).for_each(|(lane, (&a, &b))| *lane += a * b);
            *out = lanes.into_iter().sum();
        }
    }
}

/// The backward of rows of the softmax. `scores` become the weights e^(score − lse) after dropout. `ds` come as the
/// gradient of those, and become the gradient of the scores, before their cap if they have one; `delta` is each row's sum of
/// weight times gradient. The dropout comes with the index of the first weight, and from row to row.
pub(super) fn score_gradients<T: Real>(
    level: Level,
    (scores, ds): (Rows<T>, Rows<T>),
    (lse, delta): (&[T], &[T]),
    keep: Option<(Keep, u64, u64)>,
    cap: Option<f64>,
) {
    let Some(cap) = cap else {
        // Times 1 costs nothing: the loop without a cap is compiled without the product.
        return run(level, ScoreGradients { scores, ds, lse, delta, keep, slope: |_| T::ONE });
    };
    let inverse = T::of(1.0 / cap);
    run(level, ScoreGradients { scores, ds, lse, delta, keep, slope: |score| slope(score, inverse) });
}

struct ScoreGradients<'a, T, S> {
    scores: Rows<'a, T>,
    ds: Rows<'a, T>,
    lse: &'a [T],
    delta: &'a [T],
    keep: Option<(Keep, u64, u64)>,
    /// The derivative of a score by what it was before its cap.
    slope: S,
}

impl<T: Real, S: Fn(T) -> T> Pass for ScoreGradients<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        for (row, (&lse, &delta)) in self.lse.iter().zip(self.delta).enumerate() {
            let (scores, ds) = (self.scores.row(row), self.ds.row(row));
            let Some((keep, index, step)) = self.keep else {
                for (score, ds) in scores.iter_mut().zip(ds) {
                    let weight = (*score - lse).exp();
                    *ds = weight * (*ds - delta) * (self.slope)(*score);
                    *score = weight;
                }
                continue;
            };
            let (scale, index) = (T::of(keep.scale), index + row as u64 * step);
            for ((index, score), ds) in (index..).zip(scores).zip(ds) {
                let weight = (*score - lse).exp();
                let factor = if keep.keeps(index) { scale } else { T::ZERO };
                *ds = weight * (factor * *ds - delta) * (self.slope)(*score);
                *score = weight * factor;
            }
        }
    }
}
