//! Whole models: RoFormer, RoFormerV2, RoFormer-Sim's prefix, decoders with and without caches.

use crate::common::{encodings, families, gpus};
use roformer::blueprint::{Blueprint, Direction, Features, HeadKind, Mixing};
use roformer::model::{Call, Encoded, Hashed, Input, Model, Output, Scores};
use roformer::ops::{Arithmetic, Cuda};

/// ‖a − b‖ / ‖b‖ within what rounding explains over a few layers.
pub fn close(what: &str, gpu: &Cuda, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let norm = |list: &mut dyn Iterator<Item = f64>| list.map(|x| x * x).sum::<f64>().sqrt();
    let pairs = got.iter().zip(expected);
    let difference = norm(&mut pairs.map(|(&a, &b)| f64::from(a - b)));
    let error = difference / norm(&mut expected.iter().map(|&x| f64::from(x)));
    let bound = match gpu.arithmetic() {
        Arithmetic::F32 => 1e-5,
        Arithmetic::Tf32 => 1e-2,
        Arithmetic::Bf16 => 5e-2,
    };
    println!("{what} on {gpu:?}: {error:.1e}");
    assert!(error <= bound, "{what} on {gpu:?}: {error:e}");
}

fn same(what: &str, gpu: &Cuda, got: &Output<f32>, expected: &Output<f32>) {
    close(what, gpu, &got.last_hidden_state, &expected.last_hidden_state);
    assert_eq!(got.logits.is_some(), expected.logits.is_some(), "{what}");
    if let (Some(got), Some(expected)) = (&got.logits, &expected.logits) {
        assert_eq!(got.shape, expected.shape, "{what}");
        close(&format!("{what}, scores"), gpu, &got.scores, &expected.scores);
    }
    if let (Some(got), Some(expected)) = (&got.pooled, &expected.pooled) {
        close(&format!("{what}, pooled"), gpu, got, expected);
    }
}

fn both(gpu: &Cuda, blueprint: Blueprint) -> (Model, Model<f32, Cuda>) {
    let processor = Model::from_parameters(blueprint.clone(), &Hashed).unwrap();
    (processor, Model::on(gpu.clone(), blueprint, &Hashed).unwrap())
}

fn roformer(gpu: &Cuda, json: &str, head: HeadKind) -> (Model, Model<f32, Cuda>) {
    both(gpu, Blueprint { head, ..Blueprint::from_config(json.as_bytes()).unwrap() })
}

fn ids(count: usize, vocabulary: usize) -> Vec<u32> {
    (0..count).map(|i| (i * 29 % vocabulary) as u32).collect()
}

const SMALL: &str = r#""hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 70, "vocab_size": 90"#;

#[test]
fn encoders_with_every_head_and_padding() {
    for gpu in &gpus() {
        for (extra, kind) in [
            ("", HeadKind::None),
            ("", HeadKind::MaskedLm),
            (r#", "embedding_size": 20"#, HeadKind::MaskedLm),
            (r#", "hidden_act": "gelu_new", "rotary_value": true"#, HeadKind::SequenceClassification),
            (r#", "hidden_act": "relu""#, HeadKind::TokenClassification),
            ("", HeadKind::QuestionAnswering),
            (r#", "summary_type": "mean""#, HeadKind::MultipleChoice),
            (r#", "norm_type": "rms_norm", "use_bias": false"#, HeadKind::MaskedLm),
        ] {
            let (processor, model) = roformer(gpu, &format!("{{{SMALL}{extra}}}"), kind);
            for (batch, length) in [(1, 1), (2, 7), (3, 70)] {
                let ids = ids(batch * length, 90);
                let types: Vec<u32> = (0..ids.len()).map(|i| (i % 2) as u32).collect();
                let mask: Vec<bool> =
                    (0..ids.len()).map(|i| i % length < length.div_ceil(1 + i / length)).collect();
                for mask in [None, Some(&mask[..])] {
                    let input = Input { ids: &ids, batch, token_types: Some(&types), mask };
                    let what = format!("{kind:?}{extra} {batch}×{length}");
                    same(&what, gpu, &model.forward(&input).unwrap(), &processor.forward(&input).unwrap());
                }
            }
        }
    }
}

#[test]
fn a_base_model() {
    for gpu in &gpus() {
        let (processor, model) =
            roformer(gpu, r#"{"vocab_size": 500, "num_hidden_layers": 4}"#, HeadKind::None);
        let ids = ids(2 * 130, 500);
        let mask: Vec<bool> = (0..260).map(|i| i < 200).collect();
        let input = Input { ids: &ids, batch: 2, token_types: None, mask: Some(&mask) };
        same("base", gpu, &model.forward(&input).unwrap(), &processor.forward(&input).unwrap());
    }
}

#[test]
fn prefixes_and_places() {
    for gpu in &gpus() {
        let (processor, model) = roformer(gpu, &format!("{{{SMALL}}}"), HeadKind::MaskedLm);
        let ids = ids(2 * 40, 90);
        let input = Input { ids: &ids, batch: 2, token_types: None, mask: None };
        let (prefix, places) = ([5, 31], [3, 79, 40]);
        let expected = processor
            .call(&input, Call { prefix: Some(&prefix), scores: Scores::At(&places), ..Call::default() })
            .unwrap();
        let got = model
            .call(&input, Call { prefix: Some(&prefix), scores: Scores::At(&places), ..Call::default() })
            .unwrap();
        same("prefix", gpu, &got, &expected);
    }
}

#[test]
fn decoders_of_roformer_step_by_step() {
    for gpu in &gpus() {
        let json = format!("{{{SMALL}, \"is_decoder\": true, \"add_cross_attention\": true}}");
        let (processor, model) = roformer(gpu, &json, HeadKind::CausalLm);
        let (ids, other) = (ids(2 * 12, 90), vec![0.25f32; 2 * 5 * 48]);
        let other_mask: Vec<bool> = (0..10).map(|i| i != 9).collect();
        let encoded = Encoded { hidden: &other, mask: Some(&other_mask) };
        let input = Input { ids: &ids, batch: 2, token_types: None, mask: None };
        let expected = processor.forward_with(&input, encoded).unwrap();
        same("cross", gpu, &model.forward_with(&input, encoded).unwrap(), &expected);
        let (mut cache, mut cpu_cache) = (model.cache(2, 12).unwrap(), processor.cache(2, 12).unwrap());
        for (first, count) in [(0, 5), (5, 1), (6, 1), (7, 5)] {
            let step: Vec<u32> = (0..2).flat_map(|b| ids[b * 12 + first..][..count].to_vec()).collect();
            let mask: Vec<bool> = (0..2 * count).map(|i| first > 0 || i != count).collect();
            let input = Input { ids: &step, batch: 2, token_types: None, mask: Some(&mask) };
            let expected = processor.step(&input, Some(encoded), &mut cpu_cache).unwrap();
            let got = model.step(&input, Some(encoded), &mut cache).unwrap();
            same(&format!("step {first}"), gpu, &got, &expected);
        }
    }
}

fn decoder(gpu: &Cuda, json: &str) -> (Model, Model<f32, Cuda>) {
    both(gpu, Blueprint::from_config(json.as_bytes()).unwrap())
}

#[test]
fn decoders_whole_and_step_by_step() {
    for gpu in &gpus() {
        for json in [
            r#"{"model_type": "qwen3", "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2,
            "head_dim": 10, "num_hidden_layers": 3, "intermediate_size": 70, "vocab_size": 90, "attention_bias": true}"#,
            r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 90}"#,
            r#"{"model_type": "qwen2", "hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 1,
            "num_hidden_layers": 2, "intermediate_size": 1000, "vocab_size": 90}"#,
        ] {
            let (processor, model) = decoder(gpu, json);
            let ids = ids(2 * 70, 90);
            let mask: Vec<bool> = (0..140).map(|i| i < 70 || i % 70 > 3).collect();
            let input = Input { ids: &ids, batch: 2, token_types: None, mask: Some(&mask) };
            same("decoder", gpu, &model.forward(&input).unwrap(), &processor.forward(&input).unwrap());

            let (mut cache, mut cpu_cache) = (model.cache(1, 40).unwrap(), processor.cache(1, 40).unwrap());
            let input = Input { ids: &ids[..30], batch: 1, token_types: None, mask: None };
            let expected = processor.step(&input, None, &mut cpu_cache).unwrap();
            same("prompt", gpu, &model.step(&input, None, &mut cache).unwrap(), &expected);
            let (mut cache, mut cpu_cache) =
                (model.repeat(&cache, 3).unwrap(), processor.repeat(&cpu_cache, 3).unwrap());
            for step in 0..10u32 {
                let ids = [step, 2 * step + 1, 50 + step];
                let input = Input { ids: &ids, batch: 3, token_types: None, mask: None };
                let expected = processor.step(&input, None, &mut cpu_cache).unwrap();
                same("step", gpu, &model.step(&input, None, &mut cache).unwrap(), &expected);
            }
        }
    }
}

/// Passes of several threads share a stream, masks and tables, and do not disturb each other.
#[test]
fn threads_share_a_model() {
    for gpu in &gpus() {
        let (_, model) = roformer(gpu, &format!("{{{SMALL}}}"), HeadKind::None);
        let run = |length: usize| {
            let ids = ids(3 * length, 90);
            let mask: Vec<bool> = (0..ids.len()).map(|i| i % length <= length / 2 + i / length).collect();
            let input = Input { ids: &ids, batch: 3, token_types: None, mask: Some(&mask) };
            model.forward(&input).unwrap().last_hidden_state
        };
        let alone: Vec<_> = (1..9).map(|i| run(10 * i)).collect();
        std::thread::scope(|scope| {
            for (index, alone) in alone.iter().enumerate() {
                scope.spawn(move || {
                    for _ in 0..5 {
                        assert_eq!(&run(10 * (index + 1)), alone);
                    }
                });
            }
        });
    }
}

#[test]
fn small_models() {
    for gpu in &gpus() {
        let (processor, model) = roformer(gpu, &format!("{{{SMALL}}}"), HeadKind::MaskedLm);
        let ids = ids(2 * 9, 90);
        let mask: Vec<bool> = (0..18).map(|i| i != 17).collect();
        let input = Input { ids: &ids, batch: 2, token_types: None, mask: Some(&mask) };
        same("small", gpu, &model.forward(&input).unwrap(), &processor.forward(&input).unwrap());
    }
}

/// Every family, longer than its window, with padding.
#[test]
fn every_family() {
    for gpu in &gpus() {
        for blueprint in families() {
            let (what, has_types) = (blueprint.family.model_type(), blueprint.has_segment_scores);
            let (processor, model) = both(gpu, blueprint);
            let ids: Vec<u32> = ids(2 * 100, 88).iter().map(|id| id + 2).collect();
            let types: Vec<u32> = (0..ids.len() as u32).map(|token| token / 37 % 3).collect();
            let types = |count: usize| has_types.then_some(&types[..count]);
            let mask: Vec<bool> = (0..ids.len()).map(|token| token < 180).collect();
            let input = Input { ids: &ids, batch: 2, token_types: types(200), mask: Some(&mask) };
            // Rows of padding are no one's business.
            let real = |output: Output<f32>| output.last_hidden_state[..180 * 48].to_vec();
            let (expected, got) = (processor.forward(&input).unwrap(), model.forward(&input).unwrap());
            close(what, gpu, &real(got), &real(expected));
            let input = Input { ids: &ids[..77], batch: 1, token_types: types(77), mask: None };
            same(what, gpu, &model.forward(&input).unwrap(), &processor.forward(&input).unwrap());
        }
    }
}

/// Every encoding with softmax attention, and linear attention with those it carries: whole, padded, and step by step.
#[test]
fn every_encoding_whole_and_step_by_step() {
    for gpu in &gpus() {
        for encoding in encodings() {
            let mut mixings = vec![Mixing::Softmax];
            if encoding.check_linear().is_ok() {
                mixings.push(Mixing::Linear(Features::Elu.form(12)));
                mixings.push(Mixing::Linear(Features::Favor.form(12)));
            }
            for mixing in mixings {
                let small = Blueprint::from_config(format!("{{{SMALL}}}").as_bytes()).unwrap();
                let (head, direction, longest) = (HeadKind::CausalLm, Direction::Causal, 80);
                let encoding = encoding.clone();
                let what = format!("{} {mixing:?}", encoding.name());
                let blueprint = Blueprint { encoding, mixing, head, direction, longest, ..small };
                let (processor, model) = both(gpu, blueprint);
                let ids = ids(2 * 70, 90);
                let mask: Vec<bool> = (0..ids.len()).map(|token| token < 130).collect();
                let input = Input { ids: &ids, batch: 2, token_types: None, mask: Some(&mask) };
                // Rows of padding are no one's business.
                let real = |output: Output<f32>| output.last_hidden_state[..130 * 48].to_vec();
                let (expected, got) = (processor.forward(&input).unwrap(), model.forward(&input).unwrap());
                close(&what, gpu, &real(got), &real(expected));
                let (mut cpu_cache, mut cache) = (processor.cache(1, 9).unwrap(), model.cache(1, 9).unwrap());
                for range in [0..5, 5..6, 6..8, 8..9] {
                    let input = Input { ids: &ids[range], batch: 1, token_types: None, mask: None };
                    let expected = processor.step(&input, None, &mut cpu_cache).unwrap();
                    same(
                        &format!("{what}, a step"),
                        gpu,
                        &model.step(&input, None, &mut cache).unwrap(),
                        &expected,
                    );
                }
            }
        }
    }
}
