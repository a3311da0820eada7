//! Lines of any length from a reader of any size, in bounded memory.

use std::io::{self, BufRead, Read};

/// The longest line that is taken, in bytes without its end: a long book. Of one that is cut only the beginning costs time.
pub const MAX_LINE: usize = 1 << 24;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The lines of a reader. Each ends with LF or CR LF, the last perhaps with nothing; a byte order mark before the first
/// is dropped.
pub struct Lines<R> {
    reader: R,
    /// Of the line last read, from 1 on.
    number: u64,
    /// Read so far, ends of lines included.
    bytes: u64,
    buffer: Vec<u8>,
}

/// A line, or why it cannot be used.
pub struct Line<'a> {
    pub number: u64,
    pub text: Result<&'a str, String>,
}

impl<R: BufRead> Lines<R> {
    pub fn new(reader: R) -> Self {
        Lines { reader, number: 0, bytes: 0, buffer: Vec::new() }
    }

    /// How many bytes have been read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line, if there is one. What is wrong with a line is said in it; an error is the reader's own.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let first = self.number == 0;
        // Room for the longest line with all that does not count: what fills it without an end is too long.
        let room = MAX_LINE + if first { BYTE_ORDER_MARK.len() } else { 0 } + b"\r\n".len();
        let read = self.reader.by_ref().take(room as u64).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut total = read as u64;
        if read == room && self.buffer.last() != Some(&b'\n') {
            total += self.reader.skip_until(b'\n')? as u64;
        }
        self.bytes += total;

        let whole = self.buffer.as_slice();
        let line = match whole.strip_suffix(b"\n") {
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None => whole,
        };
        let line = if first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        let text = if line.len() > MAX_LINE {
            Err(format!("has {total} bytes; expected at most {MAX_LINE}: cut it into several texts"))
        } else {
            std::str::from_utf8(line).map_err(|error| {
                // Counted from where the line begins in the file, as an editor does.
                let mark =
                    if first && whole.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
                let (at, byte) = (error.valid_up_to(), line.get(error.valid_up_to()).copied().unwrap_or(0));
                let utf16 = first && (line.starts_with(b"\xFF\xFE") || line.starts_with(b"\xFE\xFF"));
                let guess = if utf16 { " (this looks like UTF-16: convert it)" } else { "" };
                format!("byte {} is 0x{byte:02x}, which is not UTF-8; expected UTF-8{guess}", at + mark + 1)
            })
        };
        Ok(Some(Line { number: self.number, text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn all(bytes: &[u8]) -> Vec<Result<String, String>> {
        let mut lines = Lines::new(bytes);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(line.text.map(str::to_string));
            assert_eq!(line.number, found.len() as u64);
        }
        assert_eq!(lines.bytes(), bytes.len() as u64);
        found
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        all(bytes).into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn ends_of_lines() {
        assert_eq!(texts(b""), [""; 0]);
        assert_eq!(texts(b"\n"), [""]);
        assert_eq!(texts(b"a\nb"), ["a", "b"]);
        assert_eq!(texts(b"a\r\n\r\nb\r\n"), ["a", "", "b"]);
        assert_eq!(texts(b"a\rb\n\0\r"), ["a\rb", "\0\r"], "a CR is an end only before LF");
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_alone() {
        assert_eq!(texts("\u{feff}a\n\u{feff}b".as_bytes()), ["a", "\u{feff}b"]);
        assert_eq!(texts("\u{feff}".as_bytes()), [""]);
        assert_eq!(texts("\u{feff}\r\nb".as_bytes()), ["", "b"]);
    }

    #[test]
    fn bytes_that_are_no_utf8_are_named() {
        let found = all(b"good\n\xE4\xB8\xAD\xFFx\nafter\nhalf \xE4\xB8");
        assert_eq!(found[0].as_deref(), Ok("good"));
        assert!(found[1].as_ref().unwrap_err().starts_with("byte 4 is 0xff"), "{found:?}");
        assert_eq!(found[2].as_deref(), Ok("after"));
        assert!(found[3].as_ref().unwrap_err().starts_with("byte 6 is 0xe4"), "{found:?}");
        let found = all(b"\xEF\xBB\xBFa\xC0\n");
        assert!(found[0].as_ref().unwrap_err().starts_with("byte 5 is 0xc0"), "{found:?}");
        let found = all(b"\xFF\xFEa\0\n\0");
        assert!(found[0].as_ref().unwrap_err().contains("UTF-16"), "{found:?}");
    }

    #[test]
    fn the_longest_line_is_taken_and_a_longer_one_passed_over() {
        for (before, end) in [("", ""), ("", "\n"), ("", "\r\n"), ("\u{feff}", ""), ("\u{feff}", "\r\n")] {
            for (length, fits) in [(MAX_LINE - 1, true), (MAX_LINE, true), (MAX_LINE + 1, false)] {
                let bytes = format!("{before}{}{end}", "a".repeat(length));
                let found = all(bytes.as_bytes());
                assert_eq!(found.len(), 1);
                assert_eq!(found[0].is_ok(), fits, "{length} with {before:?} and {end:?}");
            }
        }
        for over in 1..6 {
            let bytes = format!("a\n{}\nb", "a".repeat(MAX_LINE + over));
            let found = all(bytes.as_bytes());
            assert!(found[1].is_err() && found.len() == 3 && found[2].as_deref() == Ok("b"), "{over}");
        }
    }

    #[test]
    fn a_hundred_megabytes_on_one_line_are_not_held() {
        let long = io::repeat(b'a').take(100_000_000).chain(Cursor::new("\nafter"));
        let mut lines = Lines::new(BufReader::new(long));
        let error = lines.next().unwrap().unwrap().text.unwrap_err();
        assert!(error.contains("100000001 bytes"), "{error}");
        assert_eq!(lines.next().unwrap().unwrap().text, Ok("after"));
        assert!(lines.next().unwrap().is_none());
        assert!(lines.buffer.capacity() <= 4 * MAX_LINE, "{}", lines.buffer.capacity());
    }
}
