//! JSON as Python writes it: perhaps with a byte order mark, and with `NaN`, `Infinity` and `-Infinity`.
//!
//! Every reader of a `config.json` calls [`parse`], so that all accept the same files.

use crate::error::{Error, Result};
use serde_json::Value;
use std::borrow::Cow;

/// A configuration larger than this is not one.
pub const MAX_CONFIG_BYTES: usize = 16 << 20;

/// Reads the JSON of a `config.json`.
///
/// `NaN` and the infinities, which Python's `json` writes and JSON lacks, become the strings `"NaN"`, `"Infinity"` and
/// `"-Infinity"`: a field that is read as a number is then refused by its name, and all others are as they were.
pub fn parse(bytes: &[u8]) -> Result<Value> {
    if bytes.len() > MAX_CONFIG_BYTES {
        let message = format!("{} bytes; a config.json has at most {MAX_CONFIG_BYTES}", bytes.len());
        return Err(Error::Json(message));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(&quoted(bytes)).map_err(|error| Error::Json(error.to_string()))
}

/// The same text with Python's words for what is not a number in quotes, where they stand outside of strings.
fn quoted(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let (mut copied, mut at, mut in_string) = (0, 0, false);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let word = match bytes[at] {
            b'"' => {
                in_string = !in_string;
                None
            }
            // What is escaped in a string does not end it.
            b'\\' if in_string => {
                at += 1;
                None
            }
            b'N' | b'I' | b'-' if !in_string => {
                ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| rest.starts_with(word.as_bytes()))
            }
            _ => None,
        };
        match word {
            Some(word) => {
                out.extend_from_slice(&bytes[copied..at]);
                out.extend([b"\"", word.as_bytes(), b"\""].concat());
                at += word.len();
                copied = at;
            }
            None => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(bytes);
    }
    out.extend_from_slice(&bytes[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pythons_words_are_read_outside_of_strings_alone() {
        let text =
            br#"{"a": NaN, "b": [-Infinity,Infinity , 1], "NaN": "a \"NaN, Infinity", "c": "\\", "d": NaN}"#;
        let value = json!({
            "a": "NaN", "b": ["-Infinity", "Infinity", 1], "NaN": "a \"NaN, Infinity", "c": "\\", "d": "NaN",
        });
        assert_eq!(parse(text).unwrap(), value);
        assert_eq!(parse(b"\xef\xbb\xbf{\"a\": 1}").unwrap(), json!({"a": 1}));
        for wrong in
            ["{\"a\": Nan}", "{\"a\": --Infinity}", "{\"a\": \"NaN}", "\u{feff}\u{feff}{}", "{\"a\": \\NaN}"]
        {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
