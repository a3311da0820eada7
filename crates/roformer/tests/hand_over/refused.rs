//! Tensors, configurations, networks and batches that cannot be.

use super::*;
use roformer::blueprint::{Biases, Blueprint, Dims};
use roformer::encoding::{Alibi, Encoding, Rotary, Shaw};
use rope::Schedule;

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let name = FOLDERS[0];
    let query = "roformer.encoder.layer.1.attention.self.query.weight";
    type Change = fn(&mut Tensors);
    let cases: [(Change, &[&str]); 5] = [
        (|all| drop(all.remove("roformer.encoder.layer.1.attention.self.query.weight")), &["missing", query]),
        (
            |all| {
                let tensor = all.get_mut("roformer.encoder.layer.1.attention.self.query.weight").unwrap();
                tensor.0 = vec![8, 32];
            },
            &[query, "[8, 32]", "[16, 16]"],
        ),
        (
            |all| drop(all.insert("roformer.encoder.layer.2.output.dense.bias".into(), (vec![1], vec![0.0]))),
            &["unexpected", "roformer.encoder.layer.2.output.dense.bias"],
        ),
        (
            |all| all.retain(|name, _| !name.contains("bias") && !name.contains("LayerNorm")),
            &["RoFormerV2", "norm_type"],
        ),
        (
            |all| all.get_mut("roformer.encoder.embed_positions.weight").unwrap().1[7] += 0.5,
            &["table of positions", "embed_positions"],
        ),
    ];
    for (change, words) in cases {
        refused(open(&changed(name, json!({}), change).0, Task::Language), words);
    }
    // A head of another size, or half of one.
    let classifier = "examples/models/tiny-classifier";
    refused(open(&folder(classifier), Task::Text(5)), &["classifier.out_proj.weight", "[2, 64]", "[5, 64]"]);
    // The first RoFormer's weights as RoFormerV2's.
    let lie = changed(name, json!({"norm_type": "rms_norm", "use_bias": false}), |_| {});
    refused(open(&lie.0, Task::Token(2)), &["the first RoFormer"]);
    // Fewer and more layers, another width, a vocabulary that no memory holds.
    for (fields, words) in [
        (json!({"num_hidden_layers": 1}), &["unexpected", "layer.1"][..]),
        (json!({"num_hidden_layers": 3}), &["missing", "layer.2"]),
        (json!({"intermediate_size": 38}), &["intermediate.dense.weight", "[37, 16]", "[38, 16]"]),
        (json!({"hidden_size": 32, "embedding_size": 32}), &["table of positions", "heads of 16"]),
        (json!({"num_hidden_layers": 1 << 24, "vocab_size": 1 << 24}), &["memory"]),
        (json!({"num_hidden_layers": 1 << 24}), &["memory"]),
    ] {
        refused(open(&changed(name, fields, |_| {}).0, Task::Language), words);
    }
    let biased = changed("golden/decoder/tiny-llama", json!({"attention_bias": true}), |_| {});
    refused(open(&biased.0, Task::Language), &["do not fit", "missing", "q_proj.bias"]);
    // Parameters of another network.
    let (network, weights) = Network::open(folder(name), Task::Language, None).unwrap();
    let laid = network.build::<f32>(2, 4, 8).unwrap();
    refused(network.load(&weights, laid.graph.layout(), &mut [0f32; 7]), &["7"]);
    refused(network.tensors(laid.graph.layout(), &[0.0; 7], 8), &["7"]);
}

#[test]
fn configurations_that_cannot_be_trained_are_refused_by_name() {
    let read = |config: Value, task: Task, is_causal: Option<bool>| {
        Network::from_config(config.to_string().as_bytes(), task, is_causal)
    };
    for (config, words) in [
        (json!({"model_type": "electra"}), &["model_type", "electra", "roformer"][..]),
        (json!({"model_type": 5}), &["model_type", "5"]),
        (json!({"is_decoder": true, "add_cross_attention": true}), &["add_cross_attention"]),
        (json!({"model_type": "mixtral"}), &["experts"]),
        (json!({"hidden_dropout_prob": 1.0}), &["hidden_dropout_prob", "1.0"]),
        (json!({"model_type": "llama", "attention_dropout": "much"}), &["attention_dropout", "much"]),
        (json!({"hidden_size": 0}), &["hidden_size", "0"]),
        (json!({"hidden_act": "mish"}), &["hidden_act", "mish"]),
        (json!({"model_type": "roformer-alibi"}), &["model_type", "roformer-alibi"]),
        (json!({"model_type": "roformer", "position_encoding": "alibi"}), &["model_type", "-alibi"]),
        (
            json!({"model_type": "roformer-alibi", "position_encoding": "best"}),
            &["position_encoding", "best"],
        ),
        (json!({"model_type": "llama", "head_dim": 7, "hidden_size": 28, "num_attention_heads": 4}), &["7"]),
        (json!([]), &["object"]),
    ] {
        refused(read(config, Task::Language, None), words);
    }
    refused(Network::from_config(b"{", Task::Language, None), &["config.json"]);
    refused(read(json!({"model_type": "llama"}), Task::Similarity, Some(false)), &["causal", "llama"]);
    let small = json!({"hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9, "is_decoder": true});
    let by_first = read(small, Task::Text(2), Some(true)).unwrap();
    refused(by_first.build::<f32>(2, 4, 8).map(drop), &["causal", "first token"]);
    let narrow =
        json!({"norm_type": "rms_norm", "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 2});
    refused(read(narrow, Task::Language, None).unwrap().build::<f32>(2, 4, 8).map(drop), &["4", "8"]);
}

#[test]
fn what_no_config_describes_is_not_handed_over() {
    let small = small();
    let plain = Blueprint::plain(Dims { vocabulary: 9, width: 8, layers: 1, heads: 2 });
    for (network, words) in [
        (small.with(|own| *own = plain), &["plain encoder"][..]),
        (small.with(|own| own.biases = Biases { wide: false, ..own.biases }), &["biases", "false"]),
        (small.with(|own| own.key_heads = 1), &["key heads", "1"]),
        (small.with(|own| own.head_dim = 8), &["width of a head", "8"]),
        (
            small.with(|own| {
                let schedule = Schedule::Linear { factor: 2.0 };
                own.encoding = Encoding::Rotary(Rotary { schedule, ..Rotary::default() });
            }),
            &["encoding", "Linear"],
        ),
        (
            small.with(|own| own.encoding = Encoding::Shaw(Shaw { left: 3, ..Shaw::default() })),
            &["encoding", "3"],
        ),
    ] {
        refused(network.to_config(40, &[]), words);
    }
    let judge = Network { task: Task::Text(2), ..small.clone() };
    refused(judge.to_config(40, &["one".into()]), &["labels", "1", "2"]);
    refused(judge.to_config(40, &["one".into(), "one".into()]), &["labels", "one"]);
    assert_eq!(judge.to_config(40, &[]).unwrap()["id2label"]["1"], "LABEL_1");
    // ALiBi has no settings to lose.
    small.with(|own| own.encoding = Encoding::Alibi(Alibi)).to_config(40, &[]).unwrap();
}

/// Batches of pairs that cannot be.
#[test]
fn pairs_that_do_not_fit_are_refused() {
    let network = Network { task: Task::Similarity, ..small() };
    refused(network.build::<f32>(3, 4, 8).map(drop), &["batch", "3", "even"]);
    refused(network.build::<f32>(1 << 24, 1, 8).map(drop), &["memory"]);
    let mut laid = network.build::<f32>(4, 3, 8).unwrap();
    let good = Batch { ids: vec![1; 12], ..Batch::default() };
    laid.set(good.clone()).unwrap();
    let mask = |empty: &[usize]| (0..12).map(|token| !empty.contains(&(token / 3))).collect();
    for (batch, words) in [
        (Batch { scores: vec![0.5], ..good.clone() }, &["scores", "1", "2"][..]),
        (Batch { scores: vec![0.5, 1.5], ..good.clone() }, &["score", "1.5", "-1 to 1"]),
        (Batch { scores: vec![f32::NAN, 0.0], ..good.clone() }, &["score", "NaN"]),
        (Batch { targets: vec![1; 4], ..good.clone() }, &["targets", "4", "0"]),
        (Batch { mask: mask(&[2]), ..good.clone() }, &["mask", "text 2"]),
    ] {
        refused(laid.set(batch), words);
    }
    laid.set(Batch { mask: mask(&[2, 3]), scores: vec![0.5, 0.0], ..good }).unwrap();
    assert!(laid.graph.forward().is_finite());
    let mut two = network.build::<f32>(2, 3, 8).unwrap();
    refused(two.set(Batch { ids: vec![1; 6], ..Batch::default() }), &["batch", "2", "4"]);
    two.set(Batch { ids: vec![1; 6], scores: vec![1.0], ..Batch::default() }).unwrap();
    // Scores are for pairs alone; a text that is judged has a token.
    let judge = Network { task: Task::Text(2), ..small() };
    let mut laid = judge.build::<f32>(2, 3, 8).unwrap();
    let batch = Batch { ids: vec![1; 6], targets: vec![0, 1], ..Batch::default() };
    refused(laid.set(Batch { scores: vec![0.5], ..batch.clone() }), &["scores", "1", "0"]);
    let empty = vec![true, true, true, false, false, false];
    refused(laid.set(Batch { mask: empty.clone(), ..batch.clone() }), &["mask", "text 1"]);
    laid.set(Batch { mask: empty, targets: vec![0, u32::MAX], ..batch }).unwrap();
    assert!(laid.graph.step(1.0).is_finite());
    assert!(laid.graph.gradients().iter().all(|gradient| gradient.is_finite()));
}
