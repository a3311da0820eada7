//! What a `tokenizer.json` may ask for. Anyone can write one: where a few bytes of it, or of a text, would take gigabytes or
//! hours, it is refused before anything is made of it. No tokenizer in use comes near these bounds.

use crate::weights::brief;
use serde_json::{Map, Value};

/// Steps of a normalizer, of a pre-tokenizer, of a decoder.
const MOST_STEPS: usize = 32;
/// Bytes of a pattern.
const LONGEST_PATTERN: usize = 1 << 14;
/// Bytes that a table of characters puts in the place of one. (The longest in Unicode's own are 33.)
const LONGEST_REPLACEMENT: usize = 64;
/// Tokens that a template adds.
const MOST_ADDED: usize = 4096;
/// Characters of a word that WordPiece cuts: its time grows with the square. (BERT's is 100.)
const LONGEST_WORD: u64 = 1000;
/// Bytes of a piece: Unigram looks for the longest from every character on, and keeps a node for each byte of all of them.
const LONGEST_PIECE: usize = 512;
const MOST_PIECE_BYTES: usize = 8 << 20;

/// Says what a file asks too much of; nothing where it does not.
pub(super) fn check(file: &Map<String, Value>) -> Result<(), String> {
    let part = |name: &str| file.get(name).unwrap_or(&Value::Null);
    for (name, list) in
        [("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"), ("decoder", "decoders")]
    {
        let mut steps = Vec::new();
        flatten(part(name), list, &mut steps);
        if steps.len() > MOST_STEPS {
            return Err(format!("`{name}` has {} steps; expected at most {MOST_STEPS}", steps.len()));
        }
        for step in &steps {
            check_step(step).map_err(|why| format!("`{name}`: {why}"))?;
        }
    }
    check_templates(part("post_processor"))?;
    check_model(part("model"))
}

/// The steps of a sequence, and of sequences in it, one after the other.
fn flatten<'a>(step: &'a Value, list: &str, steps: &mut Vec<&'a Value>) {
    match step.get(list).and_then(Value::as_array) {
        Some(inner) => inner.iter().for_each(|step| flatten(step, list, steps)),
        None => steps.push(step),
    }
}

fn check_step(step: &Value) -> Result<(), String> {
    let pattern = step.get("pattern").and_then(|pattern| pattern.get("Regex")?.as_str()).unwrap_or_default();
    if pattern.len() > LONGEST_PATTERN {
        return Err(format!("a pattern of {} bytes; expected at most {LONGEST_PATTERN}", pattern.len()));
    }
    match step.get("precompiled_charsmap").and_then(Value::as_str) {
        None => Ok(()),
        Some(table) => match longest_replacement(table) {
            Some(longest) if longest <= LONGEST_REPLACEMENT => Ok(()),
            _ => {
                Err("`precompiled_charsmap` is not a sound table of characters; download the file again"
                    .into())
            }
        },
    }
}

/// The most bytes that a table of characters puts in the place of one: a length, a trie of so many bytes, and texts that end
/// with a zero. `None` where it is no such table.
fn longest_replacement(base64: &str) -> Option<usize> {
    let table = decode(base64)?;
    let (length, rest) = table.split_first_chunk::<4>()?;
    let texts = rest.get(u32::from_le_bytes(*length) as usize..)?;
    texts.split(|&byte| byte == 0).map(<[u8]>::len).max()
}

/// The bytes that base64 stands for.
fn decode(base64: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(base64.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for character in base64.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// A template has each text once, and not too many tokens around it.
fn check_templates(processor: &Value) -> Result<(), String> {
    let mut steps = Vec::new();
    flatten(processor, "processors", &mut steps);
    if steps.len() > MOST_STEPS {
        return Err(format!("`post_processor` has {} steps; expected at most {MOST_STEPS}", steps.len()));
    }
    for (step, name) in steps.iter().flat_map(|step| [(step, "single"), (step, "pair")]) {
        let (mut texts, mut added) = ([0, 0], 0usize);
        for piece in step.get(name).and_then(Value::as_array).into_iter().flatten() {
            if let Some(sequence) = piece.get("Sequence") {
                texts[usize::from(sequence["id"] != "A")] += 1;
            }
            let special = piece.get("SpecialToken").and_then(|token| token.get("id")?.as_str());
            let token = special.and_then(|id| step.get("special_tokens")?.get(id)?.get("ids")?.as_array());
            added = added.saturating_add(token.map_or(1, Vec::len));
        }
        if texts.iter().any(|&count| count > 1) || added > MOST_ADDED {
            let expected = format!("expected each text once, and at most {MOST_ADDED} tokens around them");
            return Err(format!("`post_processor`: the template `{name}` has {added} parts; {expected}"));
        }
    }
    Ok(())
}

fn check_model(model: &Value) -> Result<(), String> {
    let longest = model.get("max_input_chars_per_word").and_then(Value::as_u64).unwrap_or(0);
    if longest > LONGEST_WORD {
        let expected = format!("expected at most {LONGEST_WORD}");
        return Err(format!("`max_input_chars_per_word` is {longest}; {expected}"));
    }
    // Unigram's vocabulary is a list of pieces with their scores.
    let mut bytes = 0;
    for piece in model.get("vocab").and_then(Value::as_array).into_iter().flatten() {
        let piece = piece.get(0).and_then(Value::as_str).unwrap_or_default();
        bytes += piece.len();
        if piece.len() > LONGEST_PIECE {
            let expected = format!("expected at most {LONGEST_PIECE}");
            return Err(format!("a piece of {} bytes, `{}`; {expected}", piece.len(), brief(piece)));
        }
    }
    match bytes > MOST_PIECE_BYTES {
        true => Err(format!("pieces of {bytes} bytes in all; expected at most {MOST_PIECE_BYTES}")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn says(file: Value, words: &str) {
        let said = check(file.as_object().unwrap());
        match words {
            "" => assert_eq!(said, Ok(())),
            _ => assert!(said.as_ref().is_err_and(|why| why.contains(words)), "{said:?}"),
        }
    }

    #[test]
    fn what_a_few_bytes_would_make_gigabytes_of_is_refused() {
        let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let double = replace(json!({"String": "a"}), "aa");
        let sequence =
            |list: &str, step: &Value, count: usize| json!({"type": "Sequence", list: vec![step; count]});
        says(json!({"normalizer": sequence("normalizers", &double, 32)}), "");
        says(json!({"normalizer": sequence("normalizers", &double, 33)}), "33 steps");
        says(
            json!({"normalizer": sequence("normalizers", &sequence("normalizers", &double, 9), 9)}),
            "81 steps",
        );
        says(
            json!({"pre_tokenizer": sequence("pretokenizers", &json!({"type": "ByteLevel"}), 65)}),
            "65 steps",
        );
        says(json!({"decoder": sequence("decoders", &double, 33)}), "33 steps");
        says(
            json!({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a".repeat(1 << 15)}}}),
            "32768 bytes",
        );
        says(json!({"model": {"type": "WordPiece", "max_input_chars_per_word": 1001}}), "1001");
        says(json!({"model": {"type": "Unigram", "vocab": [["a".repeat(513), 0.0]]}}), "513 bytes");
    }

    #[test]
    fn templates_have_each_text_once() {
        let (a, b) =
            (json!({"Sequence": {"id": "A", "type_id": 0}}), json!({"Sequence": {"id": "B", "type_id": 1}}));
        let cls = json!({"SpecialToken": {"id": "[CLS]", "type_id": 0}});
        let template = |single: Vec<&Value>, ids: usize| {
            let tokens = json!({"[CLS]": {"id": "[CLS]", "ids": vec![1; ids], "tokens": []}});
            json!({"post_processor": {"single": single, "pair": [&a, &b], "special_tokens": tokens}})
        };
        says(template(vec![&cls, &a], 1), "");
        says(template(vec![&a, &a], 1), "each text once");
        says(template(vec![&cls, &a], 5000), "at most 4096");
        says(template(vec![&cls; 5000], 1), "at most 4096");
    }

    #[test]
    fn tables_of_characters() {
        // A trie of four bytes, and "ab" and "c" after it.
        assert_eq!(decode("BAAAAAAAAABhYgBjAA=="), Some(b"\x04\0\0\0\0\0\0\0ab\0c\0".to_vec()));
        assert_eq!(longest_replacement("BAAAAAAAAABhYgBjAA=="), Some(2));
        // A length beyond the end, nothing at all, and what is not base64.
        for wrong in ["/////wAAAABhYgBjAA==", "", "AAA", "Ä", "*"] {
            assert_eq!(longest_replacement(wrong), None, "{wrong}");
        }
        says(
            json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}}),
            "not a sound table",
        );
    }
}
