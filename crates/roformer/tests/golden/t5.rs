//! T5's bias is the zoo's: its buckets are those of transformers, and a model of another family with this encoding gives a
//! T5's numbers from a T5's weights.

use super::case::{close, flags, flat, folder, read, tensor};
use super::families::{Stored, model};
use roformer::blueprint::{Blueprint, Family, HeadKind, Kept};
use roformer::encoding::bucket;
use roformer::model::{Input, Model, Parameters};
use roformer::ops::Real;
use serde_json::Value;

/// Every distance from -200 to 200, in both directions.
#[test]
fn buckets_are_those_of_transformers() {
    let bytes = std::fs::read(folder("families").join("t5_buckets.json")).unwrap();
    let rules: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert!(rules.len() >= 10);
    for rule in &rules {
        let size = |field: &str| rule[field].as_u64().unwrap() as usize;
        let (buckets, furthest) = (size("buckets"), size("furthest"));
        for (field, is_causal) in [("both", false), ("causal", true)] {
            for (index, &wanted) in flat(&rule[field]).iter().enumerate() {
                // The list is by the place of the key less that of the query.
                let distance = 200 - index as i64;
                let got = bucket(distance, is_causal, buckets, furthest);
                assert_eq!(got, wanted, "{buckets} buckets to {furthest}, {field}, {distance}");
            }
        }
    }
}

/// A T5's tensors under the names of Llama's and the encoding's.
struct AsLlama<'a>(Kept<'a, Stored<'a>>);

impl<T: Real> Parameters<T> for AsLlama<'_> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> roformer::Result<()> {
        let name = match name {
            "model.embed_tokens.weight" => "transformer.shared.weight".into(),
            "model.norm.weight" => "transformer.encoder.final_layer_norm.weight".into(),
            "position.t5.weight" => {
                "transformer.encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight".into()
            }
            name => {
                let rest = name.strip_prefix("model.layers.").unwrap();
                let (layer, part) = rest.split_once('.').unwrap();
                let part = match part.strip_suffix(".weight").unwrap() {
                    "self_attn.q_proj" => "layer.0.SelfAttention.q",
                    "self_attn.k_proj" => "layer.0.SelfAttention.k",
                    "self_attn.v_proj" => "layer.0.SelfAttention.v",
                    "self_attn.o_proj" => "layer.0.SelfAttention.o",
                    "input_layernorm" => "layer.0.layer_norm",
                    "mlp.gate_proj" => "layer.1.DenseReluDense.wi_0",
                    "mlp.up_proj" => "layer.1.DenseReluDense.wi_1",
                    "mlp.down_proj" => "layer.1.DenseReluDense.wo",
                    "post_attention_layernorm" => "layer.1.layer_norm",
                    other => panic!("{other}"),
                };
                format!("transformer.encoder.block.{layer}.{part}.weight")
            }
        };
        self.0.read(&name, shape, out)
    }
}

#[test]
fn another_family_with_this_encoding_gives_its_numbers() {
    let (cases, outputs) = read("families");
    let mut count = 0;
    for json in cases["cases"].as_array().unwrap() {
        let own = model(json);
        // Llama's block has a gate.
        let t5 = own.blueprint();
        if t5.family != Family::T5 || !t5.is_gated {
            continue;
        }
        let llama = Blueprint { family: Family::Llama, head: HeadKind::None, ..t5.clone() };
        let source = AsLlama(Kept { blueprint: t5, source: Stored(t5) });
        let model = Model::<f32>::from_parameters(llama, &source).unwrap();
        let (ids, length) = (flat(&json["ids"]), json["length"].as_u64().unwrap() as usize);
        let mask = flags(&json["mask"]);
        let (batch, mask) = (ids.len() / length, mask.as_deref());
        let hidden = |model: &Model<f32>| {
            let input = Input { ids: &ids, batch, token_types: None, mask };
            model.forward(&input).unwrap().last_hidden_state
        };
        let got = hidden(&model);
        assert!(got == hidden(&own), "{}", json["name"]);
        let what = format!("{}.last_hidden_state", json["name"].as_str().unwrap());
        close(&what, &got, &tensor(&outputs, &what), &json["outputs"]["last_hidden_state"], mask);
        count += 1;
    }
    assert!(count >= 2, "{count}");
}
