//! Folders of sentence-transformers as a user types them; the library's own tests compare the numbers.

mod common;

use common::{Folder, json, lines, numbers, refused, roformer, root, succeeds};
use serde_json::{Value, json};

const MEAN: &str = "golden/sentence-transformers/mean";
const DENSE: &str = "golden/sentence-transformers/cls-dense";
const PROMPTS: &str = "golden/sentence-transformers/prompts";
const OLD: &str = "golden/sentence-transformers/old-form";
const CROSS: &str = "golden/sentence-transformers/cross-encoder";
const TEXT: &str = "The weather is lovely today.";

fn embed(arguments: &[&str]) -> Vec<f64> {
    numbers(&json(&[&["embed", "--json", "--model"], arguments].concat())["embedding"])
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn embed_does_what_the_folder_says() {
    let vector = embed(&[MEAN, TEXT]);
    assert!(vector.len() == 32 && (length(&vector) - 1.0).abs() < 1e-6);
    assert_eq!(embed(&[DENSE, TEXT]).len(), 20);
    assert_eq!(embed(&[OLD, TEXT]).len(), 64, "two poolings of a transformer in a folder of its own");
    assert_eq!(embed(&[MEAN, TEXT, "--pooling", "mean"]), vector);
    let mut seen = vec![vector.clone()];
    for pooling in ["cls", "max", "last", "weighted"] {
        let other = embed(&[MEAN, TEXT, "--pooling", pooling]);
        assert!(!seen.contains(&other), "{pooling}");
        seen.push(other);
    }
    // Scaled by the folder, so that nothing is left of what they differ by.
    let sum = embed(&[MEAN, TEXT, "--pooling", "mean-sqrt"]);
    assert!(sum.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-6));

    let cut = embed(&[MEAN, TEXT, "--dimensions", "8"]);
    assert_eq!(cut, vector[..8]);
    let scaled = embed(&[MEAN, TEXT, "--dimensions", "8", "--normalize"]);
    assert!((length(&scaled) - 1.0).abs() < 1e-6 && length(&cut) < 0.99);

    let folder = Folder::new("sentence");
    let out = folder.path("a.npy");
    let object = json(&["embed", "--model", DENSE, "--json", "--output", &out, TEXT, "a"]);
    assert_eq!(object["shape"], json!([2, 20]));
}

#[test]
fn prompts_by_name_and_by_hand() {
    let usual = embed(&[PROMPTS, TEXT]);
    assert_eq!(usual, embed(&[PROMPTS, TEXT, "--prompt-name", "passage"]), "the default of the folder");
    let query = embed(&[PROMPTS, TEXT, "--prompt-name", "query"]);
    assert_eq!(query, embed(&[PROMPTS, TEXT, "--prompt", "query: "]));
    let none = embed(&[PROMPTS, TEXT, "--prompt", ""]);
    assert!(usual != query && none != query && none != usual);
    let similarity = |flags: &[&str]| {
        let arguments = ["similarity", "--json", "--model", PROMPTS, TEXT, "a"];
        json(&[&arguments[..], flags].concat())["score"].as_f64().unwrap()
    };
    assert!(similarity(&[]) < 0.0, "a distance, negative");
    assert_ne!(similarity(&[]), similarity(&["--prompt-name", "query"]));
    let rank = |flags: &[&str]| {
        let arguments = ["rank", "--json", "--model", PROMPTS, TEXT, "a", "the sea"];
        lines(&succeeds(&[&arguments[..], flags].concat()))
    };
    assert_eq!(rank(&[]), rank(&["--prompt-name", "query"]));
    assert_ne!(rank(&[]), rank(&["--prompt", ""]));
}

#[test]
fn a_cross_encoder_ranks_pairs() {
    let cases = std::fs::read(root().join("golden/sentence-transformers/cases.json")).unwrap();
    let cases: Value = serde_json::from_slice(&cases).unwrap();
    let case =
        cases["pairs"].as_array().unwrap().iter().find(|case| case["folder"] == "cross-encoder").unwrap();
    let row = &case["ranked"][0];
    let texts: Vec<&str> =
        cases["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let mut arguments =
        vec!["rank", "--json", "--top-k", "5", "--model", CROSS, row["query"].as_str().unwrap()];
    arguments.extend(&texts);
    let ranked = lines(&succeeds(&arguments));
    assert_eq!(ranked.len(), 5);
    for (got, wanted) in ranked.iter().zip(row["order"].as_array().unwrap()) {
        assert_eq!(got["line"].as_u64().unwrap(), wanted[0].as_u64().unwrap() + 1);
        assert!((got["score"].as_f64().unwrap() - wanted[1].as_f64().unwrap()).abs() < 1e-5);
    }
    refused(
        &["rank", "--model", CROSS, "a", "b", "--dimensions", "3"],
        &["dimensions is 3", "cross-encoder"],
    );
}

#[test]
fn info_says_what_is_done() {
    let facts = json(&["info", DENSE, "--json"]);
    let wanted = json!({
        "type": "sentence-transformer", "pooling": ["cls"], "include_prompt": true,
        "modules": [{"type": "dense", "in_features": 32, "out_features": 20, "bias": true, "activation": "Tanh"}],
        "dimensions": 20, "similarity": "cosine", "prompts": {"query": "", "document": ""},
        "default_prompt_name": null, "max_seq_length": 40, "do_lower_case": false,
    });
    assert_eq!(facts["sentence_transformers"], wanted);
    for (folder, words) in [
        (MEAN, &["mean, then scaled to length 1, 32 numbers, compared by cosine", "cut to 40 tokens"][..]),
        (PROMPTS, &["passage \"document: the \"", "by default passage", "not pooled", "manhattan"]),
        (OLD, &["cls and max, 64 numbers", "cut to 30 tokens, letters made small", "xlm-roberta"]),
        (CROSS, &["cross-encoder, one label through Sigmoid", "judge \"document: \"", "cut to 40"]),
    ] {
        let page = succeeds(&["info", folder]);
        assert!(words.iter().all(|word| page.contains(word)), "{words:?} in:\n{page}");
    }
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let there = "document, passage, query";
    refused(&["embed", "--model", PROMPTS, "--prompt-name", "search", "a"], &["search", there]);
    refused(&["rank", "--model", PROMPTS, "--prompt-name", "search", "a", "b"], &[there]);
    refused(&["similarity", "--model", PROMPTS, "--prompt-name", "search", "a", "b"], &[there]);
    refused(
        &["embed", "--model", PROMPTS, "--prompt-name", "query", "--prompt", "a", "a"],
        &["cannot be used"],
    );
    refused(&["embed", "--model", DENSE, "--dimensions", "21", "a"], &["21", "from 1 to 20"]);
    refused(&["embed", "--model", DENSE, "--dimensions", "0", "a"], &["--dimensions"]);
    let plain = "examples/models/tiny-mlm";
    refused(&["embed", "--model", plain, "--prompt-name", "query", "a"], &["has no prompts"]);
    let run =
        roformer(&["embed", "--model", plain, "--prompt", "我", "--dimensions", "3", "--json", "好"], b"");
    assert_eq!((run.code, run.error.as_str()), (0, ""));

    let folder = Folder::new("sentence-refused");
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        let bytes = std::fs::read(root().join(MEAN).join(file)).unwrap();
        std::fs::write(folder.path(file), bytes).unwrap();
    }
    let modules = r#"[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_LSTM", "type": "sentence_transformers.models.LSTM"}]"#;
    std::fs::write(folder.path("modules.json"), modules).unwrap();
    refused(
        &["embed", "--model", &folder.path(""), "a"],
        &["modules.json", "models.LSTM", "is not run here"],
    );
    let page = succeeds(&["info", &folder.path("")]);
    assert!(
        page.contains("cannot be run here") && page.contains("LSTM") && page.contains("BertModel"),
        "{page}"
    );
}
