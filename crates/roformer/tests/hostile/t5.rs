//! T5: what its class does not have, and files that do not fit, are refused by name.

use super::folder::{Folder, Tensors};
use super::*;
use roformer::blueprint::Family;
use roformer::network::{Network, Task};

/// A small encoder, with some fields set.
fn fields(fields: Value) -> Value {
    let mut config = json!({
        "model_type": "t5", "architectures": ["T5EncoderModel"], "vocab_size": 40, "d_model": 10, "d_kv": 4, "d_ff": 12,
        "num_heads": 3, "num_layers": 2,
    });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

#[test]
fn what_a_t5_does_not_have_is_named() {
    let long = json!({"relative_attention_num_buckets": 64, "relative_attention_max_distance": 16});
    for (config, words) in [
        (json!({"feed_forward_proj": "gated-mish"}), &["feed_forward_proj", "gated-mish", "relu"][..]),
        (json!({"feed_forward_proj": "gated"}), &["feed_forward_proj", "gated"]),
        (json!({"feed_forward_proj": "gelu-gated"}), &["feed_forward_proj", "gelu-gated"]),
        (json!({"feed_forward_proj": 5}), &["feed_forward_proj", "5"]),
        (json!({"dense_act_fn": "mish"}), &["dense_act_fn", "mish"]),
        (json!({"is_gated_act": "yes"}), &["is_gated_act", "yes"]),
        (json!({"d_kv": 0}), &["d_kv", "0"]),
        (json!({"d_kv": LIMIT}), &["num_heads · d_kv"]),
        (json!({"d_model": -1}), &["d_model", "-1"]),
        (json!({"num_heads": 0}), &["num_heads", "0"]),
        (json!({"num_layers": 1.5}), &["num_layers", "1.5"]),
        (json!({"relative_attention_num_buckets": 3}), &["relative_attention_num_buckets", "3"]),
        (json!({"relative_attention_max_distance": 0}), &["relative_attention_max_distance", "0"]),
        (long, &["number of buckets", "64", "16"]),
        (json!({"layer_norm_epsilon": -1}), &["layer_norm_epsilon", "-1"]),
        (json!({"architectures": ["T5ForQuestionAnswering"]}), &["T5ForQuestionAnswering", "T5EncoderModel"]),
        (json!({"architectures": ["T5ForSequenceClassification"]}), &["T5ForSequenceClassification"]),
        (json!({"architectures": [7]}), &["architectures"]),
    ] {
        refused(parse(&fields(config.clone())), words, config);
    }
}

#[test]
fn what_is_not_trained_is_named() {
    let config = fields(json!({})).to_string();
    for task in [Task::Language, Task::Text(2)] {
        refused(Network::from_config(config.as_bytes(), task, None), &["task", "t5", "similarity"], task);
    }
    refused(
        Network::from_config(config.as_bytes(), Task::Similarity, Some(true)),
        &["task", "t5"],
        "a causal encoder",
    );
    let network = Network::from_config(config.as_bytes(), Task::Similarity, None).unwrap();
    assert_eq!((network.blueprint.family, network.dropout), (Family::T5, 0.1));
    // A network made by hand says so before it is trained.
    let network = Network { task: Task::Language, ..network };
    refused(network.to_config(64, &[]), &["architectures", "T5ForMaskedLM"], "a masked language model");
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    let with = |change: fn(&mut Tensors)| Folder::with_tensors("../families/tiny-t5-encoder", change);
    assert!(Model::load(&with(|_| {}).0).is_ok());
    type Change = fn(&mut Tensors);
    let cases: [(Change, &[&str]); 5] = [
        (|all| drop(all.remove("encoder.block.1.layer.0.SelfAttention.q.weight")), &["missing", "block.1"]),
        (
            |all| {
                all.remove("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
            },
            &["missing", bias],
        ),
        (
            |all| {
                let name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
                all.get_mut(name).unwrap().0.reverse();
            },
            &[bias, "[3, 8]", "[8, 3]"],
        ),
        (
            |all| {
                let wide = all.remove("encoder.block.0.layer.1.DenseReluDense.wi_0.weight").unwrap();
                all.insert("encoder.block.0.layer.1.DenseReluDense.wi.weight".into(), wide);
            },
            &["missing", "wi_0", "unexpected", "wi.weight"],
        ),
        (|all| all.get_mut("shared.weight").unwrap().0.reverse(), &["shared.weight", "[12, 17]"]),
    ];
    for (change, words) in cases {
        refused(Model::load(&with(change).0), words, words);
    }
}
