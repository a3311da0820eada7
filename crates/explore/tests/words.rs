//! The two languages of the page, as its files have them: every text has its Chinese, every Chinese its text, and no text is
//! said outside of both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The page's folder.
fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("page")
}

/// The JavaScript files of a folder, by their names.
fn scripts(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|ending| ending == "js") {
            found.insert(path.display().to_string(), std::fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// A text of a script: what it says with {0}, {1}, … for its values, and whether it is said in both languages: t`…`.
#[derive(Debug)]
struct Literal {
    text: String,
    is_said: bool,
}

/// Reads a script just well enough to find its texts.
struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    found: Vec<Literal>,
}

impl Reader<'_> {
    fn read(script: &str) -> Vec<Literal> {
        let mut reader = Reader { rest: script.chars().peekable(), found: Vec::new() };
        reader.code();
        reader.found
    }

    /// Code up to the end, or to the brace that closes what was open before it.
    fn code(&mut self) {
        // The last two characters, and the last one that is no space.
        let (mut depth, mut before, mut last, mut sign) = (0, ' ', ' ', ' ');
        while let Some(c) = self.rest.next() {
            match c {
                '/' if self.rest.peek() == Some(&'/') => while self.rest.next().is_some_and(|c| c != '\n') {},
                '/' if self.rest.peek() == Some(&'*') => {
                    let mut star = false;
                    while let Some(c) = self.rest.next().filter(|c| !(star && *c == '/')) {
                        star = c == '*';
                    }
                }
                // A pattern, where a value is expected.
                '/' if "(,=:&|".contains(sign) => self.pattern(),
                '"' | '\'' => {
                    let text = self.string(c);
                    self.found.push(Literal { text, is_said: false });
                }
                '`' => {
                    let is_said = last == 't' && !before.is_alphanumeric() && !"._$".contains(before);
                    self.template(is_said);
                }
                '{' => depth += 1,
                '}' if depth == 0 => return,
                '}' => depth -= 1,
                _ => {}
            }
            (before, last) = (last, c);
            sign = if c.is_whitespace() { sign } else { c };
        }
    }

    fn pattern(&mut self) {
        let mut is_in_class = false;
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => drop(self.rest.next()),
                '[' => is_in_class = true,
                ']' => is_in_class = false,
                '/' if !is_in_class => return,
                _ => {}
            }
        }
    }

    fn string(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.next().filter(|c| *c != quote) {
            text.extend(if c == '\\' { self.rest.next() } else { Some(c) });
        }
        text
    }

    fn template(&mut self, is_said: bool) {
        let (mut text, mut values) = (String::new(), 0);
        while let Some(c) = self.rest.next().filter(|c| *c != '`') {
            match c {
                '\\' => text.extend(self.rest.next()),
                '$' if self.rest.peek() == Some(&'{') => {
                    self.rest.next();
                    self.code();
                    text += &format!("{{{values}}}");
                    values += 1;
                }
                _ => text.push(c),
            }
        }
        self.found.push(Literal { text, is_said });
    }
}

/// Text without the whitespace that lines are broken with.
fn squeezed(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let edge = |c: Option<char>| if c.is_some_and(char::is_whitespace) { " " } else { "" };
    format!("{}{}{}", edge(text.chars().next()), words.join(" "), edge(text.chars().last()))
}

/// Whether a text has words to read, tags and values aside.
fn has_words(text: &str) -> bool {
    let mut plain = String::new();
    let mut is_tag = false;
    for c in text.chars() {
        is_tag = (is_tag || c == '<') && c != '>';
        plain.push(if is_tag || c == '>' { ' ' } else { c });
    }
    let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic());
    plain
        .split(' ')
        .collect::<Vec<_>>()
        .windows(2)
        .any(|two| two.iter().all(|word| is_word(&word.trim_matches([',', '.']))))
}

/// The texts of the page, in English.
fn english() -> BTreeSet<String> {
    let is_own = |(name, _): &(String, String)| !name.contains("words");
    let all = scripts(&page().join("js")).into_iter().filter(is_own);
    let said = all.flat_map(|(_, script)| Reader::read(&script)).filter(|literal| literal.is_said);
    let mut texts: BTreeSet<String> = said.map(|literal| squeezed(&literal.text)).collect();
    let html = std::fs::read_to_string(page().join("index.html")).unwrap();
    for part in html.split(" data-say>").skip(1) {
        let end =
            part.match_indices("</").map(|(at, _)| at).find(|&at| !part[at..].starts_with("</code")).unwrap();
        texts.insert(squeezed(&part[..end]));
    }
    // What a file of this folder says: its own list of things.
    texts.insert(", ".into());
    texts
}

/// The pairs of English and Chinese.
fn pairs() -> Vec<(String, String)> {
    let literals = |script: &String| -> Vec<String> {
        Reader::read(script).into_iter().map(|literal| literal.text).collect()
    };
    let all = scripts(&page().join("js/words/zh"));
    let lists = all.values().map(literals);
    lists
        .flat_map(|list| list.chunks(2).map(|pair| (squeezed(&pair[0]), pair[1].clone())).collect::<Vec<_>>())
        .collect()
}

#[test]
fn every_text_has_its_chinese() {
    let english = english();
    assert!(english.len() > 400, "{}", english.len());
    let pairs = pairs();
    let translated: BTreeSet<String> = pairs.iter().map(|(english, _)| english.clone()).collect();
    let missing: Vec<&String> = english.difference(&translated).collect();
    assert!(missing.is_empty(), "without Chinese: {missing:#?}");
    let unused: Vec<&String> = translated.difference(&english).collect();
    assert!(unused.is_empty(), "Chinese for what nothing says: {unused:#?}");
    assert_eq!(pairs.len(), translated.len(), "each text has one Chinese");
}

#[test]
fn both_languages_show_the_same_values() {
    let values = |text: &str| -> BTreeSet<String> {
        let marks = text.split(['{', '}']).skip(1).step_by(2).map(str::to_string);
        let named =
            text.split("data-value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_string());
        marks.chain(named).collect()
    };
    for (english, chinese) in pairs() {
        assert_eq!(values(&english), values(&chinese), "{english}\n{chinese}");
    }
}

#[test]
fn chinese_has_chinese_punctuation() {
    let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    for (_, chinese) in pairs() {
        let plain: Vec<char> = chinese.chars().collect();
        for window in plain.windows(2) {
            let (first, second) = (window[0], window[1]);
            let is_half = |c: char| ",;:!?()".contains(c);
            let is_wrong = (is_chinese(first) && is_half(second)) || (is_half(first) && is_chinese(second));
            assert!(!is_wrong, "{first}{second} in {chinese}");
            // A space stands between Chinese and Latin letters or digits, and none beside wide punctuation.
            let is_latin = |c: char| c.is_ascii_alphanumeric();
            let is_close = (is_chinese(first) && is_latin(second)) || (is_latin(first) && is_chinese(second));
            assert!(!is_close, "{first}{second} in {chinese}");
            assert!(
                !("，。；：、！？）（".contains(first) && second == ' '),
                "{first} and a space in {chinese}"
            );
        }
    }
}

#[test]
fn nothing_is_said_in_one_language_alone() {
    // What is no text: lists of classes, attributes and styles.
    let is_markup = |text: &str| {
        let starts = ["control ", "choices ", "faded ", "input, textarea"];
        starts.iter().any(|start| text.starts_with(start))
    };
    let mut found = Vec::new();
    for (name, script) in scripts(&page().join("js")) {
        if name.contains("words") {
            continue;
        }
        let loose = Reader::read(&script).into_iter().filter(|literal| !literal.is_said);
        found.extend(
            loose
                .map(|literal| literal.text)
                .filter(|text| has_words(text) && !is_markup(text))
                .map(|text| (name.clone(), text)),
        );
    }
    assert!(found.is_empty(), "said in English alone: {found:#?}");
}
