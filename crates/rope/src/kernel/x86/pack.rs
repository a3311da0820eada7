//! Elements into registers and back: the conversions from and to 16-bit numbers.

use super::lanes::{F32x8, F32x16, F64x4, F64x8, Lanes};
use crate::element::Element;
use half::{bf16, f16};
use std::arch::x86_64::*;

/// A way to fill the lanes of `L` with elements of type `T`, and to round them back.
///
/// Safety of every method: as for `Lanes`, with pointers valid for `COUNT` elements, or twice as many for pairs and
/// for two registers.
pub(in crate::kernel) trait Pack<T: Element<Table = L::Number>, L: Lanes> {
    /// Whether neighbours are cheaper to load into two registers than to leave side by side.
    const SPLITS_PAIRS: bool = false;
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
pub(in crate::kernel) struct Plain;
/// Rounding to `bf16` by AVX-512 BF16.
pub(in crate::kernel) struct InHardware;

// SAFETY of the implementations below: `Pack` asks its caller for the instruction set and for valid pointers.

/// Numbers that are their own lanes.
macro_rules! plain {
    ($($number:ty: $type:ident),*) => {$(
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
    )*};
}
plain!(f32: F32x8, f32: F32x16, f64: F64x4, f64: F64x8);

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

/// The bits of eight numbers, not NaN, rounded to `bf16`, which is their upper half: to nearest, ties to even.
#[inline(always)]
unsafe fn round_numbers_x8(bits: __m256i) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), last)
    }
}

/// The same of any eight `f32`: NaN is made quiet.
#[inline(always)]
unsafe fn round_to_bf16_x8(lanes: F32x8) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let bits = _mm256_castps_si256(lanes.0);
        let rounded = round_numbers_x8(bits);
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(lanes.0, lanes.0));
        _mm256_blendv_epi8(rounded, quiet, nan)
    }
}

/// Two registers at once: one look for NaN, which is rare, for both.
#[inline(always)]
unsafe fn round_two_to_bf16(first: F32x8, second: F32x8) -> (__m256i, __m256i) {
    // SAFETY: the caller has AVX2.
    unsafe {
        match _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(first.0, second.0)) {
            0 => (
                round_numbers_x8(_mm256_castps_si256(first.0)),
                round_numbers_x8(_mm256_castps_si256(second.0)),
            ),
            _ => (round_to_bf16_x8(first), round_to_bf16_x8(second)),
        }
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
    const SPLITS_PAIRS: bool = true;
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
    unsafe fn store_two(to: *mut bf16, first: F32x8, second: F32x8) {
        // SAFETY: see above.
        unsafe {
            let (first, second) = round_two_to_bf16(first, second);
            let packed = _mm256_packus_epi32(_mm256_srli_epi32::<16>(first), _mm256_srli_epi32::<16>(second));
            _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(packed))
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
            let (a, b) = round_two_to_bf16(a, b);
            let a = _mm256_srli_epi32::<16>(a);
            _mm256_storeu_si256(to.cast(), _mm256_blend_epi16::<0b1010_1010>(a, b))
        }
    }
}

impl Pack<bf16, F32x16> for Plain {
    const SPLITS_PAIRS: bool = true;
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
    const SPLITS_PAIRS: bool = true;
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
