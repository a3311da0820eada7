//! What a `config.json` means where transformers 5.22.2 does not say: types that it lacks, models that are not rotary,
//! fields that are missing or strange. What it does say is compared in `golden.rs` and by `golden/rope_sweep.py`.

#![cfg(feature = "hf")]

use rope::config::{Encoding, parse};
use rope::{Error, HfConfig, HfOptions, Pairing, Rope, Schedule};
use serde_json::{Value, json};

fn read(config: &Value) -> HfConfig {
    let read = HfConfig::read(config.to_string().as_bytes(), &HfOptions::default());
    read.unwrap_or_else(|error| panic!("{config}: {error}"))
}

/// The one rope of a model.
fn rope(config: &Value) -> Rope {
    read(config).layers[0].rope.clone().unwrap_or_else(|| panic!("{config}: no rope"))
}

fn refused(config: &Value) -> Error {
    HfConfig::read(config.to_string().as_bytes(), &HfOptions::default()).expect_err(&config.to_string())
}

fn notes(config: &Value) -> String {
    read(config).warnings.join("\n")
}

/// base^(−2j/d) for the d features that turn, the formula that all of these types' own code has.
fn power_law(base: f64, dim: usize) -> Vec<f64> {
    (0..dim / 2).map(|pair| base.powf(-2.0 * pair as f64 / dim as f64)).collect()
}

/// Asserts that of heads of `head_dim` features `dim` turn, in this pairing, at these frequencies.
fn turns(config: &Value, [head_dim, dim]: [usize; 2], pairing: Pairing, theta: &[f64]) {
    let rope = rope(config);
    assert_eq!([rope.head_dim(), rope.rotary_dim()], [head_dim, dim], "{config}");
    assert_eq!(rope.pairing(), pairing, "{config}");
    let ours = rope.frequencies(None);
    for (pair, (ours, theirs)) in ours.inv_freq().iter().zip(theta).enumerate() {
        assert!((ours / theirs - 1.0).abs() < 1e-12, "{config}: pair {pair}: {ours} {theirs}");
    }
    assert_eq!((ours.inv_freq().len(), ours.attention_factor()), (theta.len(), 1.0), "{config}");
}

/// Every row of the table whose class transformers lacks, with the sizes of a published model. The formula is that of the
/// model's own modelling file.
#[test]
fn types_that_transformers_lacks_turn_as_their_own_code_does() {
    use Pairing::{Half, Interleaved, InterleavedToHalf};
    // tiiuae/falcon-40b, falcon-7b (modelling_RW.py): RotaryEmbedding(hidden_size // n_head, base=10000).
    let config = json!({"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "alibi": false});
    turns(&config, [64, 64], Half, &power_law(1e4, 64));
    let config = json!({"model_type": "RefinedWebModel", "hidden_size": 4544, "n_head": 71});
    turns(&config, [64, 64], Half, &power_law(1e4, 64));
    // 01-ai/Yi-6B (modeling_yi.py): YiRotaryEmbedding(hidden_size // heads, base=rope_theta).
    let config =
        json!({"model_type": "Yi", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e6});
    turns(&config, [128, 128], Half, &power_law(5e6, 128));
    // baichuan-inc/Baichuan2-7B (modeling_baichuan.py): RotaryEmbedding(hidden_size // heads, base=10000).
    let config = json!({"model_type": "baichuan", "hidden_size": 4096, "num_attention_heads": 32,
        "max_position_embeddings": 4096, "model_max_length": 4096});
    turns(&config, [128, 128], Half, &power_law(1e4, 128));
    // THUDM/chatglm2-6b, chatglm3-6b (modeling_chatglm.py): RotaryEmbedding(kv_channels // 2), so half of the head turns;
    // chatglm3-6b-32k and glm-4-9b multiply the base by rope_ratio.
    let config = json!({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
        "seq_length": 32768, "original_rope": true});
    turns(&config, [128, 64], Interleaved, &power_law(1e4, 64));
    let config = json!({"model_type": "chatglm", "kv_channels": 128, "rope_ratio": 50});
    turns(&config, [128, 64], Interleaved, &power_law(5e5, 64));
    // deepseek-ai/deepseek-moe-16b-base (modeling_deepseek.py): base=rope_theta, as Llama.
    let config =
        json!({"model_type": "deepseek", "hidden_size": 2048, "num_attention_heads": 16, "rope_theta": 1e4});
    turns(&config, [128, 128], Half, &power_law(1e4, 128));
    // deepseek-ai/deepseek-vl2: its language_config is a DeepSeek-V2, whose slice of qk_rope_head_dim turns.
    let config = json!({"model_type": "deepseek_vl_v2", "language_config": {"model_type": "deepseek_v2",
        "hidden_size": 2560, "num_attention_heads": 32, "qk_rope_head_dim": 64}});
    turns(&config, [64, 64], Interleaved, &power_law(1e4, 64));
    // internlm/internlm-7b (modeling_internlm.py): `rotary` has the base; "dynamic" with a scaling_factor of 1 leaves it
    // alone up to max_position_embeddings.
    let config = json!({"model_type": "internlm", "hidden_size": 4096, "num_attention_heads": 32,
        "max_position_embeddings": 2048, "rotary": {"base": 20000, "type": "dynamic"}});
    turns(&config, [128, 128], Half, &power_law(2e4, 128));
    let stretched = rope(&config).frequencies(4096).inv_freq()[63];
    assert!((power_law(2e4, 128)[63] / stretched - 2.0).abs() < 1e-12, "base·(4096/2048)^(d/(d−2))");
    // internlm/internlm2-7b (modeling_internlm2.py): base=rope_theta, rope_scaling as Llama's.
    let config =
        json!({"model_type": "internlm2", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 1e6});
    turns(&config, [128, 128], Half, &power_law(1e6, 128));
    // OpenGVLab/InternVL2-8B: its llm_config is an InternLM2.
    let config = json!({"model_type": "internvl_chat", "llm_config": {"model_type": "internlm2", "hidden_size": 4096,
        "num_attention_heads": 32, "rope_theta": 1e6}});
    turns(&config, [128, 128], Half, &power_law(1e6, 128));
    // moonshotai/Kimi-K2-Base (modeling_deepseek.py): qk_rope_head_dim of DeepSeek-V3's code.
    let config = json!({"model_type": "kimi_k2", "hidden_size": 7168, "num_attention_heads": 64,
        "qk_rope_head_dim": 64, "rope_theta": 5e4});
    turns(&config, [64, 64], InterleavedToHalf, &power_law(5e4, 64));
    // liuhaotian/llava-v1.6-vicuna-7b: a Llama with its fields at the top.
    let config = json!({"model_type": "llava_llama", "hidden_size": 4096, "num_attention_heads": 32});
    turns(&config, [128, 128], Half, &power_law(1e4, 128));
    // openbmb/MiniCPM-2B (modeling_minicpm.py): base=rope_theta, 10000 where there is none.
    let config = json!({"model_type": "minicpm", "hidden_size": 2304, "num_attention_heads": 36});
    turns(&config, [64, 64], Half, &power_law(1e4, 64));
    // jingyaogong/minimind (model_minimind.py): precompute_freqs_cis(head_dim, rope_base=rope_theta).
    let config =
        json!({"model_type": "minimind", "hidden_size": 512, "num_attention_heads": 8, "rope_theta": 1e6});
    turns(&config, [64, 64], Half, &power_law(1e6, 64));
    // microsoft/phi-1_5 before it was in transformers (modeling_phi.py): rotary_dim features, base 10000.
    let config = json!({"model_type": "phi-msft", "n_embd": 2048, "n_head": 32, "n_positions": 2048, "rotary_dim": 32});
    turns(&config, [64, 32], Half, &power_law(1e4, 32));
    // Qwen/Qwen-72B (modeling_qwen.py): RotaryEmbedding(kv_channels · rotary_pct, base=rotary_emb_base).
    let config = json!({"model_type": "qwen", "kv_channels": 128, "rotary_pct": 1.0, "rotary_emb_base": 1000000,
        "seq_length": 32768});
    turns(&config, [128, 128], Half, &power_law(1e6, 128));
    // stabilityai/stablelm-3b-4e1t before it was in transformers (modeling_stablelm_epoch.py): head_dim · rope_pct.
    let config = json!({"model_type": "stablelm_epoch", "hidden_size": 2560, "num_attention_heads": 32,
        "rope_pct": 0.25, "rope_theta": 10000});
    turns(&config, [80, 20], Half, &power_law(1e4, 20));
    let config = json!({"model_type": "stablelm_epoch", "hidden_size": 2560, "num_attention_heads": 32});
    turns(&config, [80, 20], Half, &power_law(1e4, 20));
    // xverse/XVERSE-13B (modeling_xverse.py): RotaryEmbedding(hidden_size // heads, base=10000).
    let config = json!({"model_type": "xverse", "hidden_size": 5120, "num_attention_heads": 40});
    turns(&config, [128, 128], Half, &power_law(1e4, 128));
}

#[test]
fn chatglm_6b_with_its_two_positions_is_refused_by_name() {
    let error = refused(&json!({"model_type": "chatglm", "position_encoding_2d": true})).to_string();
    assert!(error.contains("position_encoding_2d"), "{error}");
    let half = json!({"model_type": "chatglm", "kv_channels": 128, "original_rope": false});
    assert_eq!(rope(&half).pairing(), Pairing::Half);
}

#[test]
fn a_base_beside_no_dictionary_counts_where_the_class_reads_it() {
    for (kind, default) in
        [("gpt_oss", 150_000.0), ("openai_privacy_filter", 150_000.0), ("bailing_hybrid", 6e6)]
    {
        assert_eq!(rope(&json!({"model_type": kind})).base(), default, "{kind}");
        let config = json!({"model_type": kind, "rope_theta": 12_345.0});
        assert_eq!(rope(&config).base(), 12_345.0, "{kind}");
        assert!(!notes(&config).contains("ignored"), "{kind}: {}", notes(&config));
    }
    assert!(
        matches!(rope(&json!({"model_type": "gpt_oss"})).schedule(), Schedule::Yarn(yarn) if yarn.factor == 32.0)
    );
}

#[test]
fn what_the_file_leaves_out_is_its_classs() {
    // Gemma 3 4B's file has neither heads nor a length.
    let config = json!({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window": 1024}});
    let gemma = read(&config);
    assert_eq!(gemma.max_position_embeddings, Some(131_072));
    assert!(notes(&config).contains("131072"), "{}", notes(&config));
    assert!(gemma.layers.iter().all(|layer| layer.rope.as_ref().unwrap().head_dim() == 256));
    // Of the rules that need a length, all have one.
    let dynamic = json!({"model_type": "llama", "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}});
    assert_eq!(rope(&dynamic).schedule(), &Schedule::DynamicNtk { factor: 2.0, trained_length: 2048 });
    assert_eq!(rope(&dynamic).head_dim(), 128);
    // A type that is not known has no class.
    assert_eq!(read(&json!({"model_type": "mystery", "head_dim": 64})).max_position_embeddings, None);
}

#[test]
fn minimind_reads_its_own_setting_and_no_other() {
    let config = |more: Value| {
        let mut config = json!({"model_type": "minimind", "hidden_size": 512, "num_attention_heads": 8});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let scaled = rope(&config(json!({"inference_rope_scaling": true})));
    let Schedule::Yarn(yarn) = scaled.schedule() else { panic!("{:?}", scaled.schedule()) };
    assert_eq!((yarn.factor, yarn.original_length, yarn.attention_factor()), (16.0, 2048, 1.0));
    let short = config(json!({"inference_rope_scaling": true, "max_position_embeddings": 2048}));
    assert_eq!(rope(&short).schedule(), &Schedule::Default);
    let ignored = config(json!({"rope_scaling": {"type": "linear", "factor": 4.0}}));
    assert_eq!(rope(&ignored).schedule(), &Schedule::Default);
    assert!(notes(&ignored).contains("inference_rope_scaling"));
}

#[test]
fn pythons_numbers_are_refused_where_they_are_used_and_nowhere_else() {
    let text = "\u{feff}{\"model_type\": \"llama\", \"head_dim\": 64, \"rope_theta\": 1e4, \"router_bias\": [NaN, -Infinity], \
        \"name\": \"NaN\", \"limit\": Infinity}";
    let set = Rope::from_hf(text.as_bytes()).unwrap();
    assert_eq!(set.only().unwrap().head_dim(), 64);
    for (field, text) in [
        ("rope_theta", r#"{"model_type": "llama", "head_dim": 64, "rope_theta": Infinity}"#),
        ("head_dim", r#"{"model_type": "llama", "head_dim": NaN}"#),
        (
            "rope_scaling.factor",
            r#"{"model_type": "llama", "head_dim": 64, "rope_scaling": {"type": "linear", "factor": -Infinity}}"#,
        ),
        ("rope_scaling", r#"{"model_type": "llama", "head_dim": 64, "rope_scaling": NaN}"#),
        ("model_type", r#"{"model_type": NaN, "head_dim": 64}"#),
    ] {
        let error = Rope::from_hf(text.as_bytes()).unwrap_err();
        assert!(matches!(&error, Error::Field { field: named, .. } if named == field), "{text}: {error}");
        let word = if text.contains("NaN") { "NaN" } else { "Infinity" };
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(parse(b"{\"a\": Infinity}").unwrap(), json!({"a": "Infinity"}));
}

#[test]
fn models_that_are_not_rotary_are_named_for_what_they_are() {
    let sizes = json!({"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 512});
    let with = |more: Value| {
        let mut config = sizes.clone();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    for (more, encoding) in [
        (json!({"model_type": "bert"}), Encoding::Learned),
        (json!({"model_type": "bert", "position_embedding_type": "relative_key"}), Encoding::Relative),
        (json!({"model_type": "bert", "position_embedding_type": "alibi"}), Encoding::Alibi),
        (json!({"model_type": "gpt2", "n_embd": 768, "n_head": 12}), Encoding::Learned),
        (json!({"model_type": "t5", "d_model": 512, "num_heads": 8}), Encoding::Bias),
        (json!({"model_type": "bloom"}), Encoding::Alibi),
        (json!({"model_type": "mpt", "attn_config": {"alibi": true}}), Encoding::Alibi),
        (json!({"model_type": "marian"}), Encoding::Sinusoidal),
        (json!({"model_type": "deberta-v2"}), Encoding::Relative),
        (json!({"model_type": "mamba"}), Encoding::None),
        (json!({"model_type": "resnet"}), Encoding::Other),
        (json!({"model_type": "pixtral"}), Encoding::Axes),
        (json!({"model_type": "esm", "position_embedding_type": "absolute"}), Encoding::Learned),
        (json!({"model_type": "esm"}), Encoding::Learned),
        (json!({"model_type": "falcon", "alibi": true}), Encoding::Alibi),
        (json!({"model_type": "granitemoehybrid", "position_embedding_type": "nope"}), Encoding::None),
        (json!({"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40}), Encoding::Alibi),
        (
            json!({"model_type": "roformer-alibi", "position_encoding": "alibi"}),
            Encoding::Named("alibi".into()),
        ),
        (json!({"model_type": "llama-t5", "position_encoding": "t5"}), Encoding::Named("t5".into())),
    ] {
        let config = with(more);
        let read = read(&config);
        assert_eq!(read.encoding, encoding, "{config}");
        assert!(read.layers.iter().all(|layer| layer.rope.is_none()), "{config}");
        let error = Rope::from_hf(config.to_string().as_bytes()).unwrap_err();
        assert!(matches!(&error, Error::NotRotary { encoding: named, .. } if *named == encoding), "{error}");
        let words = [config["model_type"].as_str().unwrap().to_string(), encoding.to_string()];
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }
    for rotary in [
        json!({"model_type": "esm", "position_embedding_type": "rotary"}),
        json!({"model_type": "baichuan"}),
        json!({"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 32}),
        json!({"model_type": "blip-2", "text_config": {"model_type": "llama"}}),
        json!({"model_type": "granitemoehybrid", "position_embedding_type": "rope"}),
    ] {
        assert_eq!(read(&with(rotary)).encoding, Encoding::Rotary);
    }
}

#[test]
fn qwen_1_tells_of_its_own_rules() {
    let config = json!({"model_type": "qwen", "kv_channels": 128, "seq_length": 8192});
    let said = notes(&config);
    for word in ["use_dynamic_ntk", "8192", "2^⌈log2(length/8192) + 1⌉ − 1", "use_logn_attn"] {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    let plain = json!({"model_type": "qwen", "use_dynamic_ntk": false, "use_logn_attn": false});
    assert!(!notes(&plain).contains("use_"), "{}", notes(&plain));
}

#[test]
fn a_head_of_odd_width_is_named_with_its_width() {
    let error = refused(&json!({"model_type": "llama", "head_dim": 127})).to_string();
    assert_eq!(error, "`head_dim` is 127; expected an even number: features turn in pairs");
    let error =
        refused(&json!({"model_type": "llama", "hidden_size": 762, "num_attention_heads": 6})).to_string();
    assert!(error.contains("hidden_size") && error.contains("127"), "{error}");
    // A part of an odd head may well turn.
    let config = json!({"model_type": "stablelm", "head_dim": 127, "partial_rotary_factor": 0.5});
    assert_eq!(rope(&config).rotary_dim(), 64);
}

#[test]
fn the_receptive_field_is_a_rule_like_the_others() {
    let rule = json!({"rope_type": "receptive-field", "alpha": 0.25, "rho": 0.5});
    for key in ["rope_scaling", "rope_parameters"] {
        let config = json!({"model_type": "llama", "head_dim": 8, key: rule});
        let rope = rope(&config);
        assert_eq!(rope.schedule(), &Schedule::ReceptiveField { alpha: 0.25, rho: 0.5 });
        for (ours, theta) in rope.frequencies(None).inv_freq().iter().zip(power_law(1e4, 8)) {
            assert!((ours - (0.25 / 100.0 + 0.75 * theta)).abs() < 1e-15);
        }
    }
    let error = refused(
        &json!({"model_type": "llama", "head_dim": 8, "rope_scaling": {"rope_type": "receptive-field", "alpha": 1}}),
    );
    assert!(error.to_string().contains("rope_scaling.rho"), "{error}");
    // A model that was trained with one here.
    let own = json!({"model_type": "roformer-receptive", "position_encoding": "receptive", "hidden_size": 64,
        "num_attention_heads": 4});
    assert_eq!(rope(&own).schedule(), &Schedule::ReceptiveField { alpha: 0.1, rho: 0.5 });
    assert!(notes(&own).contains("position.receptive"), "{}", notes(&own));
}
