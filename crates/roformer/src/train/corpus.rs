//! Text files as token ids, and which blocks of them a step reads.

use super::characters::Characters;
use crate::error::{Error, Result};
use crate::graph::mix;
use crate::ops::memory::is_available;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Bytes read at a time.
const PIECE: usize = 1 << 16;

/// A character that has not been seen.
const UNSEEN: u32 = u32::MAX;

/// Text as token ids, a character each, all in memory: four bytes a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    ids: Vec<u32>,
    characters: Characters,
}

impl Corpus {
    /// Reads UTF-8 text files, one after the other. The file itself is never in memory.
    pub fn read(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let mut reader = Reader::new();
        for path in paths {
            reader.file(path.as_ref())?;
        }
        Ok(reader.finish())
    }

    /// The same of a text.
    pub fn from_text(text: &str) -> Result<Self> {
        let mut reader = Reader::new();
        reader.add(text)?;
        Ok(reader.finish())
    }

    /// Its tokens, one after the other.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Its vocabulary.
    pub fn characters(&self) -> &Characters {
        &self.characters
    }

    /// A number that is another for another text.
    pub fn fingerprint(&self) -> u64 {
        let chars = self.characters.chars().iter().map(|&char| char as u32);
        chars
            .chain(self.ids.iter().copied())
            .fold(mix(self.ids.len() as u64), |hash, id| mix(hash ^ u64::from(id)))
    }

    /// What is trained on, and what is kept for validation: the last part. Each is longer than a block, or there is no
    /// validation at all.
    pub(super) fn split(&self, validation: f64, block: usize) -> Result<[Range<usize>; 2]> {
        let all = self.ids.len();
        let kept = (all as f64 * validation).round() as usize;
        let first = all - kept.min(all);
        for (what, len, is_wanted) in
            [("to train on", first, true), ("kept for validation", all - first, validation > 0.0)]
        {
            if is_wanted && len <= block {
                let value = format!("{all} characters, {len} of them {what}");
                let expected = format!("more than a block, {block}: pass more text or a smaller block");
                return Err(Error::input("the text", value, expected));
            }
        }
        Ok([0..first, first..all])
    }

    /// Where the block of a row begins: anywhere in the range, by chance that depends on these numbers alone.
    pub(super) fn place(range: &Range<usize>, block: usize, seed: u64, batch: u64, row: u64) -> usize {
        const SALT: u64 = 0x626c_6f63_6b73;
        let bits = mix(mix(mix(seed ^ SALT) ^ batch) ^ row);
        let places = range.len() - block;
        range.start + ((u128::from(bits) * places as u128) >> 64) as usize
    }
}

/// A corpus in the making. Characters are numbered as they come, and by their order at the end.
struct Reader {
    ids: Vec<u32>,
    /// For each code point its number.
    numbers: Vec<u32>,
    chars: Vec<char>,
}

impl Reader {
    fn new() -> Self {
        Reader { ids: Vec::new(), numbers: vec![UNSEEN; char::MAX as usize + 1], chars: Vec::new() }
    }

    fn file(&mut self, path: &Path) -> Result<()> {
        let wrong = |reason: String| Error::File { path: path.display().to_string(), reason };
        if path.is_dir() {
            return Err(wrong("a folder; expected a UTF-8 text file".into()));
        }
        let unreadable = |error: std::io::Error| wrong(format!("{error}; expected a UTF-8 text file"));
        let mut file = File::open(path).map_err(unreadable)?;
        let mut bytes = vec![0; PIECE];
        // Bytes before this piece, and those at its start that belong to a character begun before.
        let (mut before, mut kept) = (0, 0);
        loop {
            let read = match file.read(&mut bytes[kept..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.map_err(unreadable)?,
            };
            let piece = &bytes[..kept + read];
            let valid = match std::str::from_utf8(piece) {
                Ok(_) => piece.len(),
                // A character may go on in the next piece, if there is one.
                Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
                Err(error) => {
                    let at = before + error.valid_up_to();
                    return Err(wrong(format!("byte {at} is not UTF-8; save the file as UTF-8")));
                }
            };
            let text = std::str::from_utf8(&piece[..valid]).unwrap_or_default();
            // A mark of the encoding is no part of the text.
            let text = if before == 0 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
            self.add(text)?;
            let end = kept + read;
            if read == 0 {
                break;
            }
            before += valid;
            bytes.copy_within(valid..end, 0);
            kept = end - valid;
        }
        match before {
            0 => Err(wrong("empty; expected text".into())),
            _ => Ok(()),
        }
    }

    fn add(&mut self, text: &str) -> Result<()> {
        // No more characters than bytes.
        if self.ids.capacity() - self.ids.len() < text.len() {
            let more = text.len().max(self.ids.len());
            let is_too_much = !is_available((self.ids.len() + more) as u128 * 4);
            if is_too_much || self.ids.try_reserve_exact(more).is_err() {
                return Err(Error::Memory { what: "the text, all of which is kept" });
            }
        }
        for char in text.chars() {
            let number = &mut self.numbers[char as usize];
            if *number == UNSEEN {
                *number = self.chars.len() as u32;
                self.chars.push(char);
            }
            self.ids.push(*number);
        }
        Ok(())
    }

    fn finish(mut self) -> Corpus {
        let characters = Characters::new(self.chars.clone());
        let ids: Vec<u32> =
            self.chars.iter().map(|&char| characters.id(char).expect("a character of the text")).collect();
        self.ids.iter_mut().for_each(|id| *id = ids[*id as usize]);
        Corpus { ids: self.ids, characters }
    }
}
