//! Pieces back to a text for people.

use super::words::is_chinese;

/// No space before these.
const CLOSING: &str = ".,;:!?)]}%”’…»°";
/// No space after these.
const OPENING: &str = "([{$#“‘«£€¥";
/// No space on either side of these.
const JOINING: &str = "-/\\_'@";

/// Joins the pieces of words, and the words as one writes them: nothing between Chinese characters or on either side of
/// them, punctuation at its word, one space elsewhere. The spaces of the text itself are not known any more.
pub(super) fn join<'a>(pieces: impl Iterator<Item = &'a str>, prefix: &str) -> String {
    let mut text = String::new();
    let (mut quoted, mut glued) = (false, true);
    for piece in pieces {
        if let Some(rest) = piece.strip_prefix(prefix).filter(|rest| !rest.is_empty() && !prefix.is_empty()) {
            text.push_str(rest);
            glued = false;
            continue;
        }
        let closes = piece == "\"" && quoted;
        if !glued && !closes && spaced(&text, piece) {
            text.push(' ');
        }
        text.push_str(piece);
        glued = piece == "\"" && !quoted;
        quoted ^= piece == "\"";
    }
    text
}

/// Whether a space belongs between a text and the word that follows.
fn spaced(text: &str, word: &str) -> bool {
    let mut back = text.chars().rev();
    let (Some(last), Some(next)) = (back.next(), word.chars().next()) else {
        return false;
    };
    let number = ".,:".contains(last)
        && back.next().is_some_and(|c| c.is_ascii_digit())
        && word.starts_with(|c: char| c.is_ascii_digit());
    !(number
        || is_wide(last)
        || is_wide(next)
        || OPENING.contains(last)
        || CLOSING.contains(next)
        || JOINING.contains(last)
        || JOINING.contains(next))
}

/// Whether a character is of a script written without spaces: Chinese, kana, their punctuation and full-width forms.
fn is_wide(character: char) -> bool {
    is_chinese(character)
        || matches!(character, '\u{3000}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}' | '\u{ff00}'..='\u{ffef}' | '—')
}
