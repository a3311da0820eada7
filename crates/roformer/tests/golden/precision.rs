//! Every stored model in 16 bits, beside itself in 32.

use super::case::{flags, flat, read};
use super::families::{Stored, blueprint, decoded, stored};
use roformer::blueprint::Kept;
use roformer::model::{Input, Model, Parameters};
use roformer::ops::Precision;
use serde_json::Value;
use std::collections::BTreeMap;

/// Weights that were rounded to 16 bits and are `f32` again.
struct Rounded<'a, S>(&'a S);

impl<S: Parameters<f32>> Parameters<f32> for Rounded<'_, S> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [f32]) -> roformer::Result<()> {
        self.0.read(name, shape, out)?;
        if shape.len() == 2 {
            out.iter_mut().for_each(|x| *x = half::bf16::from_f32(*x).to_f32());
        }
        Ok(())
    }
}

/// The hidden states of a case.
fn hidden(json: &Value, model: &Model) -> Vec<f32> {
    let (ids, length) = (flat(&json["ids"]), json["length"].as_u64().unwrap() as usize);
    let types = (!json["token_types"].is_null()).then(|| flat(&json["token_types"]));
    let mask = flags(&json["mask"]);
    let (token_types, mask) = (types.as_deref(), mask.as_deref());
    let input = Input { ids: &ids, batch: ids.len() / length, token_types, mask };
    let output = match json["decoder_ids"].is_null() {
        true => model.forward(&input).unwrap(),
        false => decoded(model, &input, &flat(&json["decoder_ids"])).1,
    };
    let mut hidden = output.last_hidden_state;
    // What padding gives is nobody's business.
    let width = model.blueprint().width;
    if let Some(mask) = mask.filter(|mask| mask.len() * width == hidden.len()) {
        let rows = hidden.chunks_exact_mut(width).zip(mask);
        rows.filter(|(_, there)| !**there).for_each(|(row, _)| row.fill(0.0));
    }
    hidden
}

/// The length of a difference over that of what is known.
fn distance(known: &[f32], got: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let apart: f64 = known.iter().zip(got).map(|(known, got)| square(known - got)).sum();
    (apart / known.iter().map(|&x| square(x)).sum::<f64>()).sqrt()
}

/// How much a model makes of an error depends on the model: one whose weights alone are rounded, and which then computes in `f32`, tells.
/// The rows that weights are multiplied with are rounded in the same way, and what attention multiplies too: three times as many
/// roundings, none larger.
#[test]
fn models_in_16_bits_are_off_by_their_rounding() {
    let (cases, _) = read("families");
    let mut worst: BTreeMap<String, f64> = BTreeMap::new();
    for json in cases["cases"].as_array().unwrap() {
        let known = hidden(json, &stored(json, Precision::F32));
        let blueprint = blueprint(json);
        let kept = Kept { blueprint: &blueprint, source: Stored(&blueprint) };
        let rounded = Model::from_parameters(blueprint.clone(), &Rounded(&kept)).unwrap();
        let bound = 3.0 * distance(&known, &hidden(json, &rounded));
        let part = distance(&known, &hidden(json, &stored(json, Precision::Bf16))) / bound;
        let family = json["name"].as_str().unwrap().split('-').next().unwrap();
        let entry = worst.entry(family.to_string()).or_default();
        *entry = entry.max(part);
    }
    println!("parts of what is allowed: {worst:.2?}");
    assert!(worst.len() >= 20 && worst.values().all(|&part| part > 0.1 && part <= 1.0), "{worst:.2?}");
}
