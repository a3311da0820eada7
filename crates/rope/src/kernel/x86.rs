//! The loop for AVX2 and AVX-512: written once over the traits `Lanes` (a register of numbers) and `Pack` (how
//! elements are loaded into one), which each register type implements with intrinsics.
//!
//! Products are rounded before they are added, as in the portable loop: fused ones would give other bits. Trait methods
//! are `inline(always)` and carry no `target_feature`, so that they take on that of the loop they end up in.

use super::{Run, fill, portable};
use crate::element::{Element, Precision};
use crate::pairing::Order;
use crate::schedule::AnglePrecision;
use crate::trig::Angle;
use half::{bf16, f16};
use std::arch::x86_64::*;

/// A register of `COUNT` numbers.
///
/// Safety of every method: the CPU has the instruction set of the implementing type, and pointers are valid for
/// `COUNT` numbers (no alignment is needed).
pub(super) trait Lanes: Copy {
    type Number: Precision;
    const COUNT: usize;
    unsafe fn load(from: *const Self::Number) -> Self;
    unsafe fn store(self, to: *mut Self::Number);
    /// −0.0 in every lane if `negative`, else 0.0.
    unsafe fn sign(negative: bool) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    /// x = a0 b0 a1 b1 …, y = the rest, into a and b.
    unsafe fn split(x: Self, y: Self) -> (Self, Self);
    /// The inverse of `split`.
    unsafe fn join(a: Self, b: Self) -> (Self, Self);
}

/// A way to fill the lanes of `L` with elements of type `T`, and to round them back.
///
/// Safety of every method: as for `Lanes`, with pointers valid for `COUNT` elements, or twice as many for pairs and
/// for two registers.
pub(super) trait Pack<T: Element<Table = L::Number>, L: Lanes> {
    unsafe fn load(from: *const T) -> L;
    unsafe fn store(to: *mut T, lanes: L);
    /// Two registers' worth of neighbours.
    #[inline(always)]
    unsafe fn store_two(to: *mut T, first: L, second: L) {
        // SAFETY: the caller's promise.
        unsafe {
            Self::store(to, first);
            Self::store(to.add(L::COUNT), second);
        }
    }
    /// Elements that stand side by side as pairs.
    #[inline(always)]
    unsafe fn load_pairs(from: *const T) -> (L, L) {
        // SAFETY: the caller's promise.
        unsafe { L::split(Self::load(from), Self::load(from.add(L::COUNT))) }
    }
    #[inline(always)]
    unsafe fn store_pairs(to: *mut T, a: L, b: L) {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = L::join(a, b);
            Self::store_two(to, x, y);
        }
    }
}

/// Conversions that AVX2 and AVX-512 F have.
pub(super) struct Plain;
/// Rounding to `bf16` by AVX-512 BF16.
pub(super) struct InHardware;

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
            (Order::Half, Order::Half) => vectors::<T, L, K, true, true>(run),
            (Order::Interleaved, Order::Interleaved) => vectors::<T, L, K, false, false>(run),
            (Order::Interleaved, Order::Half) => vectors::<T, L, K, false, true>(run),
            (Order::Half, Order::Interleaved) => vectors::<T, L, K, true, false>(run),
        }
    }
}

#[inline(always)]
unsafe fn vectors<T, L, K, const FROM_HALF: bool, const TO_HALF: bool>(run: &Run<T>)
where
    T: Element<Table = L::Number>,
    L: Lanes,
    K: Pack<T, L>,
{
    // A copy of the run: its fields stay in registers, where a store through `target` could not change them.
    let run = *run;
    let Run { pairs, .. } = run;
    let two = 2 * L::COUNT;
    // SAFETY (all of it): vectors of the run, pair indices below `pairs`. All features of a group of pairs are read
    // before any is written, so source and target may be the same vectors.
    unsafe {
        let sign = L::sign(run.conjugate);
        for token in 0..run.tokens {
            for head in 0..run.heads {
                let (source, target, cos, sin) = run.vector(token, head);
                let mut pair = 0;
                while pair + two <= pairs {
                    let (x, y) = group::<T, L, K, FROM_HALF>(source, cos, sin, sign, pairs, pair);
                    let (z, w) = group::<T, L, K, FROM_HALF>(source, cos, sin, sign, pairs, pair + L::COUNT);
                    if TO_HALF {
                        K::store_two(target.add(pair), x, z);
                        K::store_two(target.add(pairs + pair), y, w);
                    } else {
                        K::store_pairs(target.add(2 * pair), x, y);
                        K::store_pairs(target.add(2 * (pair + L::COUNT)), z, w);
                    }
                    pair += two;
                }
                if pair + L::COUNT <= pairs {
                    let (x, y) = group::<T, L, K, FROM_HALF>(source, cos, sin, sign, pairs, pair);
                    if TO_HALF {
                        K::store(target.add(pair), x);
                        K::store(target.add(pairs + pair), y);
                    } else {
                        K::store_pairs(target.add(2 * pair), x, y);
                    }
                    pair += L::COUNT;
                }
                if pair < pairs {
                    portable::pairs(&run, token, head, pair);
                }
            }
        }
    }
}

/// Rotates `COUNT` pairs of a vector from `pair` on. (A closure would not take on the loop's instruction set.)
#[inline(always)]
unsafe fn group<T, L, K, const FROM_HALF: bool>(
    source: *const T,
    cos: *const T::Table,
    sin: *const T::Table,
    sign: L,
    pairs: usize,
    pair: usize,
) -> (L, L)
where
    T: Element<Table = L::Number>,
    L: Lanes,
    K: Pack<T, L>,
{
    // SAFETY: the caller has a vector of `pairs` pairs there, and `pair` + `COUNT` is at most that.
    unsafe {
        let (c, s) = (L::load(cos.add(pair)), L::load(sin.add(pair)).xor(sign));
        let (a, b) = if FROM_HALF {
            (K::load(source.add(pair)), K::load(source.add(pairs + pair)))
        } else {
            K::load_pairs(source.add(2 * pair))
        };
        (a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s)))
    }
}

#[derive(Clone, Copy)]
pub(super) struct F32x8(__m256);
#[derive(Clone, Copy)]
pub(super) struct F32x16(__m512);
#[derive(Clone, Copy)]
pub(super) struct F64x4(__m256d);
#[derive(Clone, Copy)]
pub(super) struct F64x8(__m512d);

/// The methods of `Lanes` that are one intrinsic each.
macro_rules! lanes {
    ($type:ident, $number:ty, $count:expr, $load:ident, $store:ident, $splat:ident, $xor:ident, $mul:ident, $add:ident, $sub:ident,
     |$x:ident, $y:ident| $split:expr, |$a:ident, $b:ident| $join:expr) => {
        // SAFETY (all of it): `Lanes` asks its caller for the instruction set and for valid pointers.
        impl Lanes for $type {
            type Number = $number;
            const COUNT: usize = $count;
            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: see above.
                $type(unsafe { $load(from) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: see above.
                unsafe { $store(to, self.0) }
            }
            #[inline(always)]
            unsafe fn sign(negative: bool) -> Self {
                // SAFETY: see above.
                $type(unsafe { $splat(if negative { -0.0 } else { 0.0 }) })
            }
            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: see above.
                $type(unsafe { $xor(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: see above.
                $type(unsafe { $mul(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: see above.
                $type(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                // SAFETY: see above.
                $type(unsafe { $sub(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn split($x: Self, $y: Self) -> (Self, Self) {
                // SAFETY: see above.
                unsafe { $split }
            }
            #[inline(always)]
            unsafe fn join($a: Self, $b: Self) -> (Self, Self) {
                // SAFETY: see above.
                unsafe { $join }
            }
        }
        impl Pack<$number, $type> for Plain {
            #[inline(always)]
            unsafe fn load(from: *const $number) -> $type {
                // SAFETY: see above.
                unsafe { <$type as Lanes>::load(from) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $number, lanes: $type) {
                // SAFETY: see above.
                unsafe { lanes.store(to) }
            }
        }
    };
}

lanes!(
    F32x8,
    f32,
    8,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_xor_ps,
    _mm256_mul_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    |x, y| {
        // Halves of 128 bits are shuffled each for itself; the last step puts the four quarters in order.
        let a = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(x.0, y.0));
        let b = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(x.0, y.0));
        let a = _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(a));
        let b = _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(b));
        (F32x8(a), F32x8(b))
    },
    |a, b| {
        let (low, high) = (_mm256_unpacklo_ps(a.0, b.0), _mm256_unpackhi_ps(a.0, b.0));
        (F32x8(_mm256_permute2f128_ps::<0x20>(low, high)), F32x8(_mm256_permute2f128_ps::<0x31>(low, high)))
    }
);

lanes!(
    F32x16,
    f32,
    16,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_xor_ps,
    _mm512_mul_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    |x, y| {
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        (F32x16(_mm512_permutex2var_ps(x.0, even, y.0)), F32x16(_mm512_permutex2var_ps(x.0, odd, y.0)))
    },
    |a, b| {
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        (F32x16(_mm512_permutex2var_ps(a.0, low, b.0)), F32x16(_mm512_permutex2var_ps(a.0, high, b.0)))
    }
);

lanes!(
    F64x4,
    f64,
    4,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_xor_pd,
    _mm256_mul_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    |x, y| {
        let (a, b) = (_mm256_unpacklo_pd(x.0, y.0), _mm256_unpackhi_pd(x.0, y.0));
        (F64x4(_mm256_permute4x64_pd::<0b11_01_10_00>(a)), F64x4(_mm256_permute4x64_pd::<0b11_01_10_00>(b)))
    },
    |a, b| {
        let (low, high) = (_mm256_unpacklo_pd(a.0, b.0), _mm256_unpackhi_pd(a.0, b.0));
        (F64x4(_mm256_permute2f128_pd::<0x20>(low, high)), F64x4(_mm256_permute2f128_pd::<0x31>(low, high)))
    }
);

lanes!(
    F64x8,
    f64,
    8,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_xor_pd,
    _mm512_mul_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    |x, y| {
        let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
        let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
        (F64x8(_mm512_permutex2var_pd(x.0, even, y.0)), F64x8(_mm512_permutex2var_pd(x.0, odd, y.0)))
    },
    |a, b| {
        let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        (F64x8(_mm512_permutex2var_pd(a.0, low, b.0)), F64x8(_mm512_permutex2var_pd(a.0, high, b.0)))
    }
);

// SAFETY of the implementations below: `Pack` asks its caller for the instruction set and for valid pointers.

impl Pack<f16, F32x8> for Plain {
    #[inline(always)]
    unsafe fn load(from: *const f16) -> F32x8 {
        // SAFETY: see above.
        F32x8(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) })
    }
    #[inline(always)]
    unsafe fn store(to: *mut f16, lanes: F32x8) {
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(lanes.0)) }
    }
}

impl Pack<f16, F32x16> for Plain {
    #[inline(always)]
    unsafe fn load(from: *const f16) -> F32x16 {
        // SAFETY: see above.
        F32x16(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }
    #[inline(always)]
    unsafe fn store(to: *mut f16, lanes: F32x16) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(lanes.0)) }
    }
}

/// The bits of eight `f32` rounded to `bf16`, which is their upper half: to nearest, ties to even; NaN made quiet.
#[inline(always)]
unsafe fn round_to_bf16_x8(lanes: F32x8) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let bits = _mm256_castps_si256(lanes.0);
        let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), last);
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(lanes.0, lanes.0));
        _mm256_blendv_epi8(rounded, quiet, nan)
    }
}

/// As `round_to_bf16_x8`, sixteen at a time. The hardware's own conversion would lose subnormal numbers.
#[inline(always)]
unsafe fn round_to_bf16_x16(lanes: F32x16) -> __m512i {
    // SAFETY: the caller has AVX-512 F.
    unsafe {
        let bits = _mm512_castps_si512(lanes.0);
        let last = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), last);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(lanes.0, lanes.0);
        _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000))
    }
}

impl Pack<bf16, F32x8> for Plain {
    #[inline(always)]
    unsafe fn load(from: *const bf16) -> F32x8 {
        // SAFETY: see above.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits)))
        }
    }
    #[inline(always)]
    unsafe fn store(to: *mut bf16, lanes: F32x8) {
        // SAFETY: see above.
        unsafe {
            let halves = _mm256_srli_epi32::<16>(round_to_bf16_x8(lanes));
            let packed = _mm256_packus_epi32(halves, halves);
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed))
        }
    }
    #[inline(always)]
    unsafe fn load_pairs(from: *const bf16) -> (F32x8, F32x8) {
        // SAFETY: see above. A pair is one 32-bit word; each half of it is the upper half of an f32.
        unsafe {
            let words = _mm256_loadu_si256(from.cast());
            let a = _mm256_slli_epi32::<16>(words);
            let b = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF_0000u32 as i32));
            (F32x8(_mm256_castsi256_ps(a)), F32x8(_mm256_castsi256_ps(b)))
        }
    }
    #[inline(always)]
    unsafe fn store_pairs(to: *mut bf16, a: F32x8, b: F32x8) {
        // SAFETY: see above.
        unsafe {
            let a = _mm256_srli_epi32::<16>(round_to_bf16_x8(a));
            _mm256_storeu_si256(to.cast(), _mm256_blend_epi16::<0b1010_1010>(a, round_to_bf16_x8(b)))
        }
    }
}

impl Pack<bf16, F32x16> for Plain {
    #[inline(always)]
    unsafe fn load(from: *const bf16) -> F32x16 {
        // SAFETY: see above.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
        }
    }
    #[inline(always)]
    unsafe fn store(to: *mut bf16, lanes: F32x16) {
        // SAFETY: see above.
        unsafe {
            let halves = _mm512_srli_epi32::<16>(round_to_bf16_x16(lanes));
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(halves))
        }
    }
    #[inline(always)]
    unsafe fn load_pairs(from: *const bf16) -> (F32x16, F32x16) {
        // SAFETY: see above. A pair is one 32-bit word; each half of it is the upper half of an f32.
        unsafe {
            let words = _mm512_loadu_si512(from.cast());
            let a = _mm512_slli_epi32::<16>(words);
            let b = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF_0000u32 as i32));
            (F32x16(_mm512_castsi512_ps(a)), F32x16(_mm512_castsi512_ps(b)))
        }
    }
    #[inline(always)]
    unsafe fn store_pairs(to: *mut bf16, a: F32x16, b: F32x16) {
        // SAFETY: see above.
        unsafe {
            let a = _mm512_srli_epi32::<16>(round_to_bf16_x16(a));
            let pairs = _mm512_mask_blend_epi16(0xAAAA_AAAA, a, round_to_bf16_x16(b));
            _mm512_storeu_si512(to.cast(), pairs)
        }
    }
}

/// Thirty-two `f32` rounded to `bf16`.
///
/// The instruction rounds and quiets NaN as `round_to_bf16_x16` does but takes subnormal numbers for zero, so those,
/// which are rare, go the long way.
#[inline(always)]
unsafe fn round_in_hardware(first: F32x16, second: F32x16) -> __m512i {
    const SUBNORMAL: i32 = 0x20;
    // SAFETY: the caller has AVX-512 F, BW, DQ and BF16; the two types are both 512 bits without invalid values.
    unsafe {
        let subnormal =
            _mm512_fpclass_ps_mask::<SUBNORMAL>(first.0) | _mm512_fpclass_ps_mask::<SUBNORMAL>(second.0);
        if subnormal == 0 {
            return std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second.0, first.0));
        }
        let first = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(round_to_bf16_x16(first)));
        let second = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(round_to_bf16_x16(second)));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
    }
}

impl Pack<bf16, F32x16> for InHardware {
    #[inline(always)]
    unsafe fn load(from: *const bf16) -> F32x16 {
        // SAFETY: see above.
        unsafe { <Plain as Pack<bf16, F32x16>>::load(from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut bf16, lanes: F32x16) {
        // SAFETY: see above.
        unsafe { <Plain as Pack<bf16, F32x16>>::store(to, lanes) }
    }
    #[inline(always)]
    unsafe fn store_two(to: *mut bf16, first: F32x16, second: F32x16) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), round_in_hardware(first, second)) }
    }
    #[inline(always)]
    unsafe fn load_pairs(from: *const bf16) -> (F32x16, F32x16) {
        // SAFETY: see above.
        unsafe { <Plain as Pack<bf16, F32x16>>::load_pairs(from) }
    }
    #[inline(always)]
    unsafe fn store_pairs(to: *mut bf16, a: F32x16, b: F32x16) {
        // SAFETY: see above.
        unsafe {
            let side_by_side = _mm512_set_epi16(
                31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19,
                3, 18, 2, 17, 1, 16, 0,
            );
            let pairs = _mm512_permutexvar_epi16(side_by_side, round_in_hardware(a, b));
            _mm512_storeu_si512(to.cast(), pairs)
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
