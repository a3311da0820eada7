//! Memory for results: zeros that the system hands out unwritten, on large pages where they are many.

use crate::element::Element;
use std::alloc::{Layout, alloc_zeroed};

/// A large page.
const LARGE: usize = 2 << 20;

/// So many zeros to rotate into, or `None` if there is no room for them.
///
/// They come zeroed from the system, so nothing is written yet; and where it has large pages, on those, because small ones are made one by
/// one as they are first touched, which takes several times as long as the rotation.
///
/// ```
/// use rope::{Positions, Rope, Turn, View, ViewMut};
///
/// let x = [3.0f32, 4.0];
/// let mut y = rope::zeros(x.len()).ok_or("no room")?;
/// let table = Rope::builder(2).build()?.table(0..8, None)?;
/// let rows = table.at(Positions::From(0))?;
/// rows.rotate_to(Turn::Forward, &View::blhd(&x, [1, 1, 1, 2])?, &mut ViewMut::blhd(&mut y, [1, 1, 1, 2])?)?;
/// assert_eq!(y, [3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn zeros<T: Element>(count: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(count).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    let first = start.addr().next_multiple_of(LARGE);
    let end = (start.addr() + layout.size()) / LARGE * LARGE;
    if first < end {
        advise(first, end - first);
    }
    // SAFETY: the memory is of the global allocator, with the layout of `count` elements; those are numbers, of which zero bits are one.
    Some(unsafe { Vec::from_raw_parts(start.cast(), count, count) })
}

/// Asks for large pages.
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

#[cfg(test)]
mod tests {
    use super::zeros;
    use half::bf16;

    #[test]
    fn zeros_of_any_number_or_none() {
        assert!(zeros::<f32>(0).is_some_and(|list| list.is_empty()));
        for count in [1, 3, 1000, (5 << 20) / 8 + 1] {
            assert_eq!(zeros::<f64>(count), Some(vec![0.0; count]));
            assert!(zeros::<bf16>(count).is_some_and(|list| list == vec![bf16::ZERO; count]));
        }
        assert_eq!(zeros::<f64>(usize::MAX), None);
        assert_eq!(zeros::<f64>(1 << 58), None);
    }
}
