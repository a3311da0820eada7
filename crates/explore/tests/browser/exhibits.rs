//! What is shown if it is given: a model's attention, a comparison's curves.

use super::chromium::{Chromium, DESK, NIGHT, PHONE};
use super::serve;
use lab::results::{Accuracy, CurvePoint, EncodingPlan, Plan, Results, RunResult, TaskResult};
use roformer::model::Input;
use roformer::tokenizer::Tokenizer;
use roformer_explore::exhibits::{Comparison, Exhibits, Model};
use serde_json::json;
use std::path::{Path, PathBuf};

fn tiny_gpt() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models/tiny-gpt")
}

#[test]
fn a_models_attention() {
    let Some(mut browser) = Chromium::start() else { return };
    let model = Model::open("tiny-gpt", &tiny_gpt()).unwrap();
    let url = serve(Exhibits { model: Some(model), ..Exhibits::default() });
    browser.open(&url);
    browser.part("model");
    browser.set("model", "text", "the dog saw the cat");
    browser.set("model", "layer", "1");

    // A token of a causal model sees what came before, and rows sum to 1.
    let data = browser.data("model");
    let tokens = data["tokens"].as_array().unwrap().len();
    let ids = Tokenizer::load(tiny_gpt()).unwrap().encode("the dog saw the cat").unwrap().ids;
    assert_eq!(tokens, ids.len());
    for (query, row) in data["weights"].as_array().unwrap().iter().enumerate() {
        let row: Vec<f64> = row.as_array().unwrap().iter().map(|weight| weight.as_f64().unwrap()).collect();
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{row:?}");
        assert!(row[query + 1..].iter().all(|&weight| weight == 0.0), "{row:?}");
    }
    // A model that is looked at computes what it computes otherwise.
    let watched = roformer::ops::Watched::default();
    let input = Input { ids: &ids, batch: 1, token_types: None, mask: None };
    let seen = roformer::model::Model::load_on(watched.clone(), tiny_gpt()).unwrap().forward(&input).unwrap();
    let plain = roformer::model::Model::load(tiny_gpt()).unwrap().forward(&input).unwrap();
    assert_eq!(seen.last_hidden_state, plain.last_hidden_state);
    let weights = &watched.take()[1].weights;
    let shown: Vec<f64> = data["weights"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .map(|w| w.as_f64().unwrap())
        .collect();
    assert!(shown.iter().zip(weights).all(|(&shown, &weight)| (shown - f64::from(weight)).abs() < 1e-7));

    // A head is chosen in the grid; what is pointed at is said.
    browser.middle("#model [data-drag=grid] image");
    let heads = browser.eval(
        "(() => { const b = document.querySelector('#model [data-drag=grid] image').getBoundingClientRect(); \
        return [b.x, b.y, b.width, b.height]; })()",
    );
    let at = |index: usize| heads[index].as_f64().unwrap();
    browser.drag((at(0) + at(2) * 0.9, at(1) + at(3) * 0.2), (0.0, 1.0), 1);
    browser.settle("model");
    assert_eq!(browser.eval("document.getElementById('model-head').value"), json!("3"));
    assert_eq!(browser.eval("document.getElementById('model-layer').value"), json!("0"));
    let map = browser.middle("#model image");
    browser.point(map);
    browser.wait_for("/looks at/.test(document.querySelector('#model figcaption').textContent)");

    // A text that cannot be used is said to be one.
    browser.set("model", "text", "");
    browser.wait_for("!document.querySelector('#model .alert').hidden || document.getElementById('model').figure.data.tokens.length > 0");
    browser.set("model", "text", &"dog ".repeat(140));
    browser.wait_for("/tokens; expected/.test(document.querySelector('#model .alert').textContent)");
    browser.complaints.retain(|complaint| !complaint.contains("400")); // the refusal itself
    browser.set("model", "text", "the dog saw the cat and the man");
    for (name, looks) in [("desk", DESK), ("night", NIGHT), ("phone", PHONE)] {
        browser.looks(looks);
        browser.part("model");
        browser.screenshot(&format!("model-{name}"));
    }
    browser.is_content(&url);
}

/// A comparison as `roformer compare` leaves it, with made-up numbers.
fn made_up() -> Results {
    let run = |encoding: &str, seed: u64| {
        let reach = if encoding == "alibi" { 0.02 } else { 0.08 } * (1.0 + seed as f64 / 10.0);
        let accuracy = |length: usize| {
            let exact = (1.0 - reach * length.saturating_sub(8) as f64).max(0.0);
            Accuracy { length, exact, token: exact, loss: 1.0 - exact }
        };
        RunResult {
            encoding: encoding.into(),
            seed,
            is_again: false,
            rate: 1e-3,
            parameters: 1000,
            position_parameters: 0,
            flops_per_step: 1e6,
            curve: (1..=20).map(|step| CurvePoint { step: 10 * step, loss: 3.0 / step as f64 }).collect(),
            accuracy: (2..=16).map(accuracy).collect(),
            attention: vec![(0..8).map(|distance| 1.0 / f64::from(1 + distance)).collect()],
            context: Vec::new(),
            learned: Vec::new(),
        }
    };
    let task = |name: &str, is_language: bool| TaskResult {
        name: name.into(),
        isolates: "Finding what stood a fixed offset back.".into(),
        is_control: false,
        is_language,
        train_length: 8,
        test_lengths: (2..=16).collect(),
        symbols: None,
        steps: 200,
        tokens_per_step: 64,
        size: None,
        pilots: Vec::new(),
        runs: ["rotary", "alibi"]
            .iter()
            .flat_map(|&encoding| [1, 2, 3].map(|seed| run(encoding, seed)))
            .collect(),
        comparisons: Vec::new(),
        rankings: Vec::new(),
        swaps: Vec::new(),
        sweep: Vec::new(),
    };
    let encoding = |name: &str| EncodingPlan { label: name.into(), name: name.into() };
    Results {
        version: "0".into(),
        hash: "0".into(),
        plan: Plan {
            preset: "quick".into(),
            attention: "softmax".into(),
            encodings: vec![encoding("rotary"), encoding("alibi")],
            seeds: vec![1, 2, 3],
            budget: None,
            rates: vec![1e-3],
            width: 32,
            layers: 1,
            heads: 2,
            sizes: Vec::new(),
            batch: 8,
            source: None,
            training: Default::default(),
            left_out: Vec::new(),
        },
        tasks: vec![task("copy", false), task("language", true)],
    }
}

#[test]
fn a_comparisons_curves() {
    let Some(mut browser) = Chromium::start() else { return };
    let folder = std::env::temp_dir().join(format!("roformer-comparison-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("results.json"), serde_json::to_string(&made_up()).unwrap()).unwrap();
    let comparison = Comparison::open(&folder).unwrap();
    let url = serve(Exhibits { comparison: Some(comparison), ..Exhibits::default() });
    browser.open(&url);
    browser.part("comparison");
    // The mean over three seeds at twice the trained length: 1 − 8·0.02·(1.1 + 1.2 + 1.3)/3.
    let data = browser.data("comparison");
    let far = &data["encodings"][1]["by_length"][14];
    assert_eq!(far["x"].as_f64(), Some(16.0));
    assert!((far["mean"].as_f64().unwrap() - 0.808).abs() < 1e-9, "{far}");
    assert!((far["low"].as_f64().unwrap() - 0.792).abs() < 1e-9, "{far}");
    assert!(
        browser.value("comparison", "best").starts_with("alibi"),
        "{}",
        browser.value("comparison", "best")
    );
    for what in ["loss", "attention", "by_length"] {
        browser.set("comparison", "what", what);
        assert!(
            browser.eval("document.querySelectorAll('#comparison path.line').length").as_u64().unwrap() >= 2
        );
    }
    browser.set("comparison", "task", "language");
    assert_eq!(browser.data("comparison")["is_language"], json!(true));
    assert!(browser.value("comparison", "best").starts_with("alibi"));
    for (name, looks) in [("desk", DESK), ("night", NIGHT), ("phone", PHONE)] {
        browser.looks(looks);
        browser.part("comparison");
        let is_whole = "(() => { const right = (x) => x.getBoundingClientRect().right, \
            said = document.querySelector('#comparison output[data-value=isolates]'); \
            return right(said) <= right(said.closest('p')) + 1; })()";
        assert_eq!(browser.eval(is_whole), json!(true), "what the task isolates is cut off: {name}");
        browser.screenshot(&format!("comparison-{name}"));
    }
    browser.is_content(&url);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_not_given_is_not_shown() {
    let Some((mut browser, url)) = super::page() else { return };
    assert_eq!(browser.eval("document.querySelector('#model, #comparison')"), json!(null));
    browser.is_content(&url);
}
