//! The style sheet of charts, applied: from classes and variables to plain attributes.
//!
//! Charts have their colours in CSS, so that they follow a reader's light or dark setting. Few programs beside browsers know
//! its variables, so a plot has them resolved. Only what the sheets here use is known: classes, tags and `:root`, one inside
//! another, and one `@media` for dark.

use resvg::usvg::roxmltree::Node;
use std::collections::BTreeMap;

/// Names and values.
pub type Properties = BTreeMap<String, String>;

/// A style sheet for one of the two settings.
pub struct Sheet {
    /// In the order of their weight.
    rules: Vec<Rule>,
}

struct Rule {
    /// From the outermost to the element itself, such as `.chart`, `text`.
    selector: Vec<String>,
    declarations: Vec<(String, String)>,
}

impl Rule {
    /// Classes before tags.
    fn weight(&self) -> (usize, usize) {
        let classes = self.selector.iter().filter(|part| part.starts_with(['.', ':'])).count();
        (classes, self.selector.len() - classes)
    }

    fn matches(&self, node: Node) -> bool {
        let Some((last, outer)) = self.selector.split_last() else { return false };
        let mut wanted = outer.iter().rev().peekable();
        for ancestor in node.ancestors().skip(1) {
            if wanted.peek().is_some_and(|part| is(ancestor, part)) {
                wanted.next();
            }
        }
        is(node, last) && wanted.next().is_none()
    }
}

/// Whether an element is what one part of a selector says.
fn is(node: Node, part: &str) -> bool {
    match part.strip_prefix('.') {
        Some(class) => node.attribute("class").unwrap_or("").split(' ').any(|one| one == class),
        None if part == ":root" => node == node.document().root_element(),
        None => node.is_element() && node.tag_name().name() == part,
    }
}

impl Sheet {
    /// The rules of a style sheet that hold in the light or in the dark.
    pub fn new(css: &str, is_dark: bool) -> Self {
        let mut rules = Vec::new();
        read(&without_comments(css), is_dark, &mut rules);
        // A stable sort: of two of the same weight the later one wins.
        rules.sort_by_key(Rule::weight);
        Sheet { rules }
    }

    /// What holds for an element, and the variables for what is inside it, given those from outside. A variable that
    /// nobody has set leaves its property out.
    pub fn of(&self, node: Node, outer: &Properties) -> (Properties, Properties) {
        let (mut properties, mut variables) = (Properties::new(), outer.clone());
        let matching = || self.rules.iter().filter(|rule| rule.matches(node));
        let declared = |rule: &Rule, is_variable: bool| {
            let wanted =
                rule.declarations.iter().filter(move |(name, _)| name.starts_with("--") == is_variable);
            wanted.cloned().collect::<Vec<_>>()
        };
        for (name, value) in matching().flat_map(|rule| declared(rule, true)) {
            if let Some(value) = resolve(&value, &variables) {
                variables.insert(name, value);
            }
        }
        for (name, value) in matching().flat_map(|rule| declared(rule, false)) {
            if let Some(value) = resolve(&value, &variables) {
                properties.insert(name, value);
            }
        }
        (properties, variables)
    }
}

/// A value, looked up if it is a variable.
fn resolve(value: &str, variables: &Properties) -> Option<String> {
    match value.strip_prefix("var(").and_then(|name| name.strip_suffix(')')) {
        Some(name) => variables.get(name).cloned(),
        None => Some(value.to_string()),
    }
}

fn read(css: &str, is_dark: bool, rules: &mut Vec<Rule>) {
    let mut rest = css;
    while let Some((head, after)) = rest.split_once('{') {
        let end = closing(after);
        let (body, head) = (&after[..end], head.trim());
        rest = after.get(end + 1..).unwrap_or("");
        if head.starts_with('@') {
            if is_dark && head.contains("dark") {
                read(body, is_dark, rules);
            }
            continue;
        }
        let declarations: Vec<(String, String)> = body
            .split(';')
            .filter_map(|declaration| declaration.split_once(':'))
            .map(|(name, value)| (name.trim().to_string(), value.trim().to_string()))
            .collect();
        for selector in head.split(',') {
            let selector = selector.split_whitespace().map(str::to_string).collect();
            rules.push(Rule { selector, declarations: declarations.clone() });
        }
    }
}

/// Where the block ends that has just been opened.
fn closing(css: &str) -> usize {
    let mut depth = 1;
    for (index, byte) in css.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    css.len()
}

fn without_comments(css: &str) -> String {
    let mut parts = css.split("/*");
    let first = parts.next().unwrap_or("").to_string();
    first + &parts.filter_map(|part| part.split_once("*/")).map(|(_, after)| after).collect::<String>()
}
