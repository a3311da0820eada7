//! The archive that torch.save has written since PyTorch 1.6: a zip file whose entries are stored as they are.
//!
//! Only what such a file needs: the list at the end, sizes beyond 4 GB (zip64), entries without compression. The list is
//! believed where the entries themselves agree with it, and nothing is believed that reaches outside the file.

use super::LIMIT;
use super::error::{Error, Result, brief};
use super::source::Source;
use std::collections::BTreeMap;

/// A file within the archive, as the list at the end has it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    flags: u16,
    method: u16,
    packed: u64,
    size: u64,
    header: u64,
}

/// An archive, with its list of entries read.
pub(super) struct Archive<'a> {
    source: &'a Source,
    entries: BTreeMap<String, Entry>,
    /// Where the list begins. Entries stand before it.
    list: u64,
}

/// In place of a number of 16 or 32 bits that stands in the zip64 part.
const BEYOND_16: u64 = 0xffff;
const BEYOND_32: u64 = 0xffff_ffff;

impl<'a> Archive<'a> {
    pub(super) fn read(source: &'a Source) -> Result<Archive<'a>> {
        let (list, len, count) = find_list(source)?;
        if len > LIMIT {
            return Err(broken(source, format!("a list of entries of {len} bytes")));
        }
        let bytes = source.map(list, len)?;
        let entries = read_list(&bytes, count).map_err(|found| broken(source, found))?;
        Ok(Archive { source, entries, list })
    }

    /// The names of all entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Where the bytes of an entry begin and how many they are, or nothing if there is no such entry.
    pub(super) fn find(&self, name: &str) -> Result<Option<(u64, u64)>> {
        let Some(entry) = self.entries.get(name) else {
            return Ok(None);
        };
        let of = |what: &str| broken(self.source, format!("entry `{}` {what}", brief(name)));
        // Bit 0: encrypted.
        if entry.method != 0 || entry.flags & 1 != 0 || entry.packed != entry.size {
            return Err(Error::format(
                self.source.path(),
                format!("entry `{}` compressed or encrypted", brief(name)),
                "entries stored as they are, as torch.save writes them; save it again with torch.save",
            ));
        }
        let fixed = 30;
        let head_len = fixed + name.len() as u64;
        if entry.header.checked_add(head_len).is_none_or(|end| end > self.list) {
            return Err(of("begins outside the file"));
        }
        let head = self.source.map(entry.header, head_len)?;
        let number = |at| number::<2>(&head, at);
        let named =
            number(26) == Some(name.len() as u64) && head.get(fixed as usize..) == Some(name.as_bytes());
        if !head.starts_with(b"PK\x03\x04") || number(8) != Some(0) || !named {
            return Err(of("is not where the list says"));
        }
        let start = entry.header + head_len + number(28).unwrap_or_default();
        if start.checked_add(entry.size).is_none_or(|end| end > self.list) {
            return Err(of("ends outside the file"));
        }
        Ok(Some((start, entry.size)))
    }
}

fn broken(source: &Source, found: String) -> Error {
    Error::format(source.path(), found, "a complete file of torch.save; download it again")
}

/// Where the list of entries begins, its length in bytes and its number of entries.
fn find_list(source: &Source) -> Result<(u64, u64, u64)> {
    // The archive ends with 22 bytes and a comment of at most 65535. Before them there may be a pointer to the zip64 part.
    let (end_len, pointer_len, record_len) = (22, 20, 56);
    let tail_start = source.len().saturating_sub(end_len + BEYOND_16 + pointer_len);
    let tail = source.map(tail_start, source.len() - tail_start)?;
    let is_end = |&at: &usize| {
        let comment = number::<2>(&tail, at + 20);
        tail[at..].starts_with(b"PK\x05\x06") && comment == Some((tail.len() - at) as u64 - end_len)
    };
    let last = tail.len().checked_sub(end_len as usize);
    let Some(at) = last.and_then(|last| (0..=last).rev().find(is_end)) else {
        return Err(broken(source, "a zip file without its end".into()));
    };
    let short = || broken(source, "a zip file whose end is cut short".into());
    let (count, len, list) = (|| {
        Some((number::<2>(&tail, at + 10)?, number::<4>(&tail, at + 12)?, number::<4>(&tail, at + 16)?))
    })()
    .ok_or_else(short)?;
    let mut found = (list, len, count);
    let mut end = tail_start + at as u64;

    let pointer = at.checked_sub(pointer_len as usize).and_then(|at| tail.get(at..));
    if let Some(pointer) = pointer.filter(|pointer| pointer.starts_with(b"PK\x06\x07")) {
        let record_at = number::<8>(pointer, 8).ok_or_else(short)?;
        let limit = end - pointer_len;
        if record_at.checked_add(record_len).is_none_or(|record_end| record_end > limit) {
            return Err(broken(source, format!("a zip64 end at byte {record_at}, outside the file")));
        }
        let record = source.map(record_at, record_len)?;
        if !record.starts_with(b"PK\x06\x06") {
            return Err(broken(source, format!("no zip64 end at byte {record_at}, where it should be")));
        }
        let field = |at| number::<8>(&record, at).ok_or_else(short);
        let large = (field(48)?, field(40)?, field(32)?);
        // The small numbers agree with the large ones or give way to them.
        let agree = |small: u64, large: u64, beyond: u64| small == large || small == beyond;
        if !(agree(list, large.0, BEYOND_32)
            && agree(len, large.1, BEYOND_32)
            && agree(count, large.2, BEYOND_16))
        {
            return Err(broken(source, "two ends of a zip file that contradict each other".into()));
        }
        found = large;
        end = record_at;
    }
    let (list, len, _) = found;
    if list.checked_add(len).is_none_or(|list_end| list_end > end) {
        return Err(broken(source, format!("a list of {len} bytes from byte {list} on, outside the file")));
    }
    Ok(found)
}

/// Reads the list; or says what is wrong with it.
fn read_list(mut bytes: &[u8], count: u64) -> Result<BTreeMap<String, Entry>, String> {
    let short = || "a list of entries that is cut short".to_string();
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let fixed = 46;
        let field16 = |at| number::<2>(bytes, at).ok_or_else(short);
        let field32 = |at| number::<4>(bytes, at).ok_or_else(short);
        if !bytes.starts_with(b"PK\x01\x02") {
            return Err("a list of entries that ends early".into());
        }
        let (name_len, extra_len, comment_len) = (field16(28)?, field16(30)?, field16(32)?);
        let extra_at = fixed + name_len as usize;
        let end = extra_at + (extra_len + comment_len) as usize;
        let name = bytes.get(fixed..extra_at).ok_or_else(short)?;
        let extra = bytes.get(extra_at..extra_at + extra_len as usize).ok_or_else(short)?;
        let mut entry = Entry {
            flags: field16(8)? as u16,
            method: field16(10)? as u16,
            packed: field32(20)?,
            size: field32(24)?,
            header: field32(42)?,
        };
        let name =
            String::from_utf8(name.to_vec()).map_err(|_| "an entry whose name is not UTF-8".to_string())?;
        widen(&mut entry, extra)
            .ok_or_else(|| format!("entry `{}` with broken zip64 sizes", brief(&name)))?;
        bytes = bytes.get(end..).ok_or_else(short)?;
        let shown = brief(&name);
        if entries.insert(name, entry).is_some() {
            return Err(format!("entry `{shown}` twice"));
        }
    }
    if !bytes.is_empty() {
        return Err("a list of more entries than it counts".into());
    }
    Ok(entries)
}

/// Takes from the zip64 part of an entry those of its three numbers that 32 bits could not hold, in this order.
fn widen(entry: &mut Entry, mut extra: &[u8]) -> Option<()> {
    let mut wide: &[u8] = &[];
    while extra.len() >= 4 {
        let (tag, len) = (number::<2>(extra, 0)?, number::<2>(extra, 2)? as usize);
        let part = extra.get(4..4 + len)?;
        if tag == 1 {
            wide = part;
        }
        extra = &extra[4 + len..];
    }
    for field in [&mut entry.size, &mut entry.packed, &mut entry.header] {
        if *field == BEYOND_32 {
            *field = number::<8>(wide, 0)?;
            wide = &wide[8..];
        }
    }
    Some(())
}

/// The number in `N` bytes from `at` on, the low byte first.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(N)?)?;
    Some(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}
