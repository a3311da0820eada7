//! Checkpoints to begin from and folders that are handed over: what a network gives before and after is what the models
//! that are only run give. And what cannot be: each an error that names it.

use roformer::encoding::{Alibi, Encoding, Rotary, Shaw};
use roformer::graph::{Batch, mix};
use roformer::model::{Input, Model, Output};
use roformer::network::{Family, Form, Laid, LinearForm, Loaded, Mixing, Network, RoFormerForm, Task};
use roformer::ops::Activation;
use roformer::weights::{self, Weights};
use rope::Pairing;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const BATCH: usize = 4;
const LENGTH: usize = 9;

/// Every folder with weights that the repository has.
const FOLDERS: [&str; 18] = [
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
];

/// With as many classes as the classifiers among them have.
const TASKS: [Task; 4] = [Task::Language, Task::Text(2), Task::Token(3), Task::Similarity];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// A folder that goes away with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("hand-over-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
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
fn changed(name: &str, fields: Value, change: impl FnOnce(&mut Tensors)) -> Temporary {
    let temporary = Temporary::new();
    let mut config: Value =
        serde_json::from_slice(&fs::read(folder(name).join("config.json")).unwrap()).unwrap();
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    fs::write(temporary.0.join("config.json"), config.to_string()).unwrap();
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
    let classes = network.task.classes().unwrap_or(network.vocabulary);
    Batch {
        ids: (0..BATCH * LENGTH).map(|index| id(index, network.vocabulary)).collect(),
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
fn save(laid: &Laid<f32>, labels: &[String]) -> Temporary {
    let temporary = Temporary::new();
    let network = laid.network();
    let config = network.to_config(40, labels).unwrap();
    fs::write(temporary.0.join("config.json"), config.to_string()).unwrap();
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

/// From every checkpoint, for every task: hidden states are the model's; handed over and loaded again by the models that
/// are only run, all outputs are the network's; and opened to be trained on, the network and its parameters are the same.
#[test]
fn every_checkpoint_begins_every_task_and_is_handed_over() {
    for name in FOLDERS {
        let before = Model::load(folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for task in TASKS {
            let what = format!("{name}, {task:?}");
            let (mut laid, loaded) =
                open(&folder(name), task).unwrap_or_else(|error| panic!("{what}: {error}"));
            let batch = batch(laid.network());
            laid.set(batch.clone()).unwrap();
            let loss = laid.graph.forward();
            let (hidden, mask) = (laid.graph.value(laid.hidden), Some(&batch.mask[..]));
            // A decoder that judges texts by their first token is a decoder no longer.
            if laid.network().is_causal == (before.is_decoder() && !before.is_unilm()) {
                close(&what, hidden, &run(&before, &batch).last_hidden_state, mask);
            }
            assert!(loaded.missing.iter().all(|name| !name.contains("layer")), "{what}: {loaded:?}");

            let labels: Vec<String> =
                (0..task.classes().unwrap_or(0)).map(|class| format!("类 {class}")).collect();
            let saved = save(&laid, &labels);
            let after = Model::load(&saved.0).unwrap_or_else(|error| panic!("{what}: {error}"));
            let output = run(&after, &batch);
            close(&what, &output.last_hidden_state, hidden, mask);
            let scores = output.logits.map(|logits| logits.scores);
            match task {
                Task::Language => {
                    let wanted = cross_entropy(&scores.unwrap(), &batch.targets);
                    assert!((loss - wanted).abs() <= 1e-5 * wanted, "{what}: {loss}, not {wanted}");
                }
                Task::Text(_) => close(&what, &scores.unwrap(), laid.graph.value(laid.scores.unwrap()), None),
                Task::Token(_) => {
                    close(&what, &scores.unwrap(), laid.graph.value(laid.scores.unwrap()), mask)
                }
                Task::Similarity => {
                    let width = laid.network().width;
                    assert_eq!(output.pooled.is_some(), before.is_unilm(), "{what}");
                    let means = || means(&output.last_hidden_state, &batch.mask, width);
                    let vectors = output.pooled.clone().unwrap_or_else(means);
                    close(&what, laid.graph.value(laid.vectors.unwrap()), &unit(&vectors, width), None);
                }
            }
            if task.classes().is_some() {
                assert_eq!(after.label(1), "类 1", "{what}");
            }

            let (again, loaded) = open(&saved.0, task).unwrap();
            assert_eq!(again.network(), laid.network(), "{what}");
            // The unused one is a bias that transformers has twice.
            assert_eq!(loaded, Loaded::default(), "{what}");
            assert_eq!(again.graph.parameters(), laid.graph.parameters(), "{what}");
        }
    }
}

/// Models of which the repository has no weights: weights of their own are handed over and loaded.
#[test]
fn relatives_without_weights_go_round() {
    let small = json!({
        "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 24,
    });
    let llama = json!({"num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64});
    let with = |parts: &[&Value]| {
        let all = parts.iter().flat_map(|part| part.as_object().unwrap().clone());
        Value::Object(all.collect())
    };
    let rope =
        |fields: Value| with(&[&small, &llama, &json!({"model_type": "llama", "rope_scaling": fields})]);
    for config in [
        with(&[&small, &json!({"model_type": "roformer", "embedding_size": 10, "hidden_act": "gelu_new"})]),
        with(&[&small, &json!({"rotary_value": true, "type_vocab_size": 3, "tie_word_embeddings": false})]),
        with(&[
            &small,
            &json!({"norm_type": "rms_norm", "tie_word_embeddings": false, "hidden_act": "tanh"}),
        ]),
        with(&[&small, &json!({"norm_type": "rms_norm", "use_bias": false, "hidden_act": "silu"})]),
        with(&[&small, &llama, &json!({"model_type": "mistral", "sliding_window": null})]),
        with(&[&small, &llama, &json!({"model_type": "llama", "attention_bias": true, "mlp_bias": true})]),
        with(&[&small, &llama, &json!({"model_type": "qwen3", "attention_bias": true, "rope_theta": 1e6})]),
        with(&[
            &small,
            &llama,
            &json!({"model_type": "minimind", "inference_rope_scaling": true, "head_dim": 8}),
        ]),
        rope(json!({"rope_type": "linear", "factor": 2.0})),
        rope(json!({"rope_type": "dynamic", "factor": 2.0})),
        rope(
            json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 16.0}),
        ),
        rope(
            json!({"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.0, 2.0, 3.0],
            "original_max_position_embeddings": 4, "factor": 16.0}),
        ),
        rope(json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16})),
    ] {
        let bytes = config.to_string();
        for task in TASKS {
            let network = Network::from_config(bytes.as_bytes(), task, None)
                .unwrap_or_else(|error| panic!("{config}: {error}"));
            let mut laid = network.build::<f32>(BATCH, LENGTH, 40).unwrap();
            let layout = laid.graph.layout().clone();
            layout.initialise(5, laid.graph.parameters_mut());
            // Of a size that shows: deviations of 0.02 leave all hidden states alike.
            laid.graph.parameters_mut().iter_mut().enumerate().for_each(|(index, x)| {
                *x += ((mix(index as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.2;
            });
            let batch = batch(&network);
            laid.set(batch.clone()).unwrap();
            laid.graph.forward();
            let saved = save(&laid, &[]);
            let model = Model::load(&saved.0).unwrap_or_else(|error| panic!("{config}, {task:?}: {error}"));
            let hidden = laid.graph.value(laid.hidden);
            close(&bytes, &run(&model, &batch).last_hidden_state, hidden, Some(&batch.mask));
            let (again, loaded) = open(&saved.0, task).unwrap();
            assert_eq!((again.network(), &loaded), (&network, &Loaded::default()), "{config}");
        }
    }
}

/// Newer MiniMinds have norms of heads, and only their tensors say so. They are handed over as what they are.
#[test]
fn minimind_is_known_by_its_tensors() {
    let fields =
        json!({"model_type": "minimind", "architectures": ["MiniMindForCausalLM"], "rope_theta": 1e4});
    for (name, family) in [
        ("golden/decoder/tiny-qwen3", Family::Qwen3 { attention_bias: false }),
        ("golden/decoder/tiny-llama", Family::default()),
    ] {
        let copy = changed(name, fields.clone(), |_| {});
        let (mut laid, _) = open(&copy.0, Task::Language).unwrap();
        assert!(matches!(laid.network().form, Form::Llama(form) if form.family == family), "{name}");
        let batch = batch(laid.network());
        laid.set(batch.clone()).unwrap();
        laid.graph.forward();
        let hidden = laid.graph.value(laid.hidden);
        let wanted = run(&Model::load(&copy.0).unwrap(), &batch).last_hidden_state;
        close(name, hidden, &wanted, Some(&batch.mask));
        let class = laid.network().to_config(40, &[]).unwrap()["architectures"][0].clone();
        assert_eq!(class, format!("{}ForCausalLM", family.class()));
    }
}

/// With and without the prefix of a model with a head, and under the names that norms once had.
#[test]
fn tensors_are_known_by_their_older_names() {
    let name = "golden/roformer/tiny-safetensors";
    let (wanted, _) = open(&folder(name), Task::Text(2)).unwrap();
    let rename = |change: &dyn Fn(&str) -> Option<String>| {
        changed(name, json!({"architectures": null}), |tensors| {
            let all = std::mem::take(tensors).into_iter();
            tensors.extend(all.filter_map(|(name, tensor)| Some((change(&name)?, tensor))));
        })
    };
    let bare = rename(&|name| name.strip_prefix("roformer.").map(str::to_string));
    let old = rename(&|name| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        Some(name.replace("LayerNorm.bias", "LayerNorm.beta"))
    });
    for (copy, unused) in [(bare, 0), (old, 5)] {
        let (laid, loaded) = open(&copy.0, Task::Text(2)).unwrap();
        assert_eq!(laid.graph.parameters(), wanted.graph.parameters());
        assert_eq!((loaded.missing.len(), loaded.unused.len()), (4, unused), "{loaded:?}");
    }
}

/// Heads that a checkpoint does not have keep their numbers; those that nothing asks for are named.
#[test]
fn heads_may_be_missing() {
    let classifier = ["classifier.dense", "classifier.out_proj"];
    let both = |name: &&str| [format!("{name}.weight"), format!("{name}.bias")];
    let (network, weights) = Network::open(folder(FOLDERS[0]), Task::Text(2), None).unwrap();
    let (laid, loaded) = load(&network, &weights).unwrap();
    assert_eq!(loaded.missing, classifier.iter().flat_map(both).collect::<Vec<_>>());
    assert!(loaded.unused.iter().all(|name| name.starts_with("cls.predictions.")), "{loaded:?}");
    assert_eq!(loaded.unused.len(), 5);
    let mut first = vec![0.0; laid.graph.layout().len()];
    laid.graph.layout().initialise(3, &mut first);
    for entry in laid.graph.layout().entries() {
        let is_kept = laid.graph.parameters()[entry.range.clone()] == first[entry.range.clone()];
        // Norms and biases of a model that was never trained may be what they are at first.
        assert!(is_kept || !loaded.missing.contains(&entry.name), "{}", entry.name);
        assert!(!is_kept || loaded.missing.contains(&entry.name) || !entry.is_matrix(), "{}", entry.name);
    }
    // RoFormer-Sim's pooler is used by one task alone.
    let sim = folder("golden/variants/tiny-sim");
    assert!(open(&sim, Task::Similarity).unwrap().1.missing.is_empty());
    let unused = open(&sim, Task::Token(2)).unwrap().1.unused;
    assert!(unused.contains(&"roformer.pooler.dense.weight".to_string()), "{unused:?}");
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

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let name = FOLDERS[0];
    let query = "roformer.encoder.layer.1.attention.self.query.weight";
    type Change = fn(&mut Tensors);
    let cases: [(Change, &[&str]); 5] = [
        (|all| drop(all.remove("roformer.encoder.layer.1.attention.self.query.weight")), &["missing", query]),
        (
            |all| {
                let tensor = all.get_mut("roformer.encoder.layer.1.attention.self.query.weight").unwrap();
                tensor.0 = vec![8, 32];
            },
            &[query, "[8, 32]", "[16, 16]"],
        ),
        (
            |all| drop(all.insert("roformer.encoder.layer.2.output.dense.bias".into(), (vec![1], vec![0.0]))),
            &["unexpected", "roformer.encoder.layer.2.output.dense.bias"],
        ),
        (
            |all| all.retain(|name, _| !name.contains("bias") && !name.contains("LayerNorm")),
            &["RoFormerV2", "norm_type"],
        ),
        (
            |all| all.get_mut("roformer.encoder.embed_positions.weight").unwrap().1[7] += 0.5,
            &["table of positions", "embed_positions"],
        ),
    ];
    for (change, words) in cases {
        refused(open(&changed(name, json!({}), change).0, Task::Language), words);
    }
    // A head of another size, or half of one.
    let classifier = "examples/models/tiny-classifier";
    refused(open(&folder(classifier), Task::Text(5)), &["classifier.out_proj.weight", "[2, 64]", "[5, 64]"]);
    // The first RoFormer's weights as RoFormerV2's.
    let lie = changed(name, json!({"norm_type": "rms_norm", "use_bias": false}), |_| {});
    refused(open(&lie.0, Task::Token(2)), &["the first RoFormer"]);
    // Fewer and more layers, another width, a vocabulary that no memory holds.
    for (fields, words) in [
        (json!({"num_hidden_layers": 1}), &["unexpected", "layer.1"][..]),
        (json!({"num_hidden_layers": 3}), &["missing", "layer.2"]),
        (json!({"intermediate_size": 38}), &["intermediate.dense.weight", "[37, 16]", "[38, 16]"]),
        (json!({"hidden_size": 32, "embedding_size": 32}), &["table of positions", "heads of 16"]),
        (json!({"num_hidden_layers": 1 << 24, "vocab_size": 1 << 24}), &["memory"]),
        (json!({"num_hidden_layers": 1 << 24}), &["memory"]),
    ] {
        refused(open(&changed(name, fields, |_| {}).0, Task::Language), words);
    }
    // Parameters of another network.
    let (network, weights) = Network::open(folder(name), Task::Language, None).unwrap();
    let laid = network.build::<f32>(2, 4, 8).unwrap();
    refused(network.load(&weights, laid.graph.layout(), &mut [0f32; 7]), &["7"]);
    refused(network.tensors(laid.graph.layout(), &[0.0; 7], 8), &["7"]);
}

#[test]
fn configurations_that_cannot_be_trained_are_refused_by_name() {
    let read = |config: Value, task: Task, is_causal: Option<bool>| {
        Network::from_config(config.to_string().as_bytes(), task, is_causal)
    };
    for (config, words) in [
        (json!({"model_type": "bert"}), &["model_type", "bert", "roformer"][..]),
        (json!({"model_type": 5}), &["model_type", "5"]),
        (json!({"is_decoder": true, "add_cross_attention": true}), &["add_cross_attention"]),
        (json!({"model_type": "mistral", "sliding_window": 64}), &["sliding_window", "64"]),
        (json!({"model_type": "mixtral"}), &["experts"]),
        (json!({"hidden_dropout_prob": 1.0}), &["hidden_dropout_prob", "1.0"]),
        (json!({"model_type": "llama", "attention_dropout": "much"}), &["attention_dropout", "much"]),
        (json!({"hidden_size": 0}), &["hidden_size", "0"]),
        (json!({"hidden_act": "mish"}), &["hidden_act", "mish"]),
        (json!({"model_type": "roformer-alibi"}), &["model_type", "roformer-alibi"]),
        (json!({"model_type": "roformer", "position_encoding": "alibi"}), &["model_type", "-alibi"]),
        (
            json!({"model_type": "roformer-alibi", "position_encoding": "best"}),
            &["position_encoding", "best"],
        ),
        (json!({"model_type": "llama", "head_dim": 7, "hidden_size": 28, "num_attention_heads": 4}), &["7"]),
        (json!([]), &["object"]),
    ] {
        refused(read(config, Task::Language, None), words);
    }
    refused(Network::from_config(b"{", Task::Language, None), &["config.json"]);
    refused(read(json!({"model_type": "llama"}), Task::Similarity, Some(false)), &["causal", "llama"]);
    let small = json!({"hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9, "is_decoder": true});
    let by_first = read(small, Task::Text(2), Some(true)).unwrap();
    refused(by_first.build::<f32>(2, 4, 8).map(drop), &["causal", "first token"]);
    let narrow =
        json!({"norm_type": "rms_norm", "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 2});
    refused(read(narrow, Task::Language, None).unwrap().build::<f32>(2, 4, 8).map(drop), &["4", "8"]);
}

/// A small network that can be handed over.
fn small() -> Network {
    let config = json!({
        "vocab_size": 9, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 10,
    });
    Network::from_config(config.to_string().as_bytes(), Task::Language, None).unwrap()
}

/// Encodings that no other program knows have a type of their own, which none runs as if it were rotary.
#[test]
fn other_encodings_are_handed_over_under_names_of_their_own() {
    for encoding in Encoding::all().into_iter().filter(|encoding| encoding.name() != "rotary") {
        let name = encoding.name();
        let network = Network { encoding, is_causal: true, ..small() };
        let config = network.to_config(40, &[]).unwrap();
        assert_eq!(config["model_type"], format!("roformer-{name}"));
        let bytes = config.to_string();
        assert_eq!(Network::from_config(bytes.as_bytes(), Task::Language, None).unwrap(), network, "{name}");
        let laid = network.build::<f32>(BATCH, LENGTH, 40).unwrap();
        let saved = save(&laid, &[]);
        refused(Model::load(&saved.0).map(drop), &["model_type"]);
        let (_, loaded) = open(&saved.0, Task::Language).unwrap();
        assert_eq!(loaded, Loaded::default(), "{name}");
    }
}

#[test]
fn what_no_config_describes_is_not_handed_over() {
    let small = small();
    let roformer = |form: RoFormerForm| Form::RoFormer(form);
    let rotary = |rotary: Rotary| Encoding::Rotary(rotary);
    for (network, words) in [
        (Network { form: Form::Plain, ..small.clone() }, &["plain encoder"][..]),
        (
            Network { mixing: Mixing::Linear(LinearForm::default()), ..small.clone() },
            &["attention", "Linear"],
        ),
        (Network { key_heads: 1, ..small.clone() }, &["key heads", "1"]),
        (Network { head_dim: 8, ..small.clone() }, &["width of a head", "8"]),
        (
            Network { encoding: rotary(Rotary { base: 500.0, ..Rotary::default() }), ..small.clone() },
            &["encoding", "500"],
        ),
        (
            Network {
                encoding: rotary(Rotary { pairing: Pairing::Half, ..Rotary::default() }),
                ..small.clone()
            },
            &["encoding", "Half"],
        ),
        (
            Network { encoding: rotary(Rotary { is_learned: true, ..Rotary::default() }), ..small.clone() },
            &["encoding", "is_learned"],
        ),
        (
            Network { encoding: Encoding::Shaw(Shaw { left: 3, ..Shaw::default() }), ..small.clone() },
            &["encoding", "3"],
        ),
        (
            Network {
                form: roformer(RoFormerForm { pooler: Some(Activation::Tanh), ..RoFormerForm::default() }),
                ..small.clone()
            },
            &["form", "Tanh"],
        ),
    ] {
        refused(network.to_config(40, &[]), words);
    }
    let judge = Network { task: Task::Text(2), ..small.clone() };
    refused(judge.to_config(40, &["one".into()]), &["labels", "1", "2"]);
    refused(judge.to_config(40, &["one".into(), "one".into()]), &["labels", "one"]);
    assert_eq!(judge.to_config(40, &[]).unwrap()["id2label"]["1"], "LABEL_1");
    // ALiBi has no settings to lose.
    Network { encoding: Encoding::Alibi(Alibi), ..small }.to_config(40, &[]).unwrap();
}

/// Batches of pairs that cannot be.
#[test]
fn pairs_that_do_not_fit_are_refused() {
    let network = Network { task: Task::Similarity, ..small() };
    refused(network.build::<f32>(3, 4, 8).map(drop), &["batch", "3", "even"]);
    refused(network.build::<f32>(1 << 24, 1, 8).map(drop), &["memory"]);
    let mut laid = network.build::<f32>(4, 3, 8).unwrap();
    let good = Batch { ids: vec![1; 12], ..Batch::default() };
    laid.set(good.clone()).unwrap();
    let mask = |empty: &[usize]| (0..12).map(|token| !empty.contains(&(token / 3))).collect();
    for (batch, words) in [
        (Batch { scores: vec![0.5], ..good.clone() }, &["scores", "1", "2"][..]),
        (Batch { scores: vec![0.5, 1.5], ..good.clone() }, &["score", "1.5", "-1 to 1"]),
        (Batch { scores: vec![f32::NAN, 0.0], ..good.clone() }, &["score", "NaN"]),
        (Batch { targets: vec![1; 4], ..good.clone() }, &["targets", "4", "0"]),
        (Batch { mask: mask(&[2]), ..good.clone() }, &["mask", "text 2"]),
    ] {
        refused(laid.set(batch), words);
    }
    laid.set(Batch { mask: mask(&[2, 3]), scores: vec![0.5, 0.0], ..good }).unwrap();
    assert!(laid.graph.forward().is_finite());
    let mut two = network.build::<f32>(2, 3, 8).unwrap();
    refused(two.set(Batch { ids: vec![1; 6], ..Batch::default() }), &["batch", "2", "4"]);
    two.set(Batch { ids: vec![1; 6], scores: vec![1.0], ..Batch::default() }).unwrap();
    // Scores are for pairs alone; a text that is judged has a token.
    let judge = Network { task: Task::Text(2), ..small() };
    let mut laid = judge.build::<f32>(2, 3, 8).unwrap();
    let batch = Batch { ids: vec![1; 6], targets: vec![0, 1], ..Batch::default() };
    refused(laid.set(Batch { scores: vec![0.5], ..batch.clone() }), &["scores", "1", "0"]);
    let empty = vec![true, true, true, false, false, false];
    refused(laid.set(Batch { mask: empty.clone(), ..batch.clone() }), &["mask", "text 1"]);
    laid.set(Batch { mask: empty, targets: vec![0, u32::MAX], ..batch }).unwrap();
    assert!(laid.graph.step(1.0).is_finite());
    assert!(laid.graph.gradients().iter().all(|gradient| gradient.is_finite()));
}
