//! Registers of eight and of sixteen numbers, so that loops for AVX2 and AVX-512 are written once.

use std::arch::x86_64::*;

/// A register of numbers. Safety of every method: the CPU has the instruction set; pointers are valid for the lanes that
/// are touched (`mask` has a bit for each).
pub(super) trait Lanes: Copy {
    const COUNT: usize;
    unsafe fn zero() -> Self;
    unsafe fn splat(from: *const f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn load_some(from: *const f32, mask: u16) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn store_some(self, to: *mut f32, mask: u16);
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn scale(self, factor: f32) -> Self;
    /// Turns the first `COUNT` registers, as rows, into columns.
    unsafe fn transpose(rows: &mut [Self; 16]);
}

impl Lanes for __m512 {
    const COUNT: usize = 16;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_set1_ps(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_some(from: *const f32, mask: u16) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, mask: u16) {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_mask_storeu_ps(to, mask, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_fmadd_ps(a, b, self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn scale(self, factor: f32) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm512_mul_ps(self, _mm512_set1_ps(factor)) }
    }
    #[inline(always)]
    unsafe fn transpose(rows: &mut [Self; 16]) {
        // SAFETY: see `Lanes`.
        unsafe {
            // Within quarters: afterwards row 4g + c has, in quarter h, rows 4g..4g + 4 of column 4h + c.
            for group in rows.chunks_exact_mut(4) {
                let (a, b) = (_mm512_unpacklo_ps(group[0], group[1]), _mm512_unpackhi_ps(group[0], group[1]));
                let (c, d) = (_mm512_unpacklo_ps(group[2], group[3]), _mm512_unpackhi_ps(group[2], group[3]));
                let [a, b, c, d] = [a, b, c, d].map(|x| _mm512_castps_pd(x));
                group[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
                group[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
                group[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
                group[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
            }
            // Then the quarters themselves: 0x88 takes the even ones of both, 0xdd the odd ones.
            for c in 0..4 {
                let [p, q, r, s] = [rows[c], rows[4 + c], rows[8 + c], rows[12 + c]];
                let even = (_mm512_shuffle_f32x4::<0x88>(p, q), _mm512_shuffle_f32x4::<0x88>(r, s));
                let odd = (_mm512_shuffle_f32x4::<0xdd>(p, q), _mm512_shuffle_f32x4::<0xdd>(r, s));
                rows[c] = _mm512_shuffle_f32x4::<0x88>(even.0, even.1);
                rows[4 + c] = _mm512_shuffle_f32x4::<0x88>(odd.0, odd.1);
                rows[8 + c] = _mm512_shuffle_f32x4::<0xdd>(even.0, even.1);
                rows[12 + c] = _mm512_shuffle_f32x4::<0xdd>(odd.0, odd.1);
            }
        }
    }
}

/// All ones for the first lanes.
static LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn mask_avx2(mask: u16) -> __m256i {
    // SAFETY: a mask of the first n ≤ 8 lanes; eight numbers from LANES[8 − n] on.
    unsafe { _mm256_loadu_si256(LANES.as_ptr().add(8 - mask.count_ones().min(8) as usize).cast()) }
}

impl Lanes for __m256 {
    const COUNT: usize = 8;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_set1_ps(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_some(from: *const f32, mask: u16) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_maskload_ps(from, mask_avx2(mask)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, mask: u16) {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_maskstore_ps(to, mask_avx2(mask), self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_fmadd_ps(a, b, self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn scale(self, factor: f32) -> Self {
        // SAFETY: see `Lanes`.
        unsafe { _mm256_mul_ps(self, _mm256_set1_ps(factor)) }
    }
    #[inline(always)]
    unsafe fn transpose(rows: &mut [Self; 16]) {
        // SAFETY: see `Lanes`.
        unsafe {
            // Within halves: afterwards row 4g + c has, in half h, rows 4g..4g + 4 of column 4h + c.
            for group in rows[..8].chunks_exact_mut(4) {
                let (a, b) = (_mm256_unpacklo_ps(group[0], group[1]), _mm256_unpackhi_ps(group[0], group[1]));
                let (c, d) = (_mm256_unpacklo_ps(group[2], group[3]), _mm256_unpackhi_ps(group[2], group[3]));
                let [a, b, c, d] = [a, b, c, d].map(|x| _mm256_castps_pd(x));
                group[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
                group[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
                group[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
                group[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
            }
            for c in 0..4 {
                let (p, q) = (rows[c], rows[4 + c]);
                rows[c] = _mm256_permute2f128_ps::<0x20>(p, q);
                rows[4 + c] = _mm256_permute2f128_ps::<0x31>(p, q);
            }
        }
    }
}
