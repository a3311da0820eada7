//! Hostile config.json files: whatever the bytes, the answer is a rope that works or an error that names the field.
//!
//! A dozen good files are spoilt in one place at a time, with every kind of wrong value at every place, and then at
//! random. See `hostile.rs` for the functions that take no file.

#![cfg(feature = "hf")]

use proptest::prelude::*;
use rope::{AnglePrecision, Error, HfConfig, HfOptions, Pairing, Positions, Result, Rope, Turn, ViewMut};
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Good files. They hold nothing that is not read, so that whatever is spoilt is something that counts.
fn configs() -> Vec<(&'static str, Value)> {
    let llama3 = json!({
        "model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 131072,
        "rope_theta": 500000.0, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192
        }
    });
    let yarn = json!({
        "model_type": "qwen2", "head_dim": 64, "max_position_embeddings": 131072, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768,
            "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.1, "truncate": true
        }
    });
    let longrope = json!({
        "model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": {
            "type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0],
            "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
        }
    });
    let gemma3 = json!({
        "model_type": "gemma3", "text_config": {
            "model_type": "gemma3_text", "head_dim": 32, "max_position_embeddings": 131072, "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}
            }
        }
    });
    let gemma3_flat = json!({
        "model_type": "gemma3_text", "head_dim": 32, "max_position_embeddings": 131072, "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}
    });
    let deepseek = json!({
        "model_type": "deepseek_v3", "qk_rope_head_dim": 64, "max_position_embeddings": 163840,
        "rope_theta": 10000, "rope_interleave": true, "rope_scaling": {
            "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.5,
            "original_max_position_embeddings": 4096
        }
    });
    let qwen2_vl = json!({
        "model_type": "qwen2_vl", "hidden_size": 512, "num_attention_heads": 4, "rope_theta": 1000000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}
    });
    let neox = json!({
        "model_type": "gpt_neox", "hidden_size": 256, "num_attention_heads": 4, "rotary_pct": 0.25,
        "rotary_emb_base": 10000, "max_position_embeddings": 2048
    });
    let gptj =
        json!({"model_type": "gptj", "n_embd": 256, "n_head": 4, "rotary_dim": 32, "n_positions": 2048});
    let roformer = json!({
        "model_type": "roformer", "hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 1536,
        "rotary_value": false
    });
    let gpt_oss = json!({
        "model_type": "gpt_oss", "head_dim": 64, "max_position_embeddings": 131072, "rope_theta": 150000,
        "rope_scaling": {
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
            "original_max_position_embeddings": 4096
        }
    });
    let gemma4 = json!({
        "model_type": "gemma4_text", "head_dim": 32, "global_head_dim": 64, "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional", "partial_rotary_factor": 0.25, "factor": 2.0, "rope_theta": 1000000.0
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}
        }
    });
    let dynamic = json!({
        "model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096,
        "rope_scaling": {"type": "dynamic", "factor": 2.0}
    });
    // One key alone in its dictionary: spoilt, it must not pass for the name of a layer type.
    let single = json!({"model_type": "llama", "head_dim": 16, "rope_parameters": {"rope_theta": 10000.0}});
    vec![
        ("llama3", llama3),
        ("yarn", yarn),
        ("longrope", longrope),
        ("gemma3", gemma3),
        ("gemma3 flat", gemma3_flat),
        ("deepseek", deepseek),
        ("qwen2_vl", qwen2_vl),
        ("neox", neox),
        ("gptj", gptj),
        ("roformer", roformer),
        ("gpt_oss", gpt_oss),
        ("gemma4", gemma4),
        ("dynamic", dynamic),
        ("single key", single),
    ]
}

/// Fields by what they hold. A value of another kind must be refused (`null` is read as absent).
const NUMBERS: &[&str] = &[
    "hidden_size",
    "num_attention_heads",
    "n_embd",
    "n_head",
    "n_positions",
    "head_dim",
    "global_head_dim",
    "qk_rope_head_dim",
    "rotary_dim",
    "rotary_pct",
    "partial_rotary_factor",
    "rotary_emb_base",
    "rope_theta",
    "rope_local_base_freq",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
];
const LISTS: &[&str] = &["short_factor", "long_factor", "mrope_section"];
const STRINGS: &[&str] = &["model_type", "rope_type", "type"];
const BOOLEANS: &[&str] = &["truncate", "rope_interleave", "rotary_value"];
const OBJECTS: &[&str] = &["rope_scaling", "rope_parameters", "text_config"];
/// Fields that may be negative, or 0.
const SIGNED: &[&str] = &["mscale", "mscale_all_dim"];
const MAY_BE_ZERO: &[&str] = &["mscale", "mscale_all_dim", "beta_fast", "beta_slow", "partial_rotary_factor"];
/// Where two fields contradict each other, an error may name either.
const PARTNERS: &[(&str, &str)] = &[
    ("hidden_size", "short_factor"),
    ("hidden_size", "mrope_section"),
    ("hidden_size", "head_dim"),
    ("hidden_size", "rotary_pct"),
    ("head_dim", "hidden_size"),
    ("num_attention_heads", "hidden_size"),
    ("num_attention_heads", "short_factor"),
    ("num_attention_heads", "mrope_section"),
    ("num_attention_heads", "head_dim"),
    ("n_head", "hidden_size"),
    ("n_head", "rotary_dim"),
    ("n_embd", "rotary_dim"),
    ("n_embd", "head_dim"),
    ("low_freq_factor", "high_freq_factor"),
    ("beta_slow", "beta_fast"),
    // Without its dictionary or its rule a file may lack what that gave.
    ("rope_type", "factor"),
    ("type", "factor"),
];

/// Values in the place of good ones, as they stand in the file: some are not JSON.
const SPOILT: &[&str] = &[
    "null",
    "true",
    "\"8\"",
    "\"default\"",
    "\"nonsense\"",
    "[]",
    "[1]",
    "[null]",
    "[0, 0]",
    "[-1, 1e308]",
    "{}",
    "{\"a\": {}}",
    "0",
    "-0.0",
    "-1",
    "1",
    "3",
    "7",
    "2.5",
    "0.1",
    "1e-20",
    "1e308",
    "-1e308",
    "5e-324",
    "2.2250738585072014e-308",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e",
    "",
];

type Path = Vec<String>;

/// The paths of all fields of an object.
fn paths(map: &Map<String, Value>, at: &Path, list: &mut Vec<Path>) {
    for (key, value) in map {
        let mut path = at.clone();
        path.push(key.clone());
        if let Value::Object(inner) = value {
            paths(inner, &path, list);
        }
        list.push(path);
    }
}

fn all_paths(config: &Value) -> Vec<Path> {
    let mut list = Vec::new();
    paths(config.as_object().unwrap(), &Vec::new(), &mut list);
    list
}

/// The object that holds the last key of a path.
fn parent<'a>(config: &'a mut Value, path: &[String]) -> &'a mut Map<String, Value> {
    let mut at = config;
    for key in &path[..path.len() - 1] {
        at = &mut at[key];
    }
    at.as_object_mut().unwrap()
}

/// The file with the text `value` at a path.
fn spoil(config: &Value, path: &[String], value: &str) -> String {
    let mut config = config.clone();
    parent(&mut config, path).insert(path[path.len() - 1].clone(), "@here@".into());
    config.to_string().replace("\"@here@\"", value)
}

/// One line, not too long, that a terminal can be shown.
fn is_presentable(message: &str) -> bool {
    !message.is_empty() && message.len() <= 2000 && !message.chars().any(char::is_control)
}

/// Demands of a rope: a small table of finite numbers that turns a vector of ones into finite numbers.
fn works(rope: &Rope) -> std::result::Result<(), String> {
    let positions = [0.0, 1.0, 100.0].repeat(rope.axis_count());
    for length in [None, Some(1 << 20)] {
        let table = match rope.table_of::<f32>(&positions, length) {
            Ok(table) => table,
            // Angles too large for their sine may be refused here or when the file is read.
            Err(_) if rope.frequencies(length).inv_freq().iter().any(|theta| theta.abs() > 1e6) => continue,
            Err(error) => return Err(format!("no table: {error}")),
        };
        let finite = |list: &[f32]| list.iter().all(|x| x.is_finite());
        if !finite(table.cos()) || !finite(table.sin()) {
            return Err(format!("cosines and sines that are not finite, length {length:?}"));
        }
        if rope.head_dim() <= 8192 {
            for turn in [Turn::Forward, Turn::Inverse] {
                let mut x = vec![1.0f32; 3 * rope.head_dim()];
                let mut view = ViewMut::blhd(&mut x, [1, 3, 1, rope.head_dim()]).unwrap();
                table.at(Positions::Rows).unwrap().rotate(turn, &mut view).unwrap();
                if !finite(&x) {
                    return Err(format!("{turn:?} turns ones into numbers that are not finite"));
                }
            }
        }
    }
    Ok(())
}

/// Reads a file. The outer error says what must not be: a panic, a rope that does not work, a message that cannot be
/// shown.
fn read(config: &[u8]) -> std::result::Result<Result<HfConfig>, String> {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        let answer = HfConfig::read(config, &HfOptions::default());
        match &answer {
            Ok(config) => {
                for layer in &config.layers {
                    if let Some(rope) = &layer.rope {
                        works(rope)?;
                        works(&rope.clone().with_angle_precision(AnglePrecision::F32))
                            .map_err(|error| error + " (F32)")?;
                    }
                }
                if let Some(warning) = config.warnings.iter().find(|warning| !is_presentable(warning)) {
                    return Err(format!("a warning of {} bytes: {warning:?}", warning.len()));
                }
            }
            Err(error) => {
                let message = error.to_string();
                if !is_presentable(&message) {
                    return Err(format!("a message of {} bytes: {message:?}", message.len()));
                }
            }
        }
        // The short way gives the same answer, once the pairing is known.
        if let (Ok(_), Err(error)) = (&answer, Rope::from_hf(config))
            && !error.to_string().contains("model_type")
        {
            return Err(format!("from_hf: {error}"));
        }
        Ok(answer)
    }));
    answer.unwrap_or_else(|_| Err("a panic".into()))
}

/// Whether a message names a field, or is about a partner of it.
fn names(message: &str, key: &str) -> bool {
    let subject = message.split(" is ").next().unwrap_or_default().trim_end_matches('`');
    let partner = |&(field, other): &(&str, &str)| field == key && subject.ends_with(other);
    message.contains(key) || PARTNERS.iter().any(partner)
}

/// Fails with all that was found, each on a line that can be read.
fn report(failures: Vec<String>) {
    let lines: Vec<String> = failures.iter().map(|failure| format!("{failure:.250}")).collect();
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), lines.join("\n"));
}

#[test]
fn the_good_files_are_good() {
    for (name, config) in configs() {
        let read = read(config.to_string().as_bytes()).unwrap();
        let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read.pairing.is_some() && !read.layers.is_empty(), "{name}");
        for path in all_paths(&config) {
            let key = path[path.len() - 1].as_str();
            let kinds = [NUMBERS, LISTS, STRINGS, BOOLEANS, OBJECTS];
            let is_layer = ["full_attention", "sliding_attention"].contains(&key);
            assert!(is_layer || kinds.iter().any(|kind| kind.contains(&key)), "{name}: {key}");
        }
    }
}

#[test]
fn one_spoilt_field_is_named_or_does_no_harm() {
    let mut failures = Vec::new();
    for (name, config) in configs() {
        for path in all_paths(&config) {
            let key = path[path.len() - 1].as_str();
            for value in SPOILT {
                let text = spoil(&config, &path, value);
                let case = format!("{name}: {} = {value}", path.join("."));
                let answer = match read(text.as_bytes()) {
                    Ok(answer) => answer,
                    Err(error) => {
                        failures.push(format!("{case}: {error}"));
                        continue;
                    }
                };
                let is_json = serde_json::from_str::<Value>(&text).is_ok();
                match answer {
                    Err(Error::Json(_)) if !is_json => {}
                    Err(error) => {
                        let message = error.to_string();
                        if !names(&message, key) {
                            failures.push(format!("{case}: not named in: {message}"));
                        }
                    }
                    Ok(_) if !is_json => failures.push(format!("{case}: not JSON, but accepted")),
                    Ok(_) if must_be_refused(key, value) => failures.push(format!("{case}: accepted")),
                    Ok(_) => {}
                }
            }
        }
    }
    report(failures);
}

/// Whether a value is of the wrong kind for a field, or out of its range whatever the other fields are.
fn must_be_refused(key: &str, value: &str) -> bool {
    let value: Value = serde_json::from_str(value).unwrap();
    match value {
        Value::Null => false,
        Value::Number(number) if NUMBERS.contains(&key) => {
            let number = number.as_f64().unwrap();
            (number < 0.0 && !SIGNED.contains(&key)) || (number == 0.0 && !MAY_BE_ZERO.contains(&key))
        }
        // No list of the files has one entry or none.
        Value::Array(_) if LISTS.contains(&key) => true,
        // An unknown model type is an error of `from_hf`, where the pairing is needed.
        Value::String(name) if STRINGS.contains(&key) => key != "model_type" && name != "default",
        Value::Bool(_) if BOOLEANS.contains(&key) => false,
        // An object in a dictionary's place may be a layer type's.
        Value::Object(_) if OBJECTS.contains(&key) => false,
        _ => [NUMBERS, LISTS, STRINGS, BOOLEANS, OBJECTS].iter().any(|kind| kind.contains(&key)),
    }
}

#[test]
fn a_missing_field_is_named_or_does_no_harm() {
    let mut failures = Vec::new();
    for (name, config) in configs() {
        for path in all_paths(&config) {
            let key = path[path.len() - 1].as_str();
            let mut without = config.clone();
            parent(&mut without, &path).remove(key);
            let case = format!("{name} without {}", path.join("."));
            match read(without.to_string().as_bytes()) {
                Err(error) => failures.push(format!("{case}: {error}")),
                Ok(Err(error)) => {
                    let message = error.to_string();
                    // What stood in an object is missing without it.
                    if !(names(&message, key) || OBJECTS.contains(&key) && message.contains("head_dim")) {
                        failures.push(format!("{case}: not named in: {message}"));
                    }
                }
                Ok(Ok(_)) => {}
            }
        }
    }
    report(failures);
}

#[test]
fn an_unknown_key_of_a_rope_dictionary_is_named() {
    let mut failures = Vec::new();
    for (name, config) in configs() {
        for path in all_paths(&config) {
            let dictionary = &config.pointer(&format!("/{}", path.join("/"))).unwrap();
            if !dictionary.is_object() || path[path.len() - 1] == "text_config" {
                continue;
            }
            // Beside layer types only the name is demanded; and null there is a layer type without rotary embedding.
            let is_nested = dictionary.get("full_attention").is_some();
            for key in ["facter", "aaa", "zzz", "rope-theta", "Factor", "a.b", "", "full_attention2"] {
                for value in if is_nested { &["1", "\"x\"", "[]"][..] } else { &["1", "null", "{}", "[]"] } {
                    let inner = [&path[..], &[key.to_string()]].concat();
                    let text = spoil(&config, &inner, value);
                    let case = format!("{name}: {} = {value}", inner.join("."));
                    match read(text.as_bytes()) {
                        Err(error) => failures.push(format!("{case}: {error}")),
                        Ok(Ok(_)) => failures.push(format!("{case}: accepted")),
                        Ok(Err(error)) => {
                            let message = error.to_string();
                            let is_named = message.contains(&format!(".{key}`"));
                            let advises = message.ends_with(&format!("set `allow_unknown` to {key}"))
                                && matches!(error, Error::UnknownKey { .. });
                            if !is_named || !(is_nested || advises) {
                                failures.push(format!("{case}: {message:.150}"));
                            }
                        }
                    }
                    // What the message advises must help.
                    let options = HfOptions { allow_unknown: vec![key.into()], ..HfOptions::default() };
                    if let (false, Err(error)) = (is_nested, HfConfig::read(text.as_bytes(), &options)) {
                        failures.push(format!("{case}: still refused when allowed: {error}"));
                    }
                }
            }
        }
    }
    report(failures);
}

#[test]
fn files_cut_off_anywhere_are_refused() {
    for (name, config) in configs() {
        let text = config.to_string();
        for end in 0..text.len() {
            let answer = HfConfig::read(&text.as_bytes()[..end], &HfOptions::default());
            assert!(matches!(answer, Err(Error::Json(_))), "{name}: {}", &text[..end]);
        }
    }
}

#[test]
fn files_that_are_no_objects_are_refused() {
    for text in ["", " ", "null", "1", "\"x\"", "[]", "[{}]", "true", "{} {}", "{}x", "\u{feff}", "\0", "{,}"]
    {
        let error = read(text.as_bytes()).unwrap().unwrap_err();
        assert!(matches!(error, Error::Json(_)), "{text:?}: {error}");
    }
    // A byte order mark is passed over.
    for text in ["{}", "\u{feff}{}"] {
        let error = read(text.as_bytes()).unwrap().unwrap_err();
        assert!(error.to_string().contains("head_dim"), "{error}");
    }
    for text in
        [&b"\xff\xfe{\0}\0"[..], b"{\"model_type\": \"\xff\"}", b"{\"\xc3\x28\": 1}", b"{\"a\": \"\\ud800\"}"]
    {
        assert!(matches!(read(text).unwrap(), Err(Error::Json(_))), "{text:?}");
    }
}

#[test]
fn deep_files_do_not_end_the_stack() {
    for (open, middle, close) in [
        ("[", "", "]"),
        ("{\"a\":", "1", "}"),
        ("{\"text_config\":", "{}", "}"),
        ("{\"rope_scaling\":", "{}", "}"),
        ("{\"model_type\":\"llama\",\"rope_parameters\":", "{}", "}"),
    ] {
        for depth in [100, 127, 128, 1000, 100_000] {
            let _ = read((open.repeat(depth) + middle + &close.repeat(depth)).as_bytes()).unwrap();
            let unclosed = read(open.repeat(depth).as_bytes()).unwrap();
            assert!(matches!(unclosed, Err(Error::Json(_))), "{open} {depth}");
        }
    }
    // A text part within a text part is followed as far as JSON is read.
    let config = configs()[0].1.to_string();
    let read =
        read(("{\"text_config\":".repeat(60) + &config + &"}".repeat(60)).as_bytes()).unwrap().unwrap();
    assert_eq!(read.layers[0].rope.as_ref().unwrap().head_dim(), 64);
}

#[test]
fn large_files_are_refused_by_their_size() {
    let config = configs()[0].1.to_string();
    for fill in [b' ', b'0', b'[', 0] {
        let mut bytes = config.clone().into_bytes();
        bytes.resize(100_000_000, fill);
        let answer = HfConfig::read(&bytes, &HfOptions::default());
        let Err(Error::Json(message)) = answer else { panic!("{answer:?}") };
        assert!(message.contains("100000000 bytes"), "{message}");
    }
    // Just within the limit, blanks do no harm.
    let mut bytes = config.into_bytes();
    bytes.resize(rope::config::MAX_CONFIG_BYTES, b' ');
    assert!(read(&bytes).unwrap().is_ok());
    bytes.push(b' ');
    assert!(read(&bytes).unwrap().is_err());
}

#[test]
fn files_of_any_size_are_answered_in_time() {
    // As large as a file may be: many layer types, long lists, long names.
    let layers = |count: usize, inner: &str| {
        let list: Vec<String> = (0..count).map(|layer| format!("\"{layer}\":{inner}")).collect();
        format!(r#"{{"model_type":"llama","head_dim":8192,"rope_parameters":{{{}}}}}"#, list.join(","))
    };
    let list = |key: &str, entry: &str| {
        let entries = vec![entry; 4_000_000].join(",");
        let dictionary = format!(r#"{{"rope_type":"longrope","{key}":[{entries}]}}"#);
        format!(
            r#"{{"model_type":"llama","head_dim":64,"max_position_embeddings":8,"rope_scaling":{dictionary}}}"#
        )
    };
    for (name, text) in [
        ("layer types", layers(50_000, "{}")),
        ("layer types with warnings", layers(50_000, r#"{"factor":1}"#)),
        ("divisors", list("short_factor", "1")),
        ("sections", list("mrope_section", "9")),
    ] {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let answer = HfConfig::read(text.as_bytes(), &HfOptions::default());
            sender.send(answer.map(|config| config.layers.len()))
        });
        // Long enough for a busy machine: what is stopped here is what does not end.
        let answer = receiver.recv_timeout(Duration::from_secs(600));
        let answer = answer.unwrap_or_else(|_| panic!("{name}: no answer within ten minutes"));
        if let Err(error) = answer {
            assert!(is_presentable(&error.to_string()), "{name}: {error:.200}");
        }
    }
}

#[test]
fn long_and_strange_names_make_short_plain_messages() {
    let long = "x".repeat(1_000_000);
    let mut failures = Vec::new();
    for text in [&long[..], "\u{1b}[2J", "a\nb", "\u{0}", "ü€𝄞", "`", "\u{202e}", "a\"b"] {
        let shown = &text[..text.len().min(9)];
        for key in ["model_type", "text_config", "head_dim", "rope_theta", "rope_scaling"] {
            let mut config = configs()[0].1.clone();
            config[key] = text.into();
            if let Err(error) = read(config.to_string().as_bytes()) {
                failures.push(format!("{key} = {shown:?}: {error}"));
            }
            // Through `ropes` as well, which has the last word on an unknown model type.
            if let Err(error) = Rope::from_hf(config.to_string().as_bytes())
                && !is_presentable(&error.to_string())
            {
                failures.push(format!("{key} = {shown:?}: from_hf: {:?}", error.to_string()));
            }
        }
        for config in [&configs()[0].1, &configs()[3].1["text_config"]] {
            let key = if config.get("rope_scaling").is_some() { "rope_scaling" } else { "rope_parameters" };
            let mut unknown = config.clone();
            unknown[key][text] = json!({"factor": 2.0, "rope_type": 3});
            if let Err(error) = read(unknown.to_string().as_bytes()) {
                failures.push(format!("{key}.{shown:?}: {error}"));
            }
        }
    }
    report(failures);
}

#[test]
fn of_two_values_for_one_key_the_last_counts() {
    // As Python reads it, and so transformers.
    let read = |text: &str| read(text.as_bytes()).unwrap();
    let twice = r#"{"model_type": "llama", "head_dim": 3, "head_dim": "x", "rope_theta": -1, "head_dim": 16,
                    "rope_theta": 500.0, "rope_scaling": {"a": 1}, "rope_scaling": null}"#;
    let once = r#"{"model_type": "llama", "head_dim": 16, "rope_theta": 500.0}"#;
    assert_eq!(read(twice).unwrap().layers[0].rope, read(once).unwrap().layers[0].rope);
    let wrong = read(r#"{"model_type": "llama", "head_dim": 16, "head_dim": "x"}"#).unwrap_err();
    assert!(wrong.to_string().contains("head_dim"), "{wrong}");
}

#[test]
fn layer_types_are_asked_for_by_name() {
    let set = Rope::from_hf(configs()[3].1.to_string().as_bytes()).unwrap();
    assert!(set.only().is_err());
    assert!(set.layer("full_attention").unwrap().is_some());
    for name in ["", "full", "FULL_ATTENTION", "full_attention ", "\0"] {
        let message = set.layer(name).unwrap_err().to_string();
        assert!(message.contains("layer_type") && message.contains("full_attention"), "{message}");
    }
    let set = Rope::from_hf(configs()[0].1.to_string().as_bytes()).unwrap();
    assert!(set.only().is_ok() && set.layer("full_attention").is_err());
    let none = Rope::from_hf(br#"{"model_type": "falcon", "alibi": true}"#).unwrap_err();
    assert!(none.to_string().contains("falcon") && none.to_string().contains("ALiBi"), "{none}");
}

/// Without a file of past failures: a failing case is printed, and belongs into a test above.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes).map_err(TestCaseError::fail)?.is_err());
    }

    #[test]
    fn any_change_of_bytes_is_answered(
        which in 0..14usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), b'0'..b':']), 1..4),
    ) {
        let mut bytes = configs()[which].1.to_string().into_bytes();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        read(&bytes).map_err(TestCaseError::fail)?.ok();
    }

    #[test]
    fn several_spoilt_fields_are_answered(
        which in 0..14usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(SPOILT)), 2..5),
        pairing in prop::option::of(prop::sample::select(vec![Pairing::Half, Pairing::InterleavedToHalf])),
    ) {
        let mut config = configs()[which].1.clone();
        for (index, value) in changes {
            let paths = all_paths(&config);
            if paths.is_empty() {
                break;
            }
            let path = &paths[index.index(paths.len())];
            let Ok(value) = serde_json::from_str(value) else { continue };
            parent(&mut config, path).insert(path[path.len() - 1].clone(), value);
        }
        let text = config.to_string();
        read(text.as_bytes()).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?.ok();
        let options = HfOptions { pairing, ..HfOptions::default() };
        let _ = HfConfig::read(text.as_bytes(), &options);
    }
}
