//! Memory that is read soon.

/// How many vectors ahead of the one that is read those of a head are fetched: they lie so far apart that the hardware does not see them
/// coming, and as many as memory gives in the time that one takes to arrive are some kilobytes.
pub(crate) const VECTORS_AHEAD: usize = 32;

/// Fetches numbers into the second-level cache; where there is no such instruction, nothing happens.
#[inline(always)]
pub(crate) fn fetch<T>(numbers: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        const LINE: usize = 64;
        let bytes = numbers.as_ptr().cast::<i8>();
        for line in (0..size_of_val(numbers)).step_by(LINE) {
            // SAFETY: an address within the numbers, of which nothing is read. Any x86-64 has the instruction.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}
