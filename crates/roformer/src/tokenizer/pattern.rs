//! What the matches of a pattern can hold, found in the pattern itself: samples would show only some of them.

use super::places::{PLAIN, is_plain};
use super::steps::Search;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The one look ahead that is understood, and what it looks from. It looks at what follows a blank, and so never at what
/// follows a letter or a digit.
const BLANKS_BEFORE_A_BLANK: &str = r"\s+(?!\S)";

impl Search {
    /// Whether no match holds a plain character with `mark` after it, and none depends on what stands around it: a match that
    /// begins before such a place ends there at the latest, whatever follows.
    pub fn keeps_apart(&self, mark: char) -> bool {
        match self {
            Search::Text(text) => !text.contains(is_plain),
            Search::Regex { source, .. } => {
                parsed(source).and_then(|hir| span(&hir, mark)).is_some_and(|span| !span.pair)
            }
        }
    }

    /// Whether every match has characters, and none of them is plain.
    pub fn spares_plain(&self) -> bool {
        match self {
            Search::Text(text) => !text.is_empty() && !text.contains(is_plain),
            // Which mark makes no difference here.
            Search::Regex { source, .. } => {
                parsed(source).and_then(|hir| span(&hir, ' ')).is_some_and(|span| !span.plain && !span.empty)
            }
        }
    }

    /// Whether a character that stands in a place of [`keeps_apart`](Self::keeps_apart) is part of a match for certain.
    pub fn takes(&self, character: char) -> bool {
        let looks = matches!(self, Search::Regex { source, .. } if source.contains("(?!"));
        // Of a blank only what follows says whether that alternative takes it.
        if looks && character.is_whitespace() {
            return false;
        }
        let alone = character.to_string();
        self.parts(&alone) == [((0, alone.len()), true)]
    }
}

/// The pattern as a tree; none where it looks around or back.
fn parsed(source: &str) -> Option<Hir> {
    regex_syntax::parse(&source.replace(BLANKS_BEFORE_A_BLANK, r"\s+")).ok()
}

/// What stands in the texts that match a part of a pattern.
#[derive(Clone, Copy, Default)]
struct Span {
    /// One of them is empty.
    empty: bool,
    /// One begins with the mark.
    first: bool,
    /// One ends with a plain character.
    last: bool,
    /// One has a plain character anywhere.
    plain: bool,
    /// One has a plain character with the mark after it.
    pair: bool,
}

impl Span {
    const EMPTY: Span = Span { empty: true, first: false, last: false, plain: false, pair: false };

    fn then(self, next: Span) -> Span {
        Span {
            empty: self.empty && next.empty,
            first: self.first || self.empty && next.first,
            last: next.last || next.empty && self.last,
            plain: self.plain || next.plain,
            pair: self.pair || next.pair || self.last && next.first,
        }
    }

    fn or(self, other: Span) -> Span {
        Span {
            empty: self.empty || other.empty,
            first: self.first || other.first,
            last: self.last || other.last,
            plain: self.plain || other.plain,
            pair: self.pair || other.pair,
        }
    }
}

/// `None` where a part asks what stands around it.
fn span(hir: &Hir, mark: char) -> Option<Span> {
    let character = |first, plain| Span { first, last: plain, plain, ..Span::default() };
    Some(match hir.kind() {
        HirKind::Empty => Span::EMPTY,
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            text.chars().fold(Span::EMPTY, |all, c| all.then(character(c == mark, is_plain(c))))
        }
        HirKind::Class(Class::Unicode(class)) => {
            let holds =
                |from: char, to: char| class.ranges().iter().any(|r| r.start() <= to && from <= r.end());
            let plain = PLAIN.iter().any(|range| holds(*range.start(), *range.end()));
            character(holds(mark, mark), plain)
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => {
            let one = span(&repetition.sub, mark)?;
            let many = if repetition.max == Some(1) { one } else { one.then(one) };
            Span { empty: one.empty || repetition.min == 0, ..one.or(many) }
        }
        HirKind::Capture(capture) => span(&capture.sub, mark)?,
        HirKind::Concat(parts) => {
            parts.iter().try_fold(Span::EMPTY, |all, part| Some(all.then(span(part, mark)?)))?
        }
        HirKind::Alternation(parts) => {
            let mut spans = parts.iter().map(|part| span(part, mark));
            let first = spans.next()??;
            spans.try_fold(first, |all, part| Some(all.or(part?)))?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(pattern: &str, mark: char) -> bool {
        parsed(pattern).and_then(|hir| span(&hir, mark)).is_some_and(|span| !span.pair)
    }

    /// The patterns of GPT-2, of Llama 3, and of GPT-4o.
    #[test]
    fn patterns_in_use_keep_words_apart() {
        let contractions = "'(?i:[sdmt]|ll|ve|re)";
        for pattern in [
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            &format!(
                r"{contractions}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            &format!(
                r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lo}}]*[\p{{Ll}}\p{{Lo}}]+({contractions})?|\p{{N}}{{1,3}}|\s+"
            ),
        ] {
            for mark in [' ', '\n', ',', '，', '。'] {
                assert!(apart(pattern, mark), "{pattern} {mark:?}");
            }
            assert_eq!(apart(pattern, '\''), !pattern.contains(")?|"), "{pattern}");
        }
    }

    #[test]
    fn what_reaches_over_a_mark_is_seen() {
        for pattern in [
            r"a b",
            r"\w+ \w+",
            r".+",
            r"(?:\w| )+",
            r"[^x]+",
            r"\w*(?:,x?)?y",
            r"(?:, ?\w){2}",
            r"(?i:A) ?B",
        ] {
            assert!(!apart(pattern, ' ') || !apart(pattern, ','), "{pattern}");
        }
        // What stands around a match is not for us to know.
        for pattern in [r"\w+$", r"\bx", r"\w+(?=.*end)", r"\w+(?!\S)", r"(\w)\1", r"\w+\z", r"^a"] {
            assert!(!apart(pattern, ' '), "{pattern}");
        }
        for pattern in [r"\w+", r" \w+", r" ?\w*", r"(?:\w+|,+)", r"\w{1,3}", ""] {
            assert!(apart(pattern, ' ') && apart(pattern, ','), "{pattern}");
        }
    }

    #[test]
    fn what_is_replaced_is_no_letter_and_not_nothing() {
        let spares = |pattern: &str| Search::new(None, Some(pattern)).unwrap().spares_plain();
        assert!([" {2,}", r"\s+", "[\n,]", "``|''"].into_iter().all(spares));
        assert!(!["x*", " *", r"\w", r"\S", "(?: |a)", ".", ",(?= )"].into_iter().any(spares));
    }
}
