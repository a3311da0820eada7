//! Folders of sentence-transformers: the vectors and ranks of the library itself, and what is refused.

#[path = "../common/folder.rs"]
mod folder;
mod refused;

use roformer::Pipeline;
use roformer::pipeline::{Embed, Pooling, Prompt};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/sentence-transformers").join(name)
}

fn open(name: &str) -> Pipeline {
    Pipeline::open(golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn cases() -> Value {
    serde_json::from_slice(&std::fs::read(golden("cases.json")).unwrap()).unwrap()
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The numbers of a tensor, `[rows, width]`, row by row.
fn rows(name: &str) -> Vec<Vec<f64>> {
    let bytes = std::fs::read(golden("outputs.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(name).unwrap();
    let numbers: Vec<f64> =
        tensor.data().chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    numbers.chunks_exact(tensor.shape()[1]).map(<[f64]>::to_vec).collect()
}

#[track_caller]
fn close(what: &str, got: &[f32], wanted: &[f64]) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (got, wanted) in got.iter().zip(wanted) {
        let difference = (f64::from(*got) - wanted).abs();
        assert!(difference <= 1e-5 * wanted.abs().max(1.0), "{what}: {got} for {wanted}");
    }
}

/// The options that do what a call of the library did.
fn options<'a>(method: &str, arguments: &'a Value) -> Embed<'a> {
    let prompt = match (method, arguments["prompt_name"].as_str(), arguments["prompt"].as_str()) {
        ("encode_query", ..) => Prompt::Query,
        ("encode_document", ..) => Prompt::Document,
        (_, Some(name), _) => Prompt::Named(name),
        (_, _, Some(text)) => Prompt::Text(text),
        _ => Prompt::Usual,
    };
    Embed {
        prompt,
        dimensions: arguments["truncate_dim"].as_u64().map(|dimensions| dimensions as usize),
        normalize: arguments["normalize_embeddings"].as_bool().unwrap_or(false),
        pooling: None,
    }
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    let cases = cases();
    let texts = list(&cases["texts"]);
    let folders = cases["vectors"].as_array().unwrap();
    assert_eq!(folders.len(), 9);
    for case in folders {
        let name = case["folder"].as_str().unwrap();
        let pipeline = open(name);
        for call in case["calls"].as_array().unwrap() {
            let options = options(call["method"].as_str().unwrap(), &call["arguments"]);
            let wanted = rows(call["tensor"].as_str().unwrap());
            assert_eq!(pipeline.dimensions(&options).unwrap(), wanted[0].len(), "{name}: {call}");
            for ((text, wanted), got) in texts.iter().zip(&wanted).zip(pipeline.embed_all(&texts, options)) {
                let got = got.unwrap_or_else(|error| panic!("{name}: {text:?}: {error}"));
                close(&format!("{name}: {call}: {text:?}"), &got, wanted);
                close(&format!("{name} alone: {text:?}"), &pipeline.embed(text, options).unwrap(), wanted);
            }
        }
    }
}

#[test]
fn queries_and_documents_are_as_near_as_there() {
    let cases = cases();
    let texts = list(&cases["texts"]);
    for case in cases["vectors"].as_array().unwrap() {
        let name = case["folder"].as_str().unwrap();
        let pipeline = open(name);
        assert_eq!(pipeline.similarity_function().name(), case["similarity"], "{name}");
        assert_eq!(
            pipeline.recipe().longest,
            case["longest"].as_u64().map(|tokens| tokens as usize),
            "{name}"
        );
        for (text, wanted) in texts.iter().zip(rows(&format!("{name}.similarity"))) {
            let query = pipeline.query(text, Embed::default()).unwrap();
            let got: Vec<f32> = pipeline.nearness(&query, &texts).into_iter().map(Result::unwrap).collect();
            close(&format!("{name}: {text:?}"), &got, &wanted);
            let ranked = pipeline.rank(text, &texts).unwrap();
            assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score), "{name}: {text:?}");
            assert!(ranked.iter().all(|document| document.score == got[document.index]), "{name}: {text:?}");
        }
        // Two texts that are compared are not a query and what it looks for: both have the usual prompt.
        let vectors = pipeline.embed_all(&texts[..2], Embed::default());
        let [a, b] = [0, 1].map(|index| vectors[index].as_ref().unwrap());
        let alike = pipeline.similarity(&texts[0], &texts[1]).unwrap();
        assert_eq!(alike, pipeline.similarity_function().of(a, b), "{name}");
    }
}

#[test]
fn cross_encoders_rank_as_there() {
    let cases = cases();
    let texts = list(&cases["texts"]);
    let folders = cases["pairs"].as_array().unwrap();
    assert_eq!(folders.len(), 2);
    for case in folders {
        let name = case["folder"].as_str().unwrap();
        let pipeline = open(name);
        assert!(pipeline.is_cross_encoder());
        for row in case["ranked"].as_array().unwrap() {
            let options = options("rank", &row["arguments"]);
            let query = row["query"].as_str().unwrap();
            let made = pipeline.query(query, options).unwrap();
            let scores = pipeline.nearness(&made, &texts);
            let order: Vec<(usize, f64)> = row["order"]
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| (pair[0].as_u64().unwrap() as usize, pair[1].as_f64().unwrap()))
                .collect();
            for &(index, wanted) in &order {
                close(&format!("{name}: {query:?}, {index}"), &[*scores[index].as_ref().unwrap()], &[wanted]);
            }
            if options == Embed::default() {
                let ranked = pipeline.rank(query, &texts).unwrap();
                let got: Vec<usize> = ranked.iter().map(|document| document.index).collect();
                assert_eq!(
                    got,
                    order.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
                    "{name}: {query:?}"
                );
            }
        }
    }
}

/// What is asked for goes before what the folder says.
#[test]
fn the_caller_has_the_last_word() {
    let text = "The weather is lovely today.";
    let pipeline = open("mean");
    let pooled = |pooling| pipeline.embed(text, Embed { pooling, ..Embed::default() }).unwrap();
    let (mean, cls) = (pooled(Some(Pooling::Mean)), pooled(Some(Pooling::Cls)));
    assert!(mean == pooled(None) && mean != cls);
    let length = |vector: &[f32]| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((length(&cls) - 1.0).abs() < 1e-6, "the folder's scaling comes after any pooling");

    let short = open("short");
    let whole = "the sea the sea the sea the sea the sea the sea";
    let cut = short.embed(whole, Embed::default()).unwrap();
    assert_eq!(cut, short.embed("the sea the sea the sea the sea the sea", Embed::default()).unwrap());
    assert_ne!(cut, open("short").max_tokens(14).embed(whole, Embed::default()).unwrap());
    assert_eq!(cut.len(), 24);
    let all = Embed { dimensions: Some(32), ..Embed::default() };
    assert_eq!(short.embed(whole, all).unwrap()[..24], cut);
}
