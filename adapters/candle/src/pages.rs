//! Large pages for large results.

/// A large page.
const LARGE: usize = 2 << 20;

/// Asks the system for large pages under a result that has not been written to yet: small ones are made one by one as they are first
/// touched, which takes longer than the rotation.
pub(crate) fn make_large<T>(memory: &mut [T]) {
    let start = memory.as_mut_ptr().addr();
    let first = start.next_multiple_of(LARGE);
    let end = (start + size_of_val(memory)) / LARGE * LARGE;
    if first < end {
        advise(first, end - first);
    }
}

#[cfg(target_os = "linux")]
fn advise(address: usize, bytes: usize) {
    use std::ffi::{c_int, c_void};
    /// MADV_HUGEPAGE
    const LARGE_PAGES: c_int = 14;
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    // SAFETY: this advice changes no memory's contents or meaning, and the system refuses it where it does not apply. A refusal costs
    // time alone.
    unsafe { madvise(std::ptr::without_provenance_mut(address), bytes, LARGE_PAGES) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: usize, _: usize) {}
