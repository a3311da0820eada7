//! Networks to be trained against the outputs of the models that are only run: every case of `golden/roformer`,
//! `golden/variants` and `golden/decoder`, made from its `config.json`.

use super::case::{close, flags, flat, read, tensor};
use roformer::blueprint::{Family, HeadNorms};
use roformer::graph::{Batch, IGNORE};
use roformer::model::{Hashed, Parameters};
use roformer::network::{Laid, Network, Task};
use serde_json::Value;

/// What a head is trained for; those that are not, for anything.
fn task(json: &Value) -> Task {
    let labels = json["config"]["id2label"].as_object().map_or(2, |labels| labels.len());
    match json["head"].as_str().unwrap_or("ForCausalLM") {
        "RoFormerForSequenceClassification" => Task::Text(labels),
        "RoFormerForTokenClassification" => Task::Token(labels),
        "RoFormerModel" | "RoFormerForQuestionAnswering" | "RoFormerForMultipleChoice" => Task::Token(2),
        _ if json["outputs"]["logits"].is_null() => Task::Token(2),
        _ => Task::Language,
    }
}

/// The network of a case, with what only tensors say.
fn network(json: &Value, task: Task) -> Network {
    let (name, mut config) = (&json["name"], json["config"].clone());
    if !json["outputs"]["pooler_output"].is_null() || json["variant"] == "sim" {
        config["add_pooling_layer"] = true.into();
    }
    let mut network = Network::from_config(config.to_string().as_bytes(), task, None)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    if json["head_norms"] == true {
        network.blueprint.head_norms = HeadNorms::Weighted;
        if network.blueprint.family == Family::Llama {
            network.blueprint.family = Family::Qwen3;
        }
        assert_eq!(network.blueprint.family, Family::Qwen3, "{name}");
    }
    let again = network.to_config(64, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    let is_causal = Some(network.blueprint.is_causal());
    assert_eq!(
        Network::from_config(again.to_string().as_bytes(), task, is_causal).unwrap(),
        network,
        "{name}"
    );
    network
}

/// Laid out, with the case's weights and batch.
fn lay(json: &Value, network: &Network) -> Laid<f32> {
    let ids = flat(&json["ids"]);
    let length = json["length"].as_u64().unwrap() as usize;
    let batch = ids.len() / length;
    let mut laid = network.build::<f32>(batch, length, length).unwrap();
    for entry in laid.graph.layout().clone().entries() {
        let out = &mut laid.graph.parameters_mut()[entry.range.clone()];
        Hashed.read(&entry.name, &entry.shape, out).unwrap();
    }
    let types = &json["token_types"];
    laid.set(Batch {
        types: if types.is_null() { Vec::new() } else { flat(types) },
        mask: flags(&json["mask"]).unwrap_or_default(),
        targets: targets(json, network, batch * length),
        scores: if network.task == Task::Similarity { vec![0.5; batch / 2] } else { Vec::new() },
        ids,
        ..Batch::default()
    })
    .unwrap_or_else(|error| panic!("{}: {error}", json["name"]));
    laid
}

fn targets(json: &Value, network: &Network, tokens: usize) -> Vec<u32> {
    let length = json["length"].as_u64().unwrap() as usize;
    let mask = flags(&json["mask"]).unwrap_or(vec![true; tokens]);
    let classes = network.task.classes().unwrap_or(network.blueprint.vocabulary);
    let count = network.task.targets(tokens / length, length);
    let is_real = |place: usize| count < tokens || mask[place];
    (0..count).map(|place| if is_real(place) { (place * 7 % classes) as u32 } else { IGNORE }).collect()
}

/// The mean cross-entropy of scores.
fn cross_entropy(scores: &[f64], targets: &[u32]) -> f64 {
    let rows = scores.chunks(scores.len() / targets.len()).zip(targets);
    let losses: Vec<f64> = rows
        .filter(|(_, target)| **target != IGNORE)
        .map(|(row, &target)| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[target as usize])
        .collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

#[test]
fn networks_give_what_models_give() {
    let mut losses = 0;
    for (folder, least) in [("roformer", 70), ("variants", 30), ("decoder", 44)] {
        let (cases, outputs) = read(folder);
        let mut seen = 0;
        for json in cases["cases"].as_array().unwrap() {
            let name = json["name"].as_str().unwrap();
            // What is not trained; and frequencies that change while a cache grows.
            let is_run_alone = json["config"]["add_cross_attention"] == true
                || json["reach"] == "prefix"
                || name.contains("dynamic-cache");
            if is_run_alone {
                continue;
            }
            let task = task(json);
            let mut laid = lay(json, &network(json, task));
            let loss = laid.graph.forward();
            let mask = flags(&json["mask"]);
            let wanted = |part: &str| tensor(&outputs, &format!("{name}.{part}"));
            let compare = |part: &str, got: &[f32], rows: Option<&[bool]>| {
                close(&format!("{name}.{part}"), got, &wanted(part), &json["outputs"][part], rows)
            };
            compare("last_hidden_state", laid.graph.value(laid.hidden), mask.as_deref());
            let head = json["head"].as_str().unwrap_or("");
            match task {
                Task::Language => {
                    let targets = laid.graph.batch().targets.clone();
                    let bounds = &json["outputs"]["logits"];
                    let (deviation, largest) = (&bounds["deviation"], &bounds["largest"]);
                    // A loss is off by no more than two scores.
                    let bound =
                        2.0 * (2.0 * deviation.as_f64().unwrap()).max(5e-6 * largest.as_f64().unwrap());
                    let wanted = cross_entropy(&wanted("logits"), &targets);
                    assert!((loss - wanted).abs() <= bound, "{name}: a loss of {loss}, not {wanted}");
                    losses += 1;
                }
                Task::Text(_) => {
                    compare("logits", laid.graph.value(laid.scores.unwrap()), None);
                }
                Task::Token(_) if head.ends_with("TokenClassification") => {
                    compare("logits", laid.graph.value(laid.scores.unwrap()), mask.as_deref());
                }
                _ => {}
            }
            seen += 1;
        }
        assert!(seen >= least, "{folder}: {seen} cases");
    }
    assert!(losses >= 60, "{losses} losses");
}

/// RoFormer-Sim's vectors: those of its pooler, scaled to length 1.
#[test]
fn vectors_are_those_of_the_pooler() {
    let (cases, outputs) = read("variants");
    let mut seen = 0;
    for json in cases["cases"].as_array().unwrap() {
        let is_even = json["ids"].as_array().unwrap().len().is_multiple_of(2);
        if json["outputs"]["pooler_output"].is_null() || json["reach"] != "all" || !is_even {
            continue;
        }
        let name = json["name"].as_str().unwrap();
        let network = network(json, Task::Similarity);
        assert!(network.blueprint.pooler.is_some(), "{name}");
        let mut laid = lay(json, &network);
        laid.graph.forward();
        let wanted = tensor(&outputs, &format!("{name}.pooler_output"));
        let vectors = laid.graph.value(laid.vectors.unwrap());
        for (got, wanted) in
            vectors.chunks(network.blueprint.width).zip(wanted.chunks(network.blueprint.width))
        {
            let length = wanted.iter().map(|x| x * x).sum::<f64>().sqrt();
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((f64::from(*got) - wanted / length).abs() <= 5e-6, "{name}: {got}, not {wanted}");
            }
        }
        seen += 1;
    }
    assert!(seen > 0);
}
