//! T5: what its class does not have, and files that do not fit, are refused by name.

use super::folder::{Folder, Tensors};
use super::*;
use roformer::blueprint::{Blueprint, Direction, Family, NormPlace};
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
        (json!({"is_decoder": true}), &["is_decoder", "true"]),
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
    // With a decoder it is neither a model of single texts nor a classifier of them.
    let whole = fields(json!({"architectures": ["T5ForConditionalGeneration"]})).to_string();
    for (task, is_causal) in
        [(Task::Language, Some(true)), (Task::Language, Some(false)), (Task::Text(2), None)]
    {
        let words = ["task", "t5", "sequences"];
        refused(Network::from_config(whole.as_bytes(), task, is_causal), &words, task);
    }
    let network = Network::from_config(whole.as_bytes(), Task::Language, None).unwrap();
    assert!(network.blueprint.encoder.is_some());
    let built = |network: Network| network.build::<f32>(2, 3, 3);
    refused(built(Network { task: Task::Similarity, ..network.clone() }), &["task", "encoder"], "by hand");
    for change in [
        (|own| own.has_cross_attention = false) as fn(&mut Blueprint),
        |own| own.direction = Direction::Both,
        |own| own.is_parallel = true,
        |own| own.norms.place = NormPlace::After,
        |own| own.encoder.as_mut().unwrap().direction = Direction::Causal,
        |own| own.encoder = None,
    ] {
        refused(built(network.with(change)), &["network"], "by hand");
    }
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

fn decoder() -> Model {
    let config = fields(json!({"architectures": ["T5ForConditionalGeneration"], "num_decoder_layers": 1}));
    Model::from_parameters(parse(&config).unwrap(), &Hashed).unwrap()
}

/// What a decoder is given of an encoder: something, of its width, and the same at each step.
#[test]
fn a_decoder_needs_what_its_encoder_made() {
    let model = decoder();
    let encoded = |hidden| Encoded { hidden, mask: None };
    refused(model.forward(&ids(&[0])), &["encoded input", "none"], "no encoder's output");
    refused(model.forward_with(&ids(&[0]), encoded(&[0.5; 7])), &["encoded input", "7"], "not the width");
    refused(model.encode(&ids(&[])), &["number of ids"], "no text");
    refused(model.encode(&ids(&[40])), &["token id", "40"], "no such token");
    let read = model.encode(&ids(&[3, 4, 1])).unwrap().last_hidden_state;
    assert_eq!(read.len(), 3 * 10);
    let mut cache = model.cache(1, 3).unwrap();
    model.step(&ids(&[0]), Some(encoded(&read)), &mut cache).unwrap();
    refused(model.step(&ids(&[5]), None, &mut cache), &["encoded input", "none"], "none at a later step");
    refused(
        model.step(&ids(&[5]), Some(encoded(&read[..20])), &mut cache),
        &["encoded input"],
        "a shorter one",
    );
    let stepped = model.step(&ids(&[5]), Some(encoded(&read)), &mut cache).unwrap().last_hidden_state;
    let whole = model.forward_with(&ids(&[0, 5]), encoded(&read)).unwrap().last_hidden_state;
    assert!(stepped.iter().zip(&whole[10..]).all(|(a, b)| (a - b).abs() < 1e-5));
    let encoder = Model::<f32>::from_parameters(parse(&fields(json!({}))).unwrap(), &Hashed).unwrap();
    refused(encoder.encode(&ids(&[1])), &["without an encoder"], "an encoder alone");
    refused(encoder.cache(1, 3), &["not a decoder"], "a cache of an encoder");
}

/// An output of its own, the factor before it, the first token: as the files of the class's versions say them.
#[test]
fn files_of_all_versions_are_read() {
    let with = |change: fn(&mut Tensors), settings: Value| {
        let folder = Folder::with_tensors("../families/tiny-t5", change);
        folder.configure(settings);
        Model::load(&folder.0)
    };
    fn own_output(all: &mut Tensors) {
        let words = all["shared.weight"].clone();
        all.insert("lm_head.weight".into(), words);
    }
    let scale = |model: &Model| model.blueprint().output_scale;
    let tied = with(|_| {}, json!({})).unwrap();
    assert!(tied.blueprint().output.is_tied && (scale(&tied) - 12f64.powf(-0.5)).abs() < 1e-15);
    let newer = with(own_output, json!({"scale_decoder_outputs": false})).unwrap();
    let older =
        with(own_output, json!({"scale_decoder_outputs": null, "tie_word_embeddings": false})).unwrap();
    for model in [newer, older] {
        assert!(!model.blueprint().output.is_tied && scale(&model) == 1.0);
    }
    let first =
        json!({"architectures": ["T5WithLMHeadModel"], "decoder_start_token_id": null, "pad_token_id": 2});
    assert_eq!(with(|_| {}, first).unwrap().blueprint().start, 2);
    // Copies and what the class passes over.
    fn copied(all: &mut Tensors) {
        let words = all["shared.weight"].clone();
        for name in ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"] {
            all.insert(name.into(), words.clone());
        }
        let bias = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
        all.insert(bias.into(), (vec![8, 3], vec![0.0; 24]));
    }
    assert!(with(copied, json!({"architectures": null})).unwrap().blueprint().encoder.is_some());
    // The encoder alone, of the same file.
    let encoder = with(own_output, json!({"architectures": ["T5EncoderModel"]})).unwrap();
    assert_eq!(encoder.blueprint().family, Family::T5);
    let lost = |all: &mut Tensors| drop(all.remove("decoder.block.2.layer.1.EncDecAttention.k.weight"));
    refused(
        with(lost, json!({})),
        &["missing", "decoder.block.2.layer.1.EncDecAttention.k"],
        "a lost tensor",
    );
    let lost = |all: &mut Tensors| drop(all.remove("encoder.final_layer_norm.weight"));
    refused(with(lost, json!({})), &["missing", "encoder.final_layer_norm"], "a lost norm of the encoder");
    refused(with(|_| {}, json!({"num_layers": 1})), &["unexpected", "encoder.block.1"], "a layer too many");
}
