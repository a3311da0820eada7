//! Large memory: zeroed, aligned to cache lines, on huge pages where the system has them.
//!
//! A fresh allocation of a model's size costs a page fault every 4 KiB, and products that stream through it a translation
//! every 4 KiB; huge pages cost neither.

use memmap2::MmapMut;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Whether this many bytes can be had without driving the system out of memory. Maps are granted long before they are
/// backed by anything, so a sum of several must be asked about beforehand. `true` where the system does not tell.
pub fn is_available(bytes: u128) -> bool {
    // Small requests are not worth a look.
    if bytes < 1 << 28 {
        return true;
    }
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u128>().ok()
    });
    available.is_none_or(|kib| bytes <= kib * 1024)
}

/// `len` numbers with this value; `None` if there is not enough memory.
pub fn filled<T: Clone>(len: usize, value: T) -> Option<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(len).ok()?;
    list.resize(len, value);
    Some(list)
}

/// A number: zeros are one, and so are any other bits.
///
/// # Safety
///
/// Every pattern of bits is a value, and the alignment is at most that of a page.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: numbers.
unsafe impl Plain for f32 {}
// SAFETY: numbers.
unsafe impl Plain for f64 {}
// SAFETY: numbers.
unsafe impl Plain for i8 {}

/// `len` numbers. Like a boxed slice.
pub struct Memory<T> {
    map: Option<MmapMut>,
    capacity: usize,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Plain> Memory<T> {
    /// Zeros; `None` if there is not enough memory.
    pub fn zeros(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Memory { map: None, capacity: 0, len, kind: PhantomData });
        }
        let bytes = len.checked_mul(size_of::<T>())?;
        let map = MmapMut::map_anon(bytes).ok()?;
        #[cfg(target_os = "linux")]
        if bytes >= 1 << 21 {
            // Without huge pages everything works, more slowly.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Memory { map: Some(map), capacity: len, len, kind: PhantomData })
    }

    /// Makes it `len` numbers long, of any values, in the memory that is there if that is enough; `false` if there is not
    /// enough memory.
    pub fn fit(&mut self, len: usize) -> bool {
        if len > self.capacity {
            match Memory::zeros(len) {
                Some(more) => *self = more,
                None => return false,
            }
        }
        self.len = len;
        true
    }
}

impl<T> Deref for Memory<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.map {
            None => &[],
            // SAFETY: an anonymous mapping of at least len·size_of::<T>() bytes, aligned to a page; all bit patterns are
            // numbers; borrowed as long as self is.
            Some(map) => unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), self.len) },
        }
    }
}

impl<T> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.map {
            None => &mut [],
            // SAFETY: as above, exclusively.
            Some(map) => unsafe { std::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), self.len) },
        }
    }
}
