//! The loop for AVX2 and AVX-512, written once over the traits `Lanes` (a register of numbers, in `lanes.rs`) and `Pack`
//! (how elements are loaded into one, in `pack.rs`).
//!
//! Products are rounded before they are added, as in the portable loop: fused ones would give other bits. Trait methods
//! are `inline(always)` and carry no `target_feature`, so that they take on that of the loop they end up in; closures
//! would not, so there are none.

mod lanes;
mod pack;

use super::{Run, fill, portable};
use crate::element::{Element, Precision};
use crate::pairing::Order;
use crate::schedule::AnglePrecision;
use crate::trig::Angle;
pub(super) use lanes::{F32x8, F32x16, F64x4, F64x8, Lanes};
pub(super) use pack::{InHardware, Pack, Plain};
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::marker::PhantomData;

/// Rotates a run with AVX2.
///
/// # Safety
///
/// The run's invariants hold; the CPU has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run_avx2<T: Element<Table = L::Number>, L: Lanes, K: Pack<T, L>>(run: &Run<T>) {
    // SAFETY: the caller's promise.
    unsafe { rotate::<T, L, K>(run) }
}

/// Rotates a run with AVX-512.
///
/// # Safety
///
/// The run's invariants hold; the CPU has AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn run_avx512<T: Element<Table = L::Number>, L: Lanes, K: Pack<T, L>>(run: &Run<T>) {
    // SAFETY: the caller's promise.
    unsafe { rotate::<T, L, K>(run) }
}

/// Rotates a run with AVX-512 and its `bf16` instructions.
///
/// # Safety
///
/// The run's invariants hold; the CPU has AVX-512 F, BW, DQ, VL and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
pub(super) unsafe fn run_avx512_bf16<T: Element<Table = L::Number>, L: Lanes, K: Pack<T, L>>(run: &Run<T>) {
    // SAFETY: the caller's promise.
    unsafe { rotate::<T, L, K>(run) }
}

#[inline(always)]
unsafe fn rotate<T: Element<Table = L::Number>, L: Lanes, K: Pack<T, L>>(run: &Run<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match (run.from, run.to) {
            (Order::Half, Order::Half) if K::SPLITS_PAIRS => {
                vectors::<T, EvenOdd<L, K>, Split<L, K, true, true>>(run);
            }
            (Order::Half, Order::Half) => split::<T, L, K, true, true>(run),
            (Order::Interleaved, Order::Half) => split::<T, L, K, false, true>(run),
            (Order::Half, Order::Interleaved) => split::<T, L, K, true, false>(run),
            (Order::Interleaved, Order::Interleaved) if K::SPLITS_PAIRS => {
                split::<T, L, K, false, false>(run)
            }
            (Order::Interleaved, Order::Interleaved) => {
                vectors::<T, Twice<InOrder<L, K>>, InOrder<L, K>>(run)
            }
        }
    }
}

#[inline(always)]
unsafe fn split<T, L, K, const FROM_HALF: bool, const TO_HALF: bool>(run: &Run<T>)
where
    T: Element<Table = L::Number>,
    L: Lanes,
    K: Pack<T, L>,
{
    // SAFETY: the caller's promise.
    unsafe { vectors::<T, SplitTwo<L, K, FROM_HALF, TO_HALF>, Split<L, K, FROM_HALF, TO_HALF>>(run) }
}

/// Heads that share the cosines and sines in registers: one of 4 bytes a feature, two of 2. Loading those again from the first-level cache
/// costs less than reading memory out of its order, which more heads at a time are.
const fn heads_together<T>() -> usize {
    let heads = 4 / size_of::<T>();
    if heads > 1 { heads } else { 1 }
}

/// How many bytes ahead vectors are fetched. A rotation keeps a core busy for so long that it asks for the next vectors late: where many
/// cores share the memory, fetching them beforehand is worth a sixth.
const AHEAD: usize = 2048;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Rotates a run in steps of `Wide`, then of `Narrow`, then pair by pair.
#[inline(always)]
unsafe fn vectors<T: Element, Wide: Step<T>, Narrow: Step<T>>(run: &Run<T>) {
    // A copy of the run: its fields stay in registers, where a store through `target` could not change them.
    let run = *run;
    // SAFETY: the run's invariants, handed on by the caller, for tokens and heads that it has.
    unsafe {
        for token in 0..run.tokens {
            let mut head = 0;
            while head < run.heads {
                let heads = (head, run.heads.min(head + heads_together::<T>()));
                // Behind a single token there is nothing to come.
                if run.tokens > 1 {
                    for head in heads.0..heads.1 {
                        fetch(&run, token, head);
                    }
                }
                let pair = steps::<T, Wide>(&run, token, heads, 0);
                let pair = steps::<T, Narrow>(&run, token, heads, pair);
                if pair < run.pairs {
                    for head in heads.0..heads.1 {
                        portable::pairs(&run, token, head, pair);
                    }
                }
                head = heads.1;
            }
        }
    }
}

/// Fetches what is `AHEAD` of the vector of a token and head, which the run need not have: nothing is touched.
///
/// # Safety
///
/// The run's invariants hold and it has this token and head.
#[inline(always)]
unsafe fn fetch<T: Element>(run: &Run<T>, token: usize, head: usize) {
    // SAFETY: the caller's promise.
    let (source, ..) = unsafe { run.vector(token, head) };
    for line in (0..2 * run.pairs * size_of::<T>()).step_by(LINE) {
        // SAFETY: fetching is allowed at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(source.cast::<i8>().wrapping_add(AHEAD + line)) };
    }
}

/// Rotates pairs from `pair` on of some heads of a token, as many as fill steps. Returns the first pair left over.
#[inline(always)]
unsafe fn steps<T: Element, S: Step<T>>(
    run: &Run<T>,
    token: usize,
    heads: (usize, usize),
    pair: usize,
) -> usize {
    let mut pair = pair;
    // SAFETY: tokens and heads of the run; a step's pairs are below `pairs`.
    unsafe {
        while pair + S::PAIRS <= run.pairs {
            let (_, _, cos, sin) = run.vector(token, heads.0);
            let angles = S::load(cos.add(pair), sin.add(pair), run.conjugate);
            for head in heads.0..heads.1 {
                let (source, target, ..) = run.vector(token, head);
                S::rotate(angles, source, target, run.pairs, pair);
            }
            pair += S::PAIRS;
        }
    }
    pair
}

/// A few neighbouring pairs, rotated together. All are read before any is written, so that source and target may be the
/// same vector.
///
/// Safety of both methods: the CPU has the instruction set; `PAIRS` cosines and sines are there to load; source and
/// target are vectors of `pairs` pairs, of which `pair` + `PAIRS` is no more than all.
trait Step<T: Element> {
    const PAIRS: usize;
    /// Cosines and sines in registers.
    type Angles: Copy;
    unsafe fn load(cos: *const T::Table, sin: *const T::Table, conjugate: bool) -> Self::Angles;
    unsafe fn rotate(angles: Self::Angles, source: *const T, target: *mut T, pairs: usize, pair: usize);
}

/// The two features of each pair in two registers.
struct Split<L, K, const FROM_HALF: bool, const TO_HALF: bool>(PhantomData<(L, K)>);
/// Twice as many, whose results are stored two registers at a time.
struct SplitTwo<L, K, const FROM_HALF: bool, const TO_HALF: bool>(PhantomData<(L, K)>);
/// Halves, whose neighbouring pairs go to two registers, even ones and odd ones, as if they were interleaved: where that is
/// how elements are loaded cheapest.
struct EvenOdd<L, K>(PhantomData<(L, K)>);
/// Interleaved pairs left as they are: x·(c, c) + swapped x·(−s, s).
struct InOrder<L, K>(PhantomData<(L, K)>);
/// Two of another step, one after the other.
struct Twice<S>(PhantomData<S>);

/// The two rotated features of `COUNT` pairs from `pair` on.
#[inline(always)]
unsafe fn turned<T, L, K, const FROM_HALF: bool>(
    (c, s): (L, L),
    source: *const T,
    pairs: usize,
    pair: usize,
) -> (L, L)
where
    T: Element<Table = L::Number>,
    L: Lanes,
    K: Pack<T, L>,
{
    // SAFETY: as for `Step`.
    unsafe {
        let (a, b) = if FROM_HALF {
            (K::load(source.add(pair)), K::load(source.add(pairs + pair)))
        } else {
            K::load_pairs(source.add(2 * pair))
        };
        (a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s)))
    }
}

impl<T, L, K, const FROM_HALF: bool, const TO_HALF: bool> Step<T> for Split<L, K, FROM_HALF, TO_HALF>
where
    T: Element<Table = L::Number>,
    L: Lanes,
    K: Pack<T, L>,
{
    const PAIRS: usize = L::COUNT;
    type Angles = (L, L);
    #[inline(always)]
    unsafe fn load(cos: *const T::Table, sin: *const T::Table, conjugate: bool) -> (L, L) {
        // SAFETY: as for `Step`.
        unsafe { (L::load(cos), L::load(sin).xor(L::sign(conjugate))) }
    }
    #[inline(always)]
    unsafe fn rotate(angles: (L, L), source: *const T, target: *mut T, pairs: usize, pair: usize) {
        // SAFETY: as for `Step`.
        unsafe {
            let (x, y) = turned::<T, L, K, FROM_HALF>(angles, source, pairs, pair);
            if TO_HALF {
                K::store(target.add(pair), x);
                K::store(target.add(pairs + pair), y);
            } else {
                K::store_pairs(target.add(2 * pair), x, y);
            }
        }
    }
}

impl<T, L, K, const FROM_HALF: bool, const TO_HALF: bool> Step<T> for SplitTwo<L, K, FROM_HALF, TO_HALF>
where
    T: Element<Table = L::Number>,
    L: Lanes,
    K: Pack<T, L>,
{
    const PAIRS: usize = 2 * L::COUNT;
    type Angles = ((L, L), (L, L));
    #[inline(always)]
    unsafe fn load(cos: *const T::Table, sin: *const T::Table, conjugate: bool) -> Self::Angles {
        // SAFETY: as for `Step`.
        unsafe {
            (
                <Split<L, K, FROM_HALF, TO_HALF> as Step<T>>::load(cos, sin, conjugate),
                <Split<L, K, FROM_HALF, TO_HALF> as Step<T>>::load(
                    cos.add(L::COUNT),
                    sin.add(L::COUNT),
                    conjugate,
                ),
            )
        }
    }
    #[inline(always)]
    unsafe fn rotate((near, far): Self::Angles, source: *const T, target: *mut T, pairs: usize, pair: usize) {
        // SAFETY: as for `Step`.
        unsafe {
            let (x, y) = turned::<T, L, K, FROM_HALF>(near, source, pairs, pair);
            let (z, w) = turned::<T, L, K, FROM_HALF>(far, source, pairs, pair + L::COUNT);
            if TO_HALF {
                K::store_two(target.add(pair), x, z);
                K::store_two(target.add(pairs + pair), y, w);
            } else {
                K::store_pairs(target.add(2 * pair), x, y);
                K::store_pairs(target.add(2 * (pair + L::COUNT)), z, w);
            }
        }
    }
}

impl<T: Element<Table = L::Number>, L: Lanes, K: Pack<T, L>> Step<T> for InOrder<L, K> {
    const PAIRS: usize = L::COUNT;
    type Angles = ((L, L), (L, L));
    #[inline(always)]
    unsafe fn load(cos: *const T::Table, sin: *const T::Table, conjugate: bool) -> Self::Angles {
        // SAFETY: as for `Step`.
        unsafe {
            let (c, s) = (L::load(cos), L::load(sin));
            (L::join(c, c), L::join(s.xor(L::sign(!conjugate)), s.xor(L::sign(conjugate))))
        }
    }
    #[inline(always)]
    unsafe fn rotate((c, s): Self::Angles, source: *const T, target: *mut T, _pairs: usize, pair: usize) {
        // SAFETY: as for `Step`.
        unsafe {
            let (x, y) = (K::load(source.add(2 * pair)), K::load(source.add(2 * pair + L::COUNT)));
            let x = x.mul(c.0).add(x.swap().mul(s.0));
            let y = y.mul(c.1).add(y.swap().mul(s.1));
            K::store_two(target.add(2 * pair), x, y);
        }
    }
}

impl<T: Element<Table = L::Number>, L: Lanes, K: Pack<T, L>> Step<T> for EvenOdd<L, K> {
    const PAIRS: usize = 2 * L::COUNT;
    type Angles = ((L, L), (L, L));
    #[inline(always)]
    unsafe fn load(cos: *const T::Table, sin: *const T::Table, conjugate: bool) -> Self::Angles {
        // SAFETY: as for `Step`.
        unsafe {
            let sign = L::sign(conjugate);
            let (near, far) = (L::load(sin).xor(sign), L::load(sin.add(L::COUNT)).xor(sign));
            (L::split(L::load(cos), L::load(cos.add(L::COUNT))), L::split(near, far))
        }
    }
    #[inline(always)]
    unsafe fn rotate((c, s): Self::Angles, source: *const T, target: *mut T, pairs: usize, pair: usize) {
        // SAFETY: as for `Step`.
        unsafe {
            let (a, b) = (K::load_pairs(source.add(pair)), K::load_pairs(source.add(pairs + pair)));
            let even = (a.0.mul(c.0).sub(b.0.mul(s.0)), b.0.mul(c.0).add(a.0.mul(s.0)));
            let odd = (a.1.mul(c.1).sub(b.1.mul(s.1)), b.1.mul(c.1).add(a.1.mul(s.1)));
            K::store_pairs(target.add(pair), even.0, odd.0);
            K::store_pairs(target.add(pairs + pair), even.1, odd.1);
        }
    }
}

impl<T: Element, S: Step<T>> Step<T> for Twice<S> {
    const PAIRS: usize = 2 * S::PAIRS;
    type Angles = (S::Angles, S::Angles);
    #[inline(always)]
    unsafe fn load(cos: *const T::Table, sin: *const T::Table, conjugate: bool) -> Self::Angles {
        // SAFETY: as for `Step`.
        unsafe { (S::load(cos, sin, conjugate), S::load(cos.add(S::PAIRS), sin.add(S::PAIRS), conjugate)) }
    }
    #[inline(always)]
    unsafe fn rotate((near, far): Self::Angles, source: *const T, target: *mut T, pairs: usize, pair: usize) {
        // SAFETY: as for `Step`.
        unsafe {
            S::rotate(near, source, target, pairs, pair);
            S::rotate(far, source, target, pairs, pair + S::PAIRS);
        }
    }
}

/// [`fill::offsets`] with fused products in hardware.
///
/// # Safety
///
/// The CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn fill_offsets(high: &[f64], low: &[f64], offsets: &mut fill::Offsets) {
    fill::offsets(high, low, offsets)
}

/// [`fill::block`] with AVX2.
///
/// # Safety
///
/// The CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn fill_block_avx2<P: Precision>(
    high: &[f64],
    low: &[f64],
    offsets: &fill::Offsets,
    first: f64,
    scale: f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    fill::block(high, low, offsets, first, scale, cos, sin)
}

/// [`fill::block`] with AVX-512.
///
/// # Safety
///
/// The CPU has AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn fill_block_avx512<P: Precision>(
    high: &[f64],
    low: &[f64],
    offsets: &fill::Offsets,
    first: f64,
    scale: f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    fill::block(high, low, offsets, first, scale, cos, sin)
}

/// [`fill::row`] with fused products in hardware.
///
/// # Safety
///
/// The CPU has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn fill_row<P: Precision>(
    precision: AnglePrecision,
    angle: impl Fn(usize) -> Angle,
    scale: impl Fn(usize) -> f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    fill::row(precision, angle, scale, cos, sin)
}
