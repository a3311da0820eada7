//! Against Hugging Face transformers: `golden/roformer`, made by `golden/roformer.py`.

use super::case::{
    Case, blueprint, close, flags, flat, load, padded_as_alone, read, same_on_any_threads, tensor, with_head,
};
use roformer::model::{Encoded, Hashed, HeadKind, Input, Model};
use safetensors::SafeTensors;

#[test]
fn outputs_are_those_of_transformers() {
    let (cases, outputs) = read("roformer");
    let list = cases["cases"].as_array().unwrap();
    assert!(list.len() >= 40);
    for json in list {
        let case = Case::new(json);
        let name = case.name();
        let encoder_mask = flags(&json["encoder_mask"]);
        let encoder: Option<Vec<f32>> = (!json["encoder_length"].is_null()).then(|| {
            tensor(&outputs, &format!("{name}.encoder_hidden_states")).iter().map(|&x| x as f32).collect()
        });
        let encoded = encoder.as_ref().map(|hidden| Encoded { hidden, mask: encoder_mask.as_deref() });
        let (hidden, scores) = match json["steps"]["prefill"].as_u64() {
            None => case.run(encoded),
            Some(prefill) => {
                let cached = case.run_cached(prefill as usize, encoded);
                // A cache changes nothing but the order of some sums.
                let whole = case.run(encoded);
                let rows = case.mask.clone().unwrap_or(vec![true; case.ids.len()]);
                let width = cached.0.len() / rows.len();
                for (index, (a, b)) in cached.0.iter().zip(&whole.0).enumerate() {
                    assert!(!rows[index / width] || (a - b).abs() < 1e-5, "{name}: {a} cached, {b} at once");
                }
                cached
            }
        };
        let bounds = &json["outputs"];
        let wanted = tensor(&outputs, &format!("{name}.last_hidden_state"));
        let what = format!("{name}.last_hidden_state");
        let worst = close(&what, &hidden, &wanted, &bounds["last_hidden_state"], case.mask.as_deref());
        if bounds["logits"].is_null() {
            println!("{name}: {worst:.2} of the bound");
            continue;
        }
        let wanted = tensor(&outputs, &format!("{name}.logits"));
        let scores = scores.unwrap_or_else(|| panic!("{name}: no scores"));
        // Scores of positions are compared at real ones, scores of a whole text always.
        let whole = [HeadKind::SequenceClassification, HeadKind::MultipleChoice].contains(&case.model.head());
        let rows = case.mask.as_deref().filter(|_| !whole);
        let other = close(&format!("{name}.logits"), &scores, &wanted, &bounds["logits"], rows);
        println!("{name}: {worst:.2} and {other:.2} of the bound");
    }
}

/// The same model in f64. (transformers' table of positions is rounded to f32 even then, which is 6e-8 of a vector.)
#[test]
fn in_f64_outputs_are_nearer_still() {
    let (cases, outputs) = read("roformer");
    let encoders =
        cases["cases"].as_array().unwrap().iter().filter(|case| case["config"]["is_decoder"] == false);
    for json in encoders {
        let model = Model::<f64>::from_parameters(blueprint(json, false), &Hashed).unwrap();
        let ids = flat(&json["ids"]);
        let length = json["length"].as_u64().unwrap() as usize;
        let types = (!json["token_types"].is_null()).then(|| flat(&json["token_types"]));
        let mask = flags(&json["mask"]);
        let (token_types, batch) = (types.as_deref(), ids.len() / length);
        let input = Input { ids: &ids, batch, token_types, mask: mask.as_deref() };
        let got = model.forward(&input).unwrap().last_hidden_state;
        let name = json["name"].as_str().unwrap();
        let wanted = tensor(&outputs, &format!("{name}.last_hidden_state"));
        let largest = json["outputs"]["last_hidden_state"]["largest"].as_f64().unwrap();
        let width = got.len() / ids.len();
        for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            let real = mask.as_ref().is_none_or(|mask| mask[index / width]);
            assert!(!real || (got - wanted).abs() <= 2e-7 * largest, "{name}[{index}]: {got} {wanted}");
        }
    }
}

/// Files as transformers writes them: safetensors, sharded, `.bin` new and old, f16.
#[test]
fn files_written_by_transformers_load_directly() {
    let (cases, outputs) = read("roformer");
    for file in cases["files"].as_array().unwrap() {
        let dir = file["dir"].as_str().unwrap();
        let model = load("roformer", dir);
        let ids = flat(&file["ids"]);
        let input = Input { ids: &ids, batch: 2, token_types: None, mask: None };
        let output = model.forward(&input).unwrap();
        // transformers reads the table of positions from an f16 file, rounded to f16; here it is always made anew.
        let name = file["logits_own_table"].as_str().or(file["logits"].as_str()).unwrap();
        let wanted = tensor(&outputs, name);
        let worst = close(dir, &output.logits.unwrap().scores, &wanted, &file["outputs"]["logits"], None);
        println!("{dir}: {worst:.2} of the bound");
    }
}

#[test]
fn a_base_size_model_points_the_same_way() {
    let (cases, outputs) = read("roformer");
    let json = &cases["base"];
    let case = Case::new(json);
    let (hidden, _) = case.run(None);
    let file = SafeTensors::deserialize(&outputs).unwrap();
    let view = file.tensor("base.last_hidden_state").unwrap();
    let wanted: Vec<f64> =
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect();
    let got: Vec<f64> = hidden[..wanted.len()].iter().map(|&x| x.into()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = dot(&got, &wanted) / (dot(&got, &got) * dot(&wanted, &wanted)).sqrt();
    assert!(cosine > 0.999_999, "{cosine}");
    let all: Vec<f64> = hidden.iter().map(|&x| x.into()).collect();
    let norm = json["outputs"]["last_hidden_state"]["norm"].as_f64().unwrap();
    assert!((dot(&all, &all).sqrt() / norm - 1.0).abs() < 1e-5, "the length of the whole output");
    println!("cosine {cosine}");
}

/// A model that fills masks: its width, layers, inner width and vocabulary.
fn masked([width, layers, inner, vocabulary]: [usize; 4]) -> Model<f32> {
    let config = format!(
        r#"{{"hidden_size": {width}, "num_attention_heads": 4, "num_hidden_layers": {layers},
        "intermediate_size": {inner}, "vocab_size": {vocabulary}}}"#
    );
    let blueprint = with_head(config.as_bytes(), HeadKind::MaskedLm);
    Model::from_parameters(blueprint, &Hashed).unwrap()
}

#[test]
fn a_padded_batch_gives_what_each_text_gives_alone() {
    let model = masked([48, 3, 70, 90]);
    padded_as_alone(48, 90, |input| model.forward(input).unwrap());
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let model = masked([64, 2, 130, 200]);
    let ids: Vec<u32> = (0..3 * 150).map(|i| i * 13 % 200).collect();
    same_on_any_threads(&ids, |input| model.forward(input).unwrap());
}
