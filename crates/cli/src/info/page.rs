//! The page that `roformer info` prints for people, from the facts of the JSON object.

use super::sentence;
use serde_json::Value;
use std::io::{Result, Write};

/// Prints the page. What is not known is left out.
pub fn print(out: &mut impl Write, facts: &Value) -> Result<()> {
    let is = |field: &str| facts[field].as_bool() == Some(true);
    let mut line = |name: &str, parts: Vec<Option<String>>| {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { Ok(()) } else { writeln!(out, "{name:<13}{}", parts.join(", ")) }
    };
    let with = |field: &str, words: &str| show(&facts[field]).map(|value| words.replace('#', &value));

    // Other heads than language models do not lead back to the vocabulary; those of other models are not known.
    let has_output = facts["head"].as_str().is_none_or(|head| head.ends_with("_lm"));
    line("model", vec![with("model_type", "#"), with("architecture", "#"), with("head", "head #")])?;
    let of_encoder = with("num_encoder_layers", "# of the encoder that it attends to");
    line("layers", vec![with("num_hidden_layers", "#"), of_encoder])?;
    line(
        "width",
        vec![
            with("hidden_size", "#"),
            with("num_attention_heads", "# heads"),
            with("num_key_value_heads", "# heads of keys and values"),
            with("head_dim", "# features per head"),
        ],
    )?;
    line("feed-forward", vec![with("intermediate_size", "#"), with("hidden_act", "#")])?;
    line(
        "vocabulary",
        vec![
            with("vocab_size", "#"),
            with("embedding_size", "embeddings of #"),
            with("type_vocab_size", "# segments"),
            (is("tie_word_embeddings") && has_output).then(|| "tied to the output".into()),
        ],
    )?;
    let sees = facts["is_decoder"].as_bool().map(|decoder| match decoder {
        true => "decoder: a token sees those before it".to_string(),
        false => "encoder: a token sees all others".to_string(),
    });
    let kind = facts["attention"].as_str().filter(|&kind| kind != "softmax").map(String::from);
    line("attention", vec![sees, kind, is("add_cross_attention").then(|| "cross-attention".into())])?;
    let encoding = with("position_encoding", "#").filter(|name| name != "rotary");
    // Learned positions come to an end; of others a file only says for which texts the model was made.
    let positions = match encoding.as_deref() {
        Some("learned") => with("positions", "# of them"),
        _ => with("positions", "made for texts of up to # tokens"),
    };
    line("positions", vec![encoding, positions])?;
    match facts["rope"]["layer_types"].as_object() {
        None => line("rope", rope(&facts["rope"], is("rotary_value")))?,
        Some(layers) => {
            for (name, layer) in layers {
                let mut parts = rope(layer, false);
                parts.insert(0, show(&name.as_str().into()));
                line("rope", parts)?;
            }
        }
    }
    for (name, parts) in sentence::lines(&facts["sentence_transformers"]) {
        line(name, parts)?;
    }
    let unused = facts["tensors"].as_u64().zip(facts["used_tensors"].as_u64()).map(|(all, used)| all - used);
    let unused = unused.filter(|unused| *unused > 0);
    let left_out = facts["left_out"].as_u64().filter(|left_out| *left_out > 0);
    let dtypes = facts["dtypes"].as_object().filter(|types| !types.is_empty());
    line(
        "weights",
        vec![
            with("format", "#"),
            dtypes.map(|types| types.keys().cloned().collect::<Vec<_>>().join(" and ")),
            with("tensors", "# tensors"),
            unused.map(|unused| format!("{unused} of them not used: position tables and tied copies")),
            left_out.map(|left_out| format!("{left_out} more left out: {}", super::OF_TRAINING)),
        ],
    )?;
    let grouped = |field: &str| facts[field].as_u64().map(group);
    let count = grouped("parameters").zip(grouped("bytes"));
    line("parameters", vec![count.map(|(count, bytes)| format!("{count} in {bytes} bytes"))])?;
    line("cost", vec![show(&facts["cost"]["says"])])?;
    for warning in facts["warnings"].as_array().into_iter().flatten() {
        line("note", vec![show(warning)])?;
    }
    Ok(())
}

fn rope(rope: &Value, rotary_value: bool) -> Vec<Option<String>> {
    if rope.is_null() {
        return vec![Some("none".into())];
    }
    let features = show(&rope["rotary_dim"]).zip(show(&rope["head_dim"]));
    vec![
        show(&rope["pairing"]).or(Some("unknown pairing".into())),
        show(&rope["rope_type"]).filter(|rule| rule != "default"),
        rope["base"].as_f64().map(|base| format!("base {base}")),
        features.map(|(turn, all)| format!("{turn} of {all} features turn")),
        rotary_value.then(|| "values are rotated too".into()),
    ]
}

/// A value as text, if it is one. It may come from the file: no control characters reach the terminal.
pub(super) fn show(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.chars().take(400).map(printable).collect()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn printable(c: char) -> char {
    if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }
}

/// A number with its digits in groups of three.
fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
