//! Attention over odd sizes, masks and grouped heads; in bf16 and TF32 on tensor cores and, where rows are not aligned, without them.

use crate::common::{compare, download, gpus, numbers, upload};
use roformer::attention::softmax::{Mask, Reach, Shape};
use roformer::ops::{Arithmetic, Backend, Cuda, Part, Terms};

/// Queries, keys and values of one buffer each, with `extra` numbers between tokens.
fn check(gpu: &Cuda, [batch, queries, keys, heads, key_heads, head_dim]: [usize; 6], extra: usize) {
    let shape = Shape { batch, queries, keys, heads, key_heads, head_dim };
    let (wide, narrow) = (heads * head_dim + extra, key_heads * head_dim + extra);
    let q: Vec<f32> = numbers(gpu, 21, batch * queries * wide + extra).iter().map(|x| x * 4.0).collect();
    let k = numbers(gpu, 22, batch * keys * narrow + extra);
    let v = numbers(gpu, 23, batch * keys * narrow + extra);
    let there: Vec<bool> = (0..batch * keys).map(|i| i % 3 != 1 && i % keys.max(1) > 2).collect();
    let nothing = vec![false; batch * keys];
    let prefixes: Vec<usize> = (0..batch).map(|b| 2 + 50 * b).collect();
    let len = batch * queries * heads * head_dim;
    // TF32 stores numbers of 24 bits, and rounds factors to 11.
    let units = if gpu.arithmetic() == Arithmetic::Tf32 { 2f32.powi(24 - 11) * 32.0 } else { 32.0 };
    for (index, keys_there) in [None, Some(&there[..]), Some(&nothing[..])].into_iter().enumerate() {
        for reach in [Reach::All, Reach::Causal, Reach::Prefix(&prefixes)] {
            let window = [None, Some(1), Some(40), Some(70), Some(1000)][(index + extra + heads) % 5];
            let mask = Mask { keys: keys_there, reach, window, ..Mask::default() };
            compare!(
                &format!("{shape:?} mask {index} extra {extra} window {window:?}"),
                gpu,
                units,
                |device| {
                    let [q, k, v] = [&q, &k, &v].map(|list| upload(device, list));
                    let part = |buffer, token, tokens| Part {
                        buffer,
                        offset: extra,
                        token,
                        sequence: tokens * token,
                    };
                    let qkv = [part(&q, wide, queries), part(&k, narrow, keys), part(&v, narrow, keys)];
                    let mut out = upload(device, &vec![7.0; len]);
                    device
                        .attend(
                            &shape,
                            qkv,
                            &mask,
                            &Terms::default(),
                            &mut out,
                            &device.scratch::<f32>().unwrap(),
                        )
                        .unwrap();
                    download(device, &out, len)
                }
            );
        }
    }
}

#[test]
fn attention_of_odd_sizes() {
    for gpu in &gpus() {
        for shape in [
            [1, 1, 1, 1, 1, 2],
            [2, 5, 5, 3, 3, 4],
            [1, 7, 19, 4, 2, 6],
            [2, 65, 65, 2, 1, 16],
            [1, 3, 50, 1, 1, 64],
            [1, 130, 130, 2, 2, 24],
            [1, 70, 900, 1, 1, 8],
            [1, 2, 0, 2, 2, 8],
            [1, 9, 400, 1, 1, 80],
            [2, 128, 128, 2, 2, 64],
            [3, 200, 200, 4, 2, 64],
            [1, 64, 640, 4, 1, 128],
            [2, 1, 333, 8, 2, 128],
            [1, 67, 67, 2, 2, 200],
            [1, 40, 30, 2, 2, 32],
            [2, 300, 300, 2, 2, 48],
        ] {
            check(gpu, shape, 0);
            check(gpu, shape, 8);
            check(gpu, shape, 3);
        }
    }
}

#[test]
fn small_attention() {
    for gpu in &gpus() {
        for head_dim in [8, 32, 64, 128, 100, 132] {
            check(gpu, [2, 5, 70, 2, 1, head_dim], 0);
            check(gpu, [1, 66, 3, 2, 2, head_dim], 1);
        }
    }
}
