//! GPUs, if there are any, and numbers to give them.

use half::bf16;
use roformer::blueprint::Blueprint;
use roformer::encoding::Encoding;
use roformer::engine::Result;
use roformer::ops::{Arithmetic, Backend, Cuda};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The first GPU in each arithmetic, with an order of work of its own for each test; none, said aloud, where there is none, or a
/// failure where one is required.
pub fn gpus() -> Vec<Cuda> {
    static FOUND: OnceLock<Result<Vec<Cuda>>> = OnceLock::new();
    let all = [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::Bf16];
    let find = || all.iter().map(|&arithmetic| Cuda::new(0, arithmetic)).collect();
    let found = gpu::testing::or_skip(FOUND.get_or_init(find).as_ref());
    found.into_iter().flatten().map(|gpu| gpu.beside().unwrap()).collect()
}

/// The encodings that have a form for GPUs; the others are for CPUs, and say so.
pub fn encodings() -> Vec<Encoding> {
    let others = [
        "fire",
        "forget",
        "contextual",
        "path",
        "abacus",
        "coupled",
        "pope",
        "selective",
        "extend",
        "fope",
        "axial",
    ];
    let is_here = |encoding: &Encoding| !others.contains(&encoding.name());
    Encoding::all().into_iter().filter(is_here).collect()
}

/// Numbers in (−1, 1) without a pattern, that a GPU stores without rounding them.
pub fn numbers(gpu: &Cuda, seed: u64, len: usize) -> Vec<f32> {
    let number = |index: usize| {
        let mut z = (seed << 32 ^ index as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let x = ((z >> 40) as f32 - 8_388_608.0) / 8_388_608.0;
        if gpu.arithmetic() == Arithmetic::Bf16 { bf16::from_f32(x).to_f32() } else { x }
    };
    (0..len).map(number).collect()
}

pub fn upload<B: Backend>(device: &B, list: &[f32]) -> B::Buffer<f32> {
    let mut buffer = device.zeros(list.len()).unwrap();
    device.upload(list, &mut buffer).unwrap();
    buffer
}

/// What a buffer holds, once all that was to be done has been done.
pub fn download<B: Backend>(device: &B, buffer: &B::Buffer<f32>, len: usize) -> Vec<f32> {
    let mut list = vec![f32::NAN; len];
    device.download(buffer, &mut list).unwrap();
    list
}

/// Half the distance between neighbouring numbers at 1, in what results are rounded to.
pub fn rounding(gpu: &Cuda) -> f32 {
    if gpu.arithmetic() == Arithmetic::Bf16 { 1.0 / 256.0 } else { 1.0 / (1 << 24) as f32 }
}

/// Checks results: within `units` of rounding, of the largest number.
pub fn close(what: &str, gpu: &Cuda, got: &[f32], expected: &[f32], units: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0f32, |a, b| a.max(b.abs()));
    let bound = units * rounding(gpu) * largest.max(1e-6);
    for (index, (&a, &b)) in got.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= bound,
            "{what} on {gpu:?} at {index} of {}: {a} but {b}, bound {bound}",
            got.len()
        );
    }
}

/// The same expression on the CPU and on a GPU, compared.
macro_rules! compare {
    ($what:expr, $gpu:expr, $units:expr, |$device:ident| $body:expr) => {{
        let expected: Vec<f32> = {
            let $device = &roformer::ops::Cpu::default();
            $body
        };
        let got: Vec<f32> = {
            let $device = $gpu;
            $body
        };
        $crate::common::close($what, $gpu, &got, &expected, $units);
    }};
}
pub(crate) use compare;

/// Small models of the families beside RoFormer and Llama, with windows that are shorter than the texts.
pub fn families() -> Vec<Blueprint> {
    let grouped = json!({"num_key_value_heads": 2, "head_dim": 16});
    // One layer of each kind; queries of the second grow within the text. A GPU reads texts of one piece.
    let llama4 = json!({
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size_mlp": 70, "moe_layers": [], "no_rope_layer_interval": 2,
        "attention_chunk_size": 128, "floor_scale": 20, "attn_scale": 0.5,
    });
    let gemma = json!({
        "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 9, "query_pre_attn_scalar": 20,
        "layer_types": ["sliding_attention", "full_attention"],
        "attn_logit_softcapping": null, "final_logit_softcapping": null,
    });
    let read = |(model_type, more): (&str, Value)| {
        // All names that sizes have: a family reads its own.
        let mut config = json!({
            "model_type": model_type, "vocab_size": 90, "intermediate_size": 70,
            "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128,
            "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128,
            "d_model": 48, "n_layers": 2, "n_heads": 4, "max_seq_len": 128,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Blueprint::from_config(config.to_string().as_bytes()).unwrap()
    };
    [
        ("bert", json!({"architectures": ["BertForMaskedLM"]})),
        ("roberta", json!({"architectures": ["RobertaForMaskedLM"]})),
        ("modernbert", json!({"local_attention": 16, "architectures": ["ModernBertForMaskedLM"]})),
        ("nomic_bert", json!({"architectures": ["NomicBertForMaskedLM"]})),
        ("eurobert", json!({"mlp_bias": true})),
        ("xlnet", json!({"d_inner": 70, "clamp_len": 30, "architectures": ["XLNetLMHeadModel"]})),
        ("gpt2", json!({})),
        ("gptj", json!({"rotary_dim": 6})),
        ("gpt_neox", json!({"rotary_pct": 0.5})),
        ("mpt", json!({})),
        ("mistral", json!({"sliding_window": 20, "num_key_value_heads": 2})),
        ("phi3", json!({"sliding_window": 70})),
        ("glm4", grouped),
        ("llama4_text", llama4),
        ("gemma2", gemma.clone()),
        ("gemma3_text", gemma),
    ]
    .map(read)
    .into()
}
