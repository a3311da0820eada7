//! The table that a TensorFlow checkpoint's index is: keys with values, in the order of the keys.
//!
//! ```text
//! blocks of entries, each followed by a byte for its compression and four of checksum
//! a block that TensorFlow leaves empty
//! a block whose values say where the blocks of entries stand
//! 48 bytes: where the last two blocks stand, zeros, and eight bytes that mark such a table
//! ```
//!
//! A key is stored as what it adds to the key before it. Every byte of the file belongs to one of these parts: blocks follow
//! each other without gap, so that none can be named twice, and all but the last 48 bytes are under a checksum.

use super::LIMIT;
use super::crc;
use super::proto::take_number;

/// The last bytes of a table.
pub(super) const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();

const FOOTER: usize = 48;
/// Behind each block: compression and checksum.
const TRAILER: usize = 5;
/// The longest key. TensorFlow's names are a few dozen bytes; each is spelled out here, however short it is in the file.
const LONGEST_KEY: usize = 4096;

/// Where a block stands.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    start: u64,
    len: u64,
}

impl Place {
    fn take(bytes: &mut &[u8]) -> Option<Place> {
        Some(Place { start: take_number(bytes)?, len: take_number(bytes)? })
    }
}

/// Calls `each` with every key and its value; or says what is wrong with the table.
pub(super) fn read(
    table: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let Some((body, footer)) = table.split_last_chunk::<FOOTER>() else {
        return Err(format!("a file of {} bytes", table.len()));
    };
    let Some(mut places) = footer.strip_suffix(&MAGIC) else {
        return Err("an index without its end".into());
    };
    let (Some(empty), Some(index)) = (Place::take(&mut places), Place::take(&mut places)) else {
        return Err("an end that does not say where the blocks are".into());
    };
    if places.iter().any(|&byte| byte != 0) {
        return Err("an end with something in it that is not known".into());
    }

    let mut reached = 0;
    // Names are spelled out: a small file could claim gigabytes of them.
    let mut spelled: u64 = 0;
    let mut last = None;
    entries(block(body, index)?, |_, mut value| {
        let place = Place::take(&mut value).filter(|_| value.is_empty());
        let place = place.ok_or("an entry that does not say where its block is")?;
        let bytes = block(body, place)?;
        follows(place, &mut reached)?;
        entries(bytes, |key, value| {
            if last.as_deref().is_some_and(|last| key <= last) {
                return Err(format!("names out of order, at `{}`", show(key)));
            }
            spelled += key.len() as u64;
            if spelled > LIMIT {
                return Err(format!("names of more than {LIMIT} bytes"));
            }
            last = Some(key.to_vec());
            each(key, value)
        })
    })?;
    let bytes = block(body, empty)?;
    follows(empty, &mut reached)?;
    entries(bytes, |_, _| Err("entries where TensorFlow writes none".into()))?;
    follows(index, &mut reached)?;
    match body.len() as u64 - reached {
        0 => Ok(()),
        left => Err(format!("{left} bytes that belong to no block")),
    }
}

/// Checks that a block, which was read, begins where the one before it ends. So none is there twice.
fn follows(place: Place, reached: &mut u64) -> Result<(), String> {
    if place.start != *reached {
        return Err(format!("a block at byte {}, where byte {reached} is next", place.start));
    }
    // The block was read: its end is within the file.
    *reached = place.start + place.len + TRAILER as u64;
    Ok(())
}

/// The bytes of a block, checked.
fn block(body: &[u8], place: Place) -> Result<&[u8], String> {
    let Place { start, len } = place;
    let bytes = (|| {
        let start = usize::try_from(start).ok()?;
        let end = usize::try_from(len).ok()?.checked_add(TRAILER)?.checked_add(start)?;
        body.get(start..end)
    })();
    let Some((checked, checksum)) = bytes.and_then(|bytes| bytes.split_last_chunk()) else {
        return Err(format!("a block of {len} bytes at byte {start}, outside the file"));
    };
    if crc::masked(checked) != u32::from_le_bytes(*checksum) {
        return Err(format!("a damaged block at byte {start}: its checksum is another"));
    }
    match checked.split_last() {
        Some((0, block)) => Ok(block),
        _ => Err(format!("a compressed block at byte {start}, which TensorFlow does not write")),
    }
}

/// Calls `each` with the keys and values of a block.
fn entries(block: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>) -> Result<(), String> {
    let broken = || "a block whose entries cannot be told apart".to_string();
    // Behind the entries stand the places of those that spell their key out, and how many these are.
    let mut bytes = (|| {
        let (rest, count) = block.split_last_chunk()?;
        let spelled = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?;
        rest.get(..rest.len().checked_sub(spelled)?)
    })()
    .ok_or_else(broken)?;
    let mut key: Vec<u8> = Vec::new();
    while !bytes.is_empty() {
        let mut size = || take_number(&mut bytes).and_then(|size| usize::try_from(size).ok());
        let (Some(kept), Some(added), Some(len)) = (size(), size(), size()) else {
            return Err(broken());
        };
        let added = bytes.split_at_checked(added);
        let Some(((added, rest), true)) = added.map(|parts| (parts, kept <= key.len())) else {
            return Err(broken());
        };
        let (value, rest) = rest.split_at_checked(len).ok_or_else(broken)?;
        key.truncate(kept);
        key.extend(added);
        if key.len() > LONGEST_KEY {
            return Err(format!("a name of {} bytes", key.len()));
        }
        bytes = rest;
        each(&key, value)?;
    }
    Ok(())
}

/// A key as a message shows it.
pub(super) fn show(key: &[u8]) -> String {
    super::error::brief(&String::from_utf8_lossy(key))
}
