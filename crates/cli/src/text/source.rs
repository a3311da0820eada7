//! Where records come from: the arguments, a file, or standard input.

use super::Options;
use super::lines::Lines;
use super::record::{Fields, Record, Refusal};
use crate::error::Failure;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::Path;

/// Bytes asked of a file or a pipe at a time; a Linux pipe holds as many.
const READ: usize = 64 << 10;

/// Records, one after the other.
pub struct Source {
    kind: Kind,
    fields: Fields,
    /// What a message calls it.
    name: String,
    /// In bytes, where that is known.
    size: Option<u64>,
    /// Whether someone types the texts, and waits for each answer.
    interactive: bool,
}

enum Kind {
    Arguments { records: std::vec::IntoIter<Record>, count: usize },
    Lines { lines: Lines<Box<dyn BufRead>>, json: bool },
}

impl Options {
    /// The records of the arguments `texts`, or of the input. With several required fields the texts are taken in as
    /// many at a time. `example` is what to type, for the message that says that there is neither.
    pub fn open(&self, texts: Vec<String>, fields: Fields, example: &str) -> Result<Source, Failure> {
        let fail = |message: String| Err(Failure::Input(message));
        let Some(path) = &self.input else {
            if self.jsonl {
                return fail(
                    "--jsonl says how to read --input, which is not given; expected --input FILE".into(),
                );
            }
            if texts.is_empty() {
                return fail(format!(
                    "no text is given; expected one, as in `{example}`, or --input FILE (- for standard input)"
                ));
            }
            return Source::arguments(texts, fields);
        };
        if !texts.is_empty() {
            let message = "texts are given both as arguments and with --input; expected one of the two";
            return fail(message.into());
        }
        if path == Path::new("-") {
            let stdin = io::stdin();
            let interactive = stdin.is_terminal();
            let source = Source::lines("standard input", stdin.lock(), self.jsonl, fields);
            return Ok(Source { interactive, ..source });
        }
        let name = path.display().to_string();
        let json = match path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase()).as_deref() {
            Some("jsonl" | "ndjson") => true,
            // Its braces and quotes would be taken for text.
            Some("json") if !self.jsonl => {
                return fail(format!(
                    "{name} holds JSON, by its name; give --jsonl if each line of it is an object"
                ));
            }
            _ => self.jsonl,
        };
        let failed = |error: io::Error| Failure::Input(format!("{name}: {error}; expected a file of texts"));
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return fail(format!("{name} is a folder; expected a file of texts"));
        }
        let file = File::open(path).map_err(failed)?;
        let interactive = file.is_terminal();
        let size = Some(metadata.len()).filter(|_| metadata.is_file());
        Ok(Source { interactive, size, ..Source::lines(&name, file, json, fields) })
    }
}

impl Source {
    fn arguments(texts: Vec<String>, fields: Fields) -> Result<Self, Failure> {
        let each = fields.required.len().max(1);
        if !texts.len().is_multiple_of(each) {
            return Err(Failure::Input(format!(
                "{} texts are given; expected {each} for each answer: {}",
                texts.len(),
                fields.required.join(", ")
            )));
        }
        let mut records = Vec::with_capacity(texts.len() / each);
        let mut texts = texts.into_iter();
        while texts.len() > 0 {
            records.push(Record::new(records.len() as u64 + 1, texts.by_ref().take(each), &fields));
        }
        let kind = Kind::Arguments { count: records.len(), records: records.into_iter() };
        Ok(Source { kind, fields, name: "the arguments".into(), size: None, interactive: false })
    }

    /// The lines of a reader, of text or of JSON.
    pub fn lines(name: &str, reader: impl io::Read + 'static, json: bool, fields: Fields) -> Self {
        let reader: Box<dyn BufRead> = Box::new(BufReader::with_capacity(READ, reader));
        let kind = Kind::Lines { lines: Lines::new(reader), json };
        Source { kind, fields, name: name.into(), size: None, interactive: false }
    }

    /// The next record or what is wrong with it, if there is one. An error is the reader's, and the last.
    pub fn next(&mut self) -> Result<Option<Result<Record, Refusal>>, Failure> {
        let (lines, json) = match &mut self.kind {
            Kind::Arguments { records, .. } => return Ok(records.next().map(Ok)),
            Kind::Lines { lines, json } => (lines, *json),
        };
        loop {
            let failed = |error: io::Error| Failure::Other(format!("{}: {error}", self.name));
            let Some(line) = lines.next().map_err(failed)? else { return Ok(None) };
            let number = line.number;
            return Ok(Some(match line.text {
                Err(message) => Err(Refusal::new(number, message)),
                // Between objects it means nothing; as a text it is an empty one.
                Ok(text) if json && text.trim_ascii().is_empty() => continue,
                Ok(text) if json => Record::from_json(number, text, &self.fields),
                Ok(text) => Record::from_text(number, text, &self.fields),
            }));
        }
    }

    /// What comes before a message about one of the records, so that it can be found.
    pub fn place(&self, line: u64) -> String {
        match self.kind {
            Kind::Arguments { count: 1, .. } => String::new(),
            Kind::Arguments { .. } => format!("text {line}: "),
            Kind::Lines { .. } => format!("line {line}: "),
        }
    }

    /// The bytes of all records, where that is known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The bytes read so far.
    pub fn read(&self) -> u64 {
        match &self.kind {
            Kind::Arguments { .. } => 0,
            Kind::Lines { lines, .. } => lines.bytes(),
        }
    }

    /// Whether someone types the texts, and waits for each answer.
    pub fn is_interactive(&self) -> bool {
        self.interactive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::output::tests::Folder;
    use std::path::PathBuf;

    const ONE: Fields = Fields { required: &["text"], optional: &["pair"] };
    const PAIR: Fields = Fields { required: &["a", "b"], optional: &[] };

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    fn refused(options: &Options, texts: &[&str], fields: Fields, says: &[&str]) {
        match options.open(strings(texts), fields, "roformer do 'a text'") {
            Err(Failure::Input(message)) => {
                for words in says {
                    assert!(message.contains(words), "`{words}` is not in: {message}");
                }
            }
            _ => panic!("{texts:?} are taken, expected {says:?}"),
        }
    }

    fn all(mut source: Source) -> Vec<Result<Record, Refusal>> {
        std::iter::from_fn(|| source.next().unwrap_or_else(|_| panic!("the reader failed"))).collect()
    }

    fn input(path: impl Into<PathBuf>) -> Options {
        Options { input: Some(path.into()), ..Options::default() }
    }

    #[test]
    fn arguments_are_records() {
        let open = |texts: &[&str], fields| match Options::default().open(strings(texts), fields, "") {
            Ok(source) => source,
            Err(_) => panic!("{texts:?} are refused"),
        };
        let records = all(open(&["x", ""], ONE));
        assert_eq!(records[1], Ok(Record::new(2, strings(&[""]), &ONE)));
        assert_eq!(open(&["x", ""], ONE).place(2), "text 2: ");
        assert_eq!(open(&["x"], ONE).place(1), "", "which text it was needs no saying");
        let records = all(open(&["x", "y", "z", "t"], PAIR));
        assert_eq!(records.len(), 2);
        assert_eq!(records[1], Ok(Record::new(2, strings(&["z", "t"]), &PAIR)));
    }

    #[test]
    fn arguments_that_cannot_be_used_are_refused() {
        refused(&Options::default(), &[], ONE, &["no text", "`roformer do 'a text'`", "--input FILE", "-"]);
        refused(&Options { jsonl: true, ..Options::default() }, &["a"], ONE, &["--jsonl", "--input"]);
        refused(&input("x"), &["a"], ONE, &["both"]);
        refused(&Options::default(), &["a", "b", "c"], PAIR, &["3 texts", "2 for each", "a, b"]);
    }

    #[test]
    fn files_that_cannot_be_read_are_refused() {
        let folder = Folder::new("source-refused");
        refused(&input(&folder.0), &[], ONE, &["is a folder", "expected a file"]);
        refused(&input(folder.0.join("none.txt")), &[], ONE, &["none.txt: ", "expected a file"]);
        refused(&input(""), &[], ONE, &["expected a file"]);
        let path = folder.put("a.json", b"{}");
        refused(&input(path), &[], ONE, &["a.json", "--jsonl"]);
    }

    #[test]
    fn the_name_says_what_the_lines_are() {
        let folder = Folder::new("source-names");
        let bytes = b"{\"text\": \"a\"}\n\n \t\r\n{\"text\": \"b\", \"pair\": \"c\"}";
        for (name, jsonl, expected) in
            [("a.jsonl", false, true), ("a.NDJSON", false, true), ("a.txt", false, false), ("a", true, true)]
        {
            let options = Options { jsonl, ..input(folder.put(name, bytes)) };
            let Ok(source) = options.open(Vec::new(), ONE, "") else { panic!("{name} is refused") };
            assert_eq!(source.size(), Some(bytes.len() as u64));
            let records = all(source);
            if expected {
                let lines: Vec<u64> = records.iter().map(|record| record.as_ref().unwrap().line).collect();
                assert_eq!(lines, [1, 4], "empty lines of JSON Lines are passed over, and counted");
            } else {
                assert_eq!(records.len(), 4);
                assert_eq!(records[1].as_ref().unwrap().text(0), "", "an empty line is an empty text");
            }
        }
    }
}
