//! Checkpoints of TensorFlow as the models that they are: every command takes their folder, and `convert` makes the folder that
//! transformers knows.

mod common;

use common::{Folder, json, refused, roformer, root, succeeds};
use safetensors::tensor::SafeTensors;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const MODELS: [&str; 4] = ["roformer", "roformer-v2", "roformer-sim", "bert"];

fn source(name: &str) -> String {
    format!("golden/tensorflow/{name}")
}

fn config(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

#[test]
fn convert_writes_what_was_in_the_checkpoint() {
    let folder = Folder::new("tensorflow-convert");
    for name in MODELS {
        let (source, target) = (source(name), folder.path(name));
        let out = succeeds(&["convert", &source, &target]);
        let is_trained = ["roformer", "bert"].contains(&name);
        assert_eq!(out.contains("an optimizer's numbers"), is_trained, "{out}");
        let (target, wanted) = (Path::new(&target), root().join(&source).join("converted"));
        assert_eq!(config(target), config(&wanted), "{name}");
        assert_eq!(
            fs::read(target.join("vocab.txt")).unwrap(),
            fs::read(root().join(&source).join("vocab.txt")).unwrap()
        );
        let [ours, wanted] = [target, &wanted].map(|path| fs::read(path.join("model.safetensors")).unwrap());
        let [ours, wanted] = [&ours, &wanted].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
        assert_eq!(ours.len(), wanted.len(), "{name}");
        for (tensor, view) in wanted.iter() {
            assert_eq!(ours.tensor(tensor).unwrap(), view, "{name}: {tensor}");
        }
        // The vocabulary has no words of several characters, and the converted folder is read by the same rule.
        for command in [
            &["forward", "--ids", "2,7,4,9,3", "--json"][..],
            &["tokenize", "今天天气很好"],
            &["embed", "--json", "今天", "北京"],
            &["similarity", "今天", "天气"],
        ] {
            let run = |model: &str| succeeds(&[command, &["--model", model]].concat());
            assert_eq!(run(&source), run(target.to_str().unwrap()), "{name}: {command:?}");
        }
    }
    // A file alone, as TensorFlow names it, or the table.
    for file in ["bert_model.ckpt", "bert_model.ckpt.index"] {
        let target = folder.path(file);
        succeeds(&["convert", &format!("{}/{file}", source("roformer-v2")), &target]);
        let bits = |folder: &str| fs::read(Path::new(folder).join("model.safetensors")).unwrap();
        assert_eq!(bits(&target), bits(&folder.path("roformer-v2")));
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }
    for name in ["roformer", "roformer-v2", "bert"] {
        let guess = |model: &str| succeeds(&["fill-mask", "--model", model, "今天[MASK]很好"]);
        assert_eq!(guess(&source(name)), guess(&folder.path(name)), "{name}");
    }
}

#[test]
fn info_says_what_a_checkpoint_holds() {
    let facts = json(&["info", &source("roformer"), "--json"]);
    for (field, wanted) in [
        ("format", json!("tensorflow")),
        ("model_type", json!("roformer")),
        ("head", json!("masked_lm")),
        ("tensors", json!(45)),
        ("used_tensors", json!(45)),
        ("left_out", json!(59)),
        ("embedding_size", json!(12)),
        ("warnings", json!([])),
    ] {
        assert_eq!(facts[field], wanted, "{field}");
    }
    let page = succeeds(&["info", &source("roformer")]);
    assert!(page.contains("59 more left out: an optimizer's numbers"), "{page}");
    assert!(!succeeds(&["info", &source("roformer-v2")]).contains("left out"));
    assert_eq!(json(&["info", &source("bert"), "--json"])["model_type"], "bert");
    assert!(succeeds(&["inspect", &source("roformer")]).contains("interleaved"));
}

#[test]
fn training_begins_with_a_checkpoint() {
    let folder = Folder::new("tensorflow-train");
    let (data, out) = (folder.path("text.txt"), folder.path("out"));
    fs::write(&data, "今天天气很好。北京是大的。我你他们在上海有人。\n".repeat(40)).unwrap();
    let sizes = ["--steps", "2", "--block", "8", "--batch", "2"];
    let run = roformer(
        &[
            &["train", "--data", &data, "--out", &out, "--task", "masked", "--from", &source("roformer")],
            &sizes[..],
        ]
        .concat(),
        b"",
    );
    assert_eq!(run.code, 0, "{}", run.error);
    let model = format!("{out}/best");
    assert_eq!(config(Path::new(&model))["embedding_size"], 12);
    succeeds(&["fill-mask", "--model", &model, "今天[MASK]很好"]);
}

#[test]
fn what_is_damaged_is_said_in_one_line() {
    let folder = Folder::new("tensorflow-damaged");
    let files =
        ["bert_config.json", "vocab.txt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"];
    let files = files.map(|file| (file, fs::read(root().join(source("roformer-v2")).join(file)).unwrap()));
    let with = |change: &dyn Fn(&str, &mut Vec<u8>)| {
        let mut files = files.clone();
        files.iter_mut().for_each(|(name, bytes)| change(name, bytes));
        let files = files.each_ref().map(|(name, bytes)| (*name, &bytes[..]));
        folder.model("damaged", &files)
    };
    let target = folder.path("target");
    let forward = |model: &str, says: &[&str]| {
        refused(&["forward", "--model", model, "--ids", "1"], says);
        refused(&["convert", model, &target], says);
    };
    let cut = with(&|name, bytes| bytes.truncate(if name.ends_with(".index") { 300 } else { usize::MAX }));
    forward(&cut, &["bert_model.ckpt.index", "an index without its end", "download it again"]);
    let cut = with(&|name, bytes| bytes.truncate(if name.contains(".data") { 300 } else { usize::MAX }));
    forward(&cut, &["bert_model.ckpt.index", "in a file of 300"]);
    let changed = with(&|name, bytes| bytes[100] ^= u8::from(name.contains(".data")));
    forward(&changed, &["bert_model.ckpt.data-00000-of-00001", "damaged numbers of", "checksum"]);
    assert!(!Path::new(&target).join("model.safetensors").exists());
    // Sizes that are not those of the tensors.
    let other = with(&|name, bytes| {
        if name == "bert_config.json" {
            *bytes = String::from_utf8(bytes.clone())
                .unwrap()
                .replace("\"hidden_size\": 16", "\"hidden_size\": 32")
                .into();
        }
    });
    forward(&other, &["has shape [", "check that the weights belong to this configuration"]);
    refused(&["convert", &source("partitioned"), &target], &["tensor `cut`", "in several parts"]);
}
