//! Memory for results, as it comes: on large pages where it is much, and not written before the result is.

use super::view::{Shape, Strides, View, bhld, blhd};
use super::{Level, Trig, Turning, Walk};
use crate::element::Element;
use crate::error::{Error, Result};

/// A large page.
const LARGE: usize = 2 << 20;

/// The order of the axes of new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// `[batch, length, heads, head_dim]`
    Blhd,
    /// `[batch, heads, length, head_dim]`
    Bhld,
}

impl Axes {
    /// Elements of a tensor that fills its memory, and between neighbours; `None` where a product overflows.
    fn geometry(self, Shape { batch, length, heads, head_dim }: Shape) -> Option<(usize, Strides)> {
        let count =
            [batch, length, heads, head_dim].iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        let geometry = match self {
            Axes::Blhd => blhd(count, [batch, length, heads, head_dim]),
            Axes::Bhld => bhld(count, [batch, heads, length, head_dim]),
        };
        Some((count, geometry.ok()?.1))
    }
}

/// Rotates every vector of `x` into new memory; features that are not rotary are copied. The positions have been checked against the
/// table and the shape.
pub(crate) fn rotated<T: Element>(
    level: Level,
    trig: &Trig<T::Table>,
    turning: Turning,
    x: &View<T>,
    axes: Axes,
) -> Result<Vec<T>> {
    let shape = x.shape();
    let mut memory = Vec::new();
    let room = axes.geometry(shape).and_then(|(count, to)| {
        memory.try_reserve_exact(count).ok()?;
        Some((count, to))
    });
    let Some((count, to)) = room else {
        return Err(Error::shape("rotated", shape.to_string(), "a shape that fits in memory"));
    };
    advise(&memory);
    let (source, from) = x.parts();
    // The memory is the walk's alone, and is written through its pointer without being read.
    Walk { trig, turning, shape, source, target: memory.as_mut_ptr(), from, to }.all(level);
    // SAFETY: the capacity is `count`; the walk has written every feature of every vector of the shape, and with these strides
    // those are the first `count` elements.
    unsafe { memory.set_len(count) };
    Ok(memory)
}

/// Asks for large pages where memory is much: small ones are made one by one as they are first touched, which takes several times as long as
/// the rotation.
#[cfg(target_os = "linux")]
fn advise<T>(memory: &Vec<T>) {
    use std::ffi::{c_int, c_void};
    /// MADV_HUGEPAGE
    const LARGE_PAGES: c_int = 14;
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    let start = memory.as_ptr().addr();
    let first = start.next_multiple_of(LARGE);
    let end = (start + memory.capacity() * size_of::<T>()) / LARGE * LARGE;
    if first < end {
        // SAFETY: this advice changes no memory's contents or meaning, and the system refuses it where it does not apply. A refusal
        // costs time alone.
        unsafe { madvise(std::ptr::without_provenance_mut(first), end - first, LARGE_PAGES) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &Vec<T>) {}
