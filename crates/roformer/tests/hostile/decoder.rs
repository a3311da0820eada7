//! Decoders: what they do not support is refused by name; what does not fit is refused before memory is asked for.

use super::folder::{Folder, Tensors};
use super::*;
use roformer::encoding::{Encoding, Rotary};

/// A small decoder, with some fields set.
fn fields(fields: Value) -> Value {
    let mut config = json!({
        "model_type": "llama", "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 2, "intermediate_size": 24,
    });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

fn read(config: &Value) -> Result<Blueprint> {
    parse(config)
}

fn decoder() -> Model {
    Model::from_parameters(read(&fields(json!({}))).unwrap(), &Hashed).unwrap()
}

fn with(change: impl FnOnce(&mut Tensors)) -> Folder {
    Folder::with_tensors("../decoder/tiny-llama", change)
}

#[test]
fn what_a_decoder_does_not_support_is_named() {
    for (config, words) in [
        (json!({"model_type": "mixtral"}), &["model_type", "mixtral", "experts"][..]),
        (json!({"model_type": "qwen3_moe"}), &["qwen3_moe", "experts"]),
        (json!({"model_type": "gemma3"}), &["model_type", "gemma3", "llama"]),
        (json!({"model_type": 5}), &["model_type", "5"]),
        (json!({"model_type": "minimind", "use_moe": true}), &["use_moe", "experts"]),
        (json!({"model_type": "mistral", "sliding_window": 0}), &["sliding_window", "0"]),
        (json!({"model_type": "mistral", "sliding_window": "wide"}), &["sliding_window", "wide"]),
        (json!({"model_type": "qwen2", "use_sliding_window": 1}), &["use_sliding_window"]),
        (json!({"layer_types": ["sliding_attention"], "sliding_window": 8}), &["layer_types", "sliding"]),
        (json!({"model_type": "qwen3", "layer_types": ["sliding_attention"]}), &["layer_types", "sliding"]),
        (json!({"layer_types": "full_attention"}), &["layer_types"]),
        (json!({"architectures": ["LlamaForQuestionAnswering"]}), &["architectures", "LlamaForCausalLM"]),
        (json!({"architectures": ["Qwen2ForCausalLM"]}), &["architectures", "Qwen2ForCausalLM"]),
        (json!({"architectures": [7]}), &["architectures"]),
        (json!({"hidden_act": "mish"}), &["hidden_act", "mish", "silu"]),
        (json!({"num_key_value_heads": 3}), &["num_key_value_heads", "3", "4"]),
        (json!({"num_key_value_heads": 8}), &["num_key_value_heads", "8"]),
        (json!({"num_key_value_heads": 0}), &["num_key_value_heads", "0"]),
        (json!({"num_attention_heads": 0}), &["num_attention_heads", "0"]),
        (json!({"hidden_size": 18}), &["hidden_size", "18"]),
        (json!({"head_dim": 7}), &["head_dim", "7"]),
        (json!({"head_dim": LIMIT}), &["head_dim"]),
        (json!({"head_dim": LIMIT + 1}), &["head_dim", "16777217"]),
        (json!({"head_dim": -2}), &["head_dim", "-2"]),
        (json!({"hidden_size": LIMIT * 4}), &["hidden_size"]),
        (json!({"vocab_size": 0}), &["vocab_size", "0"]),
        (json!({"intermediate_size": 1.5}), &["intermediate_size", "1.5"]),
        (json!({"rms_norm_eps": -1}), &["rms_norm_eps", "-1"]),
        (json!({"attention_bias": "yes"}), &["attention_bias", "yes"]),
        (json!({"eos_token_id": "</s>"}), &["eos_token_id"]),
        (json!({"eos_token_id": [2, -1]}), &["eos_token_id", "-1"]),
        (json!({"rope_scaling": {"rope_type": "spiral"}}), &["rope_type", "spiral"]),
        (json!({"rope_scaling": {"rope_type": "linear"}}), &["factor"]),
        (json!({"model_type": "gemma2", "attn_logit_softcapping": 0}), &["attn_logit_softcapping", "0"]),
        (json!({"model_type": "gemma2", "attn_logit_softcapping": "50"}), &["attn_logit_softcapping", "50"]),
        (
            json!({"model_type": "gemma2", "final_logit_softcapping": -1.5}),
            &["final_logit_softcapping", "-1.5"],
        ),
        (
            json!({"model_type": "gemma2", "final_logit_softcapping": 1e300}),
            &["final_logit_softcapping", "1e30"],
        ),
        (
            json!({"model_type": "gemma3_text", "final_logit_softcapping": 1e-40}),
            &["final_logit_softcapping"],
        ),
    ] {
        refused(read(&fields(config.clone())), words, config);
    }
    // What a class passes over is no reason to refuse.
    for config in [
        json!({"sliding_window": 4096, "num_local_experts": 8}),
        json!({"model_type": "qwen2", "use_sliding_window": false, "sliding_window": 4096, "num_key_value_heads": null}),
        json!({"model_type": "mistral", "sliding_window": null, "layer_types": ["full_attention"]}),
        json!({"model_type": "minimind", "use_moe": false, "num_experts": 4, "rope_scaling": {"type": "spiral"}}),
    ] {
        read(&fields(config.clone())).unwrap_or_else(|error| panic!("{config}: {error}"));
    }
}

/// Tensors of another family may have the same names: its class in `architectures` tells them apart.
#[test]
fn a_class_of_another_family_is_refused() {
    for (model_type, class) in [
        ("eurobert", "LlamaForCausalLM"),
        ("llama", "EuroBertForMaskedLM"),
        ("mistral", "LlamaForCausalLM"),
        ("nomic_bert", "BertForMaskedLM"),
        ("bert", "RobertaForMaskedLM"),
        ("roformer", "BertModel"),
        ("modernbert", "RoFormerModel"),
        ("gpt2", "GPTJForCausalLM"),
    ] {
        let config = json!({"model_type": model_type, "architectures": [class], "hidden_size": 24, "num_attention_heads": 3});
        refused(read(&config), &["architectures", class], &config);
    }
}

/// Which layers have a window, and how far back a token sees through all of them, whole or step by step.
#[test]
fn a_window_is_how_far_a_token_sees() {
    let tokens: Vec<u32> = (0..9).collect();
    for (config, windows) in [
        (json!({"model_type": "mistral"}), [Some(4096); 2]),
        (json!({"model_type": "mistral", "sliding_window": null}), [None; 2]),
        (json!({"model_type": "mistral", "sliding_window": 3}), [Some(3); 2]),
        (json!({"sliding_window": 3}), [None; 2]),
        (json!({"model_type": "qwen2", "sliding_window": 3}), [None; 2]),
        (json!({"model_type": "qwen2", "sliding_window": 3, "use_sliding_window": true}), [None; 2]),
        (
            json!({"model_type": "qwen2", "sliding_window": 3, "use_sliding_window": true, "max_window_layers": 1}),
            [None, Some(3)],
        ),
        (
            json!({
                "model_type": "qwen3", "sliding_window": 3, "use_sliding_window": true,
                "layer_types": ["sliding_attention", "sliding_attention"],
            }),
            [Some(3); 2],
        ),
        (
            json!({
                "model_type": "qwen3", "sliding_window": 3, "use_sliding_window": true, "max_window_layers": 0,
                "layer_types": ["full_attention", "full_attention"],
            }),
            [None; 2],
        ),
    ] {
        let read = read(&fields(config.clone())).unwrap_or_else(|error| panic!("{config}: {error}"));
        let local = |layer: usize| read.local.as_ref().filter(|local| local.layers[layer])?.window;
        assert_eq!([local(0), local(1)], windows, "{config}");
        let model = Model::<f32>::from_parameters(read, &Hashed).unwrap();
        let last = |tokens: &[u32]| {
            let hidden = model.forward(&ids(tokens)).unwrap().last_hidden_state;
            hidden[hidden.len() - model.blueprint().width..].to_vec()
        };
        let whole = last(&tokens);
        // A layer sees two tokens more than its own, two layers four: those from the fifth on.
        for changed in 0..9 {
            let other: Vec<u32> = tokens.iter().map(|&id| if id == changed { 17 } else { id }).collect();
            let is_seen = windows != [Some(3); 2] || changed >= 4;
            assert_eq!(last(&other) != whole, is_seen, "{config}: token {changed}");
        }
        let mut cache = model.cache(1, 20).unwrap();
        model.step(&ids(&tokens[..7]), None, &mut cache).unwrap();
        model.step(&ids(&tokens[7..8]), None, &mut cache).unwrap();
        let step = model.step(&ids(&tokens[8..]), None, &mut cache).unwrap().last_hidden_state;
        assert!(step.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-4), "{config}");
    }
}

#[test]
fn tensors_that_a_decoder_lacks_or_does_not_know_are_named() {
    assert!(Model::load(&with(|_| {}).0).is_ok());
    let up = "model.layers.1.mlp.up_proj.weight";
    let refused_with = |change: &dyn Fn(&mut Tensors), words: &[&str]| {
        let folder = with(|tensors| change(tensors));
        refused(Model::load(&folder.0), words, words);
    };
    refused_with(&|tensors| drop(tensors.remove(up)), &["missing", up]);
    refused_with(&|tensors| drop(tensors.remove("model.norm.weight")), &["missing", "model.norm.weight"]);
    refused_with(
        &|tensors| drop(tensors.remove("lm_head.weight")),
        &["lm_head.weight", "tie_word_embeddings"],
    );
    let extra = "model.layers.0.self_attn.q_norm.weight";
    refused_with(
        &|tensors| drop(tensors.insert(extra.into(), (vec![4], vec![1.0; 4]))),
        &["unexpected", extra],
    );
    refused_with(
        &|tensors| drop(tensors.insert(up.into(), (vec![16, 24], vec![0.0; 16 * 24]))),
        &[up, "[16, 24]", "[24, 16]"],
    );
    for (fields, words) in [
        (json!({"vocab_size": 41}), &["embed_tokens", "[40, 16]", "[41, 16]"][..]),
        (json!({"num_key_value_heads": 1}), &["k_proj", "[8, 16]", "[4, 16]"]),
        (json!({"num_hidden_layers": 3}), &["missing", "layers.2."]),
        (json!({"num_hidden_layers": 1}), &["unexpected", "layers.1."]),
        (json!({"num_hidden_layers": LIMIT}), &["missing", "layers."]),
        (json!({"attention_bias": true}), &["missing", ".bias"]),
        (
            json!({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 4}),
            &["missing", "_norm"],
        ),
        (json!({"architectures": ["LlamaModel"]}), &["unexpected", "lm_head.weight"]),
    ] {
        let folder = with(|_| {});
        folder.configure(fields.clone());
        refused(Model::load(&folder.0), words, fields);
    }
    // A second copy of what is tied, and frequencies that are made anew, are passed over.
    let folder = with(|tensors| {
        let name = "model.layers.0.self_attn.rotary_emb.inv_freq";
        tensors.insert(name.into(), (vec![2], vec![1.0; 2]));
    });
    folder.configure(json!({"tie_word_embeddings": true}));
    assert!(Model::load(&folder.0).is_ok());
}

/// Whether MiniMind norms its heads is in the weights alone.
#[test]
fn a_minimind_is_what_its_weights_say() {
    for (dir, has_norms) in [("../decoder/tiny-llama", false), ("../decoder/tiny-qwen3", true)] {
        let folder = Folder::with_tensors(dir, |_| {});
        folder.configure(json!({"model_type": "minimind", "architectures": ["MiniMindForCausalLM"],
            "rope_parameters": null, "rope_theta": 1e6, "tie_word_embeddings": false}));
        let model = Model::load(&folder.0).unwrap_or_else(|error| panic!("{dir}: {error}"));
        assert_eq!(model.blueprint().head_norms == HeadNorms::Weighted, has_norms);
        assert!(matches!(model.blueprint().encoding, Encoding::Rotary(Rotary { base: 1e6, .. })));
    }
}

#[test]
fn a_decoder_beyond_memory_is_an_error() {
    apart("a_decoder_beyond_memory_is_an_error", || {
        for config in [
            json!({"vocab_size": LIMIT, "hidden_size": 1 << 12, "head_dim": 4}),
            json!({"hidden_size": LIMIT, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2}),
            json!({"intermediate_size": LIMIT, "hidden_size": 1 << 10}),
            json!({"num_attention_heads": 1 << 20, "num_key_value_heads": 1, "head_dim": 16, "hidden_size": 64}),
            json!({"num_hidden_layers": LIMIT, "hidden_size": 256}),
        ] {
            let read = read(&fields(config.clone())).unwrap();
            refused(Model::<f32>::from_parameters(read, &Zeros), &["memory"], config);
        }
        let model = decoder();
        refused(model.cache(1, usize::MAX).map(drop), &["memory", "cache"], "a cache");
        refused(model.cache(usize::MAX, 2).map(drop), &["memory", "cache"], "a cache");
        refused(model.cache(1, 1 << 40).map(drop), &["memory", "cache"], "a cache");
    });
}

#[test]
fn configurations_of_decoders_made_by_hand_are_refused() {
    type Change = fn(&mut Blueprint);
    let changes: [Change; 6] = [
        |config| config.heads = 0,
        |config| config.key_heads = 3,
        |config| config.width = 0,
        |config| config.vocabulary = usize::MAX,
        |config| config.wide = usize::MAX,
        |config| config.heads = usize::MAX - 1,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut config = read(&fields(json!({}))).unwrap();
        change(&mut config);
        refused(Model::<f32>::from_parameters(config, &Zeros), &["config.json"], index);
    }
}

#[test]
fn inputs_that_a_decoder_cannot_take_are_refused() {
    let model = decoder();
    let input = |ids, batch| Input { ids, batch, token_types: None, mask: None };
    refused(model.forward(&input(&[], 1)), &["ids"], "no tokens");
    refused(model.forward(&input(&[1, 2, 3], 2)), &["ids", "batch of 2"], "a batch of two");
    refused(model.forward(&input(&[1, 40], 1)), &["token id", "40"], "an id beyond the vocabulary");
    let types = Input { token_types: Some(&[0, 1]), ..input(&[1, 2], 1) };
    refused(model.forward(&types), &["token type", "1"], "a second segment");
    assert!(model.forward(&Input { token_types: Some(&[0, 0]), ..types }).is_ok());
    refused(model.forward(&Input { mask: Some(&[true]), ..input(&[1, 2], 1) }), &["mask"], "a short mask");
    let call = Call { encoded: Some(Encoded { hidden: &[0.0; 16], mask: None }), ..Call::default() };
    refused(model.call(&input(&[1], 1), call), &["encoded"], "another model's output");
    let call = Call { scores: Scores::At(&[2]), ..Call::default() };
    refused(model.call(&input(&[1, 2], 1), call), &["score", "2"], "a place beyond the text");

    // A cache of another model, for another batch, or full; what is refused leaves it as it was.
    let fields = fields(json!({"num_hidden_layers": 1}));
    let other = Model::<f32>::from_parameters(read(&fields).unwrap(), &Hashed).unwrap();
    let mut cache = other.cache(1, 4).unwrap();
    refused(
        model.step(&input(&[1], 1), None, &mut cache),
        &["cache", "another model"],
        "another model's cache",
    );
    let mut cache = model.cache(1, 3).unwrap();
    refused(model.step(&input(&[1, 2], 2), None, &mut cache), &["batch", "2"], "another batch");
    model.step(&input(&[1, 2], 1), None, &mut cache).unwrap();
    refused(model.step(&input(&[1, 2], 1), None, &mut cache), &["tokens", "1"], "too many tokens");
    assert_eq!(cache.len(), 2);
    assert!(model.step(&input(&[3], 1), None, &mut cache).is_ok());
    // Nothing to attend to is no reason to fail.
    let masked = Input { mask: Some(&[false, false]), ..input(&[1, 2], 1) };
    let output = model.forward(&masked).unwrap();
    assert!(output.last_hidden_state.iter().all(|x| x.is_finite()));
}
