//! Families of models against Hugging Face transformers: `golden/families`, made by `golden/families.py`.

use super::case::{close, flags, flat, read, tensor};
use roformer::blueprint::{Blueprint, Family, HeadKind, Kept, NormKind};
use roformer::graph::{Batch, Entry};
use roformer::model::{Encoded, Hashed, Input, Model, Output, Parameters};
use roformer::network::{Network, Task};
use roformer::ops::{Cpu, Precision, Real};
use serde_json::Value;
use std::collections::BTreeMap;

/// Hashed weights as a family's files would keep them.
pub struct Stored<'a>(pub &'a Blueprint);

impl<T: Real> Parameters<T> for Stored<'_> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> roformer::Result<()> {
        Parameters::<T>::read(&Hashed, name, shape, out)?;
        if is_less_one(self.0, name) {
            out.iter_mut().for_each(|x| *x = *x - T::ONE);
        }
        Ok(())
    }
}

/// Whether a tensor is the weight of a norm that files keep less 1.
fn is_less_one(blueprint: &Blueprint, name: &str) -> bool {
    blueprint.norms.kind == NormKind::RmsLessOne && name.ends_with("norm.weight")
}

/// The model of a case, with the pooler that a bare model of transformers has.
pub fn model(json: &Value) -> Model<f32> {
    stored(json, Precision::F32)
}

/// The same in fewer bits.
pub fn stored(json: &Value, precision: Precision) -> Model<f32> {
    let blueprint = blueprint(json);
    let source = Kept { blueprint: &blueprint, source: Stored(&blueprint) };
    Model::on(Cpu { precision }, blueprint.clone(), &source)
        .unwrap_or_else(|error| panic!("{}: {error}", json["name"]))
}

/// What the model of a case is.
pub fn blueprint(json: &Value) -> Blueprint {
    let mut config = json["config"].clone();
    if !json["outputs"]["pooler_output"].is_null() {
        config["add_pooling_layer"] = true.into();
    }
    let blueprint = Blueprint::from_config(config.to_string().as_bytes());
    blueprint.unwrap_or_else(|error| panic!("{}: {error}", json["name"]))
}

/// What a model's encoder gives of a text, and what its decoder then gives of what it has written.
pub fn decoded(model: &Model<f32>, input: &Input, written: &[u32]) -> (Option<Vec<f32>>, Output<f32>) {
    let read = model.encode(input).unwrap().last_hidden_state;
    let begun = Input { ids: written, batch: input.batch, token_types: None, mask: None };
    let output = model.forward_with(&begun, Encoded { hidden: &read, mask: input.mask }).unwrap();
    (Some(read), output)
}

#[test]
fn outputs_are_those_of_transformers() {
    let (cases, outputs) = read("families");
    let mut worst: BTreeMap<&str, f64> = BTreeMap::new();
    for json in cases["cases"].as_array().unwrap() {
        let (name, model) = (json["name"].as_str().unwrap(), model(json));
        let (ids, length) = (flat(&json["ids"]), json["length"].as_u64().unwrap() as usize);
        let types = (!json["token_types"].is_null()).then(|| flat(&json["token_types"]));
        let mask = flags(&json["mask"]);
        let (token_types, mask) = (types.as_deref(), mask.as_deref());
        let input = Input { ids: &ids, batch: ids.len() / length, token_types, mask };
        let is_decoded = !json["decoder_ids"].is_null();
        let (read, output) = match is_decoded {
            true => decoded(&model, &input, &flat(&json["decoder_ids"])),
            false => (None, model.forward(&input).unwrap()),
        };
        let logits = output.logits.map(|logits| (logits.scores, logits.shape));
        // Only the scores of tokens have rows that are padding.
        let of_tokens = logits.as_ref().is_some_and(|(_, shape)| shape.len() == 3);
        let parts = [
            ("last_hidden_state", Some(output.last_hidden_state), mask.filter(|_| !is_decoded)),
            ("pooler_output", output.pooled, None),
            ("logits", logits.map(|(scores, _)| scores), mask.filter(|_| of_tokens && !is_decoded)),
            ("encoder_last_hidden_state", read, mask),
        ];
        for (part, got, rows) in parts {
            let what = format!("{name}.{part}");
            assert_eq!(got.is_some(), !json["outputs"][part].is_null(), "{what}");
            let Some(got) = got else { continue };
            let reached = close(&what, &got, &tensor(&outputs, &what), &json["outputs"][part], rows);
            let family = worst.entry(name.split('-').next().unwrap()).or_default();
            *family = family.max(reached);
        }
    }
    assert!(worst.len() >= 20, "{worst:?}");
    println!("parts of what is allowed: {worst:.2?}");
}

/// What the classes of transformers do is what the zoo's encodings of these names do: families have none of their own.
#[test]
fn families_have_the_encodings_of_the_zoo() {
    let (cases, _) = read("families");
    for json in cases["cases"].as_array().unwrap() {
        let blueprint = Blueprint::from_config(json["config"].to_string().as_bytes()).unwrap();
        let wanted = match json["name"].as_str().unwrap().split('-').next().unwrap() {
            "bert" | "roberta" | "xlmroberta" | "camembert" | "gpt2" => "learned",
            "mpt" => "alibi",
            "t5" => "t5",
            "debertav2" if blueprint.encoding.name() != "none" => "deberta",
            "debertav2" => "none",
            "xlnet" => "xlnet",
            _ => "rotary",
        };
        assert_eq!(blueprint.encoding.name(), wanted, "{}", json["name"]);
    }
}

/// A family's tensors under the names that another family has for the same parts.
struct Renamed<'a, S> {
    /// Names asked for, and those of the source.
    names: BTreeMap<String, String>,
    source: &'a S,
}

impl<T: Real, S: Parameters<T>> Parameters<T> for Renamed<'_, S> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> roformer::Result<()> {
        self.source.read(&self.names[name], shape, out)
    }
}

/// DeBERTa-v2 and XLNet are BERT's layers with encodings of the zoo: in that form the same weights give the same numbers.
#[test]
fn families_are_encodings_on_the_layers_of_another() {
    let (cases, _) = read("families");
    let mut counts = [0; 2];
    for json in cases["cases"].as_array().unwrap() {
        let own = model(json).blueprint().clone();
        let is_known = matches!(own.family, Family::DebertaV2 | Family::XlNet);
        if !is_known || own.embedding != own.width {
            continue;
        }
        // BERT has no convolution and compares no segments, and has tanh before the last product of its classifier.
        let head = if own.head == HeadKind::MaskedLm { own.head } else { HeadKind::None };
        let own = Blueprint { head, convolution: None, has_segment_scores: false, ..own };
        let bert = Blueprint { family: Family::Bert, ..own.clone() };
        // Nor has it XLNet's vector that nothing reads.
        let asked = |blueprint: &Blueprint| {
            let names = blueprint.tensors().into_iter().map(|asked| asked.name);
            names.filter(|name| name != "transformer.mask_emb")
        };
        let names = Renamed { names: asked(&bert).zip(asked(&own)).collect(), source: &Hashed };
        let ids: Vec<u32> = (0..22).map(|i| i * 7 % own.vocabulary as u32).collect();
        let input = Input { ids: &ids, batch: 2, token_types: None, mask: None };
        counts[usize::from(own.family == Family::XlNet)] += 1;
        let wanted = Model::<f64>::from_parameters(own, &Hashed).unwrap().forward(&input).unwrap();
        let got = Model::<f64>::from_parameters(bert, &names).unwrap().forward(&input).unwrap();
        assert_eq!(got.last_hidden_state, wanted.last_hidden_state, "{}", json["name"]);
        assert_eq!(got.logits, wanted.logits, "{}", json["name"]);
    }
    assert!(counts.iter().all(|&count| count >= 2), "{counts:?}");
}

/// What a family writes is what it reads, for every head.
#[test]
fn configurations_read_back() {
    let (cases, _) = read("families");
    for json in cases["cases"].as_array().unwrap() {
        let blueprint = Blueprint::from_config(json["config"].to_string().as_bytes()).unwrap();
        if blueprint.head == HeadKind::MultipleChoice {
            continue;
        }
        let written = blueprint.to_config(blueprint.longest, 0.1, &[]).unwrap();
        let read = Blueprint::from_config(written.to_string().as_bytes()).unwrap();
        assert_eq!(read.longest, blueprint.longest, "{}", json["name"]);
        // What the caller and the tokenizer say.
        let (labels, ends) = (blueprint.labels.clone(), blueprint.ends.clone());
        assert_eq!(Blueprint { labels, ends, ..read }, blueprint, "{}", json["name"]);
    }
}

/// A gradient as PyTorch has it, in the order in which the tensor is worked on here.
fn worked_on(blueprint: &Blueprint, entry: &Entry, kept: &[f64]) -> Vec<f64> {
    struct Given<'a>(&'a [f64]);
    impl Parameters<f64> for Given<'_> {
        fn read(&self, _: &str, _: &[usize], out: &mut [f64]) -> roformer::Result<()> {
            out.copy_from_slice(self.0);
            Ok(())
        }
    }
    let mut out = vec![0.0; kept.len()];
    let source = Kept { blueprint, source: Given(kept) };
    source.read(&entry.name, &entry.shape, &mut out).unwrap();
    // A weight that files keep less 1 has the same gradient.
    let less = if is_less_one(blueprint, &entry.name) { 1.0 } else { 0.0 };
    out.iter().map(|x| x - less).collect()
}

/// Losses and the gradients of all parameters, in f64.
#[test]
fn gradients_are_those_of_pytorch() {
    let (cases, tensors) = read("families");
    for json in cases["gradients"].as_array().unwrap() {
        let name = json["name"].as_str().unwrap();
        let bytes = json["config"].to_string();
        let classes = json["config"]["id2label"].as_object().map_or(2, |labels| labels.len());
        let task = match Blueprint::from_config(bytes.as_bytes()).unwrap().head {
            HeadKind::MaskedLm | HeadKind::CausalLm => Task::Language,
            HeadKind::SequenceClassification => Task::Text(classes),
            HeadKind::TokenClassification => Task::Token(classes),
            other => panic!("{name}: {other:?}"),
        };
        let network = Network::from_config(bytes.as_bytes(), task, None).unwrap();
        let (ids, batch) = (flat(&json["ids"]), json["batch"].as_u64().unwrap() as usize);
        let length = ids.len() / batch;
        let longest = network.blueprint.longest.max(length);
        let mut laid = network.build::<f64>(batch, length, longest).unwrap();
        let layout = laid.graph.layout().clone();
        for entry in layout.entries() {
            let out = &mut laid.graph.parameters_mut()[entry.range.clone()];
            let source = Kept { blueprint: &network.blueprint, source: Stored(&network.blueprint) };
            Parameters::<f64>::read(&source, &entry.name, &entry.shape, out).unwrap();
        }
        let types = if json["token_types"].is_null() { Vec::new() } else { flat(&json["token_types"]) };
        let mut given = Batch { ids, types, targets: flat(&json["targets"]), ..Batch::default() };
        if !json["decoder_ids"].is_null() {
            given.source = std::mem::replace(&mut given.ids, flat(&json["decoder_ids"]));
            given.source_mask = flags(&json["mask"]).unwrap();
        }
        laid.set(given).unwrap();
        let loss = laid.graph.step(1.0);
        let wanted = json["loss"].as_f64().unwrap();
        assert!((loss - wanted).abs() <= 1e-12 * wanted, "{name}: {loss}, not {wanted}");
        for entry in layout.entries() {
            let what = format!("{name}.{}", entry.name);
            let exact = worked_on(&network.blueprint, entry, &tensor(&tensors, &what));
            let largest = exact.iter().fold(0f64, |most, x| most.max(x.abs()));
            assert_eq!(exact.len(), entry.range.len(), "{what}");
            for (got, exact) in laid.graph.gradients()[entry.range.clone()].iter().zip(&exact) {
                assert!((got - exact).abs() <= 1e-10 * largest.max(1e-3), "{what}: {got}, not {exact}");
            }
        }
    }
}
