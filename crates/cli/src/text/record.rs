//! What a command works on, one text or pair of texts at a time, and how it is read from a line.

use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// What a command asks of each record.
#[derive(Clone, Copy)]
pub struct Fields {
    /// Without them a record cannot be used. On a line of text they are separated by tabs.
    pub required: &'static [&'static str],
    /// Read from JSON only.
    pub optional: &'static [&'static str],
}

/// One thing to work on.
#[derive(Debug, PartialEq)]
pub struct Record {
    /// Which line it was read from, or which of the arguments it is, from 1 on.
    pub line: u64,
    /// What the input calls it; any JSON but lists and objects.
    pub id: Option<Value>,
    /// The required fields and then the optional ones, in the order of [`Fields`].
    values: Vec<Option<String>>,
}

/// A record that cannot be used.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    /// Where it stands, as in [`Record`].
    pub line: u64,
    /// What the input calls it, if so much could be read.
    pub id: Option<Value>,
    /// What was wrong, what was expected.
    pub message: String,
    /// Whether the record may be right, and the machine too small for it, or at fault.
    pub machine: bool,
}

/// An object of output: the id first, where there is one.
#[derive(Serialize)]
struct Identified<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(flatten)]
    body: T,
}

fn write_object(out: &mut dyn Write, id: Option<&Value>, body: impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Identified { id, body })?;
    out.write_all(b"\n")
}

impl Record {
    /// A record of the required fields alone.
    pub fn new(line: u64, texts: impl IntoIterator<Item = String>, fields: &Fields) -> Self {
        let mut values: Vec<Option<String>> = texts.into_iter().map(Some).collect();
        values.resize(fields.required.len() + fields.optional.len(), None);
        Record { line, id: None, values }
    }

    /// The field with this index among the required ones.
    pub fn text(&self, index: usize) -> &str {
        self.get(index).unwrap_or_default()
    }

    /// The field with this index among all, the optional ones last.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.values.get(index)?.as_deref()
    }

    /// The bytes of its texts and its id: what it takes to hold it.
    pub fn bytes(&self) -> usize {
        self.values.iter().flatten().map(String::len).sum::<usize>() + id_bytes(self.id.as_ref())
    }

    /// Writes a line of output: the id, where there is one, and the fields of `body`, a struct.
    pub fn write_json(&self, out: &mut dyn Write, body: impl Serialize) -> io::Result<()> {
        write_object(out, self.id.as_ref(), body)
    }

    /// Reads a line of text: the one required field, or several with tabs between them.
    pub fn from_text(line: u64, text: &str, fields: &Fields) -> Result<Self, Refusal> {
        let wanted = fields.required.len();
        // All that follows the last tab that counts is the last field, tabs and all.
        let texts: Vec<String> = text.splitn(wanted, '\t').map(str::to_string).collect();
        if texts.len() < wanted {
            let tabs = texts.len() - 1;
            let names = fields.required.join(", a tab, ");
            return Err(Refusal::new(
                line,
                format!("has {tabs} tabs; expected {names} (or give JSON Lines)"),
            ));
        }
        Ok(Record::new(line, texts, fields))
    }

    /// Reads a line of JSON Lines: an object, or a string where the command asks for one text.
    pub fn from_json(line: u64, text: &str, fields: &Fields) -> Result<Self, Refusal> {
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Record::from_object(line, object, fields),
            Ok(Value::String(text)) if fields.required.len() == 1 => Ok(Record::new(line, [text], fields)),
            Ok(other) => {
                Err(Refusal::new(line, format!("is {}; expected {}", kind(&other), fields.expected())))
            }
            Err(error) => Err(Refusal::new(line, not_json(&error, fields))),
        }
    }

    fn from_object(line: u64, mut object: Map<String, Value>, fields: &Fields) -> Result<Self, Refusal> {
        let id = object.remove("id");
        if let Some(message) = id.as_ref().and_then(wrong_id) {
            return Err(Refusal::new(line, message));
        }
        let mut values = Vec::with_capacity(fields.required.len() + fields.optional.len());
        let mut wrong = None;
        for (index, name) in fields.all().enumerate() {
            let required = index < fields.required.len();
            values.push(match object.remove(name) {
                Some(Value::String(text)) => Some(text),
                None | Some(Value::Null) if !required => None,
                None => {
                    wrong.get_or_insert(format!("has no \"{name}\"; expected {}", fields.expected()));
                    None
                }
                Some(other) => {
                    wrong.get_or_insert(format!("\"{name}\" is {}; expected a string", kind(&other)));
                    None
                }
            });
        }
        // Before what is missing: a field of another name is the likely cause.
        if let Some(name) = object.keys().next() {
            let message = format!("has an unknown field \"{}\"; expected {}", shown(name), fields.expected());
            return Err(Refusal { id, ..Refusal::new(line, message) });
        }
        match wrong {
            Some(message) => Err(Refusal { id, ..Refusal::new(line, message) }),
            None => Ok(Record { line, id, values }),
        }
    }
}

impl Refusal {
    pub fn new(line: u64, message: impl Into<String>) -> Self {
        Refusal { line, id: None, message: message.into(), machine: false }
    }

    /// A record that was read, and that the library cannot use.
    pub fn of(record: &Record, error: &roformer::Error) -> Self {
        let flag = match error {
            roformer::Error::Input { name: "the number of tokens of a text", .. } => " (--truncate N)",
            _ => "",
        };
        let (message, machine) = (format!("{error}{flag}"), error.is_of_the_machine());
        Refusal { line: record.line, id: record.id.clone(), message, machine }
    }

    /// As for a record.
    pub fn bytes(&self) -> usize {
        self.message.len() + id_bytes(self.id.as_ref())
    }

    /// Writes the line of output that stands for the record.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Body<'a> {
            line: u64,
            error: &'a str,
        }
        write_object(out, self.id.as_ref(), Body { line: self.line, error: &self.message })
    }
}

impl Fields {
    fn all(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }

    /// What a line of JSON may be, in words.
    fn expected(&self) -> String {
        let quoted = |name: &str| format!("\"{name}\"");
        let required = self.required.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" and ");
        let optional = self.optional.iter().chain(&["id"]).map(|name| quoted(name)).collect::<Vec<_>>();
        let string = if self.required.len() == 1 { ", or a string" } else { "" };
        format!("an object with {required}, and optionally {}{string}", optional.join(" and "))
    }
}

fn id_bytes(id: Option<&Value>) -> usize {
    id.and_then(Value::as_str).map_or(0, str::len)
}

/// Why a value cannot be an id.
fn wrong_id(id: &Value) -> Option<String> {
    match id {
        Value::Array(_) | Value::Object(_) => {
            Some(format!("\"id\" is {}; expected a string or a number", kind(id)))
        }
        // Whole numbers beyond 64 bits have been rounded, and would come out as another.
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|x| x.abs() >= TWO_TO_63) => {
            Some("\"id\" is a number beyond 64 bits; expected a smaller one, or a string".to_string())
        }
        _ => None,
    }
}

const TWO_TO_63: f64 = (1_u64 << 63) as f64;

/// Why a line is not JSON. It has been one line to the parser: where in it is all that matters.
fn not_json(error: &serde_json::Error, fields: &Fields) -> String {
    let (text, at) = (error.to_string(), error.column());
    let what = text.split(" at line ").next().unwrap_or(&text);
    let what = match what {
        what if what.contains("surrogate") || what.contains("hex escape") => {
            "a \\u escape that is half of a pair, or does not have four hexadecimal digits"
        }
        what => what,
    };
    format!("is not JSON: {what} at byte {at}; expected {}", fields.expected())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A name from the input, fit for a message.
fn shown(name: &str) -> String {
    const SHOWN: usize = 40;
    let rest = if name.chars().nth(SHOWN).is_some() { "…" } else { "" };
    let start: String = name.chars().take(SHOWN).collect();
    format!("{}{rest}", start.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ONE: Fields = Fields { required: &["text"], optional: &[] };
    const PAIR: Fields = Fields { required: &["question", "context"], optional: &[] };
    const MAYBE: Fields = Fields { required: &["text"], optional: &["pair"] };

    fn refused(line: &str, fields: &Fields, says: &[&str]) {
        let refusal = Record::from_json(3, line, fields).unwrap_err();
        assert_eq!(refusal.line, 3);
        for words in says {
            assert!(refusal.message.contains(words), "`{words}` is not in: {}", refusal.message);
        }
    }

    #[test]
    fn lines_of_text() {
        let record = Record::from_text(1, "a\tb", &ONE).unwrap();
        assert_eq!((record.text(0), record.get(1)), ("a\tb", None));
        let record = Record::from_text(1, "", &ONE).unwrap();
        assert_eq!((record.text(0), record.bytes()), ("", 0));
        let record = Record::from_text(1, "a\tb", &MAYBE).unwrap();
        assert_eq!((record.text(0), record.get(1)), ("a\tb", None), "what is optional comes from JSON");
        let record = Record::from_text(1, "a\tb\tc", &PAIR).unwrap();
        assert_eq!((record.text(0), record.text(1)), ("a", "b\tc"));
        let record = Record::from_text(1, "\t", &PAIR).unwrap();
        assert_eq!((record.text(0), record.text(1)), ("", ""));
        let refusal = Record::from_text(7, "a b", &PAIR).unwrap_err();
        assert_eq!(refusal.line, 7);
        assert_eq!(refusal.message, "has 0 tabs; expected question, a tab, context (or give JSON Lines)");
    }

    #[test]
    fn lines_of_json() {
        let record =
            Record::from_json(2, r#" {"context": "c", "id": 7, "question": "q\u0000"} "#, &PAIR).unwrap();
        assert_eq!((record.text(0), record.text(1), &record.id), ("q\0", "c", &Some(json!(7))));
        let record = Record::from_json(2, r#""\ud83d\ude00""#, &ONE).unwrap();
        assert_eq!((record.text(0), &record.id), ("😀", &None));
        for pair in ["", r#", "pair": null"#] {
            let record = Record::from_json(2, &format!(r#"{{"text": "a"{pair}}}"#), &MAYBE).unwrap();
            assert_eq!((record.text(0), record.get(1)), ("a", None));
        }
        let record = Record::from_json(2, r#"{"text": "a", "pair": "b"}"#, &MAYBE).unwrap();
        assert_eq!(record.get(1), Some("b"));
    }

    #[test]
    fn what_is_wrong_with_an_object_is_named() {
        refused(r#"{"text": 5}"#, &ONE, &["\"text\" is a number", "a string"]);
        refused(r#"{"text": null}"#, &ONE, &["\"text\" is null"]);
        refused(r#"{"text": "a", "pair": []}"#, &MAYBE, &["\"pair\" is a list", "a string"]);
        refused("{}", &MAYBE, &["has no \"text\"", "\"pair\" and \"id\""]);
        refused(r#"{"question": "q"}"#, &PAIR, &["no \"context\"", "\"question\" and \"context\""]);
        refused(
            r#"{"txt": "a"}"#,
            &ONE,
            &["unknown field \"txt\"", "an object with \"text\"", "or a string"],
        );
        refused(r#"{"text": "a", "pair": "b"}"#, &ONE, &["unknown field \"pair\""]);
        refused(&format!(r#"{{"{}\n": 1}}"#, "x".repeat(1000)), &ONE, &[&format!("\"{}…\"", "x".repeat(40))]);
        refused(r#""a""#, &PAIR, &["is a string", "an object"]);
        refused("[1]", &ONE, &["is a list"]);
        let refusal = Record::from_json(3, r#"{"id": "x", "text": false}"#, &ONE).unwrap_err();
        assert_eq!(refusal.id, Some(json!("x")), "known from the input, and wanted in the output");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        refused(r#"{"text": "a\ud800"}"#, &ONE, &["half of a pair", "at byte"]);
        refused(r#"{"text": "\udc00\ud800"}"#, &ONE, &["half of a pair"]);
        refused(r#"{"text": "a"} x"#, &ONE, &["not JSON: trailing characters at byte 15", "expected"]);
        refused(r#"{"text": "a"#, &ONE, &["not JSON", "EOF"]);
        refused(&"[".repeat(100_000), &ONE, &["not JSON", "recursion"]);
    }

    #[test]
    fn an_id_comes_back_as_it_was() {
        for id in ["null", "true", "-3", "18446744073709551615", "1.5", r#""中\n""#] {
            let record = Record::from_json(1, &format!(r#"{{"text":"","id":{id}}}"#), &ONE).unwrap();
            let mut out = Vec::new();
            record.write_json(&mut out, json!({ "score": 0.5 })).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("{{\"id\":{id},\"score\":0.5}}\n"));
        }
        refused(r#"{"text": "", "id": []}"#, &ONE, &["\"id\" is a list"]);
        refused(r#"{"text": "", "id": 18446744073709551616}"#, &ONE, &["\"id\"", "beyond 64 bits"]);
    }

    #[test]
    fn numbers_of_output_are_the_shortest() {
        #[derive(Serialize)]
        struct Body {
            scores: [f32; 3],
        }
        let mut out = Vec::new();
        let record = Record::new(1, ["a".to_string()], &ONE);
        record.write_json(&mut out, Body { scores: [0.1, f32::NAN, 3.0] }).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"scores\":[0.1,null,3.0]}\n");
    }

    #[test]
    fn a_refusal_as_output() {
        let mut out = Vec::new();
        let refusal = Refusal { id: Some(json!("x")), ..Refusal::new(3, "is a \"list\"") };
        refusal.write_json(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"id\":\"x\",\"line\":3,\"error\":\"is a \\\"list\\\"\"}\n"
        );
    }
}
