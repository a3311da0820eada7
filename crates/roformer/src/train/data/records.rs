//! What files hold, a record at a time: pieces of a text, its lines, whole files, or objects of JSON Lines. No file is ever in
//! memory whole, unless it is a record.

use super::files::{Format, Source};
use crate::error::{Error, Result};
use crate::files::{broken, failed};
use crate::weights::brief;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The most bytes of one record, or of a line that a tokenizer has to read at once.
pub const LONGEST_RECORD: usize = 16 << 20;

/// About as many bytes of a long text are read at a time.
const PIECE: usize = 1 << 16;

/// What a text file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// One text, in pieces that may end anywhere.
    Pieces,
    /// One text, in pieces of whole lines.
    Lines,
    /// A text on every line.
    Each,
    /// One record.
    Whole,
}

/// What the records of a task have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `text`.
    Text,
    /// `text`, perhaps `pair`, and `label`.
    Labelled,
    /// `a`, `b`, perhaps `score`.
    Pair,
    /// `source`, `target`.
    Sequences,
}

/// What a record says beside its texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    None,
    Label(String),
    Score(f32),
}

/// One record, or a piece of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub text: String,
    pub second: Option<String>,
    pub answer: Answer,
    /// Whether it goes on with the text of the record before.
    pub goes_on: bool,
    /// The line that it begins on.
    pub line: u64,
}

/// Reads a file; `on` sees every record.
pub(super) fn read(
    source: &Source,
    unit: Unit,
    shape: Shape,
    mut on: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let path = &source.path;
    let mut lines = Lines::open(path)?;
    match (source.format, unit) {
        (Format::JsonLines, _) => {
            while let Some((line, text)) = lines.next(false)? {
                if !text.trim().is_empty() {
                    on(object(path, line, text, shape)?)?;
                }
            }
        }
        (Format::Text, _) if shape == Shape::Pair => {
            return Err(broken(
                path,
                "a text file; expected JSON Lines (.jsonl) with `a`, `b` and perhaps `score`",
            ));
        }
        (Format::Text, _) if shape == Shape::Sequences => {
            return Err(broken(path, "a text file; expected JSON Lines (.jsonl) with `source` and `target`"));
        }
        (Format::Text, _) if shape == Shape::Labelled && source.folder.is_none() => {
            let reason = "a text without a label; expected JSON Lines (.jsonl) with `text` and `label`, or a folder that \
                          has a folder of texts for each label";
            return Err(broken(path, reason));
        }
        (Format::Text, Unit::Whole) => {
            let mut whole = String::new();
            while let Some((line, text)) = lines.next(true)? {
                whole.push_str(text);
                if whole.len() > LONGEST_RECORD {
                    return Err(too_long(path, line, "a text"));
                }
            }
            let answer = source.folder.clone().map_or(Answer::None, Answer::Label);
            on(Record { text: whole, second: None, answer, goes_on: false, line: 1 })?;
        }
        (Format::Text, Unit::Each) => {
            while let Some((line, text)) = lines.next(false)? {
                let text = text.trim_end_matches(['\r', '\n']);
                if !text.trim().is_empty() {
                    on(plain(text.to_owned(), false, line))?;
                }
            }
        }
        (Format::Text, Unit::Pieces | Unit::Lines) => {
            let mut piece = String::new();
            let (mut goes_on, mut begun) = (false, 1);
            while let Some((line, text)) = lines.next(unit == Unit::Pieces)? {
                if piece.is_empty() {
                    begun = line;
                }
                piece.push_str(text);
                if piece.len() >= PIECE {
                    on(plain(std::mem::take(&mut piece), goes_on, begun))?;
                    goes_on = true;
                }
            }
            if !piece.is_empty() {
                on(plain(piece, goes_on, begun))?;
            }
        }
    }
    match lines.bytes {
        0 => Err(broken(path, "empty; expected text")),
        _ => Ok(()),
    }
}

fn plain(text: String, goes_on: bool, line: u64) -> Record {
    Record { text, second: None, answer: Answer::None, goes_on, line }
}

/// What is wrong with a line.
pub(super) fn at_line(path: &Path, line: u64, reason: impl Into<String>) -> Error {
    broken(path, format!("line {line}: {}", reason.into()))
}

fn too_long(path: &Path, line: u64, what: &str) -> Error {
    at_line(path, line, format!("{what} of more than {} MiB; cut it into shorter ones", LONGEST_RECORD >> 20))
}

/// The record of a line of JSON Lines. Fields that nobody asks for are left alone.
fn object(path: &Path, line: u64, text: &str, shape: Shape) -> Result<Record> {
    let expected = match shape {
        Shape::Text => r#"an object like {"text": "…"}"#,
        Shape::Labelled => r#"an object like {"text": "…", "label": "…"}"#,
        Shape::Pair => r#"an object like {"a": "…", "b": "…"}, perhaps with "score""#,
        Shape::Sequences => r#"an object like {"source": "…", "target": "…"}"#,
    };
    let object: Map<String, Value> = match serde_json::from_str(text.trim_end()) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err(at_line(path, line, format!("JSON, but not an object; expected {expected}"))),
        Err(error) => {
            // There is one line to the parser; which one it is has been said.
            let reason = error.to_string().replace(" at line 1 column", " at column");
            return Err(at_line(path, line, format!("not JSON ({reason}); expected {expected}")));
        }
    };
    let string = |field: &str| match object.get(field) {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(at_line(path, line, format!("`{field}` is not a string; expected {expected}"))),
    };
    let needed = |field: &str| {
        string(field)?.ok_or_else(|| at_line(path, line, format!("no `{field}`; expected {expected}")))
    };
    let (text, second, answer) = match shape {
        Shape::Text => (needed("text")?, None, Answer::None),
        Shape::Labelled => {
            let label = match object.get("label") {
                Some(Value::String(label)) => label.clone(),
                Some(Value::Number(label)) if label.is_u64() || label.is_i64() => label.to_string(),
                Some(Value::Bool(label)) => label.to_string(),
                _ => {
                    let reason = format!("no `label` that is a name or a whole number; expected {expected}");
                    return Err(at_line(path, line, reason));
                }
            };
            (needed("text")?, string("pair")?, Answer::Label(label))
        }
        Shape::Pair => {
            let score = match object.get("score") {
                None | Some(Value::Null) => Answer::None,
                Some(score) => match score.as_f64().filter(|score| (-1.0..=1.0).contains(score)) {
                    Some(score) => Answer::Score(score as f32),
                    None => {
                        let shown = brief(&score.to_string());
                        let reason = format!("`score` is {shown}; expected a cosine, from -1 to 1");
                        return Err(at_line(path, line, reason));
                    }
                },
            };
            (needed("a")?, Some(needed("b")?), score)
        }
        Shape::Sequences => (needed("source")?, Some(needed("target")?), Answer::None),
    };
    Ok(Record { text, second, answer, goes_on: false, line })
}

/// The lines of a file, their ends included.
struct Lines<'a> {
    path: &'a Path,
    file: BufReader<File>,
    buffer: Vec<u8>,
    /// Bytes before the buffer's.
    bytes: u64,
    line: u64,
    /// Whether the line before was only a part of one.
    is_within: bool,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let unreadable = |error: std::io::Error| broken(path, format!("{error}; expected a UTF-8 text file"));
        // Asked before opening: a pipe would wait for a writer.
        if !path.metadata().map_err(unreadable)?.is_file() {
            return Err(broken(path, "not a file; expected a UTF-8 text file"));
        }
        let file = BufReader::with_capacity(PIECE, File::open(path).map_err(unreadable)?);
        Ok(Lines { path, file, buffer: Vec::new(), bytes: 0, line: 0, is_within: false })
    }

    /// The next line with its number; where parts of lines will do, at most a part of a long one.
    fn next(&mut self, parts_will_do: bool) -> Result<Option<(u64, &str)>> {
        let path = self.path;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        let limit = if parts_will_do { PIECE } else { LONGEST_RECORD + 1 };
        let read = (&mut self.file).take(limit as u64).read_until(b'\n', &mut self.buffer);
        read.map_err(|error| failed(path, error))?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.line += u64::from(!self.is_within);
        let is_cut = self.buffer.len() == limit && self.buffer.last() != Some(&b'\n');
        if is_cut && !parts_will_do {
            return Err(too_long(path, self.line, "a line"));
        }
        self.is_within = is_cut;
        if is_cut {
            self.complete()?;
        }
        let (line, before) = (self.line, self.bytes);
        let text = std::str::from_utf8(&self.buffer).map_err(|error| {
            let byte = before + error.valid_up_to() as u64;
            at_line(path, line, format!("byte {byte} is not UTF-8; save the file as UTF-8"))
        })?;
        // A mark of the encoding is no part of the text.
        let text = if before == 0 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        Ok(Some((line, text)))
    }

    /// Reads on to the end of the character that the buffer ends within.
    fn complete(&mut self) -> Result<()> {
        // A character has at most four bytes.
        for _ in 0..3 {
            if std::str::from_utf8(&self.buffer).map_or_else(|error| error.error_len().is_some(), |_| true) {
                break;
            }
            let read = (&mut self.file).take(1).read_to_end(&mut self.buffer);
            if read.map_err(|error| failed(self.path, error))? == 0 {
                break;
            }
        }
        Ok(())
    }
}
