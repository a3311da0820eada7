//! Texts and models that the commands on texts cannot use, and more input than memory: what is said, and what goes on.

mod common;

use common::{Folder, command, fed, feed, lines, refused, roformer};
use std::io::{BufRead, BufReader, Read, Write};

const MLM: &str = "examples/models/tiny-mlm";
const CLASSIFIER: &str = "examples/models/tiny-classifier";
const GPT: &str = "examples/models/tiny-gpt";
const SIM: &str = "examples/models/tiny-sim";

/// Lines of which the third cannot be used, and what is said of it.
const BAD: [(&[u8], &str); 8] = [
    (b"{\"id\": \"bad\", \"text\": \"[MASK]\", \"txt\": \"\"}", "unknown field \"txt\""),
    (b"{\"id\": \"bad\"}", "has no \"text\""),
    (b"{\"id\": \"bad\", \"text\": 3}", "\"text\" is a number"),
    (b"{\"id\": \"bad\", \"text\": \"no mask\"}", "without a mask"),
    (b"{\"id\": \"bad\", \"text\": \"[MASK] [MASK]\"}", "the number of masks is 2"),
    (b"{\"text\": \"\\ud800[MASK]\"}", "half of a pair"),
    (b"{\"text\": \"\xff[MASK]\"}", "not UTF-8"),
    (b"[MASK]", "JSON"),
];

#[test]
fn a_line_that_cannot_be_used_is_named() {
    let good = "{\"id\": 1, \"text\": \"今天[MASK]很好。\"}\n\n".as_bytes();
    let after = "\n{\"id\": 4, \"text\": \"我很喜欢[MASK]。\"}\n".as_bytes();
    for (bad, says) in BAD {
        let input = [good, bad, after].concat();
        let flags = ["fill-mask", "--model", MLM, "--input", "-", "--jsonl", "--json", "--top-k", "1"];
        let run = roformer(&flags, &input);
        let found = lines(&run.out);
        assert_eq!((run.code, found.len(), &found[0]["id"]), (2, 1, &1.into()), "{says}: {}", run.error);
        assert!(
            run.error.starts_with("roformer: line 3: ") && run.error.contains(says),
            "{says}: {}",
            run.error
        );
        assert_eq!(run.error.lines().count(), 1, "{}", run.error);

        let run = roformer(&[&flags[..], &["--keep-going"]].concat(), &input);
        let found = lines(&run.out);
        assert_eq!((run.code, found.len(), &found[2]["id"]), (2, 3, &4.into()), "{says}: {}", run.error);
        assert!(found[1]["line"] == 3 && found[1]["error"].as_str().unwrap().contains(says), "{}", found[1]);
        assert!(found[1]["id"].is_null() || found[1]["id"] == "bad");
        let said: Vec<&str> = run.error.lines().collect();
        assert!(
            said.len() == 2 && said[0].contains("line 3: ") && said[1].contains("1 of 3 texts"),
            "{said:?}"
        );
    }
}

#[test]
fn order_and_ids_are_kept() {
    let text = |i: usize| "今天天气很好。".repeat(1 + i * 7 % 13) + &"小".repeat(i % 5);
    let input: String = (0..1500).map(|i| format!("{{\"id\": {i}, \"text\": \"{}\"}}\n", text(i))).collect();
    for command in ["embed", "tokenize"] {
        let run = roformer(&[command, "--model", SIM, "--input", "-", "--jsonl", "--json"], input.as_bytes());
        let found = lines(&run.out);
        assert_eq!((run.code, found.len()), (0, 1500), "{}", run.error);
        assert!(found.iter().enumerate().all(|(i, object)| object["id"] == i));
    }
}

#[test]
fn a_line_of_a_hundred_megabytes() {
    let run = fed(&["embed", "--model", SIM, "--input", "-", "--keep-going", "--json"], |pipe| {
        pipe.write_all(b"a\n")?;
        let chunk = vec![b'a'; 1 << 20];
        (0..100).try_for_each(|_| pipe.write_all(&chunk))?;
        pipe.write_all(b"\nb\n")
    });
    assert_eq!((run.code, lines(&run.out).len()), (2, 3), "{}", run.error);
    assert!(run.error.contains("line 2: has 104857601 bytes; expected at most 16777216"), "{}", run.error);
}

#[test]
fn a_text_with_too_many_tokens() {
    let long = "天 ".repeat(70_000);
    let run = roformer(&["embed", "--model", SIM, "--input", "-", "--json"], long.as_bytes());
    assert!(run.code == 2 && run.error.contains("70002") && run.error.contains("65536"), "{}", run.error);
    let run =
        roformer(&["embed", "--model", SIM, "--input", "-", "--json", "--truncate", "64"], long.as_bytes());
    assert_eq!((run.code, lines(&run.out).len()), (0, 1), "{}", run.error);
}

#[test]
fn many_empty_lines() {
    let empty = |count: u64, arguments: &[&str]| {
        fed(arguments, move |pipe| std::io::copy(&mut std::io::repeat(b'\n').take(count), pipe).map(|_| ()))
    };
    let run = empty(1_000_000, &["tokenize", "--model", SIM, "--input", "-", "--json"]);
    assert_eq!((run.code, run.out.lines().count()), (0, 1_000_000), "{}", run.error);
    assert!(run.out.lines().all(|line| line.contains("[\"[CLS]\",\"[SEP]\"]")));
    let run = empty(100_000, &["rank", "--model", SIM, "北京", "--input", "-", "--top-k", "1", "--json"]);
    assert_eq!(lines(&run.out)[0]["line"], 1, "of equal ones the first: {}", run.error);
}

#[test]
fn nothing_is_no_failure() {
    for command in ["embed", "tokenize", "classify"] {
        let model = if command == "classify" { CLASSIFIER } else { SIM };
        let run = roformer(&[command, "--model", model, "--input", "-", "--json"], b"");
        assert_eq!((run.code, run.out.as_str(), run.error.as_str()), (0, "", ""));
    }
}

#[test]
fn the_wrong_model_for_a_task() {
    refused(&["fill-mask", "--model", CLASSIFIER, "[MASK]"], &["fill-mask", "masked language model"]);
    refused(&["fill-mask", "--model", GPT, "[MASK]"], &["fill-mask", "masked language model"]);
    refused(&["classify", "--model", MLM, "a"], &["classify", "RoFormerForSequenceClassification"]);
    refused(&["answer", "--model", MLM, "a", "b"], &["answer", "RoFormerForQuestionAnswering"]);
    refused(&["generate", "--model", CLASSIFIER, "今天"], &["generate", "RoFormerForCausalLM"]);
}

/// Most of the words are none of the vocabulary's: one line says so, once there are enough of them.
#[test]
fn unknown_words_are_warned_of() {
    for (command, model) in [("classify", CLASSIFIER), ("embed", SIM)] {
        let run = |text: &str, count: usize| {
            roformer(
                &[command, "--model", model, "--input", "-", "--json"],
                format!("{text}\n").repeat(count).as_bytes(),
            )
        };
        let warned = run("Ω ж Ω ж", 40);
        assert_eq!((warned.code, lines(&warned.out).len()), (0, 40), "{}", warned.error);
        assert_eq!(warned.error.lines().count(), 1, "{}", warned.error);
        assert!(
            warned.error.contains("100 % of 160 tokens") && warned.error.contains("check"),
            "{}",
            warned.error
        );
        assert_eq!(run("今天天气很好。", 40).error, "");
        assert_eq!(run("Ω ж Ω ж", 9).error, "", "a text or two is nothing to warn of");
    }
}

/// What the tokenizers crate panics on is said in one line.
#[test]
fn a_damaged_tokenizer_is_said_in_one_line() {
    let folder = Folder::new("damaged");
    let saved =
        std::fs::read_to_string(common::root().join("golden/tokenizer/saved/tokenizer.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&saved).unwrap();
    file["post_processor"]["special_tokens"] = serde_json::json!({});
    std::fs::write(folder.path("tokenizer.json"), file.to_string()).unwrap();
    refused(&["tokenize", "--model", &folder.path(""), "a"], &["tokenizer.json", "download it again"]);
}

#[test]
fn models_that_are_not_there() {
    refused(&["embed", "a"], &["--model"]);
    refused(&["embed", "--model", "no/such/folder", "a"], &["no/such/folder", "no such folder"]);
    refused(&["embed", "--model", "Cargo.toml", "a"], &["Cargo.toml", "folder"]);
    refused(&["embed", "--model", "", "a"], &["no such folder"]);
    refused(&["embed", "--model", SIM, "--revision", "main", "a"], &["--revision", "folder"]);
    let folder = Folder::new("hub");
    refused(&["embed", "--model", &folder.path(""), "a"], &["config.json"]);
    for model in ["junnyu/roformer_chinese_base", "no_such"] {
        let mut command = command(&["embed", "--model", model, "a"]);
        let output = command.env("HF_HOME", folder.path("")).env_remove("HF_HUB_CACHE").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(model) && error.contains("HF_HUB_OFFLINE"), "{error}");
    }
}

#[test]
fn a_reader_that_goes_ends_it_quietly() {
    for arguments in [
        &["embed", "--model", SIM, "--json", "--input", "-"][..],
        &["generate", "--model", GPT, "--max-tokens", "4", "--input", "-"],
    ] {
        let mut child = command(arguments).spawn().unwrap();
        feed(&mut child, |pipe| std::io::copy(&mut std::io::repeat(b'\n').take(1 << 16), pipe).map(|_| ()));
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}");
    }
}

/// The most memory that the process has had, in kB, where the system tells.
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn memory_does_not_grow_with_the_input() {
    const LINES: usize = 100_000;
    let mut child = command(&["embed", "--model", SIM, "--jsonl", "--json", "--input", "-"]).spawn().unwrap();
    feed(&mut child, |pipe| {
        let mut pipe = std::io::BufWriter::new(pipe);
        (0..LINES)
            .try_for_each(|i| writeln!(pipe, "{{\"id\": {i}, \"text\": \"{}\"}}", "今天天气".repeat(i % 7)))
    });
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut line, mut count, mut peaks) = (Vec::new(), 0, Vec::new());
    while out.read_until(b'\n', &mut line).unwrap() > 0 {
        line.clear();
        count += 1;
        if [LINES / 10, LINES - 100].contains(&count) {
            peaks.extend(peak(child.id()));
        }
    }
    assert_eq!((count, child.wait().unwrap().code()), (LINES, Some(0)));
    if let [early, late] = peaks[..] {
        assert!(late < early + 4096, "{early} kB after a tenth of the lines, {late} kB near the end");
    }
}
