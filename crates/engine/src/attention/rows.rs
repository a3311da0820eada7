//! Loops over rows of scores, compiled for the best instruction set that the machine has.

use super::dropout::Keep;
use crate::ops::gemm::Level;
use crate::ops::narrow::Bf16;
use crate::ops::{Real, cap::slope, real::short_exp};

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
pub(super) const LANES: usize = 16;

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
    run(level, Exponentials { scores, scale, running, sink: InPlace });
}

/// The same, with the exponentials in 16 bits: as many rows of `step` numbers, at least those of the scores in whole lanes. Sums are
/// those of what is not rounded.
pub(super) fn narrow_exponentials(
    level: Level,
    scores: Rows<f32>,
    scale: f32,
    running: Running<f32>,
    weights: &mut [Bf16],
    step: usize,
) {
    run(level, Exponentials { scores, scale, running, sink: Narrow { weights, step } });
}

/// Where exponentials go.
trait Sink<T> {
    /// e^x for x ≤ 0, as exactly as is kept.
    fn exp(x: T) -> T;
    /// Takes those of a row's lanes from `at` on, which came from there.
    fn put(&mut self, row: usize, at: usize, from: &mut [T], weights: [T; LANES]);
}

/// To where the scores were.
struct InPlace;

impl<T: Real> Sink<T> for InPlace {
    #[inline(always)]
    fn exp(x: T) -> T {
        x.exp()
    }

    #[inline(always)]
    fn put(&mut self, _: usize, _: usize, from: &mut [T], weights: [T; LANES]) {
        from.copy_from_slice(&weights);
    }
}

/// To rows of their own, in 16 bits.
struct Narrow<'a> {
    weights: &'a mut [Bf16],
    step: usize,
}

impl Sink<f32> for Narrow<'_> {
    #[inline(always)]
    fn exp(x: f32) -> f32 {
        short_exp(x)
    }

    #[inline(always)]
    fn put(&mut self, row: usize, at: usize, _: &mut [f32], weights: [f32; LANES]) {
        // Where a weight is NaN so is their sum, which the result is divided by.
        let to = &mut self.weights[row * self.step + at..][..LANES];
        to.iter_mut().zip(weights).for_each(|(to, weight)| *to = Bf16::of_number(weight));
    }
}

struct Exponentials<'a, T, S> {
    scores: Rows<'a, T>,
    scale: T,
    running: Running<'a, T>,
    sink: S,
}

impl<T: Real, S: Sink<T>> Pass for Exponentials<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Exponentials { mut scores, scale, running, mut sink } = self;
        let Running { largest, total, shrink } = running;
        // All rows before any is read: what was stored in part cannot be loaded whole at once.
        for row in 0..largest.len() {
            let count = scores.count;
            scores.row(row)[count..].fill(T::NEG_INFINITY);
        }
        for (row, ((largest, total), shrink)) in largest.iter_mut().zip(total).zip(shrink).enumerate() {
            let scores = scores.row(row);
            let most = largest_of(scores, scale, *largest);
            let mut sums = [T::ZERO; LANES];
            for (at, chunk) in (0..).step_by(LANES).zip(scores.chunks_exact_mut(LANES)) {
                let weights = match most == T::NEG_INFINITY {
                    // Nothing to see so far; or scores that are no numbers, which stay.
                    true => {
                        std::array::from_fn(|lane| if chunk[lane] == most { T::ZERO } else { chunk[lane] })
                    }
                    false => exponentials_of::<T, S>(chunk, scale, most),
                };
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
                sink.put(row, at, chunk, weights);
            }
            *shrink = match *largest {
                before if before == most => T::ONE,
                // Nothing so far, as always at first.
                before if before == T::NEG_INFINITY => T::ZERO,
                before => (before - most).exp(),
            };
            *total = *total * *shrink + sums.into_iter().sum();
            *largest = most;
        }
    }
}

/// The largest of a row of whole lanes, scaled, and of what was the largest before.
#[inline(always)]
fn largest_of<T: Real>(scores: &[T], scale: T, before: T) -> T {
    let mut lanes = [T::NEG_INFINITY; LANES];
    for chunk in scores.chunks_exact(LANES) {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = (score * scale).maximum(*lane);
        }
    }
    lanes.iter().fold(before, |largest, &lane| lane.maximum(largest))
}

/// The exponentials of some lanes relative to the largest.
#[inline(always)]
fn exponentials_of<T: Real, S: Sink<T>>(scores: &[T], scale: T, largest: T) -> [T; LANES] {
    let mut weights = [T::ZERO; LANES];
    for (weight, &score) in weights.iter_mut().zip(scores) {
        *weight = S::exp(score * scale - largest);
    }
    weights
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
