//! What cannot be done says so, and leaves everything usable.

use crate::common::gpus;
use roformer::attention::softmax::{Mask, Shape};
use roformer::blueprint::Blueprint;
use roformer::engine::Error;
use roformer::model::{Hashed, Input, Model};
use roformer::ops::{Backend, Cuda, Part, Terms};
use std::sync::atomic::{AtomicBool, Ordering};

fn blueprint() -> Blueprint {
    let json = br#"{"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 90}"#;
    Blueprint::from_config(json).unwrap()
}

#[test]
fn memory_that_is_not_there_is_an_error_with_what_was_asked_and_what_is_free() {
    for gpu in &gpus() {
        for len in [1usize << 45, usize::MAX / 2, usize::MAX] {
            let Err(error) = gpu.zeros::<f32>(len) else { panic!("{len} numbers") };
            assert!(matches!(error, Error::DeviceMemory { bytes, .. } if bytes >= len as u128), "{error}");
            let message = error.to_string();
            assert!(message.contains("MB asked for") && message.contains("smaller batch"), "{message}");
        }
        // And then it works again.
        let model = Model::<f32, Cuda>::on(gpu.clone(), blueprint(), &Hashed).unwrap();
        let input = Input { ids: &[1, 2, 3], batch: 1, token_types: None, mask: None };
        assert!(model.forward(&input).unwrap().last_hidden_state.iter().all(|x| x.is_finite()));
    }
}

/// Pieces of a text that is longer than one are refused by name, and texts of one piece are read.
#[test]
fn pieces_of_a_longer_text_are_refused() {
    let json = br#"{"model_type": "llama4_text", "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size_mlp": 40, "num_hidden_layers": 1, "vocab_size": 90, "moe_layers": [],
        "attention_chunk_size": 4}"#;
    for gpu in &gpus() {
        let blueprint = Blueprint::from_config(json).unwrap();
        let model = Model::<f32, Cuda>::on(gpu.clone(), blueprint, &Hashed).unwrap();
        let input = Input { ids: &[1, 2, 3, 4, 5], batch: 1, token_types: None, mask: None };
        let message = model.forward(&input).unwrap_err().to_string();
        assert!(message.contains("attention_chunk_size") && message.contains("the CPU"), "{message}");
        model.forward(&Input { ids: &[1, 2, 3, 4], ..input }).unwrap();
    }
}

/// Of two threads on one GPU, what fails in one is no error of the other, and what it computes is right.
#[test]
fn a_failure_is_that_of_its_own_call() {
    for gpu in &gpus() {
        let model = Model::<f32, Cuda>::on(gpu.clone(), blueprint(), &Hashed).unwrap();
        let input = Input { ids: &[1, 2, 3, 4, 5], batch: 1, token_types: None, mask: None };
        let expected = model.forward(&input).unwrap().last_hidden_state;
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let failing = scope.spawn(|| {
                let mut calls = 0;
                while !is_done.load(Ordering::Relaxed) || calls == 0 {
                    // More than there is, and an attention that no kernel has: each call gets its own error.
                    let Err(error) = gpu.zeros::<f32>(1 << 45) else { panic!("2^47 bytes") };
                    assert!(matches!(error, Error::DeviceMemory { .. }), "{error}");
                    let wide = gpu.zeros::<f32>(300).unwrap();
                    let part = Part { buffer: &wide, offset: 0, token: 300, sequence: 300 };
                    let shape =
                        Shape { batch: 1, queries: 1, keys: 1, heads: 1, key_heads: 1, head_dim: 300 };
                    let mut out = gpu.zeros(300).unwrap();
                    let outcome =
                        gpu.attend(&shape, [part; 3], &Mask::default(), &Terms::default(), &mut out, &());
                    let message = outcome.unwrap_err().to_string();
                    assert!(message.contains("300 features"), "{message}");
                    calls += 1;
                }
            });
            let working = scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(model.forward(&input).unwrap().last_hidden_state, expected);
                }
            });
            let worked = working.join();
            is_done.store(true, Ordering::Relaxed);
            worked.unwrap();
            failing.join().unwrap();
        });
    }
}

#[test]
fn other_types_heads_and_gpus_are_refused() {
    for gpu in &gpus() {
        let refused = Model::<f64, Cuda>::on(gpu.clone(), blueprint(), &Hashed);
        assert!(refused.err().unwrap().to_string().contains("f64"));
        let wide =
            br#"{"hidden_size": 600, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 90}"#;
        let wide = Blueprint::from_config(wide).unwrap();
        let model = Model::<f32, Cuda>::on(gpu.clone(), wide, &Hashed).unwrap();
        let input = Input { ids: &[1, 2, 3], batch: 1, token_types: None, mask: None };
        assert!(model.forward(&input).unwrap_err().to_string().contains("300 features"));
        assert!(Cuda::new(1000, gpu.arithmetic()).is_err());
    }
}

/// Without a GPU this is the whole story; with one, nothing is said.
#[test]
fn a_machine_without_a_gpu_says_so_in_one_line() {
    if let Err(error) = Cuda::new(0, Default::default()) {
        let message = error.to_string();
        assert!(
            !message.contains('\n') && (message.contains("GPU") || message.contains("cuBLASLt")),
            "{message}"
        );
    }
}
