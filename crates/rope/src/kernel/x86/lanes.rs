//! Registers of numbers: AVX2 and AVX-512 behind one trait.

use crate::element::Precision;
use std::arch::x86_64::*;

/// A register of `COUNT` numbers.
///
/// Safety of every method: the CPU has the instruction set of the implementing type, and pointers are valid for
/// `COUNT` numbers (no alignment is needed).
pub(in crate::kernel) trait Lanes: Copy {
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
    /// The two neighbours of each pair exchanged.
    unsafe fn swap(self) -> Self;
    /// The inverse of `split`.
    unsafe fn join(a: Self, b: Self) -> (Self, Self);
}

#[derive(Clone, Copy)]
pub(in crate::kernel) struct F32x8(pub __m256);
#[derive(Clone, Copy)]
pub(in crate::kernel) struct F32x16(pub __m512);
#[derive(Clone, Copy)]
pub(in crate::kernel) struct F64x4(pub __m256d);
#[derive(Clone, Copy)]
pub(in crate::kernel) struct F64x8(pub __m512d);

/// The methods of `Lanes` that are one intrinsic each.
macro_rules! lanes {
    ($type:ident, $number:ty, $count:expr, $load:ident, $store:ident, $splat:ident, $xor:ident, $mul:ident, $add:ident, $sub:ident,
     |$v:ident| $swap:expr, |$x:ident, $y:ident| $split:expr, |$a:ident, $b:ident| $join:expr) => {
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
            unsafe fn swap(self) -> Self {
                let $v = self.0;
                // SAFETY: see above.
                $type(unsafe { $swap })
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
    |v| _mm256_permute_ps::<0b10_11_00_01>(v),
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
    |v| _mm512_permute_ps::<0b10_11_00_01>(v),
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
    |v| _mm256_permute_pd::<0b0101>(v),
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
    |v| _mm512_permute_pd::<0b0101_0101>(v),
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
