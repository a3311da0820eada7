//! Sentences that come as text, and what they are in Chinese.

/// A list of sentences: on each line one in English, a tab, and the same in Chinese. Places that change are `{0}`, `{1}` and so
/// on in both.
///
/// ```
/// use roformer::language::Catalogue;
///
/// let catalogue = Catalogue::new("{0} did not learn it in {1} steps\t{0} 在 {1} 步内没有学会");
/// assert_eq!(catalogue.find("rotary did not learn it in 8 steps").unwrap(), "rotary 在 8 步内没有学会");
/// assert!(catalogue.find("rotary learned it").is_none());
/// ```
pub struct Catalogue {
    text: &'static str,
}

impl Catalogue {
    /// The list that is in a text.
    pub const fn new(text: &'static str) -> Self {
        Catalogue { text }
    }

    /// A sentence in Chinese, by the first line that it fits; `None` if there is none.
    pub fn find(&self, english: &str) -> Option<String> {
        let lines = self.text.lines().filter_map(|line| line.split_once('\t'));
        lines.into_iter().find_map(|(pattern, chinese)| Some(filled(chinese, &held(pattern, english)?)))
    }

    /// A sentence in Chinese, or as it is where there is no line for it.
    pub fn say(&self, english: &str) -> String {
        self.find(english).unwrap_or_else(|| english.to_string())
    }
}

/// What stands in the places of a pattern, in their order; `None` if the text is another.
fn held<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut solid = Vec::new();
    let mut rest = pattern;
    loop {
        let place = format!("{{{}}}", solid.len());
        match rest.split_once(&place) {
            Some((before, after)) => {
                solid.push(before);
                rest = after;
            }
            None => break,
        }
    }
    let Some((first, between)) = solid.split_first() else { return (text == pattern).then(Vec::new) };
    let mut left = text.strip_prefix(first)?.strip_suffix(rest)?;
    let mut held = Vec::new();
    for part in between {
        let (before, after) = left.split_once(part)?;
        held.push(before);
        left = after;
    }
    held.push(left);
    Some(held)
}

/// A Chinese sentence with these in its places. What stands in a place is not looked at for places of its own.
fn filled(chinese: &str, held: &[&str]) -> String {
    let (mut out, mut rest) = (String::new(), chinese);
    while let Some((before, place)) = rest.split_once('{') {
        out += before;
        let number = place.split_once('}').and_then(|(index, after)| {
            let part = held.get(index.parse::<usize>().ok()?)?;
            Some((part, after))
        });
        match number {
            Some((part, after)) => {
                out += part;
                rest = after;
            }
            None => {
                out.push('{');
                rest = place;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_found_by_its_pattern() {
        let catalogue = Catalogue::new(
            "`{0}` is {1}\t{1}，即 `{0}`\nnothing to set\t无需设置\n{0} of {1}: end\t{1} 中的 {0}",
        );
        assert_eq!(catalogue.find("`a` is b is c").as_deref(), Some("b is c，即 `a`"));
        assert_eq!(catalogue.find("nothing to set").as_deref(), Some("无需设置"));
        assert_eq!(catalogue.find("1 of 2: end").as_deref(), Some("2 中的 1"));
        // What is put in is not looked at again.
        assert_eq!(catalogue.find("{1} of {0}: end").as_deref(), Some("{0} 中的 {1}"));
        for other in ["nothing to set!", "`a` was b", "", "1 of 2", "of : en"] {
            assert_eq!(catalogue.find(other), None, "{other}");
            assert_eq!(catalogue.say(other), other);
        }
    }
}
