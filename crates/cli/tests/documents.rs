//! The documents that exist in English and Chinese: what they name is there, what they show is printed, and neither says less.

mod common;

use common::{command, feed, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The blocks of code: their language, and their text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut parts = text.split("\n```");
    parts.next();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        let (kind, code) = block.split_once('\n').unwrap();
        blocks.push((kind.to_string(), code.to_string()));
    }
    blocks
}

/// What stands in backticks outside blocks of code.
fn spans(text: &str) -> BTreeSet<String> {
    let prose: String = text.split("\n```").step_by(2).collect();
    prose.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// Where links lead.
fn links(text: &str) -> BTreeSet<String> {
    text.split("](").skip(1).map(|after| after.split(')').next().unwrap().to_string()).collect()
}

/// Links to files that are not there.
fn broken(document: &str) -> Vec<String> {
    let folder = root().join(document).parent().unwrap().to_path_buf();
    let files =
        links(&read(document)).into_iter().filter(|link| !link.starts_with("http") && !link.starts_with('#'));
    files.filter(|link| !folder.join(link.split('#').next().unwrap()).exists()).collect()
}

/// Code without what is said beside it, which each language says in its own words.
fn code(block: &str) -> Vec<String> {
    let line =
        |line: &str| line.split("  #").next().unwrap().split(" // ").next().unwrap().trim_end().to_string();
    block.lines().map(line).collect()
}

#[test]
fn both_readmes_have_the_same_code_and_links() {
    let [english, chinese] = ["README.md", "README.zh-CN.md"].map(read);
    let [ours, theirs] = [&chinese, &english].map(|text| blocks(text));
    assert_eq!(ours.len(), theirs.len());
    for ((kind, ours), (other, theirs)) in ours.iter().zip(&theirs) {
        assert_eq!(kind, other);
        match kind.as_str() {
            // What is printed is in the reader's language; what is typed is not.
            "text" => {
                let typed = |block: &str| {
                    block.lines().filter(|line| line.starts_with("$ ")).map(String::from).collect::<Vec<_>>()
                };
                assert_eq!(typed(ours), typed(theirs));
            }
            _ => assert_eq!(code(ours), code(theirs)),
        }
    }
    let headings = |text: &str| text.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(headings(&chinese), headings(&english));
    let [mut ours, mut theirs] = [&chinese, &english].map(|text| links(text));
    // Each leads to the other.
    assert!(ours.remove("README.md") && theirs.remove("README.zh-CN.md"));
    assert_eq!(ours, theirs);
}

/// Every command that a readme shows prints what it shows, in the readme's language.
#[test]
fn readmes_show_what_is_printed() {
    for (document, locale) in [("README.md", "C"), ("README.zh-CN.md", "zh_CN.UTF-8")] {
        let mut commands = 0;
        for (_, block) in blocks(&read(document)).into_iter().filter(|(kind, _)| kind == "text") {
            for shown in block.split("$ roformer ").skip(1) {
                let (typed, printed) = shown.split_once('\n').unwrap();
                let arguments: Vec<&str> = typed.split(' ').map(|word| word.trim_matches('\'')).collect();
                let mut child = command(&arguments).env("LC_ALL", locale).spawn().unwrap();
                feed(&mut child, |_| Ok(()));
                let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
                // `…` stands for lines that are left out.
                let mut rest = out.as_str();
                for part in printed.split("…\n").map(str::trim).filter(|part| !part.is_empty()) {
                    // The first column may begin with spaces.
                    let at = rest
                        .find(part)
                        .unwrap_or_else(|| panic!("{document}: {typed}: {part}\nis not in\n{out}"));
                    rest = &rest[at + part.len()..];
                }
                assert!(printed.contains('…') || out.trim() == printed.trim(), "{document}: {typed}\n{out}");
                commands += 1;
            }
        }
        assert_eq!(commands, 3, "{document}");
    }
}

/// All files of Rust code.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// Whether a test, as documents name it, is there: `fn name` after `#[test]`, or made by a macro, in the files of its module.
fn is_test(name: &str, sources: &[(PathBuf, String)]) -> bool {
    let mut modules: Vec<&str> = name.split("::").collect();
    let function = modules.pop().unwrap();
    let is_in = |path: &Path, text: &str| {
        let path = path.with_extension("");
        let places: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        modules.iter().all(|module| places.contains(module) || text.contains(&format!("mod {module}")))
    };
    let needle = format!("fn {function}(");
    sources.iter().any(|(path, text)| text.contains(&needle) && text.contains("#[test]") && is_in(path, text))
}

/// Tests that a document names. Those in the code's own words, such as `Rope::rerotation`, begin with a capital.
fn tests(text: &str) -> BTreeSet<String> {
    let is_test = |span: &String| {
        let parts: Vec<&str> = span.split("::").collect();
        let lower =
            |part: &&str| part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        parts.len() > 1 && parts.iter().all(lower) && parts.last().unwrap().contains('_')
    };
    spans(text).into_iter().filter(is_test).collect()
}

#[test]
fn the_theory_names_what_is_there() {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    for document in ["docs/theory.md", "docs/zh/theory.md"] {
        let tests = tests(&read(document));
        assert!(tests.len() > 60, "{document}: {tests:?}");
        let missing: Vec<String> = tests.into_iter().filter(|name| !is_test(name, &all)).collect();
        assert!(missing.is_empty(), "{document}: no test {missing:#?}");
    }
    // The table of the notes: where, by which tests, and in which part of the page.
    let text = read("docs/zh/theory.md");
    let table = text.split("| 笔记中的一节 |").nth(1).unwrap();
    let rows: Vec<Vec<BTreeSet<String>>> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(spans).collect())
        .collect();
    assert!(rows.len() >= 20);
    for row in rows {
        let [_, code, tests, parts] = row.as_slice() else { panic!("{row:?}") };
        assert!(!code.is_empty() && !tests.is_empty() && !parts.is_empty(), "{row:?}");
        for path in code {
            assert!(root().join(path).is_file(), "{path}");
        }
        for name in tests {
            assert!(is_test(name, &all), "{name}");
        }
        for part in parts {
            let file = format!("crates/explore/page/js/parts/{part}.js");
            assert!(read(&file).contains(&format!("id: \"{part}\"")), "{file}");
        }
    }
}

#[test]
fn the_theory_in_chinese_leaves_nothing_out() {
    let [english, chinese] = ["docs/theory.md", "docs/zh/theory.md"].map(read);
    let numbered = |text: &str| -> Vec<String> {
        let headings = text.lines().filter(|line| line.starts_with("##"));
        let number = |line: &str| line.split(' ').nth(1).unwrap().to_string();
        headings.map(number).filter(|number| number.starts_with(|c: char| c.is_ascii_digit())).collect()
    };
    assert_eq!(numbered(&chinese), numbered(&english));
    // Every name of code, of a setting or of a test.
    let ours = spans(&chinese);
    let missing: Vec<String> = spans(&english).into_iter().filter(|span| !ours.contains(span)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    // Every formula: the same signs in the same order, whatever is said beside them. Letters are left out, because words have them.
    let signs = |block: &str| -> Vec<String> {
        let is_sign = |c: &char| {
            let is_word = c.is_ascii_alphabetic() || c.is_whitespace() || *c >= '\u{2e80}';
            !is_word && !",:;…".contains(*c)
        };
        block.lines().map(|line| line.chars().filter(is_sign).collect()).collect()
    };
    let [ours, theirs] = [&chinese, &english].map(|text| blocks(text));
    assert_eq!(ours.len(), theirs.len());
    for ((_, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        assert_eq!(signs(ours), signs(theirs), "{ours}\n{theirs}");
    }
    let rows = |text: &str, heading: &str| {
        let section = text.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
        section.lines().filter(|line| line.starts_with('|')).count()
    };
    for (ours, theirs) in [
        ("\n## 笔记中的错误\n", "\n## What the notes get wrong\n"),
        ("\n## 每种方法的出处\n", "\n## Where each method was published\n"),
    ] {
        assert_eq!(rows(&chinese, ours), rows(&english, theirs), "{theirs}");
    }
}

#[test]
fn links_lead_somewhere() {
    for document in [
        "README.md",
        "README.zh-CN.md",
        "docs/theory.md",
        "docs/zh/theory.md",
        "docs/status.md",
        "docs/compare.md",
    ] {
        assert_eq!(broken(document), Vec::<String>::new(), "{document}");
    }
}
