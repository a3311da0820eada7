//! `--lang`: the same numbers and the same JSON in Chinese, and no English in it.

mod common;

use common::{Folder, Run, command, feed, refused, roformer, succeeds};
use std::collections::BTreeMap;
use std::fs;

/// What stays as it is in every language: names that are typed or that files have, and terms that Chinese writes so.
const NAMES: [&str; 67] = [
    "llama",
    "gemma",
    "qwen",
    "roformer",
    "gptj",
    "phi",
    "mystery",
    "text",
    "half",
    "interleaved",
    "interleaved_to_half",
    "token",
    "max_position_embeddings",
    "base",
    "default",
    "linear",
    "dynamic",
    "yarn",
    "longrope",
    "proportional",
    "receptive",
    "field",
    "j",
    "d",
    "e",
    "f",
    "bf",
    "rad",
    "transformers",
    "query",
    "key",
    "value",
    "full_attention",
    "sliding_attention",
    "NTK",
    "aware",
    "YaRN",
    "LongRoPE",
    "Hugging",
    "Face",
    "vLLM",
    "cpp",
    "config",
    "json",
    "rope",
    "rope_theta",
    "rope_freqs",
    "ALiBi",
    "alpha",
    "rho",
    "position",
    "N",
    "bloom",
    "xPos",
    "hunyuan",
    "rotary",
    "none",
    "majority",
    "repeat",
    "results",
    "report",
    "_j",
    "_text",
    "_vl_text",
    "true",
    "log",
    "alibi",
];

/// Configurations that have every rule, and much to be warned of.
const CONFIGS: [&str; 17] = [
    r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048}"#,
    r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048, "rope_scaling": {"type": "linear", "factor": 2.0}}"#,
    r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2.0}}"#,
    r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 8192,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}}"#,
    r#"{"model_type": "llama", "head_dim": 8, "max_position_embeddings": 8192, "rope_scaling": {"rope_type": "longrope",
        "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4], "original_max_position_embeddings": 2048}}"#,
    r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048,
        "rope_scaling": {"rope_type": "proportional", "partial_rotary_factor": 0.25}}"#,
    r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048,
        "rope_scaling": {"rope_type": "receptive-field", "alpha": 0.3, "rho": 0.5}}"#,
    r#"{"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64, "n_positions": 2048}"#,
    r#"{"model_type": "mystery", "head_dim": 64}"#,
    r#"{"head_dim": 64}"#,
    r#"{"model_type": "bloom", "alibi": true}"#,
    r#"{"model_type": "roformer", "rotary_value": true}"#,
    r#"{"model_type": "roformer", "position_encoding": "xpos"}"#,
    r#"{"model_type": "roformer", "position_encoding": "receptive"}"#,
    r#"{"model_type": "roformer", "position_encoding": "alibi"}"#,
    r#"{"model_type": "qwen", "hidden_size": 4096, "num_attention_heads": 32, "seq_length": 2048}"#,
    r#"{"model_type": "qwen2_vl", "hidden_size": 1024, "num_attention_heads": 8, "max_position_embeddings": 2048,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}"#,
];

const EXAMPLES: [&str; 4] = [
    "examples/llama-3.1-8b.json",
    "examples/gemma-3-4b.json",
    "examples/qwen2.5-7b.json",
    "examples/roformer-base.json",
];

/// Words that are nobody's name, of all lines that are for people: not what is to be pasted, nor what stands in backticks.
fn english(out: &str) -> Vec<String> {
    let mut left = Vec::new();
    for line in out.lines().filter(|line| !line.starts_with("    \"") && !line.starts_with("    --")) {
        let prose: String = line.split('`').step_by(2).collect();
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        let mut words = prose.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty());
        if words.any(|word| !NAMES.contains(&word)) {
            left.push(line.to_string());
        }
    }
    left
}

/// How often each number is printed.
fn numbers(out: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for number in out.split(|c: char| !(c.is_ascii_digit() || c == '.')).map(|part| part.trim_matches('.')) {
        if !number.is_empty() {
            *counts.entry(number.to_string()).or_default() += 1;
        }
    }
    counts
}

/// Runs both languages of a command, and looks at them.
fn agree(arguments: &[&str], input: &[u8], faults: &mut Vec<String>) -> [Run; 2] {
    let runs = ["en", "zh"].map(|lang| roformer(&[arguments, &["--lang", lang]].concat(), input));
    let what = format!("{arguments:?} {}", String::from_utf8_lossy(input));
    for run in &runs {
        assert_eq!(run.code, 0, "{what}: {}", run.error);
    }
    let [ours, theirs] = [&runs[1], &runs[0]].map(|run| run.out.clone() + &run.error);
    faults.extend(english(&ours).into_iter().map(|line| format!("{what}: {line}")));
    if numbers(&ours) != numbers(&theirs) {
        faults.push(format!("{what}: other numbers in\n{ours}\nthan in\n{theirs}"));
    }
    runs
}

#[test]
fn inspect_says_the_same_in_chinese() {
    let mut faults = Vec::new();
    for context in [&[][..], &["--context", "1000"], &["--context", "65536"], &["--context", "4194304"]] {
        for example in EXAMPLES {
            agree(&[&["inspect", example], context].concat(), b"", &mut faults);
        }
        for config in CONFIGS {
            agree(&[&["inspect", "-"], context].concat(), config.as_bytes(), &mut faults);
            let json = ["en", "zh"].map(|lang| {
                let flags = ["inspect", "-", "--json", "--lang", lang];
                roformer(&[&flags[..], context].concat(), config.as_bytes()).out
            });
            assert!(json[0] == json[1] && json[0].starts_with('{'), "{config}");
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Columns stand under each other, though Chinese characters are two wide.
#[test]
fn chinese_columns_are_straight() {
    let out = succeeds(&["inspect", EXAMPLES[2], "--context", "131072", "--lang", "zh"]);
    let ends_at = |line: &str, word: &str| {
        let before = &line[..line.find(word).unwrap_or_else(|| panic!("{word} in {line}")) + word.len()];
        before.chars().map(|c| if c < '\u{2e80}' { 1 } else { 2 }).sum::<usize>()
    };
    let lines: Vec<&str> = out.lines().collect();
    let at = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap();
    let bands = at("规则的作用");
    assert_eq!(ends_at(lines[bands], "的圈数"), ends_at(lines[bands + 1], "20861 – 0.026"), "{out}");
    let rules = at("角度差除以");
    assert_eq!(ends_at(lines[rules], "系数"), ends_at(lines[rules + 1], "1.0000"), "{out}");
}

#[test]
fn the_locale_says_which() {
    let run = |locale: &[(&str, &str)], more: &[&str]| {
        let mut command = command(&[&["inspect", EXAMPLES[0]], more].concat());
        command.env_remove("LC_ALL").env_remove("LC_MESSAGES").env_remove("LANG");
        command.envs(locale.iter().copied());
        let mut child = command.spawn().unwrap();
        feed(&mut child, |_| Ok(()));
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let (english, chinese) = (run(&[], &["--lang", "en"]), run(&[], &["--lang", "zh"]));
    assert!(english.starts_with("model type   llama\n") && chinese.starts_with("模型类型     llama\n"));
    assert_eq!(run(&[], &[]), english);
    assert_eq!(run(&[("LANG", "zh_CN.UTF-8")], &[]), chinese);
    assert_eq!(run(&[("LANG", "zh_CN.UTF-8"), ("LC_MESSAGES", "en_US.UTF-8")], &[]), english);
    assert_eq!(run(&[("LANG", "de_DE"), ("LC_MESSAGES", "zh_TW"), ("LC_ALL", "")], &[]), chinese);
    assert_eq!(run(&[("LC_ALL", "zh_CN.UTF-8"), ("LANG", "C")], &[]), chinese);
    assert_eq!(run(&[("LC_ALL", "zh_CN.UTF-8")], &["--lang", "en"]), english);
}

#[test]
fn a_comparison_is_shown_again_in_chinese() {
    let folder = Folder::new("language");
    let out = folder.path("out");
    let flags = [
        "compare",
        "--out",
        &out,
        "--tasks",
        "majority,repeat",
        "--encodings",
        "rotary",
        "none",
        "--seeds",
        "2",
        "--steps",
        "2",
        "--train-length",
        "3",
        "--test-lengths",
        "2,3,4",
    ];
    let first = roformer(&[&flags[..], &["--lang", "zh"]].concat(), b"");
    assert_eq!(first.code, 0, "{}", first.error);
    assert!(
        first.error.contains("2 种位置编码，2 个任务，2 个种子") && first.error.contains("已训练"),
        "{}",
        first.error
    );
    let read = |name: &str| fs::read_to_string(folder.path(&format!("out/{name}"))).unwrap();
    assert!(read("report.html").contains("<html lang=\"zh-CN\""));
    let results = read("results.json");
    // The folder's own name is English.
    let mut faults = Vec::new();
    let [english, chinese] = agree(&["compare", "--replay", &out], b"", &mut faults);
    faults.retain(|fault| {
        !fault.contains(&format!(": 全部数字在 {out}")) && !fault.contains(&format!(": 报告是 {out}"))
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(chinese.out, first.out);
    assert!(
        english.out.contains("majority, the control: exact answers, trained to length 3"),
        "{}",
        english.out
    );
    assert!(chinese.out.contains("majority（对照）：完全正确率，训练长度不超过 3"), "{}", chinese.out);
    assert_eq!(read("results.json"), results, "results are in no language");
}

#[test]
fn a_language_that_is_not_there_is_refused() {
    for flags in [&["inspect", EXAMPLES[0]][..], &["compare", "--replay", "nowhere"], &["compare"]] {
        refused(&[flags, &["--lang", "xx"]].concat(), &["'xx'", "--lang", "en, zh"]);
    }
}
