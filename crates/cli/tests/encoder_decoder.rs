//! A model with an encoder and a decoder, as a user types it: `forward`, `generate`, `embed` and what is refused, on the small T5
//! in `golden/families`.

mod common;

use common::{Folder, json, lines, refused, roformer, root, succeeds};
use serde_json::Value;

const T5: &str = "golden/families/tiny-t5";

#[test]
fn forward_reads_and_continues() {
    let run = |written: &[&str]| {
        let mut arguments = vec!["forward", "--model", T5, "--ids", "3,4,5,1", "--ids", "6,1,0,0"];
        arguments.extend(["--mask", "1,1,1,1", "--mask", "1,1,0,0", "--json"]);
        written.iter().for_each(|list| arguments.extend(["--decoder-ids", list]));
        json(&arguments)
    };
    let shape = |value: &Value| {
        let length = |value: &Value| value.as_array().map_or(0, Vec::len);
        [length(value), length(&value[0]), length(&value[0][0])]
    };
    let both = run(&["0,5", "0,7"]);
    assert_eq!(shape(&both["last_hidden_state"]), [2, 2, 12]);
    assert_eq!(shape(&both["logits"]), [2, 2, 17]);
    assert_eq!(shape(&both["encoder_last_hidden_state"]), [2, 4, 12]);
    // Without ids of its own the decoder has written what it begins with.
    let begun = run(&[]);
    assert_eq!(begun, run(&["0", "0"]));
    assert_eq!(begun["encoder_last_hidden_state"], both["encoder_last_hidden_state"]);
    let page = succeeds(&["forward", "--model", T5, "--ids", "3,1", "--decoder-ids", "0,5,9"]);
    assert!(page.contains("[1, 3, 12]") && page.contains("(id     9)"), "{page}");
}

#[test]
fn texts_are_written() {
    let own: Value =
        serde_json::from_slice(&std::fs::read(root().join("golden/families/t5.json")).unwrap()).unwrap();
    for case in own["texts"].as_array().unwrap() {
        let (text, written) = (case["text"].as_str().unwrap(), case["written"].as_str().unwrap());
        let arguments = ["generate", "--model", T5, "--temperature", "0", "--max-tokens", "12", text];
        assert_eq!(succeeds(&arguments), format!("{written}\n"));
        let object = json(&[&arguments[..], &["--json"]].concat());
        assert_eq!(object["text"], written);
    }
    let vectors = roformer(&["embed", "--model", T5, "--input", "-", "--json"], b"a b c\nd e\n");
    assert_eq!((vectors.code, vectors.error.as_str()), (0, ""));
    assert!(lines(&vectors.out).iter().all(|line| line["embedding"].as_array().unwrap().len() == 12));
}

/// Trained to write one text of another, it is used as it was before, and trained on.
#[test]
fn it_is_trained_to_write_one_text_of_another() {
    let folder = Folder::new("sequences");
    let pair = |text: &str| format!("{{\"source\": \"{text}\", \"target\": \"{}\"}}\n", &text[..1]);
    let data = folder.path("pairs.jsonl");
    std::fs::write(&data, ["a b", "c d e", "f", "g h"].map(pair).concat()).unwrap();
    let flags = ["--task", "sequences", "--data", &data, "--steps", "3", "--block", "6", "--batch", "2"];
    let train = |from: &str, out: &str| {
        let own = ["train", "--from", from, "--out", out, "--validation", "0.25", "--device", "cpu"];
        let run = roformer(&[&own[..], &flags].concat(), b"");
        assert_eq!(run.code, 0, "{}", run.error);
        run
    };
    let (first, second) = (folder.path("first"), folder.path("second"));
    let run = train(T5, &first);
    assert!(run.error.contains("on 4 pairs, 12 tokens"), "{}", run.error);
    let model = format!("{first}/best");
    assert!(run.out.contains(&format!("roformer generate --model {model} --max-tokens 6")), "{}", run.out);
    succeeds(&["generate", "--model", &model, "--temperature", "0", "--max-tokens", "6", "a b"]);
    let object = json(&["forward", "--model", &model, "--ids", "3,1", "--decoder-ids", "0,5", "--json"]);
    assert!(object["logits"][0][1].as_array().is_some_and(|scores| scores.len() == 17));
    train(&model, &second);
    let (third, text) = (folder.path("third"), folder.path("text.txt"));
    std::fs::write(&text, "a b c d\n".repeat(20)).unwrap();
    for task in ["causal", "masked"] {
        let own = ["train", "--from", T5, "--task", task, "--data", &text, "--out", &third];
        refused(&own, &["--task", "t5", "sequences"]);
    }
    refused(
        &["train", "--task", "sequences", "--data", &data, "--out", &third],
        &["--task", "roformer", "T5"],
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let forward = |model: &'static str, rest: &[&'static str]| {
        [&["forward", "--model", model, "--ids", "3,1"], rest].concat()
    };
    refused(&forward(T5, &["--decoder-ids", "0", "--decoder-ids", "0"]), &["--decoder-ids", "2 times"]);
    refused(&forward(T5, &["--decoder-ids", "0,x"]), &["--decoder-ids", "x"]);
    refused(&forward(T5, &["--decoder-ids", "0,17"]), &["17", "vocabulary"]);
    let two = ["--ids", "4,1", "--decoder-ids", "0", "--decoder-ids", "0,3"];
    refused(&forward(T5, &two), &["--decoder-ids", "1 and 2"]);
    let encoder = "golden/families/tiny-t5-encoder";
    refused(&forward(encoder, &["--decoder-ids", "0"]), &["--decoder-ids", "no encoder with a decoder"]);
    refused(&["fill-mask", "--model", T5, "a b"], &["causal language model"]);
}
