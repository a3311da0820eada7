//! The parts of a text that have a label, from the labels of its tokens.

use super::TokenLabel;

/// Neighbouring tokens of one label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span<'a> {
    /// The part of the text.
    pub text: &'a str,
    /// Their label, without the letter that begins or continues a part.
    pub label: &'a str,
    /// The mean over its tokens, as transformers gives it.
    pub score: f32,
    /// Its place in the text, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// The parts of a text that have a label other than `O`. Of labels such as `B-LOC` and `I-LOC`, `B` begins a part.
pub fn spans<'a>(text: &'a str, tokens: &'a [TokenLabel]) -> Vec<Span<'a>> {
    let mut groups: Vec<Vec<&TokenLabel>> = Vec::new();
    for token in tokens.iter().filter(|token| token.label != "O") {
        let continues = groups.last().and_then(|group| group.last()).is_some_and(|last| {
            let between = text.get(last.end..token.start);
            let (begins, kind) = parts(&token.label);
            !begins && kind == parts(&last.label).1 && between.is_some_and(|gap| gap.trim().is_empty())
        });
        match groups.last_mut() {
            Some(group) if continues => group.push(token),
            _ => groups.push(vec![token]),
        }
    }
    let span = |group: Vec<&'a TokenLabel>| {
        let (first, last) = (group.first()?, group.last()?);
        let score = group.iter().map(|token| token.score).sum::<f32>() / group.len() as f32;
        let (start, end) = (first.start, last.end);
        Some(Span { text: text.get(start..end)?, label: parts(&first.label).1, score, start, end })
    };
    groups.into_iter().filter_map(span).collect()
}

/// Whether a label begins a part, and the label without the letter that says so.
fn parts(label: &str) -> (bool, &str) {
    match label.split_once('-') {
        Some(("B" | "S", kind)) => (true, kind),
        Some(("I" | "E", kind)) => (false, kind),
        _ => (false, label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, labels: &[(&str, usize, usize)]) -> Vec<(String, String)> {
        let tokens: Vec<TokenLabel> = labels
            .iter()
            .map(|&(label, start, end)| TokenLabel { label: label.into(), score: 0.5, start, end })
            .collect();
        spans(text, &tokens).iter().map(|span| (span.text.to_string(), span.label.to_string())).collect()
    }

    fn pair(text: &str, label: &str) -> (String, String) {
        (text.to_string(), label.to_string())
    }

    #[test]
    fn neighbours_of_one_label_are_a_part() {
        let labels = [("P", 0, 3), ("P", 3, 6), ("O", 6, 9), ("L", 9, 12), ("P", 12, 15)];
        let parts = [pair("小明", "P"), pair("北", "L"), pair("京", "P")];
        assert_eq!(found("小明在北京", &labels), parts);
        assert_eq!(found("new york", &[("L", 0, 3), ("L", 4, 8)]), [pair("new york", "L")]);
        assert_eq!(found("a, b", &[("L", 0, 1), ("O", 1, 2), ("L", 3, 4)]), [pair("a", "L"), pair("b", "L")]);
        assert_eq!(found("a", &[("O", 0, 1)]), []);
    }

    #[test]
    fn letters_begin_and_continue_parts() {
        let labels = [("B-L", 0, 1), ("I-L", 1, 2), ("B-L", 2, 3), ("I-P", 3, 4)];
        assert_eq!(found("abcd", &labels), [pair("ab", "L"), pair("c", "L"), pair("d", "P")]);
    }
}
