//! Memory that must not be written to, such as a file that was mapped to be read: torch takes it like any other, and a write to it
//! would end the process.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No larger than any page: the system rounds lengths up.
const PAGE: usize = 4096;
/// Bytes below which memory comes from an allocator's pages, not from a mapping of its own.
const SMALL: usize = 64 << 10;

/// Whether the page of an address surely cannot be written to. Where the system cannot tell (Linux before 5.14, other systems), the
/// answer is no.
///
/// Small tensors come again and again from the same pages, which stay the process's: those are asked for once. Large ones are mapped
/// anew each time, perhaps where another mapping was.
pub(crate) fn is_read_only(address: usize, bytes: usize) -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    static KNOWN: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
    let page = address / PAGE;
    let known = &KNOWN[page % KNOWN.len()];
    let is_small = bytes < SMALL;
    if is_small && known.load(Ordering::Relaxed) == page {
        return false;
    }
    if prepares(address) {
        if is_small {
            known.store(page, Ordering::Relaxed);
        }
        return false;
    }
    let here = 0u8;
    // A system that cannot prepare a page of the stack cannot prepare any.
    let tells = *TELLS.get_or_init(|| prepares(&raw const here as usize));
    // Pages of devices cannot be prepared either, and may well be written to.
    tells && !is_mapped_for_writes(address)
}

/// Asks the system to prepare the page of an address for writes, which it does not do where they are forbidden. Nothing is written.
#[cfg(target_os = "linux")]
fn prepares(address: usize) -> bool {
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: i32) -> i32;
    }
    const POPULATE_WRITE: i32 = 23;
    // SAFETY: the call reads and writes no memory; an address that is not a page's beginning, or not mapped, is an error.
    unsafe { madvise((address & !(PAGE - 1)) as *mut c_void, 1, POPULATE_WRITE) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn prepares(_: usize) -> bool {
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
