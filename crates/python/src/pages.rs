//! What the system is asked about memory that torch has made: whether it may be written to, and large pages for large results.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No larger than any page: the system rounds lengths up.
const PAGE: usize = 4096;
/// A large page.
const LARGE_PAGE: usize = 2 << 20;
/// Bytes below which memory comes from an allocator's pages, not from a mapping of its own.
const SMALL: usize = 64 << 10;

/// Whether the page of an address surely cannot be written to, such as that of a file which was mapped to be read: torch takes it like
/// any other, and a write would end the process. Where the system cannot tell (Linux before 5.14, other systems), the answer is no.
///
/// Small tensors come again and again from the same pages, which stay the process's: those are asked for once. Large ones are mapped
/// anew each time, perhaps where another mapping was.
pub(crate) fn is_read_only(address: usize, bytes: usize) -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    static KNOWN: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
    let page = address / PAGE;
    let known = &KNOWN[page % KNOWN.len()];
    if bytes < SMALL && known.load(Ordering::Relaxed) == page {
        return false;
    }
    let prepares = |page: usize| advise(page * PAGE, 1, Advice::PrepareForWrites);
    if prepares(page) {
        known.store(page, Ordering::Relaxed);
        return false;
    }
    let here = 0u8;
    // A system that cannot prepare a page of the stack cannot prepare any.
    let tells = *TELLS.get_or_init(|| prepares(&raw const here as usize / PAGE));
    // Pages of devices cannot be prepared either, and may well be written to.
    tells && !is_mapped_for_writes(address)
}

/// Asks for large pages for a result, where many small ones would be made one by one as they are first written to: that takes several
/// times as long as the rotation. Memory that has its pages already stays as it is.
pub(crate) fn make_large(address: usize, bytes: usize) {
    let first = address.next_multiple_of(LARGE_PAGE);
    let end = (address + bytes) / LARGE_PAGE * LARGE_PAGE;
    if first < end {
        advise(first, end - first, Advice::LargePages);
    }
}

/// What the system is told, as Linux numbers it.
#[derive(Clone, Copy)]
enum Advice {
    LargePages = 14,
    /// Pages are made ready for writes, unless those are forbidden. Nothing is written.
    PrepareForWrites = 23,
}

/// Whether the system followed an advice.
#[cfg(target_os = "linux")]
fn advise(address: usize, bytes: usize, advice: Advice) -> bool {
    use std::ffi::c_void;
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: i32) -> i32;
    }
    // SAFETY: these two change no memory's contents; an address that is not mapped is an error.
    unsafe { madvise(address as *mut c_void, bytes, advice as i32) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: usize, _: usize, _: Advice) -> bool {
    true
}

/// Whether the list of the process's mappings says that an address may be written to, or does not say.
fn is_mapped_for_writes(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (number(start)?..number(end)?).contains(&address).then(|| rest.starts_with("rw"))
    });
    found.unwrap_or(true)
}
