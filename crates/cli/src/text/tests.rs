//! Runs of a task that needs no model.

use super::run::{Listener, SAID, Tally, drive};
use super::source::Source;
use super::{Fields, Options, Record, Task};
use crate::error::{Failure, Outcome};
use std::io::{self, Read, Write};

const ONE: Fields = Fields { required: &["text"], optional: &[] };

/// Prints each text, and cannot use those that begin with `!`. `?` asks for more memory than there is.
#[derive(Default)]
struct Echo {
    /// The number of records in each window.
    windows: Vec<usize>,
}

impl Task for Echo {
    type Output = String;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<String>> {
        self.windows.push(records.len());
        let error = |text: &str| match text.chars().next() {
            Some('!') => {
                Some(roformer::Error::Input { name: "text", value: text.into(), expected: "no !".into() })
            }
            Some('?') => Some(roformer::Error::memory("a text")),
            _ => None,
        };
        let result = |text: &str| error(text).map_or(Ok(text.to_string()), Err);
        records.iter().map(|record| result(record.text(0))).collect()
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, output: String) -> Outcome {
        assert_eq!(record.text(0), output);
        Ok(writeln!(out, "{} {output}", record.line)?)
    }
}

#[derive(Default)]
struct Heard {
    said: Vec<String>,
    done: Vec<(u64, u64)>,
}

impl Listener for Heard {
    fn say(&mut self, line: &str) {
        self.said.push(line.into());
    }

    fn advance(&mut self, records: u64, bytes: u64) {
        self.done.push((records, bytes));
    }
}

struct Ran {
    result: Result<Tally, Failure>,
    out: String,
    heard: Heard,
    windows: Vec<usize>,
}

impl Ran {
    fn tally(&self) -> (u64, u64) {
        match &self.result {
            Ok(tally) => (tally.records, tally.refused),
            Err(Failure::Input(message) | Failure::Other(message)) => panic!("{message}"),
            Err(Failure::Closed) => panic!("closed"),
        }
    }

    fn input_error(&self) -> &str {
        match &self.result {
            Err(Failure::Input(message)) => message,
            _ => panic!("expected a failure by the input"),
        }
    }
}

fn ran(options: Options, reader: impl Read + 'static) -> Ran {
    let mut source = Source::lines("test", reader, options.jsonl, ONE);
    let (mut task, mut out, mut heard) = (Echo::default(), Vec::new(), Heard::default());
    let result = drive(&options, &mut source, &mut task, &mut out, &mut heard);
    Ran { result, out: String::from_utf8(out).unwrap(), heard, windows: task.windows }
}

fn keep_going() -> Options {
    Options { keep_going: true, ..Options::default() }
}

#[test]
fn results_come_in_order_however_many() {
    let input: String = (1..=1300).map(|i| format!("text {i}\n")).collect();
    let expected: String = (1..=1300).map(|i| format!("{i} text {i}\n")).collect();
    let bytes = input.len() as u64;
    let ran = ran(Options::default(), io::Cursor::new(input));
    assert_eq!((ran.tally(), ran.out), ((1300, 0), expected));
    assert_eq!(ran.windows, [512, 512, 276]);
    assert_eq!(ran.heard.done.last(), Some(&(1300, bytes)));
}

#[test]
fn a_window_of_long_texts_has_few() {
    let input = format!("{}\n", "a".repeat(300_000)).repeat(10);
    assert_eq!(ran(Options::default(), io::Cursor::new(input)).windows, [4, 4, 2]);
    let input = format!("{{\"id\": \"{}\", \"text\": \"\"}}\n", "a".repeat(300_000)).repeat(10);
    let options = Options { jsonl: true, ..Options::default() };
    assert_eq!(ran(options, io::Cursor::new(input)).windows, [4, 4, 2], "ids are held too");
}

#[test]
fn nothing_in_nothing_out() {
    let ran = ran(keep_going(), io::empty());
    assert_eq!((ran.tally(), ran.out.as_str(), ran.windows), ((0, 0), "", vec![]));
}

#[test]
fn a_million_empty_lines() {
    let ran = ran(Options::default(), io::repeat(b'\n').take(1_000_000));
    assert_eq!(ran.tally(), (1_000_000, 0));
    assert!(ran.out.ends_with("\n999999 \n1000000 \n"));
    let ran = self::ran(Options { jsonl: true, ..Options::default() }, io::repeat(b'\n').take(1_000_000));
    assert_eq!((ran.tally(), ran.windows), ((0, 0), vec![]));
}

#[test]
fn the_first_that_cannot_be_used_stops() {
    let ran = ran(Options::default(), &b"a\nb\n!c\nd\n"[..]);
    assert!(ran.input_error().starts_with("line 3: "), "{}", ran.input_error());
    assert_eq!((ran.out.as_str(), ran.heard.said.len()), ("1 a\n2 b\n", 0));

    let ran = self::ran(Options::default(), &b"a\nb\n\xff\n!d\n"[..]);
    assert!(ran.input_error().starts_with("line 3: byte 1"), "{}", ran.input_error());
    assert_eq!(ran.out, "1 a\n2 b\n", "what came before the line that cannot be read");

    let ran = self::ran(Options::default(), &b"a\n?\n"[..]);
    assert!(matches!(&ran.result, Err(Failure::Other(message)) if message.starts_with("line 2: ")));
}

#[test]
fn keep_going_goes_on_and_counts() {
    let ran = ran(keep_going(), &b"!a\nb\n\xff\nd\n?\nf"[..]);
    assert_eq!((ran.tally(), ran.out.as_str()), ((6, 3), "2 b\n4 d\n6 f\n"));
    let starts = ["line 1: ", "line 3: ", "line 5: "];
    assert_eq!(ran.heard.said.len(), starts.len());
    assert!(ran.heard.said.iter().zip(starts).all(|(line, start)| line.starts_with(start)));
    match ran.result.unwrap_or_default().outcome() {
        Err(Failure::Input(message)) => assert_eq!(message, "3 of 6 texts could not be used"),
        _ => panic!("not all could be used"),
    }
    assert!(Tally { records: 5, refused: 0 }.outcome().is_ok());
}

#[test]
fn with_json_each_refusal_is_an_object_in_its_place() {
    let options = Options { json: true, jsonl: true, ..keep_going() };
    let input = "{\"text\": \"a\"}\n\n{\"id\": 7, \"text\": \"!\"}\n{\"id\": \"x\", \"txt\": \"\"}\n\"e\"";
    let ran = ran(options, io::Cursor::new(input));
    assert_eq!(ran.tally(), (4, 2));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[3]), (4, "1 a", "5 e"));
    for (index, id, line) in [(1, serde_json::json!(7), 3), (2, serde_json::json!("x"), 4)] {
        let object: serde_json::Value = serde_json::from_str(lines[index]).unwrap();
        assert_eq!((&object["id"], object["line"].as_u64()), (&id, Some(line)));
        assert!(object["error"].as_str().is_some_and(|error| !error.contains("line ")));
    }
}

#[test]
fn of_many_refusals_few_are_said() {
    let ran = ran(Options { json: true, ..keep_going() }, io::Cursor::new("!\n".repeat(3000)));
    assert_eq!((ran.tally(), ran.out.lines().count()), ((3000, 3000), 3000));
    assert_eq!(ran.heard.said.len() as u64, SAID + 1);
    assert!(ran.heard.said.last().unwrap().contains("in the output"));
}

#[test]
fn a_reader_that_fails_comes_after_what_was_read() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let ran = ran(keep_going(), (&b"a\nb\n"[..]).chain(Failing));
    assert!(matches!(&ran.result, Err(Failure::Other(message)) if message == "test: the disk is gone"));
    assert_eq!(ran.out, "1 a\n2 b\n");
}

#[test]
fn a_writer_that_has_gone_ends_it_quietly() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for input in [&b"a\n"[..], b"\xff\n"] {
        let options = Options { json: true, ..keep_going() };
        let mut source = Source::lines("test", input, false, ONE);
        let result = drive(&options, &mut source, &mut Echo::default(), &mut Gone, &mut Heard::default());
        assert!(matches!(result, Err(Failure::Closed)));
    }
}
