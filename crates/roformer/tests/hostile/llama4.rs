//! Llama 4: what its configurations may say, and what is refused by name.

use super::*;
use roformer::blueprint::{NoPe, Temperature};

/// A small one with some fields set.
fn llama4(fields: Value) -> Value {
    let mut config = small(json!({
        "model_type": "llama4_text", "head_dim": 8, "num_key_value_heads": 1, "intermediate_size_mlp": 12, "moe_layers": [],
        "num_hidden_layers": 4,
    }));
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

#[test]
fn experts_are_refused_by_name() {
    let expected = ["config.json", "moe_layers", "experts"];
    for list in [json!([0]), json!([3, 9]), json!(null), json!(2), json!(["0"]), json!([-1]), json!({})] {
        refused(parse(&llama4(json!({"moe_layers": list}))), &expected, list);
    }
    let mut without = llama4(json!({}));
    without.as_object_mut().unwrap().remove("moe_layers");
    refused(parse(&without), &expected, "no list");
    without["interleave_moe_layer_step"] = json!(4);
    refused(parse(&without), &expected, "the last of four");
    // None among the layers that there are.
    without["interleave_moe_layer_step"] = json!(5);
    parse(&without).unwrap();
    parse(&llama4(json!({"moe_layers": [4, 7]}))).unwrap();
    refused(parse(&json!({"model_type": "llama4"})), &["model_type", "text part", "experts"], "llama4");
}

#[test]
fn layers_are_of_the_kind_that_the_file_says() {
    let still = |fields: Value| parse(&llama4(fields)).unwrap().nope.map_or(Vec::new(), |nope| nope.layers);
    let cut = |fields: Value| parse(&llama4(fields)).unwrap().local.map_or(Vec::new(), |local| local.layers);
    let usual = vec![false, false, false, true];
    assert_eq!(still(json!({})), usual);
    assert_eq!(still(json!({"no_rope_layers": []})), usual);
    assert_eq!(
        still(json!({"no_rope_layers": null, "no_rope_layer_interval": 2})),
        [false, true, false, true]
    );
    assert_eq!(still(json!({"no_rope_layers": [0, 1, 1, 0, 0, 1]})), [true, false, false, true]);
    assert!(still(json!({"no_rope_layers": [1, 1, 1, 1]})).is_empty());
    assert_eq!(cut(json!({})), [true, true, true, false]);
    assert!(cut(json!({"layer_types": vec!["full_attention"; 4]})).is_empty());
    let kinds = json!(["full_attention", "chunked_attention", "full_attention", "chunked_attention"]);
    assert_eq!(cut(json!({"layer_types": kinds})), [false, true, false, true]);
    let temperature = |fields: Value| parse(&llama4(fields)).unwrap().nope.and_then(|nope| nope.temperature);
    assert_eq!(temperature(json!({})), Some(Temperature { every: 8192, strength: 0.1 }));
    assert_eq!(temperature(json!({"attn_temperature_tuning": false})), None);
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    for (field, values) in [
        ("attention_chunk_size", vec![json!(0), json!(null), json!(-3), json!("8"), json!(LIMIT + 1)]),
        ("floor_scale", vec![json!(0), json!(1.5), json!([])]),
        ("attn_scale", vec![json!(-0.1), json!("0.1"), json!(true)]),
        ("attn_temperature_tuning", vec![json!(4), json!("yes")]),
        ("use_qk_norm", vec![json!(1)]),
        ("no_rope_layers", vec![json!([1, 1]), json!([1, 1, 1, 2]), json!("1"), json!([null, 1, 1, 1])]),
        ("no_rope_layer_interval", vec![json!(0), json!("4")]),
        (
            "layer_types",
            vec![json!(vec!["sliding_attention"; 4]), json!(vec!["full_attention"; 3]), json!(3)],
        ),
        ("head_dim", vec![json!(0), json!(7), json!("8")]),
        ("intermediate_size_mlp", vec![json!(0)]),
        ("interleave_moe_layer_step", vec![json!(0)]),
    ] {
        for value in values {
            // The step counts where layers are not listed.
            let list = if field == "interleave_moe_layer_step" { json!(null) } else { json!([]) };
            let file = llama4(json!({"moe_layers": list, field: value}));
            refused(parse(&file), &[field.trim_end_matches("_dim")], (field, &value));
        }
    }
    let part = json!({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 2.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 16, "partial_rotary_factor": 0.5}});
    refused(parse(&llama4(part)), &["partial_rotary_factor"], "a part");
    refused(
        parse(&llama4(json!({"architectures": ["LlamaForCausalLM"]}))),
        &["architectures"],
        "Llama's class",
    );
    // By hand.
    let good = parse(&llama4(json!({}))).unwrap();
    let nope = good.nope.clone().unwrap();
    let never = Some(Temperature { every: 0, strength: 0.1 });
    let bad = Blueprint { nope: Some(NoPe { temperature: never, ..nope }), ..good.clone() };
    refused(made::<f32>(bad, HeadKind::None, &Zeros), &["pieces"], "no tokens");
    let mut bad = good;
    bad.local.as_mut().unwrap().chunk = Some(0);
    refused(made::<f32>(bad, HeadKind::None, &Zeros), &["pieces"], "empty pieces");
}

/// More or fewer layers listed than there are, pieces longer than any text, padding alone: an answer, never a panic.
#[test]
fn odd_texts_have_an_answer() {
    for fields in [
        json!({"attention_chunk_size": 1, "floor_scale": 1, "attn_scale": 1e30}),
        json!({"attention_chunk_size": LIMIT, "floor_scale": LIMIT, "attn_scale": 0.0}),
        json!({"attention_chunk_size": 3, "no_rope_layers": [0, 0, 0, 0], "floor_scale": 2}),
    ] {
        let blueprint = parse(&llama4(fields)).unwrap();
        let mut odd = blueprint.clone();
        odd.nope.iter_mut().for_each(|nope| nope.layers.truncate(1));
        for blueprint in [blueprint, odd] {
            let model = made::<f32>(blueprint, HeadKind::CausalLm, &Hashed).unwrap();
            for mask in [[false; 7], [true; 7], [false, false, false, false, false, false, true]] {
                let input = Input { mask: Some(&mask), ..ids(&[1, 2, 3, 4, 5, 6, 7]) };
                let whole = model.forward(&input).unwrap().last_hidden_state;
                let mut cache = model.cache(1, 7).unwrap();
                model.step(&input, None, &mut cache).unwrap();
                assert!(mask.contains(&false) || whole.iter().all(|x| x.is_finite()));
            }
        }
    }
}
