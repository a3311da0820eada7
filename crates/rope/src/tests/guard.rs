//! Buffers that end, or begin, at a page that may not be touched: a stray access of any loop kills the test.

use super::{Bits, Random, element};
use crate::kernel::Level;
use crate::{Pairing, Positions, Rope, Turn, View, ViewMut, bf16, f16};

/// Memory of whole pages between two pages that may not be read or written.
struct Guarded {
    pages: *mut u8,
    inner: usize,
    page: usize,
}

impl Guarded {
    fn new(bytes: usize) -> Self {
        // SAFETY: a fresh mapping; its first and last page are then made inaccessible.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let inner = bytes.div_ceil(page).max(1) * page;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), inner + 2 * page, protection, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let pages = pages.cast::<u8>();
            assert_eq!(libc::mprotect(pages.cast(), page, libc::PROT_NONE), 0);
            assert_eq!(libc::mprotect(pages.add(page + inner).cast(), page, libc::PROT_NONE), 0);
            Guarded { pages, inner, page }
        }
    }

    /// `count` elements that begin where the memory begins, or end where it ends.
    fn slice<T: Copy>(&mut self, count: usize, at_end: bool) -> &mut [T] {
        let bytes = count * size_of::<T>();
        assert!(bytes <= self.inner);
        let offset = if at_end { self.inner - bytes } else { 0 };
        // SAFETY: within the accessible pages, zeroed by the kernel, borrowed as long as self is.
        unsafe { std::slice::from_raw_parts_mut(self.pages.add(self.page + offset).cast(), count) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.pages.cast(), self.inner + 2 * self.page) };
    }
}

fn sweep<T: Bits>() {
    let mut random = Random(7);
    for pairs in 1..=40 {
        for (length, heads) in [(1, 1), (3, 1), (1, 3), (2, 2)] {
            for pairing in [Pairing::Interleaved, Pairing::Half, Pairing::InterleavedToHalf] {
                let dim = 2 * pairs;
                let rope = Rope::builder(dim).pairing(pairing).build().unwrap();
                let table = rope.table::<T::Table>(0..4, None).unwrap();
                let rows = table.at(Positions::From(1)).unwrap();
                let input: Vec<T> = (0..length * heads * dim).map(|_| element(&mut random)).collect();
                for level in Level::available() {
                    for at_end in [false, true] {
                        let shape = [1, length, heads, dim];
                        let mut memory = Guarded::new(size_of_val(&input[..]));
                        let x = memory.slice::<T>(input.len(), at_end);
                        x.copy_from_slice(&input);
                        let mut other = Guarded::new(size_of_val(&input[..]));
                        let y = other.slice::<T>(input.len(), at_end);
                        let (trig, turning) = rows.turning(Turn::Forward);
                        let source = View::blhd(x, shape).unwrap();
                        let mut target = ViewMut::blhd(y, shape).unwrap();
                        crate::kernel::rotate_to(level, &trig, turning, &source, &mut target);
                        rows.rotate_at(level, Turn::Forward, &mut ViewMut::blhd(x, shape).unwrap());
                        let same = |(a, b): (&T, &T)| a.bits() == b.bits() || (a.is_nan() && b.is_nan());
                        assert!(x.iter().zip(y.iter()).all(same));
                    }
                }
            }
        }
    }
}

#[test]
fn no_loop_leaves_its_buffer() {
    sweep::<f32>();
    sweep::<f64>();
    sweep::<f16>();
    sweep::<bf16>();
}
