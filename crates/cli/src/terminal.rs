//! Standard output. What commands print may come from anyone's texts and vocabularies: on a terminal, which obeys control
//! characters, they are shown as `\u001b`. What goes to a file or a pipe stays as it is.

use std::io::{self, IsTerminal, StdoutLock, Write};

/// Standard output, locked.
pub fn stdout() -> Escaping<StdoutLock<'static>> {
    let inner = io::stdout().lock();
    Escaping { escapes: inner.is_terminal(), inner, has_lead: false }
}

/// A writer that shows control characters, where it is to.
pub struct Escaping<W: Write> {
    inner: W,
    escapes: bool,
    /// Whether the last byte was the first of two that may be a control character, U+0080 to U+009F. It is held back.
    has_lead: bool,
}

/// The first byte of those.
const LEAD: u8 = 0xC2;

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.escapes {
            return self.inner.write(bytes);
        }
        let mut shown = Vec::with_capacity(bytes.len() + 16);
        for &byte in bytes {
            let follows = std::mem::replace(&mut self.has_lead, byte == LEAD);
            let is_second = follows && (0x80..=0x9F).contains(&byte);
            if follows && !is_second {
                shown.push(LEAD);
            }
            match byte {
                LEAD => {}
                b'\n' | b'\t' => shown.push(byte),
                0x00..=0x1F | 0x7F => write!(shown, "\\u{byte:04x}")?,
                _ if is_second => write!(shown, "\\u{byte:04x}")?,
                _ => shown.push(byte),
            }
        }
        self.inner.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[&[u8]], escapes: bool) -> String {
        let mut out = Escaping { inner: Vec::new(), escapes, has_lead: false };
        parts.iter().for_each(|part| out.write_all(part).unwrap());
        String::from_utf8(out.inner).unwrap()
    }

    #[test]
    fn a_terminal_obeys_no_text() {
        let text = "天\u{1b}]0;title\u{7}\t\u{9b}31m £é\r\u{7f}\n";
        assert_eq!(
            shown(&[text.as_bytes()], true),
            "天\\u001b]0;title\\u0007\t\\u009b31m £é\\u000d\\u007f\n"
        );
        assert_eq!(shown(&[text.as_bytes()], false), text);
        // However it is cut.
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(shown(&bytes, true), shown(&[text.as_bytes()], true));
    }
}
