//! XLNet: settings that its class does not have, or that are not supported, and tensors that do not fit.

use super::folder::{Folder, Tensors};
use super::*;
use roformer::blueprint::Direction;

/// A small model with some fields set.
fn fields(fields: Value) -> Value {
    let mut config = json!({
        "model_type": "xlnet", "vocab_size": 40, "d_model": 16, "n_head": 4, "n_layer": 2, "d_inner": 24,
    });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

fn with(change: impl FnOnce(&mut Tensors)) -> Folder {
    Folder::with_tensors("../families/tiny-xlnet", change)
}

#[test]
fn what_xlnet_does_not_support_is_named() {
    for (config, words) in [
        (json!({"attn_type": "uni"}), &["attn_type", "uni", "bi"][..]),
        (json!({"attn_type": "tri"}), &["attn_type", "tri", "bi"]),
        (json!({"attn_type": 2}), &["attn_type", "2"]),
        (json!({"mem_len": -1}), &["mem_len", "-1"]),
        (json!({"mem_len": "long"}), &["mem_len", "long"]),
        (json!({"bi_data": true}), &["bi_data", "true"]),
        (json!({"untie_r": false}), &["untie_r", "false"]),
        (json!({"clamp_len": 1.5}), &["clamp_len", "1.5"]),
        (json!({"clamp_len": LIMIT}), &["the clamp of xlnet", "16777216"]),
        (json!({"d_head": 5}), &["d_head", "5", "4"]),
        (json!({"d_model": 18}), &["d_model", "18", "4"]),
        (json!({"d_model": 15, "n_head": 5}), &["d_model", "15", "2"]),
        (json!({"n_layer": 0}), &["n_layer", "0"]),
        (json!({"ff_activation": "mish"}), &["ff_activation", "mish"]),
        (json!({"summary_type": "attn"}), &["summary_type", "attn", "last"]),
        (json!({"summary_activation": "softplus"}), &["summary_activation", "softplus"]),
        (
            json!({"summary_use_proj": false, "architectures": ["XLNetForSequenceClassification"]}),
            &["summary_use_proj", "false"],
        ),
        (json!({"architectures": ["XLNetForQuestionAnswering"]}), &["architectures", "Simple"]),
        (json!({"architectures": ["BertModel"]}), &["architectures", "BertModel", "xlnet"]),
        (json!({"linear_attention": {}, "model_type": "xlnet-linear"}), &["linear", "segments"]),
    ] {
        refused(parse(&fields(config.clone())), words, config);
    }
    for config in [
        json!({"mem_len": null, "reuse_len": 9, "same_length": true, "use_mems_eval": true}),
        json!({"mem_len": 512, "clamp_len": -5, "bi_data": false, "untie_r": true, "d_head": 4}),
        json!({"summary_use_proj": false, "architectures": ["XLNetLMHeadModel"]}),
    ] {
        parse(&fields(config.clone())).unwrap_or_else(|error| panic!("{config}: {error}"));
    }
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    assert!(Model::load(&with(|_| {}).0).is_ok());
    for name in [
        "transformer.mask_emb",
        "transformer.layer.0.rel_attn.q",
        "transformer.layer.1.rel_attn.o",
        "transformer.layer.0.rel_attn.r",
        "transformer.layer.1.rel_attn.r_s_bias",
        "transformer.layer.0.rel_attn.r_w_bias",
        "transformer.layer.0.rel_attn.seg_embed",
        "transformer.layer.1.ff.layer_norm.bias",
        "lm_loss.bias",
    ] {
        refused(Model::load(&with(|all| drop(all.remove(name))).0), &["missing", name], name);
    }
    for (name, found, expected) in [
        ("transformer.layer.0.rel_attn.k", "[4, 3, 12]", "[12, 3, 4]"),
        ("transformer.layer.1.rel_attn.r", "[4, 3, 12]", "[12, 3, 4]"),
        ("transformer.layer.0.rel_attn.seg_embed", "[4, 3, 2]", "[2, 3, 4]"),
        ("transformer.layer.0.rel_attn.r_r_bias", "[4, 3]", "[3, 4]"),
        ("transformer.mask_emb", "[12, 1, 1]", "[1, 1, 12]"),
    ] {
        let wrong = with(|all| all.get_mut(name).unwrap().0.reverse());
        refused(Model::load(&wrong.0), &[name, found, expected], name);
    }
    let more = with(|all| {
        all.insert("transformer.layer.0.rel_attn.q.weight".into(), (vec![1], vec![1.0]));
    });
    refused(Model::load(&more.0), &["unexpected", "rel_attn.q.weight"], "a tensor that nothing asks for");
}

/// Any numbers can be segments, since they are compared; but one for each token.
#[test]
fn segments_are_numbers_of_any_size() {
    let model = Model::load(&with(|_| {}).0).unwrap();
    let run = |types: &[u32]| {
        let input = Input { ids: &[3, 9, 4], batch: 1, token_types: Some(types), mask: None };
        model.forward(&input).map(|output| output.last_hidden_state)
    };
    let named = run(&[7, 7, 16_000_000]).unwrap();
    assert_eq!(named, run(&[0, 0, 1]).unwrap());
    assert_ne!(named, run(&[0, 1, 1]).unwrap());
    refused(run(&[0, 1]), &["token types", "2", "3"], "too few segments");
    refused(run(&[0, 0, u32::MAX]), &["token type", "4294967295"], "a segment beyond all sizes");
}

/// What only a blueprint made by hand asks for: segments where no tensor has a name for them, or beside a cache.
#[test]
fn segments_are_where_they_can_be() {
    let bert = Blueprint::from_config(small(json!({"model_type": "bert"})).to_string().as_bytes()).unwrap();
    let error = Blueprint { has_segment_scores: true, ..bert }.check();
    refused(error, &["scores by segment", "bert", "XLNet"], "a BERT with scores by segment");
    let own = Blueprint::from_config(fields(json!({})).to_string().as_bytes()).unwrap();
    let causal = Blueprint { direction: Direction::Causal, ..own };
    let model = Model::<f32>::from_parameters(causal, &Hashed).unwrap();
    let mut cache = model.cache(1, 4).unwrap();
    let input = Input { ids: &[3, 9, 4], batch: 1, token_types: None, mask: None };
    assert!(model.step(&input, None, &mut cache).is_ok());
    let input = Input { ids: &[3], token_types: Some(&[1]), ..input };
    refused(model.step(&input, None, &mut cache), &["token types", "cache"], "segments with a cache");
}
