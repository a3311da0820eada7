//! Decoders against Hugging Face transformers: `golden/decoder`, made by `golden/decoder.py`.

use super::case::{close, flags, flat, folder, padded_as_alone, read, same_on_any_threads, tensor};
use roformer::blueprint::{Blueprint, Family, HeadNorms};
use roformer::encoding::{Encoding, Rotary};
use roformer::model::{Call, Hashed, HeadKind, Input, Model, Parameters, Scores};
use roformer::ops::Real;
use rope::{AnglePrecision, Rope};
use serde_json::Value;

/// A case of cases.json.
struct Case<'a, T: Real> {
    json: &'a Value,
    model: Model<T>,
    ids: Vec<u32>,
    mask: Option<Vec<bool>>,
    batch: usize,
    length: usize,
}

/// Hidden states and scores, `[batch, length, …]`.
type Outputs<T> = (Vec<T>, Option<Vec<T>>);

fn blueprint(json: &Value) -> Blueprint {
    let mut blueprint = Blueprint::from_config(json["config"].to_string().as_bytes())
        .unwrap_or_else(|error| panic!("{}: {error}", json["name"]));
    if json["head_norms"] == true {
        blueprint.head_norms = HeadNorms::Weighted;
    }
    blueprint
}

/// The rotation of a blueprint.
fn rope(blueprint: &Blueprint) -> Rope {
    match &blueprint.encoding {
        Encoding::Rotary(rotary) => rotary.rope(blueprint.head_dim).unwrap(),
        other => panic!("{other:?}"),
    }
}

impl<'a, T: Real> Case<'a, T>
where
    Hashed: Parameters<T>,
{
    fn new(json: &'a Value, blueprint: Blueprint) -> Self {
        let ids = flat(&json["ids"]);
        let length = json["length"].as_u64().unwrap() as usize;
        let model = Model::from_parameters(blueprint, &Hashed).unwrap();
        Case { json, model, mask: flags(&json["mask"]), batch: ids.len() / length, ids, length }
    }

    fn input(&self) -> Input<'_> {
        Input { ids: &self.ids, batch: self.batch, token_types: None, mask: self.mask.as_deref() }
    }

    fn run(&self) -> Outputs<T> {
        let output = self.model.forward(&self.input()).unwrap();
        (output.last_hidden_state, output.logits.map(|logits| logits.scores))
    }

    /// The first `prefill` tokens at once, then one at a time, with a cache.
    fn run_cached(&self, prefill: usize) -> Outputs<T> {
        let (batch, length) = (self.batch, self.length);
        let mut cache = self.model.cache(batch, length).unwrap();
        let (mut hidden, mut scores) = (vec![Vec::new(); batch], vec![Vec::new(); batch]);
        while cache.len() < length {
            let (first, count) = (cache.len(), if cache.is_empty() { prefill } else { 1 });
            let columns = |row: usize| row * length + first..row * length + first + count;
            let ids: Vec<u32> = (0..batch).flat_map(|row| self.ids[columns(row)].to_vec()).collect();
            let mask = self.mask.as_ref();
            let mask: Option<Vec<bool>> =
                mask.map(|mask| (0..batch).flat_map(|row| mask[columns(row)].to_vec()).collect());
            let input = Input { ids: &ids, batch, token_types: None, mask: mask.as_deref() };
            let output = self.model.step(&input, None, &mut cache).unwrap();
            for row in 0..batch {
                let rows = |list: &[T]| list.chunks(list.len() / batch).nth(row).unwrap().to_vec();
                hidden[row].extend(rows(&output.last_hidden_state));
                scores[row].extend(output.logits.iter().flat_map(|logits| rows(&logits.scores)));
            }
        }
        (hidden.concat(), Some(scores.concat()).filter(|scores| !scores.is_empty()))
    }

    /// As transformers ran it: with a cache where it had one.
    fn outputs(&self) -> Outputs<T> {
        match self.json["steps"]["prefill"].as_u64() {
            Some(prefill) => self.run_cached(prefill as usize),
            None => self.run(),
        }
    }
}

#[test]
fn decoder_outputs_are_those_of_transformers() {
    let (cases, outputs) = read("decoder");
    let list = cases["cases"].as_array().unwrap();
    assert!(list.len() >= 40);
    for json in list {
        let case = Case::<f32>::new(json, blueprint(json));
        let name = json["name"].as_str().unwrap();
        let (hidden, scores) = case.outputs();
        let compare = |part: &str, got: &[f32]| {
            let what = format!("{name}.{part}");
            close(&what, got, &tensor(&outputs, &what), &json["outputs"][part], case.mask.as_deref())
        };
        let worst = compare("last_hidden_state", &hidden);
        let other = scores.as_ref().map_or(0.0, |scores| compare("logits", scores));
        assert_eq!(scores.is_some(), !json["outputs"]["logits"].is_null(), "{name}");
        println!("{name}: {worst:.2} and {other:.2} of the bound");
        // A cache changes nothing but the order of some sums, unless the frequencies change with the length.
        if json["steps"].is_null() || name.contains("dynamic") {
            continue;
        }
        let rows = case.mask.clone().unwrap_or(vec![true; case.ids.len()]);
        let width = hidden.len() / rows.len();
        for (index, (a, b)) in hidden.iter().zip(&case.run().0).enumerate() {
            assert!(!rows[index / width] || (a - b).abs() < 1e-5, "{name}: {a} cached, {b} at once");
        }
    }
}

/// What is compared above would not go unnoticed: a base that is a tenth larger takes outputs far beyond the bounds.
#[test]
fn another_rope_is_noticed() {
    let (cases, outputs) = read("decoder");
    for json in cases["cases"].as_array().unwrap() {
        let (name, mut blueprint) = (json["name"].as_str().unwrap(), blueprint(json));
        let (rope, length) = (rope(&blueprint), json["length"].as_u64().unwrap());
        if length < 5 || blueprint.layers == 0 {
            continue;
        }
        let other = Rope::builder(rope.head_dim()).pairing(rope.pairing()).base(rope.base() * 1.1);
        let other = other.schedule(rope.schedule().clone()).build().unwrap();
        blueprint.encoding = Encoding::Rotary(Rotary::of(&other));
        let case = Case::<f32>::new(json, blueprint);
        let wanted = tensor(&outputs, &format!("{name}.last_hidden_state"));
        let bounds = &json["outputs"]["last_hidden_state"];
        let bound = 5e-6 * bounds["largest"].as_f64().unwrap();
        let (got, _) = case.outputs();
        let width = got.len() / case.ids.len();
        let is_real = |index: &usize| case.mask.as_ref().is_none_or(|mask| mask[index / width]);
        let real = (0..got.len()).filter(is_real);
        let apart =
            real.map(|index| (f64::from(got[index]) - wanted[index]).abs()).fold(0.0, f64::max) / bound;
        assert!(apart > 20.0, "{name}: {apart:.1} of the bound");
    }
}

/// The same models in f64, with the angles that transformers forms in f32. What is left is its cosines and sines: they are
/// f32, which is 6e-8 of a vector, and torch's are a unit off here and there.
#[test]
fn in_f64_decoder_outputs_are_nearer_still() {
    let (cases, outputs) = read("decoder");
    let mut worst: f64 = 0.0;
    for json in cases["cases"].as_array().unwrap() {
        let mut blueprint = blueprint(json);
        let rope = rope(&blueprint).with_angle_precision(AnglePrecision::F32);
        blueprint.encoding = Encoding::Rotary(Rotary::of(&rope));
        let case = Case::<f64>::new(json, blueprint);
        let name = json["name"].as_str().unwrap();
        let (hidden, scores) = case.outputs();
        for (part, got) in [("last_hidden_state", Some(hidden)), ("logits", scores)] {
            let Some(got) = got else { continue };
            let wanted = tensor(&outputs, &format!("{name}.{part}"));
            let largest = json["outputs"][part]["largest"].as_f64().unwrap();
            let width = got.len() / case.ids.len();
            for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                let real = case.mask.as_ref().is_none_or(|mask| mask[index / width]);
                let difference = if real { (got - wanted).abs() / largest } else { 0.0 };
                worst = worst.max(difference);
                assert!(difference <= 2e-7, "{name}.{part}[{index}]: {got} {wanted}: {difference:e}");
            }
        }
    }
    println!("within {worst:.1e} of the largest value");
}

/// Folders as transformers saves them.
#[test]
fn decoder_folders_load_directly() {
    let (cases, outputs) = read("decoder");
    let list = cases["files"].as_array().unwrap();
    assert_eq!(list.len(), 4);
    for file in list {
        let (dir, part) = (file["dir"].as_str().unwrap(), file["output"].as_str().unwrap());
        let model = Model::load(folder("decoder").join(dir)).unwrap_or_else(|error| panic!("{dir}: {error}"));
        let ids = flat(&file["ids"]);
        let output = model.forward(&Input { ids: &ids, batch: 2, token_types: None, mask: None }).unwrap();
        assert_eq!(output.logits.is_some(), part == "logits");
        let got = output.logits.map_or(output.last_hidden_state, |logits| logits.scores);
        let wanted = tensor(&outputs, &format!("{dir}.{part}"));
        let worst = close(dir, &got, &wanted, &file["outputs"][part], None);
        println!("{dir}: {worst:.2} of the bound");

        let either = Model::load(folder("decoder").join(dir)).unwrap();
        assert!(either.blueprint().family != Family::RoFormer && either.head() == model.head());
    }
    let roformer = Model::load(folder("roformer").join("tiny-safetensors")).unwrap();
    assert!(roformer.blueprint().family == Family::RoFormer && roformer.head() == HeadKind::MaskedLm);
}

/// A model with grouped heads, biases and norms of heads.
fn grouped() -> Model {
    let config = br#"{"model_type": "qwen3", "hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2,
        "head_dim": 10, "num_hidden_layers": 3, "intermediate_size": 70, "vocab_size": 90, "attention_bias": true}"#;
    Model::from_parameters(Blueprint::from_config(config).unwrap(), &Hashed).unwrap()
}

#[test]
fn a_padded_batch_of_a_decoder_gives_what_each_text_gives_alone() {
    let model = grouped();
    padded_as_alone(48, 90, |input| model.forward(input).unwrap());
}

#[test]
fn a_decoder_gives_the_same_bits_on_any_number_of_threads() {
    let model = grouped();
    let ids: Vec<u32> = (0..3 * 300).map(|i| i * 13 % 90).collect();
    same_on_any_threads(&ids, |input| model.forward(input).unwrap());
}

/// Some tokens are scored as all are, and a cache that is repeated continues as one that was filled.
#[test]
fn decoder_scores_and_caches_can_be_picked_and_repeated() {
    let model = grouped();
    let ids: Vec<u32> = (0..14).map(|i| i * 29 % 90).collect();
    let input = |ids, batch| Input { ids, batch, token_types: None, mask: None };
    let all = model.forward(&input(&ids, 2)).unwrap().logits.unwrap();
    let places = [13, 0, 6];
    let call = Call { scores: Scores::At(&places), ..Call::default() };
    let some = model.call(&input(&ids, 2), call).unwrap().logits.unwrap();
    assert_eq!((&all.shape[..], &some.shape[..]), (&[2, 7, 90][..], &[3, 90][..]));
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5);
    for (row, place) in some.scores.chunks(90).zip(places) {
        assert!(near(row, &all.scores[place * 90..][..90]));
    }
    let nothing = Call { scores: Scores::At(&[]), ..Call::default() };
    assert!(model.call(&input(&ids, 2), nothing).unwrap().logits.is_none());

    let mut one = model.cache(1, 9).unwrap();
    model.step(&input(&ids[..6], 1), None, &mut one).unwrap();
    let mut three = model.repeat(&one, 3).unwrap();
    let alone = model.step(&input(&ids[6..7], 1), None, &mut one).unwrap().last_hidden_state;
    let together = model.step(&input(&[ids[6]; 3], 3), None, &mut three).unwrap().last_hidden_state;
    assert!(together.chunks(48).all(|row| near(row, &alone)));
    assert!(model.repeat(&three, 2).is_err());
}
