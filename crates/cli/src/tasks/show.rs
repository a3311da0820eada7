//! How results look for people: columns that stay straight with wide characters, texts on one line, places in characters.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a text may take beside a result.
pub const SHORT: usize = 60;

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text with spaces after it up to a width.
pub fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// The text with spaces before it up to a width.
pub fn pad_left(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

/// A text on one line of at most `columns`, with nothing in it that a terminal would obey.
pub fn brief(text: &str, columns: usize) -> String {
    let mut line = String::new();
    let mut taken = 0;
    for character in text.trim().chars() {
        let (shown, wide) = match character {
            c if c.is_whitespace() => (' ', 1),
            // Control characters have none, characters that turn the direction of writing have no width.
            c => match c.width() {
                None => ('\u{fffd}', 1),
                Some(0) if is_turn(c) => continue,
                Some(wide) => (c, wide),
            },
        };
        if shown == ' ' && line.ends_with(' ') {
            continue;
        }
        if taken + wide > columns {
            // The mark takes a column too.
            while taken >= columns {
                taken -= line.pop().and_then(UnicodeWidthChar::width).unwrap_or(taken);
            }
            line.push('…');
            return line;
        }
        line.push(shown);
        taken += wide;
    }
    line
}

/// Whether a character turns the direction in which what follows is written.
fn is_turn(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An empty text would leave a hole in a table.
pub fn named(text: &str) -> Cow<'_, str> {
    if text.is_empty() { "(empty)".into() } else { text.into() }
}

/// Places in a text as characters, as transformers gives them, where the library gives bytes. Places that only grow are
/// found in one walk over the text.
pub struct Characters<'a> {
    text: &'a str,
    byte: usize,
    before: usize,
}

impl<'a> Characters<'a> {
    /// From the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Characters { text, byte: 0, before: 0 }
    }

    /// How many characters stand before a byte.
    pub fn at(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            *self = Characters::new(self.text);
        }
        let passed = self.text.as_bytes().get(self.byte..byte).unwrap_or_default();
        // All bytes but those that continue a character.
        self.before += passed.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        self.byte = byte;
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(pad("天气", 6), "天气  ");
        assert_eq!(pad("ab", 6), "ab    ");
        assert_eq!(pad("天气很好", 6), "天气很好");
    }

    #[test]
    fn brief_texts_fit() {
        assert_eq!(brief("  a\n\n b\tc ", 10), "a b c");
        assert_eq!(brief("abcdef", 6), "abcdef");
        assert_eq!(brief("abcdefg", 6), "abcde…");
        assert_eq!(brief("今天天气", 8), "今天天气");
        assert_eq!(brief("今天天气很好", 8), "今天天…");
        assert_eq!(brief("a今天天气很好", 8), "a今天天…");
        for text in
            ["今天天气很好，我想去公园玩", "a今天b天气c很好", "e\u{301}e\u{301}e\u{301}今天", "👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧"]
        {
            for columns in 1..20 {
                assert!(width(&brief(text, columns)) <= columns, "{text} in {columns}");
            }
        }
    }

    #[test]
    fn a_terminal_is_told_nothing() {
        assert_eq!(brief("\u{1b}[31mred\u{7}", 20), "\u{fffd}[31mred\u{fffd}");
        assert_eq!(brief("a\u{202e}b", 20), "ab");
        assert_eq!(brief("\0", 20), "\u{fffd}");
    }

    #[test]
    fn places_in_characters() {
        let mut characters = Characters::new("今a天😀b");
        assert_eq!([0, 3, 4, 7, 11, 12].map(|byte| characters.at(byte)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(characters.at(3), 1, "back again");
        assert_eq!(Characters::new("").at(0), 0);
    }
}
