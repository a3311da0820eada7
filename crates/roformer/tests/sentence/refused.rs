//! What a folder of sentence-transformers may not say, and what may not be asked of one. Each is one line that names it.

use super::folder::Folder;
use super::{golden, open};
use roformer::pipeline::{Embed, Pooling, Prompt};
use roformer::sentence::Recipe;
use roformer::weights::save;
use roformer::{Pipeline, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const KINDS: &str = "sentence_transformers.models.";

/// A copy of a golden folder.
fn copy(name: &str) -> Folder {
    fn all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true => all(&entry.path(), &to.join(entry.file_name())),
                false => fs::write(to.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap(),
            }
        }
    }
    let folder = Folder::new();
    all(&golden(name), &folder.0);
    folder
}

#[track_caller]
fn refused<T>(result: Result<T>, words: &[&str]) {
    let message = result.err().unwrap_or_else(|| panic!("accepted where {words:?} was expected")).to_string();
    assert!(!message.contains('\n'), "{message}");
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} in: {message}");
}

/// A copy of a folder in which one file is another.
#[track_caller]
fn with(name: &str, file: &str, text: impl ToString, words: &[&str]) {
    let folder = copy(name);
    folder.put(file, text.to_string());
    refused(Pipeline::open(&folder.0), words);
}

/// The same where fields of the file are changed.
#[track_caller]
fn changed(name: &str, file: &str, fields: Value, words: &[&str]) {
    let mut all: Value = serde_json::from_slice(&fs::read(golden(name).join(file)).unwrap()).unwrap();
    for (field, value) in fields.as_object().unwrap() {
        all[field] = value.clone();
    }
    with(name, file, all, words);
}

fn modules(list: &[(&str, &str)]) -> Value {
    let module = |(path, kind): &(&str, &str)| json!({ "path": path, "type": format!("{KINDS}{kind}") });
    Value::Array(list.iter().map(module).collect())
}

#[test]
fn modules_that_are_not_run() {
    let first = ("", "Transformer");
    for kind in ["LSTM", "CNN", "BoW", "WordWeights", "WordEmbeddings", "Asym", "LayerNorm", "CLIPModel"] {
        let list = modules(&[first, ("1_Pooling", "Pooling"), ("2_Other", kind)]);
        with("mean", "modules.json", list, &["modules.json", &format!("{KINDS}{kind}"), "is not run here"]);
    }
    for class in [
        "sentence_transformers.sentence_transformer.modules.static_embedding.StaticEmbedding",
        "sentence_transformers.base.modules.router.Router",
        "custom_st.Transformer",
        "os.system",
    ] {
        with("mean", "modules.json", json!([{ "path": "", "type": class }]), &[class, "is not run here"]);
    }
    with("mean", "modules.json", modules(&[]), &["modules.json", "no module at all"]);
    with("mean", "modules.json", modules(&[first]), &["no pooling"]);
    with("mean", "modules.json", modules(&[("1_Pooling", "Pooling")]), &["`Pooling` is the first module"]);
    let twice = modules(&[first, ("1_Pooling", "Pooling"), ("1_Pooling", "Pooling")]);
    with("mean", "modules.json", twice, &["`Pooling` after the pooling"]);
    let dense = modules(&[first, ("2_Dense", "Dense"), ("1_Pooling", "Pooling")]);
    with("cls-dense", "modules.json", dense, &["no pooling"]);
    for path in ["../mean", "/etc", "a/../../b", "C:\\a"] {
        let list = modules(&[first, (path, "Pooling")]);
        with("mean", "modules.json", list, &["a module lies in", "a folder in this one"]);
    }
    let dropout = copy("mean");
    let list = modules(&[first, ("1_Pooling", "Pooling"), ("9", "Dropout"), ("8", "Normalize")]);
    dropout.put("modules.json", list.to_string());
    Pipeline::open(&dropout.0).unwrap();
}

#[test]
fn files_that_are_missing_or_damaged() {
    let folder = copy("cls-dense");
    fs::remove_dir_all(folder.0.join("1_Pooling")).unwrap();
    refused(Pipeline::open(&folder.0), &["1_Pooling/config.json", "no such file", "modules.json lists"]);
    let folder = copy("cls-dense");
    fs::remove_dir_all(folder.0.join("2_Dense")).unwrap();
    refused(Pipeline::open(&folder.0), &["2_Dense/config.json", "no such file"]);
    let folder = copy("cls-dense");
    fs::remove_file(folder.0.join("2_Dense/model.safetensors")).unwrap();
    refused(Pipeline::open(&folder.0), &["2_Dense", "model.safetensors"]);
    let folder = copy("old-form");
    fs::remove_dir_all(folder.0.join("0_Transformer")).unwrap();
    refused(Pipeline::open(&folder.0), &["0_Transformer"]);

    for file in ["modules.json", "1_Pooling/config.json", "2_Dense/config.json", "sentence_bert_config.json"]
    {
        for damaged in ["", "{", "[1, 2", "\u{0}", "nonsense"] {
            with("cls-dense", file, damaged, &[file, "not JSON"]);
        }
        with("cls-dense", file, "7", &[file, "JSON, but not"]);
    }
    with(
        "cls-dense",
        "config_sentence_transformers.json",
        "{,}",
        &["config_sentence_transformers.json", "JSON"],
    );
    with("cls-dense", "modules.json", "[{}]", &["a module without `path`"]);
    with("cls-dense", "modules.json", r#"[{"path": 3, "type": null}]"#, &["a module without `path`"]);
    with("cls-dense", "modules.json", "[".repeat(100_000), &["modules.json", "not JSON"]);
}

#[test]
fn dense_modules_that_lie() {
    let file = "2_Dense/config.json";
    let weights = "2_Dense/model.safetensors";
    changed("cls-dense", file, json!({ "in_features": 31 }), &[weights, "[20, 32]", "[20, 31]"]);
    changed("cls-dense", file, json!({ "out_features": 1 << 23 }), &[weights, "[20, 32]"]);
    changed("cls-dense", file, json!({ "bias": false }), &[weights, "linear.bias"]);
    for number in [json!(0), json!(-3), json!(1.5), json!("NaN"), json!(1e300), Value::Null] {
        changed("cls-dense", file, json!({ "in_features": number }), &[file, "in_features", "whole number"]);
    }
    with("cls-dense", file, r#"{"in_features": NaN, "out_features": 20}"#, &[file, "in_features", "NaN"]);
    for class in ["torch.nn.modules.activation.Softplus", "os.system", "torch.save", "Tanh", ""] {
        let fields = json!({ "activation_function": class });
        changed("cls-dense", file, fields, &[file, &format!("`{class}`"), "Identity, Tanh, ReLU"]);
    }
    changed("cls-dense", file, json!({ "use_residual": true }), &[file, "use_residual"]);
    changed("cls-dense", file, json!({ "module_input_name": "token_embeddings" }), &["token_embeddings"]);
    changed("cls-dense", file, json!({ "scale": 2 }), &[file, "`scale` is not known here"]);

    // It fits its own file and not the pooling before it.
    for (inputs, number, words) in [(31, 0.5f32, "length of the vector is 32"), (32, f32::NAN, "NaN")] {
        let folder = copy("cls-dense");
        let rows = vec![number; 20 * inputs];
        let tensors = [("linear.weight", vec![20, inputs], &rows[..]), ("linear.bias", vec![20], &[0.0; 20])];
        save(folder.0.join(weights), tensors).unwrap();
        let mut config: Value = serde_json::from_slice(&fs::read(folder.0.join(file)).unwrap()).unwrap();
        config["in_features"] = inputs.into();
        folder.put(file, config.to_string());
        refused(Pipeline::open(&folder.0), &[words]);
    }
}

#[test]
fn settings_that_are_not_followed() {
    let pooling = "1_Pooling/config.json";
    changed(
        "mean",
        pooling,
        json!({ "pooling_mode": "median" }),
        &[pooling, "`pooling_mode` is median", "weightedmean"],
    );
    changed("mean", pooling, json!({ "pooling_mode": ["mean", 3] }), &[pooling, "pooling_mode"]);
    changed(
        "mean",
        pooling,
        json!({ "include_prompt": "no" }),
        &[pooling, "include_prompt", "true or false"],
    );
    changed("mean", pooling, json!({ "pooling_mode_median": true }), &["`pooling_mode_median` is not known"]);
    changed(
        "mean",
        "2_Normalize/config.json",
        json!({ "module_input_name": "token_embeddings" }),
        &["tokens"],
    );

    let settings = "config_sentence_transformers.json";
    changed("mean", settings, json!({ "similarity_fn_name": "maxsim" }), &["maxsim", "manhattan"]);
    changed("mean", settings, json!({ "model_type": "SparseEncoder" }), &["SparseEncoder", "CrossEncoder"]);
    changed("mean", settings, json!({ "default_prompt_name": "other" }), &["default_prompt_name", "other"]);
    changed("mean", settings, json!({ "prompts": { "query": 3 } }), &["prompts", "strings"]);
    changed("mean", settings, json!({ "truncate_dim": 0 }), &["truncate_dim"]);

    let reading = "sentence_bert_config.json";
    let message = json!({ "message": { "method": "forward", "method_output_name": "last_hidden_state" } });
    for (fields, words) in [
        (json!({ "max_seq_length": -1 }), "max_seq_length"),
        (json!({ "do_lower_case": 1 }), "do_lower_case"),
        (json!({ "transformer_task": "fill-mask" }), "fill-mask"),
        (json!({ "module_output_name": "scores" }), "scores"),
        (json!({ "modality_config": message }), "modality_config"),
        (json!({ "query_expansion": { "length": 32 } }), "query_expansion"),
        (json!({ "config_args": { "num_hidden_layers": 1 } }), "config_args"),
        (json!({ "tokenizer_args": { "do_lower_case": true } }), "tokenizer_args"),
        (json!({ "processing_kwargs": { "text": {} } }), "processing_kwargs"),
        (json!({ "window": 3 }), "`window` is not known here"),
    ] {
        changed("mean", reading, fields, &[reading, words]);
    }
    let harmless = copy("mean");
    let fields =
        json!({ "max_seq_length": null, "model_args": { "torch_dtype": "float16" }, "unpad_inputs": false });
    harmless.put(reading, fields.to_string());
    assert_eq!(Recipe::read(&harmless.0).unwrap().longest, Some(40));
}

#[test]
fn cross_encoders_of_another_form() {
    let settings = "config_sentence_transformers.json";
    changed("cross-encoder", settings, json!({ "activation_fn": "my.Score" }), &["my.Score", "Sigmoid"]);
    let labels = json!({ "id2label": { "0": "a", "1": "b" } });
    changed("cross-encoder", "config.json", labels, &["config.json", "does not classify by one label"]);
    let list = modules(&[("", "Transformer"), ("1_Pooling", "Pooling")]);
    with("cross-encoder", "modules.json", list, &["a cross-encoder with `Pooling`"]);
    let activation = json!({ "sbert_ce_default_activation_function": "torch.nn.modules.activation.Softmax" });
    changed("cross-encoder-old", "config.json", activation, &["config.json", "Softmax"]);

    let pipeline = open("cross-encoder");
    let options = Embed { dimensions: Some(3), ..Embed::default() };
    refused(pipeline.query("a", options).map(|_| ()), &["dimensions is 3", "cross-encoder"]);
    let query = pipeline.query("a", Embed::default()).unwrap();
    refused(open("mean").nearness(&query, &["b"]).remove(0), &["a query of this pipeline"]);
}

#[test]
fn what_is_asked_and_cannot_be() {
    let pipeline = open("prompts");
    let embed = |options| pipeline.embed_all(&["a", "b"], options);
    for result in embed(Embed { prompt: Prompt::Named("search"), ..Embed::default() }) {
        refused(result, &["the name of the prompt is search", "document, passage, query"]);
    }
    for dimensions in [0, 33, usize::MAX] {
        let options = Embed { dimensions: Some(dimensions), ..Embed::default() };
        refused(pipeline.dimensions(&options), &[&dimensions.to_string(), "from 1 to 32"]);
        embed(options).into_iter().for_each(|result| refused(result, &["from 1 to 32"]));
    }
    // Six poolings side by side are what the module after them reads.
    let one = Embed { pooling: Some(Pooling::Mean), ..Embed::default() };
    refused(open("all-poolings").embed("a", one), &["the length of the vector is 32", "192"]);
}
