//! The page as files for any web server: its own files, and the answers to the questions that `stops.json` lists.
//!
//! A part asks its question with the value of each of its controls, so that all questions are more than can be written down.
//! Answers are written for the default settings and for stops of the sliders; the page moves its sliders from stop to stop then,
//! and says what only the program can compute.

mod questions;

use crate::error::{Error, Result};
use crate::exhibits::Exhibits;
use crate::figures::inspect;
use crate::server::{answer, config, files, routes};
use questions::{Question, questions, stops};
use roformer::language::Language;
use std::fs;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

/// The list of what was written, in the folder itself: a folder with it may be written again.
const LIST: &str = "roformer-explore.txt";

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Answers in them.
    pub answers: usize,
}

/// Whether the page may be written to a folder: one that is not there, is empty, or was written by [`write()`].
pub fn check(folder: &Path) -> Result<()> {
    let shown = folder.display();
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(is_empty) if is_empty || folder.join(LIST).is_file() => Ok(()),
        Ok(_) => Err(Error::new(format!(
            "{shown} is not empty and has no {LIST}; expected a new folder, or one that was written by --export"
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::new(format!("{shown}: {error}; expected a folder to write to"))),
    }
}

/// Writes the page to a folder that [`check`] allows; calls with how many of how many answers are there.
pub fn write(folder: &Path, mut progress: impl FnMut(usize, usize)) -> io::Result<Written> {
    fs::create_dir_all(folder)?;
    clear(folder)?;
    let mut out = Out { folder, list: Vec::new(), written: Written::default() };
    for (name, text) in files::all() {
        match name {
            "index.html" => out.write(name, marked(text).as_bytes())?,
            _ => out.write(name, text.as_bytes())?,
        }
    }
    let asked = questions();
    let total = asked.values().map(Vec::len).sum();
    let exhibits = Arc::new(Exhibits::default());
    let figures = routes::figures(&exhibits);
    for (route, questions) in &asked {
        let mut file = String::from("{");
        for question in questions {
            let answer = match route.as_str() {
                "exhibits" => routes::listed(&exhibits),
                "given" => config::given(&exhibits),
                "examples" => answer::body(&inspect::EXAMPLES),
                "inspect" => inspected(question),
                _ => figures.iter().find(|figure| figure.name == route).map_or_else(
                    || Err(Error::new(format!("there is no figure {route}"))),
                    |figure| (figure.answer)(&question.uri(route), Language::English),
                ),
            };
            let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{route}: {error}"));
            let answer =
                String::from_utf8(answer.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
            let key = serde_json::Value::from(question.key()).to_string();
            file += &format!("{}{key}:{answer}", if file.len() > 1 { ",\n" } else { "" });
            out.written.answers += 1;
            progress(out.written.answers, total);
        }
        file += "}\n";
        out.write(&format!("answers/{route}.json"), file.as_bytes())?;
    }
    out.write("answers/stops.json", stops(&asked).to_string().as_bytes())?;
    let list = out.list.join("\n") + "\n";
    out.write(LIST, list.as_bytes())?;
    Ok(out.written)
}

/// The page's first file, which says where its answers are.
fn marked(html: &str) -> String {
    html.replacen("<title>", "<meta name=\"answers\" content=\"answers/\">\n<title>", 1)
}

/// The verdict on one of the examples.
fn inspected(question: &Question) -> Result<Vec<u8>> {
    let mut rest = question.clone();
    let key = rest.0.remove("example").unwrap_or_default();
    let language = match rest.0.remove("lang").as_deref() {
        Some("zh") => Language::Chinese,
        _ => Language::English,
    };
    let example = inspect::EXAMPLES.iter().find(|example| example.key == key);
    let example = example.ok_or_else(|| Error::new(format!("there is no example {key}")))?;
    let ask = answer::question(&rest.uri("inspect"))?;
    answer::body(&inspect::inspect(&ask, example.text.as_bytes(), language)?)
}

/// Removes what an earlier export wrote, and nothing else.
fn clear(folder: &Path) -> io::Result<()> {
    let Ok(list) = fs::read_to_string(folder.join(LIST)) else { return Ok(()) };
    let is_within = |name: &&Path| name.components().all(|part| matches!(part, Component::Normal(_)));
    for name in list.lines().map(Path::new).filter(is_within) {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A folder that is being written.
struct Out<'a> {
    folder: &'a Path,
    list: Vec<String>,
    written: Written,
}

impl Out<'_> {
    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(named)?;
        fs::write(&path, bytes).map_err(named)?;
        self.list.push(name.to_string());
        self.written.files += 1;
        self.written.bytes += bytes.len() as u64;
        Ok(())
    }
}
