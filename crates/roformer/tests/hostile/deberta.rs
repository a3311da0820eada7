//! DeBERTa-v2: settings that its class does not have, or that are not supported, and tensors that do not fit.

use super::folder::{Folder, Tensors};
use super::*;

/// A small model with relative positions, with some fields set.
fn fields(fields: Value) -> Value {
    let mut config = small(json!({
        "model_type": "deberta-v2", "relative_attention": true, "pos_att_type": ["c2p", "p2c"],
        "max_position_embeddings": 40,
    }));
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

fn with(change: impl FnOnce(&mut Tensors)) -> Folder {
    Folder::with_tensors("../families/tiny-deberta", change)
}

#[test]
fn what_deberta_does_not_support_is_named() {
    for (config, words) in [
        (json!({"pos_att_type": ["p2p"]}), &["pos_att_type", "p2p", "c2p"][..]),
        (json!({"pos_att_type": "c2p|p2p"}), &["pos_att_type", "p2p"]),
        (json!({"pos_att_type": 3}), &["pos_att_type", "3"]),
        (json!({"pos_att_type": [1]}), &["pos_att_type"]),
        (json!({"conv_kernel_size": 4}), &["conv_kernel_size", "4", "odd"]),
        (json!({"conv_kernel_size": 1025}), &["kernel", "1025"]),
        (json!({"conv_kernel_size": 3, "conv_groups": 2}), &["conv_groups", "2"]),
        (json!({"conv_kernel_size": 3, "conv_act": "mish"}), &["conv_act", "mish"]),
        (json!({"norm_rel_ebd": "batch_norm"}), &["norm_rel_ebd", "batch_norm", "layer_norm"]),
        (json!({"attention_head_size": 9}), &["attention_head_size", "9", "8"]),
        (json!({"pooler_hidden_size": 12}), &["pooler_hidden_size", "12", "16"]),
        (json!({"position_buckets": 1}), &["position_buckets", "1"]),
        (json!({"position_buckets": 78}), &["position_buckets", "78", "40"]),
        (json!({"position_buckets": "many"}), &["position_buckets", "many"]),
        (json!({"max_relative_positions": 1.5}), &["max_relative_positions", "1.5"]),
        (json!({"max_relative_positions": LIMIT}), &["the reach of deberta", "16777216"]),
        (json!({"num_hidden_layers": 0}), &["num_hidden_layers", "0"]),
        (json!({"hidden_size": 17}), &["hidden_size", "17"]),
        (
            json!({"legacy": false, "embedding_size": 8, "architectures": ["DebertaV2ForMaskedLM"]}),
            &["legacy", "false"],
        ),
    ] {
        refused(parse(&fields(config.clone())), words, config);
    }
    for config in [
        json!({"pos_att_type": null}),
        json!({"pos_att_type": " P2C | c2p "}),
        json!({"position_buckets": 76, "max_relative_positions": -1}),
        json!({"norm_rel_ebd": "none|layer_norm", "conv_kernel_size": 0, "attention_head_size": 8}),
    ] {
        parse(&fields(config.clone())).unwrap_or_else(|error| panic!("{config}: {error}"));
    }
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    assert!(Model::load(&with(|_| {}).0).is_ok());
    let table = "deberta.encoder.rel_embeddings.weight";
    for name in [
        table,
        "deberta.encoder.LayerNorm.bias",
        "deberta.encoder.layer.1.attention.self.key_proj.weight",
        "lm_predictions.lm_head.LayerNorm.weight",
    ] {
        let short = name.trim_start_matches("lm_predictions.lm_head.");
        refused(Model::load(&with(|all| drop(all.remove(name))).0), &["missing", short], name);
    }
    let wrong = with(|all| all.get_mut(table).unwrap().0.reverse());
    refused(Model::load(&wrong.0), &[table, "[12, 10]", "[10, 12]"], "a table the other way round");
    for (fields, words) in [
        (json!({"relative_attention": false}), &["relative_attention", "true"][..]),
        (json!({"position_buckets": 4}), &["rel_embeddings", "[10, 12]", "[8, 12]"]),
        (json!({"share_att_key": false}), &["missing", "pos_key_proj.bias"]),
        (json!({"position_biased_input": true}), &["missing", "position_embeddings"]),
        (json!({"norm_rel_ebd": "none"}), &["norm_rel_ebd", "layer_norm"]),
    ] {
        let folder = with(|_| {});
        folder.configure(fields.clone());
        refused(Model::load(&folder.0), words, fields);
    }
}
