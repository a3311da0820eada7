//! Large memory: zeroed, aligned to cache lines, on huge pages where the system has them.
//!
//! A fresh allocation of a model's size costs a page fault every 4 KiB, and products that stream through it a translation
//! every 4 KiB; huge pages cost neither. A huge page has 2 MiB, more than many a matrix of fewer bits: weights lie side by side in
//! blocks, so that all of them are on huge pages.

use memmap2::MmapMut;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

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

/// Zeros, on huge pages where that is worth it; `None` if there is not enough memory.
fn map(bytes: usize) -> Option<MmapMut> {
    let map = MmapMut::map_anon(bytes).ok()?;
    #[cfg(target_os = "linux")]
    if bytes >= HUGE_PAGE {
        // Without huge pages everything works, more slowly.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Some(map)
}

const HUGE_PAGE: usize = 1 << 21;
/// Bytes of a block. What of it is never touched takes no memory.
const BLOCK: usize = 16 * HUGE_PAGE;
/// Parts begin at multiples of it: a cache line.
const LINE: usize = 64;

/// Memory that several share, each a part of its own. It is given back when all are gone.
struct Block {
    _map: MmapMut,
    start: *mut u8,
}

// SAFETY: a pointer into a map that it owns; whoever has a part of it touches no other.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// The block that the next part is taken of, while anybody has a part of it, and where that begins.
static OPEN: Mutex<Option<(Weak<Block>, usize)>> = Mutex::new(None);

/// Where numbers are.
enum Place {
    None,
    Map(MmapMut),
    /// From an offset of a block on, so many bytes that nobody else was given or will be.
    Part(Arc<Block>, usize),
}

/// `len` numbers. Like a boxed slice.
pub struct Memory<T> {
    place: Place,
    capacity: usize,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Plain> Memory<T> {
    /// Zeros; `None` if there is not enough memory.
    pub fn zeros(len: usize) -> Option<Self> {
        let place = match len.checked_mul(size_of::<T>())? {
            0 => Place::None,
            bytes => Place::Map(map(bytes)?),
        };
        Some(Memory { place, capacity: len, len, kind: PhantomData })
    }

    /// The same for what stays as long as a model does, beside what else stays.
    pub fn kept(len: usize) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>())?.checked_next_multiple_of(LINE)?;
        if bytes == 0 || bytes > BLOCK {
            return Memory::zeros(len);
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = open.take().and_then(|(block, used)| Some((block.upgrade()?, used)));
        let (block, from) = match kept {
            Some((block, used)) if used + bytes <= BLOCK => (block, used),
            _ => {
                let mut map = map(BLOCK)?;
                let start = map.as_mut_ptr();
                (Arc::new(Block { _map: map, start }), 0)
            }
        };
        *open = Some((Arc::downgrade(&block), from + bytes));
        Some(Memory { place: Place::Part(block, from), capacity: len, len, kind: PhantomData })
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
        let start = match &self.place {
            Place::None => return &[],
            Place::Map(map) => map.as_ptr(),
            // SAFETY: within the block.
            Place::Part(block, from) => unsafe { block.start.add(*from) },
        };
        // SAFETY: an anonymous mapping, or a part of one that is nobody else's, of at least len·size_of::<T>() bytes, aligned to a page or
        // a cache line; all bit patterns are numbers; borrowed as long as self is.
        unsafe { std::slice::from_raw_parts(start.cast(), self.len) }
    }
}

impl<T> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let start = match &mut self.place {
            Place::None => return &mut [],
            Place::Map(map) => map.as_mut_ptr(),
            // SAFETY: within the block.
            Place::Part(block, from) => unsafe { block.start.add(*from) },
        };
        // SAFETY: as above, exclusively.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_zero_whoever_asks() {
        let lists: Vec<Memory<i8>> = std::thread::scope(|scope| {
            let some = |thread: usize| {
                let one = move |index: usize| {
                    let mut memory = Memory::kept((thread + 1) * 1000 * (index % 40) + index).unwrap();
                    assert!(memory.iter().all(|&x| x == 0));
                    memory.fill((thread * 50 + index % 50) as i8);
                    memory
                };
                scope.spawn(move || (0..200).map(one).collect::<Vec<_>>())
            };
            let threads = [0, 1].map(some);
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        for (index, list) in lists.iter().enumerate() {
            let (thread, index) = (index / 200, index % 200);
            assert_eq!(list.len(), (thread + 1) * 1000 * (index % 40) + index);
            assert!(list.iter().all(|&x| x == (thread * 50 + index % 50) as i8), "{thread} {index}");
            assert!(list.is_empty() || list.as_ptr().addr().is_multiple_of(LINE));
        }
    }

    #[test]
    fn what_is_larger_than_a_block_has_a_map_of_its_own() {
        let mut large = Memory::<f32>::kept(BLOCK).unwrap();
        let small = Memory::<f32>::kept(3).unwrap();
        large.fill(1.0);
        assert_eq!((large.len(), &small[..]), (BLOCK, &[0.0; 3][..]));
        assert!(Memory::<f64>::kept(usize::MAX).is_none());
        // What outgrows its part moves.
        let mut part = Memory::<f32>::kept(3).unwrap();
        assert!(part.fit(2) && part.len() == 2 && part.fit(1000) && part.len() == 1000);
    }
}
