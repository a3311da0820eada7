//! Checkpoints that TensorFlow wrote: `golden/tensorflow`, made by `golden/tensorflow_checkpoints.py`.

use crate::files::{Folder, le, read, says};
use roformer::blueprint::{Blueprint, Direction, HeadKind};
use roformer::model::{Input, Model};
use roformer::network::{Network, Task};
use roformer::ops::Activation;
use roformer::weights::{Dtype, Weights};
use std::fs;
use std::path::{Path, PathBuf};

const MODELS: [&str; 4] = ["roformer", "roformer-v2", "roformer-sim", "bert"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/tensorflow").join(name)
}

/// A folder with a copy of a golden one's files.
pub fn copied(name: &str) -> Folder {
    let folder = Folder::new();
    for entry in fs::read_dir(golden(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            folder.put(path.file_name().unwrap().to_str().unwrap(), fs::read(&path).unwrap());
        }
    }
    folder
}

#[test]
fn tensors_are_those_of_the_safetensors_bit_by_bit() {
    for name in MODELS {
        let folder = golden(name);
        let (ours, wanted) =
            (Weights::of_model(&folder).unwrap(), Weights::of_model(folder.join("converted")).unwrap());
        assert_eq!(ours.names().collect::<Vec<_>>(), wanted.names().collect::<Vec<_>>(), "{name}");
        for tensor in ours.names() {
            assert_eq!(ours.get(tensor).unwrap().shape(), wanted.get(tensor).unwrap().shape(), "{tensor}");
            assert_eq!(le(&read(&ours, tensor)), le(&read(&wanted, tensor)), "{name}: {tensor}");
        }
        assert!(ours.is_tensorflow() && !wanted.is_tensorflow());
    }
}

/// The file can be named in each way, and its names are TensorFlow's until it is read as a model.
#[test]
fn a_checkpoint_by_its_file_and_by_its_name() {
    let folder = golden("roformer");
    let name = "bert/encoder/layer_1/intermediate/dense/kernel";
    for path in [folder.clone(), folder.join("bert_model.ckpt"), folder.join("bert_model.ckpt.index")] {
        let weights = Weights::open(&path).unwrap();
        assert_eq!(weights.path(), folder.join("bert_model.ckpt.index"));
        assert_eq!(weights.get(name).unwrap().shape(), [16, 32]);
        assert!(weights.left_out().is_empty());
    }
    let message = Weights::open(folder.join("bert_model.ckpt.data-00000-of-00001")).unwrap_err().to_string();
    says(&message, &["data-00000-of-00001: the numbers of a TensorFlow checkpoint alone", "pass that file"]);
    let message = Weights::open(folder.join("bert_model")).unwrap_err().to_string();
    says(&message, &["cannot open"]);
}

#[test]
fn what_training_leaves_is_left_out() {
    let weights = Weights::of_model(golden("roformer")).unwrap();
    let all = Weights::open(golden("roformer")).unwrap();
    assert_eq!(weights.left_out().len() + weights.len(), all.len());
    for name in ["global_step", "cls/seq_relationship/output_bias", "bert/embeddings/LayerNorm/gamma/adam_v"]
    {
        assert!(weights.left_out().iter().any(|left| left == name), "{name}");
        assert!(all.get(name).is_some(), "{name}");
    }
    // What is known by none of these names stays, and a model that does not have it says so.
    let message = Blueprint::open(golden("types")).unwrap_err().to_string();
    says(&message, &["config.json", "no such file"]);
    assert!(Weights::of_model(golden("types")).unwrap().get("float64").is_some());
}

/// And what TensorFlow computes from the variables of the checkpoint.
#[test]
fn models_give_what_their_safetensors_give() {
    let (ids, types) = ([2, 7, 4, 9, 3, 2, 5, 28, 1, 3], [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]);
    let outputs = Weights::open(golden("outputs.safetensors")).unwrap();
    let input = Input { ids: &ids, batch: 2, token_types: Some(&types), mask: None };
    for name in MODELS {
        let folder = golden(name);
        let [ours, wanted] = [&folder, &folder.join("converted")].map(|path| Model::load(path).unwrap());
        assert_eq!(ours.blueprint(), wanted.blueprint(), "{name}");
        let [ours, wanted] = [ours, wanted].map(|model| model.forward(&input).unwrap());
        assert_eq!(le(&ours.last_hidden_state), le(&wanted.last_hidden_state), "{name}");
        let exact = read(&outputs, &format!("{name}.last_hidden_state"));
        for (ours, exact) in ours.last_hidden_state.iter().zip(&exact) {
            // Numbers of up to 4, after two layers in f32.
            assert!((ours - exact).abs() <= 2e-6, "{name}: {ours} where TensorFlow has {exact}");
        }
        assert_eq!(ours.last_hidden_state.len(), exact.len());
        let [ours_pooled, wanted_pooled] = [ours.pooled, wanted.pooled];
        assert_eq!(ours_pooled.map(|pooled| le(&pooled)), wanted_pooled.map(|pooled| le(&pooled)), "{name}");
        let [ours, wanted] = [ours.logits, wanted.logits].map(|logits| le(&logits.unwrap().scores));
        assert_eq!(ours, wanted, "{name}");
    }
}

/// `bert_config.json` gives sizes alone; the rest is told by the tensors.
#[test]
fn which_model_it_is() {
    let open = |name: &str| Blueprint::open(golden(name)).unwrap().0;
    let first = open("roformer");
    assert_eq!(first, Blueprint { pooler: first.pooler, longest: 512, ..first.clone() });
    assert_eq!((first.pooler, first.direction), (Some(Activation::Tanh), Direction::Both));
    assert_eq!((first.head, first.embedding, first.width), (HeadKind::MaskedLm, 12, 16));
    let second = open("roformer-v2");
    assert_eq!((second.biases.queries, second.output.transform, second.pooler), (false, None, None));
    assert_eq!((second.head, second.activation), (HeadKind::MaskedLm, Activation::Relu));
    let sim = open("roformer-sim");
    assert_eq!((sim.pooler, sim.direction), (Some(Activation::Identity), Direction::Prefix));
    assert_eq!(sim.head, HeadKind::CausalLm);
    assert_eq!(open("bert").family.model_type(), "bert");

    // What the file says is believed: RoFormer-GPT's tensors are those of RoFormer.
    let folder = copied("roformer-v2");
    let config = fs::read_to_string(folder.0.join("bert_config.json")).unwrap();
    folder.put("bert_config.json", config.replacen('{', r#"{"is_decoder": true,"#, 1));
    let gpt = Blueprint::open(&folder.0).unwrap().0;
    assert_eq!((gpt.direction, gpt.head), (Direction::Causal, HeadKind::CausalLm));
    // A config.json is what counts where there is one.
    folder.put("config.json", fs::read(golden("roformer-v2/converted/config.json")).unwrap());
    assert_eq!(Blueprint::open(&folder.0).unwrap().0, second);

    folder.put("bert_config.json", "{");
    fs::remove_file(folder.0.join("config.json")).unwrap();
    says(&Blueprint::open(&folder.0).unwrap_err().to_string(), &["bert_config.json"]);
}

#[test]
fn training_begins_with_a_checkpoint() {
    let (network, weights) = Network::open(golden("roformer"), Task::Text(3), None).unwrap();
    let mut laid = network.build::<f32>(1, 8, 8).unwrap();
    let layout = laid.graph.layout().clone();
    let loaded = network.load(&weights, &layout, laid.graph.parameters_mut()).unwrap();
    assert_eq!(loaded.missing.len(), 4, "{loaded:?}");
    let entry = layout.entries().iter().find(|entry| entry.name.ends_with("0.output.dense.weight")).unwrap();
    let wanted = read(&weights, "roformer.encoder.layer.0.output.dense.weight");
    assert_eq!(laid.graph.parameters_mut()[entry.range.clone()], wanted);
}

#[test]
fn every_type_of_number() {
    let weights = Weights::open(golden("types")).unwrap();
    let types = [
        ("float64", Dtype::F64),
        ("float32", Dtype::F32),
        ("float16", Dtype::F16),
        ("bfloat16", Dtype::BF16),
        ("int64", Dtype::I64),
        ("int32", Dtype::I32),
        ("int16", Dtype::I16),
        ("int8", Dtype::I8),
        ("uint64", Dtype::U64),
        ("uint32", Dtype::U32),
        ("uint16", Dtype::U16),
        ("uint8", Dtype::U8),
        ("bool", Dtype::Bool),
    ];
    for (name, dtype) in types {
        assert_eq!((weights.get(name).unwrap().dtype(), weights.get(name).unwrap().len()), (dtype, 6));
        match dtype.is_float() {
            true => assert_eq!(read(&weights, name), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "{name}"),
            false => {
                let message = weights.read_f32(name, &[2, 3], &mut [0.0; 6]).unwrap_err().to_string();
                says(&message, &[name, "expected F32"]);
            }
        }
    }
    assert_eq!(read(&weights, "scalar"), [0.5]);
    assert_eq!(weights.get("empty").unwrap().shape(), [3, 0]);
    // A text is no weight.
    assert_eq!(weights.len(), types.len() + 2);
}

#[test]
fn a_variable_in_parts_is_refused_by_name() {
    let message = Weights::open(golden("partitioned")).unwrap_err().to_string();
    says(&message, &["bert_model.ckpt.index", "tensor `cut`", "in several parts", "without a partitioner"]);
}

/// Whatever byte of the table is another, it is refused; of the numbers, when they are read.
#[test]
fn no_byte_can_be_changed_or_cut() {
    let folder = copied("roformer-v2");
    let (index, data) =
        (folder.0.join("bert_model.ckpt.index"), folder.0.join("bert_model.ckpt.data-00000-of-00001"));
    let (table, numbers) = (fs::read(&index).unwrap(), fs::read(&data).unwrap());
    for len in 0..table.len() {
        fs::write(&index, &table[..len]).unwrap();
        let message = Weights::open(&folder.0).expect_err(&format!("{len} bytes")).to_string();
        says(&message, &["bert_model.ckpt.index"]);
    }
    for at in 0..table.len() {
        let mut changed = table.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&index, &changed).unwrap();
        let message = Weights::open(&folder.0).expect_err(&format!("byte {at}")).to_string();
        says(&message, &["bert_model.ckpt.index"]);
    }
    fs::write(&index, &table).unwrap();

    let file = fs::File::options().write(true).open(&data).unwrap();
    for len in (0..numbers.len()).rev() {
        file.set_len(len as u64).unwrap();
        let message = Weights::open(&folder.0).expect_err(&format!("{len} bytes of data")).to_string();
        says(&message, &["bert_model.ckpt.index", "tensor `", &format!("in a file of {len}")]);
    }
    fs::write(&data, &numbers).unwrap();
    let weights = Weights::of_model(&folder.0).unwrap();
    let name = "roformer.encoder.layer.1.output.dense.weight";
    let whole = read(&weights, name);
    for at in (0..numbers.len()).step_by(31) {
        let mut changed = numbers.clone();
        changed[at] ^= 0x10;
        fs::write(&data, &changed).unwrap();
        let mut out = vec![0.0; whole.len()];
        match weights.read_f32(name, &[16, 32], &mut out) {
            Ok(()) => assert_eq!(le(&out), le(&whole), "byte {at}"),
            Err(error) => says(&error.to_string(), &["data-00000-of-00001", name, "checksum"]),
        }
        // Of all tensors, the one in which that byte stands.
        let is_refused = |name: &&str| {
            let tensor = weights.get(name).unwrap();
            weights.read_f32(name, tensor.shape(), &mut vec![0.0; tensor.len()]).is_err()
        };
        assert_eq!(weights.names().filter(is_refused).count(), 1, "byte {at}");
    }
}

#[test]
fn folders_with_several_checkpoints_or_half_of_one() {
    let folder = copied("roformer-sim");
    // One of the releases' name is what is meant; of two others, nobody knows.
    for name in ["a.ckpt", "b.ckpt"] {
        folder.put(&format!("{name}.index"), "anything");
        folder.put(&format!("{name}.data-00000-of-00001"), "anything");
        Weights::open(&folder.0).unwrap();
    }
    fs::remove_file(folder.0.join("bert_model.ckpt.data-00001-of-00002")).unwrap();
    let message = Weights::open(&folder.0).unwrap_err().to_string();
    says(
        &message,
        &["in bert_model.ckpt.data-00001-of-00002, which is not there", "download the missing one"],
    );
    fs::remove_file(folder.0.join("bert_model.ckpt.index")).unwrap();
    let message = Weights::open(&folder.0).unwrap_err().to_string();
    says(&message, &["several checkpoints, a.ckpt.index and b.ckpt.index among them", "move the others"]);
    fs::remove_file(folder.0.join("b.ckpt.index")).unwrap();
    says(&Weights::open(&folder.0).unwrap_err().to_string(), &["a.ckpt.index: a file of 8 bytes"]);
    // Another program's file.
    fs::remove_file(folder.0.join("a.ckpt.data-00000-of-00001")).unwrap();
    says(&Weights::open(&folder.0).unwrap_err().to_string(), &["no weights in", "bert_model.ckpt.index"]);
}
