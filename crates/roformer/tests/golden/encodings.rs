//! Losses and gradients of position encodings against PyTorch in f64: `golden/encodings`, made by `golden/position_encodings.py`.

use super::case::{flat, read_from, tensor};
use roformer::blueprint::{Blueprint, Dims, Norms};
use roformer::encoding::Encoding;
use roformer::graph::Batch;
use roformer::model::{Hashed, Parameters};
use roformer::network::{Laid, Network, Task};
use serde_json::Value;

/// The network of a case with its weights and its batch.
fn lay(sizes: &Value, case: &Value) -> Laid<f64> {
    let size = |field: &str| sizes[field].as_u64().unwrap() as usize;
    let (width, heads) = (size("hidden_size"), size("num_attention_heads"));
    let dims = Dims { vocabulary: size("vocab_size"), width, layers: size("num_hidden_layers"), heads };
    let plain = Blueprint::plain(dims);
    let blueprint = Blueprint {
        wide: size("intermediate_size"),
        norms: Norms { epsilon: sizes["layer_norm_eps"].as_f64().unwrap(), ..plain.norms },
        encoding: Encoding::parse(case["label"].as_str().unwrap()).unwrap(),
        ..plain
    };
    let network = Network { blueprint, dropout: 0.0, task: Task::Language };
    let mut laid = network.build::<f64>(size("batch"), size("length"), size("length")).unwrap();
    for entry in laid.graph.layout().entries().to_vec() {
        let out = &mut laid.graph.parameters_mut()[entry.range.clone()];
        Hashed.read(&entry.name, &entry.shape, out).unwrap();
        // As golden/position_encodings.py has them: embeddings are not scaled as matrices are, and some begin half a step on.
        if entry.name == "embed.weight" {
            let scale = 2f64.powi(entry.shape[1].ilog2() as i32 / 2);
            out.iter_mut().for_each(|x| *x *= scale);
        }
        let is_gate = entry.name.starts_with("position.forget") && entry.name.ends_with("bias");
        if is_gate || entry.name.contains(".frequencies.") {
            out.iter_mut().for_each(|x| *x = f64::from(0.5 + *x as f32));
        }
    }
    let (ids, targets) = (flat(&case["ids"]), flat(&case["targets"]));
    laid.set(Batch { ids, targets, ..Batch::default() }).unwrap();
    laid
}

#[test]
fn gradients_of_encodings_are_those_of_pytorch() {
    let (cases, gradients) = read_from("encodings", "gradients.safetensors");
    let list = cases["cases"].as_array().unwrap();
    assert!(list.len() >= 11);
    for case in list {
        let label = case["label"].as_str().unwrap();
        let mut laid = lay(&cases["sizes"], case);
        let (loss, wanted) = (laid.graph.step(1.0), case["loss"].as_f64().unwrap());
        assert!((loss - wanted).abs() <= 1e-12 * wanted, "{label}: a loss of {loss}, not {wanted}");
        let mut worst: f64 = 0.0;
        for entry in laid.graph.layout().entries() {
            let wanted = tensor(&gradients, &format!("{label}.{}", entry.name));
            let largest = wanted.iter().fold(1e-6f64, |largest, x| largest.max(x.abs()));
            let got = &laid.graph.gradients()[entry.range.clone()];
            assert_eq!(got.len(), wanted.len(), "{label}: {}", entry.name);
            for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                let error = (got - wanted).abs() / largest;
                assert!(error <= 1e-10, "{label}: {}[{index}] is {got}, not {wanted}", entry.name);
                worst = worst.max(error);
            }
        }
        println!("{label}: gradients within {worst:.1e} of the largest");
    }
}
