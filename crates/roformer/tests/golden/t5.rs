//! T5's bias is the zoo's: its buckets are those of transformers, and a model of another family with this encoding gives a
//! T5's numbers from a T5's weights. And its decoder, token by token, and what it writes.

use super::case::{close, flags, flat, folder, read, tensor};
use super::families::{Stored, decoded, model};
use roformer::Pipeline;
use roformer::blueprint::{Blueprint, Family, HeadKind, Kept};
use roformer::encoding::bucket;
use roformer::model::{Encoded, Input, Model, Parameters};
use roformer::ops::Real;
use roformer::pipeline::{Embed, Generate};
use serde_json::Value;

/// What `golden/families.py` keeps of T5 alone.
fn own() -> Value {
    let bytes = std::fs::read(folder("families").join("t5.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Every distance from -200 to 200, in both directions.
#[test]
fn buckets_are_those_of_transformers() {
    let json = own();
    let rules = json["buckets"].as_array().unwrap();
    assert!(rules.len() >= 10);
    for rule in rules {
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
        let (t5, part) = match &own.blueprint().encoder {
            Some(encoder) => (&**encoder, "encoder_last_hidden_state"),
            None => (own.blueprint(), "last_hidden_state"),
        };
        // Llama's block has a gate.
        if t5.family != Family::T5 || !t5.is_gated {
            continue;
        }
        let llama = Blueprint { family: Family::Llama, head: HeadKind::None, ..t5.clone() };
        let source = AsLlama(Kept { blueprint: t5, source: Stored(t5) });
        let model = Model::<f32>::from_parameters(llama, &source).unwrap();
        let (ids, length) = (flat(&json["ids"]), json["length"].as_u64().unwrap() as usize);
        let mask = flags(&json["mask"]);
        let (batch, mask) = (ids.len() / length, mask.as_deref());
        let input = Input { ids: &ids, batch, token_types: None, mask };
        let got = model.forward(&input).unwrap().last_hidden_state;
        let wanted = if own.blueprint().encoder.is_some() { own.encode(&input) } else { own.forward(&input) };
        assert!(got == wanted.unwrap().last_hidden_state, "{}", json["name"]);
        let what = format!("{}.{part}", json["name"].as_str().unwrap());
        close(&what, &got, &tensor(&outputs, &what), &json["outputs"][part], mask);
        count += 1;
    }
    assert!(count >= 2, "{count}");
}

/// The first token at once, then two, then one at a time: what a decoder gives with a cache is what it gives at once.
#[test]
fn a_decoder_gives_the_same_token_by_token() {
    let (cases, _) = read("families");
    let mut count = 0;
    for json in cases["cases"].as_array().unwrap().iter().filter(|json| !json["decoder_ids"].is_null()) {
        let (model, written) = (model(json), flat(&json["decoder_ids"]));
        let (ids, length) = (flat(&json["ids"]), json["length"].as_u64().unwrap() as usize);
        let (batch, mask) = (ids.len() / length, flags(&json["mask"]));
        let input = Input { ids: &ids, batch, token_types: None, mask: mask.as_deref() };
        let (hidden, whole) = decoded(&model, &input, &written);
        let hidden = hidden.unwrap();
        let (tokens, width) = (written.len() / batch, model.blueprint().width);
        let mut cache = model.cache(batch, tokens).unwrap();
        while cache.len() < tokens {
            let first = cache.len();
            let step = if first == 1 { 2.min(tokens - 1) } else { 1 };
            let columns = |text: usize| written[text * tokens + first..][..step].to_vec();
            let ids: Vec<u32> = (0..batch).flat_map(columns).collect();
            let next = Input { ids: &ids, batch, token_types: None, mask: None };
            let encoded = Encoded { hidden: &hidden, mask: mask.as_deref() };
            let output = model.step(&next, Some(encoded), &mut cache).unwrap();
            for (text, got) in output.last_hidden_state.chunks(step * width).enumerate() {
                let wanted = &whole.last_hidden_state[(text * tokens + first) * width..][..step * width];
                let most = wanted.iter().fold(1f32, |most, x| most.max(x.abs()));
                let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * most;
                assert!(got.iter().zip(wanted).all(is_near), "{}, token {first}", json["name"]);
            }
        }
        count += 1;
    }
    assert!(count >= 2, "{count}");
}

/// A folder as transformers saved it: what it writes, the likeliest token each time, and how alike its encoder finds texts.
#[test]
fn texts_are_those_of_transformers() {
    let pipeline = Pipeline::open(folder("families").join("tiny-t5")).unwrap();
    let (greedy, json) = (Generate { temperature: 0.0, max_tokens: 12, ..Generate::default() }, own());
    let texts = json["texts"].as_array().unwrap();
    for case in texts {
        let text = case["text"].as_str().unwrap();
        assert_eq!(pipeline.tokenizer().encode(text).unwrap().ids, flat(&case["ids"]), "{text}");
        let mut pieces = String::new();
        let written = pipeline.generate(text, &greedy, |piece| pieces.push_str(piece)).unwrap();
        assert_eq!(written, case["written"].as_str().unwrap(), "{text}");
        assert_eq!(pieces, written, "{text}");
    }
    // The mean of what the encoder gives.
    let ids = flat(&texts[0]["ids"]);
    let input = Input { ids: &ids, batch: 1, token_types: None, mask: None };
    let hidden = pipeline.model().encode(&input).unwrap().last_hidden_state;
    let vector = pipeline.embed(texts[0]["text"].as_str().unwrap(), Embed::default()).unwrap();
    for (feature, &got) in vector.iter().enumerate() {
        let column = hidden.iter().skip(feature).step_by(vector.len());
        let mean = column.sum::<f32>() / ids.len() as f32;
        assert!((got - mean).abs() < 1e-5, "{feature}: {got}, not {mean}");
    }
    // The same seed writes the same.
    let drawn =
        |seed: u64| pipeline.generate("a b", &Generate { seed, ..Generate::default() }, |_| {}).unwrap();
    assert_eq!(drawn(7), drawn(7));
}
