//! Checkpoints to begin from and folders that are handed over: what a network gives before and after is what the models
//! that are only run give. And what cannot be: each an error that names it.

mod both_ways;
mod refused;
#[path = "../common/folder.rs"]
mod temporary;

use roformer::graph::{Batch, mix};
use roformer::model::{Encoded, Input, Model, Output};
use roformer::network::{Laid, Loaded, Network, Task};
use roformer::weights::{self, Weights};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use temporary::Folder;

const BATCH: usize = 4;
const LENGTH: usize = 9;

/// Every folder with weights that the repository has.
const FOLDERS: [&str; 23] = [
    "golden/roformer/tiny-safetensors",
    "golden/roformer/tiny-sharded",
    "golden/roformer/tiny-bin",
    "golden/roformer/tiny-bin-f16",
    "golden/roformer/tiny-legacy-bin",
    "golden/variants/tiny-v2",
    "golden/variants/tiny-sim",
    "golden/decoder/tiny-llama",
    "golden/decoder/tiny-llama-bare",
    "golden/decoder/tiny-qwen2",
    "golden/decoder/tiny-qwen3",
    "examples/models/tiny-classifier",
    "examples/models/tiny-gpt",
    "examples/models/tiny-mlm",
    "examples/models/tiny-ner",
    "examples/models/tiny-qa",
    "examples/models/tiny-sim",
    "examples/models/tiny-v2",
    "golden/families/tiny-bert",
    "golden/families/tiny-roberta",
    "golden/families/tiny-t5-encoder",
    "golden/families/tiny-deberta",
    "golden/families/tiny-xlnet",
];

/// With as many classes as the classifiers among them have.
const TASKS: [Task; 4] = [Task::Language, Task::Text(2), Task::Token(3), Task::Similarity];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// What a test puts into a file of weights, by name.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn tensors(folder: &Path) -> Tensors {
    let weights = Weights::open(folder).unwrap();
    let names: Vec<String> = weights.names().map(str::to_string).collect();
    let read = |name: String| {
        let shape = weights.get(&name).unwrap().shape().to_vec();
        let mut numbers = vec![0.0; shape.iter().product()];
        weights.read_f32(&name, &shape, &mut numbers).unwrap();
        (name, (shape, numbers))
    };
    names.into_iter().map(read).collect()
}

/// The folder of a checkpoint whose tensors and configuration are changed.
fn changed(name: &str, fields: Value, change: impl FnOnce(&mut Tensors)) -> Folder {
    let temporary = Folder::new();
    let mut config: Value =
        serde_json::from_slice(&fs::read(folder(name).join("config.json")).unwrap()).unwrap();
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    temporary.put("config.json", config.to_string());
    let mut all = tensors(&folder(name));
    change(&mut all);
    let list = all.iter().map(|(name, (shape, numbers))| (name.clone(), shape.clone(), &numbers[..]));
    weights::save(temporary.0.join("model.safetensors"), list).unwrap();
    temporary
}

/// A network laid out for a batch of texts, with a checkpoint's tensors.
fn load(network: &Network, weights: &Weights) -> roformer::Result<(Laid<f32>, Loaded)> {
    let mut laid = network.build::<f32>(BATCH, LENGTH, 40)?;
    let layout = laid.graph.layout().clone();
    layout.initialise(3, laid.graph.parameters_mut());
    let loaded = network.load(weights, &layout, laid.graph.parameters_mut())?;
    Ok((laid, loaded))
}

fn open(folder: &Path, task: Task) -> roformer::Result<(Laid<f32>, Loaded)> {
    let (network, weights) = Network::open(folder, task, None)?;
    load(&network, &weights)
}

/// Texts of different lengths, the last the shortest.
fn batch(network: &Network) -> Batch {
    let id = |index: usize, limit: usize| (mix(index as u64) % limit as u64) as u32;
    // A padding token within a text would stand at no position.
    let real = |id: u32| if network.blueprint.padding == Some(id) { id + 1 } else { id };
    let classes = network.task.classes().unwrap_or(network.blueprint.vocabulary);
    Batch {
        ids: (0..BATCH * LENGTH).map(|index| real(id(index, network.blueprint.vocabulary))).collect(),
        mask: (0..BATCH * LENGTH).map(|index| index % LENGTH < LENGTH - index / LENGTH).collect(),
        targets: (0..network.task.targets(BATCH, LENGTH)).map(|index| id(index + 99, classes)).collect(),
        ..Batch::default()
    }
}

fn run(model: &Model, batch: &Batch) -> Output<f32> {
    let (ids, mask) = (&batch.ids, Some(&batch.mask[..]));
    model.forward(&Input { ids, batch: BATCH, token_types: None, mask }).unwrap()
}

/// Writes what is handed over.
fn save(laid: &Laid<f32>, labels: &[String]) -> Folder {
    let temporary = Folder::new();
    let network = laid.network();
    let config = network.to_config(40, labels).unwrap();
    temporary.put("config.json", config.to_string());
    let tensors = network.tensors(laid.graph.layout(), laid.graph.parameters(), 40).unwrap();
    let list = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone(), &tensor.numbers[..]));
    weights::save(temporary.0.join("model.safetensors"), list).unwrap();
    temporary
}

/// Compares rows that are real: the sums of both sides run in orders of their own.
fn close(what: &str, got: &[f32], wanted: &[f32], mask: Option<&[bool]>) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let width = mask.map_or(1, |mask| got.len() / mask.len());
    let is_real = |index: usize| mask.is_none_or(|mask| mask[index / width]);
    let largest = wanted.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate().filter(|(index, _)| is_real(*index)) {
        let error = (got - wanted).abs();
        assert!(error <= 2e-5 * largest, "{what}[{index}]: {got}, not {wanted}");
    }
}

/// The rows of vectors scaled to length 1.
fn unit(vectors: &[f32], width: usize) -> Vec<f32> {
    let scaled = |row: &[f32]| -> Vec<f32> {
        let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        row.iter().map(|&x| (f64::from(x) / length) as f32).collect()
    };
    vectors.chunks(width).flat_map(scaled).collect()
}

/// The mean over real tokens, as `Pipeline::embed` takes it.
fn means(hidden: &[f32], mask: &[bool], width: usize) -> Vec<f32> {
    let text = |text: usize| {
        let tokens: Vec<usize> = (text * LENGTH..(text + 1) * LENGTH).filter(|&token| mask[token]).collect();
        let column = move |i: usize| {
            let sum: f64 = tokens.iter().map(|token| f64::from(hidden[token * width + i])).sum();
            (sum / tokens.len() as f64) as f32
        };
        (0..width).map(column)
    };
    (0..BATCH).flat_map(text).collect()
}

/// The mean cross-entropy of scores `[tokens, vocabulary]`.
fn cross_entropy(scores: &[f32], targets: &[u32]) -> f64 {
    let rows = scores.chunks(scores.len() / targets.len()).zip(targets);
    let loss = |(row, &target): (&[f32], &u32)| {
        let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        total.ln() - f64::from(row[target as usize])
    };
    rows.map(loss).sum::<f64>() / targets.len() as f64
}

/// A small network that can be handed over.
fn small() -> Network {
    let config = json!({
        "vocab_size": 9, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 10,
    });
    Network::from_config(config.to_string().as_bytes(), Task::Language, None).unwrap()
}

#[track_caller]
fn refused<T>(result: roformer::Result<T>, words: &[&str]) {
    let message = match result {
        Ok(_) => panic!("accepted, where {words:?} should be named"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "`{word}` is not named in: {message}");
    }
    assert!(!message.chars().any(char::is_control), "control characters in {message:?}");
}
