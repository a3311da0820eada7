//! Every operation but attention.

use crate::common::{compare, download, gpus, numbers, upload};
use roformer::ops::{Activation, Arithmetic, Backend, Cpu, Cuda, HeadRows, Part, Pool, Span};
use rope::{Pairing, Rope};

/// Rounding of sums of `inputs` products, in units: of a result alone, or of factors of 11 bits too.
fn product_units(gpu: &Cuda, inputs: usize) -> f32 {
    match gpu.arithmetic() {
        Arithmetic::F32 => 8.0 * (inputs as f32).sqrt().max(2.0),
        Arithmetic::Tf32 => 2f32.powi(24 - 11) * 8.0,
        Arithmetic::Bf16 => 4.0,
    }
}

fn product(gpu: &Cuda, rows: usize, outputs: usize, inputs: usize, has_bias: bool, activation: Activation) {
    let (x, w, b) =
        (numbers(gpu, 1, rows * inputs), numbers(gpu, 2, outputs * inputs), numbers(gpu, 3, outputs));
    let what = format!("product {rows} {outputs} {inputs} {has_bias} {activation:?}");
    compare!(&what, gpu, product_units(gpu, inputs), |device| {
        let mut matrix = device.matrix::<f32>(outputs, inputs).unwrap();
        // In two parts, as fused weights are set.
        let first = outputs / 2;
        device.set_rows(&mut matrix, 0, &w[..first * inputs]).unwrap();
        device.set_rows(&mut matrix, first, &w[first * inputs..]).unwrap();
        if has_bias {
            device.set_bias(&mut matrix, 0, &b).unwrap();
        }
        let mut out = upload(device, &vec![7.0; rows * outputs]);
        device.product(&matrix, &upload(device, &x), activation, &mut out).unwrap();
        download(device, &out, rows * outputs)
    });
}

#[test]
fn products_of_odd_sizes() {
    for gpu in &gpus() {
        for [rows, outputs, inputs] in [
            [1, 1, 1],
            [1, 7, 3],
            [5, 48, 48],
            [33, 70, 48],
            [128, 96, 31],
            [17, 2304, 768],
            [257, 90, 129],
            [3, 12000, 64],
        ] {
            for has_bias in [false, true] {
                for activation in [Activation::Identity, Activation::Gelu] {
                    product(gpu, rows, outputs, inputs, has_bias, activation);
                }
            }
        }
        for activation in Activation::ALL {
            for (has_bias, outputs) in [(true, 64), (true, 13), (false, 64), (false, 13)] {
                product(gpu, 19, outputs, 40, has_bias, activation);
            }
        }
    }
}

fn norms(gpu: &Cuda, rows: usize, width: usize) {
    let (x, y) = (numbers(gpu, 4, rows * width), numbers(gpu, 5, rows * width));
    let (w, b) = (numbers(gpu, 6, width), numbers(gpu, 7, width));
    for has_residual in [false, true] {
        let what = |name: &str| format!("{name} {rows} {width} {has_residual}");
        compare!(&what("layer norm"), gpu, 40.0, |device| {
            let (mut x, residual) = (upload(device, &x), upload(device, &y));
            let residual = has_residual.then_some(&residual);
            device.layer_norm(&mut x, residual, &upload(device, &w), &upload(device, &b), 1e-5).unwrap();
            download(device, &x, rows * width)
        });
        compare!(&what("rms norm"), gpu, 40.0, |device| {
            let (mut x, residual) = (upload(device, &x), upload(device, &y));
            device.rms_norm(&mut x, has_residual.then_some(&residual), &upload(device, &w), 1e-5).unwrap();
            download(device, &x, rows * width)
        });
        for has_bias in [false, true] {
            compare!(&what("add norm"), gpu, 40.0, |device| {
                let (mut x, delta) = (upload(device, &x), upload(device, &y));
                let (w, b) = (upload(device, &w), upload(device, &b));
                let mut out = upload(device, &vec![7.0; rows * width]);
                let (delta, bias) = (has_residual.then_some(&delta), has_bias.then_some(&b));
                device.add_norm(&mut x, delta, &w, bias, 1e-6, &mut out).unwrap();
                [download(device, &x, rows * width), download(device, &out, rows * width)].concat()
            });
        }
    }
}

#[test]
fn norms_of_odd_sizes() {
    for gpu in &gpus() {
        for [rows, width] in [
            [1, 1],
            [3, 7],
            [5, 64],
            [9, 768],
            [2, 1024],
            [70, 700],
            [3, 2048],
            [4, 5000],
            [2, 20_000],
            [1, 8],
        ] {
            norms(gpu, rows, width);
        }
    }
}

fn heads(gpu: &Cuda, rows: usize, heads: HeadRows, dim: usize) {
    let (x, w) = (numbers(gpu, 8, rows * heads.step), numbers(gpu, 9, dim));
    compare!("rms norm of heads", gpu, 40.0, |device| {
        let mut x = upload(device, &x);
        device.rms_norm_heads(&mut x, heads, &upload(device, &w), 1e-6).unwrap();
        download(device, &x, rows * heads.step)
    });
}

#[test]
fn norms_of_heads() {
    for gpu in &gpus() {
        for (rows, [step, offset, count], dim) in [
            (1, [4, 0, 1], 4),
            (5, [30, 8, 2], 6),
            (70, [200, 64, 2], 32),
            (9, [1536, 1024, 4], 128),
            (3, [27, 3, 3], 8),
        ] {
            heads(gpu, rows, HeadRows { step, offset, heads: count }, dim);
        }
    }
}

fn gates(gpu: &Cuda, rows: usize, wide: usize) {
    let x: Vec<f32> = numbers(gpu, 10, rows * 2 * wide).iter().map(|x| x * 8.0).collect();
    for activation in Activation::ALL {
        compare!(&format!("gate {activation:?}"), gpu, 4.0, |device| {
            let mut out = upload(device, &vec![7.0; rows * wide]);
            device.gate(&upload(device, &x), wide, activation, &mut out).unwrap();
            download(device, &out, rows * wide)
        });
    }
}

fn embeddings(gpu: &Cuda, tokens: usize, width: usize, has_types: bool) {
    let (words, kinds) = (numbers(gpu, 11, 50 * width), numbers(gpu, 12, 3 * width));
    let ids: Vec<u32> = (0..tokens).map(|i| (i * 37 % 50) as u32).collect();
    let types: Vec<u32> = (0..tokens).map(|i| (i % 3) as u32).collect();
    compare!("embeddings", gpu, 1.0, |device| {
        let mut out = upload(device, &vec![7.0; tokens * width]);
        let (list, kinds) = (&words, upload(device, &kinds));
        let mut words = device.words(50, width).unwrap();
        // In two pieces, as models are loaded.
        device.set_words(&mut words, 0, &list[..7 * width]).unwrap();
        device.set_words(&mut words, 7 * width, &list[7 * width..]).unwrap();
        device.embed((&words, &ids), (&kinds, has_types.then_some(&types[..])), width, &mut out).unwrap();
        download(device, &out, tokens * width)
    });
}

fn gathered(gpu: &Cuda, rows: usize, width: usize) {
    let from = numbers(gpu, 17, 40 * width);
    let chosen: Vec<u32> = (0..rows).map(|i| (i * 7 % 40) as u32).collect();
    compare!("gathered rows", gpu, 0.0, |device| {
        let mut out = upload(device, &vec![7.0; rows * width]);
        device.gather(&upload(device, &from), &chosen, width, &mut out).unwrap();
        download(device, &out, rows * width)
    });
}

fn copies(gpu: &Cuda, [batch, tokens, width]: [usize; 3], extra: usize) {
    let (from, row) = (numbers(gpu, 13, batch * tokens * (width + extra) + extra), width + 2 * extra);
    let len = extra + batch * tokens * row;
    compare!("a copy", gpu, 0.0, |device| {
        let (from, mut to) = (upload(device, &from), upload(device, &vec![7.0; len]));
        let part =
            Part { buffer: &from, offset: extra, token: width + extra, sequence: tokens * (width + extra) };
        device.copy(part, &mut to, (extra, row, tokens * row), [batch, tokens, width]).unwrap();
        download(device, &to, len)
    });
}

fn means(gpu: &Cuda, size: [usize; 3]) {
    let [batch, _, width] = size;
    let x = numbers(gpu, 14, size.iter().product());
    compare!("a mean", gpu, 20.0, |device| {
        let mut out = upload(device, &vec![7.0; batch * width]);
        device.mean(&upload(device, &x), size, &mut out).unwrap();
        download(device, &out, batch * width)
    });
}

/// Rows that become one have the CPU's bits: both sum in `f64`, in the same order.
fn pooled(gpu: &Cuda, rows: usize, width: usize) {
    let x = numbers(gpu, 31, rows * width);
    let spans = [
        Span { first: 0, rows, kind: Pool::Sum { over: rows as f64 } },
        Span { first: rows / 2, rows: rows - rows / 2, kind: Pool::Sum { over: (rows as f64).sqrt() } },
        Span { first: rows / 3, rows: rows / 3, kind: Pool::Places { first: 4, over: 7.0 } },
        Span { first: 0, rows, kind: Pool::Largest },
        Span { first: rows - 1, rows: 1, kind: Pool::Sum { over: 1.0 } },
        Span { first: rows, rows: 0, kind: Pool::Sum { over: 1.0 } },
        Span { first: rows, rows: 0, kind: Pool::Largest },
    ];
    let cpu = Cpu::default().pool(&upload(&Cpu::default(), &x), width, &spans).unwrap();
    let own = gpu.pool(&upload(gpu, &x), width, &spans).unwrap();
    let bits = |list: Vec<f32>| list.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
    assert_eq!(bits(own), bits(cpu), "{rows} rows of {width} in {gpu:?}");
}

#[test]
fn gates_embeddings_copies_and_means() {
    for gpu in &gpus() {
        for (rows, width) in [(1, 1), (3, 7), (5, 64), (33, 70), (200, 3072), (17, 768)] {
            gates(gpu, rows, width);
            embeddings(gpu, rows, width, false);
            embeddings(gpu, rows, width, true);
            gathered(gpu, rows, width);
            means(gpu, [3, rows, width]);
            pooled(gpu, rows, width);
        }
        for (size, extra) in
            [([1, 1, 1], 0), ([2, 3, 8], 8), ([2, 3, 7], 1), ([3, 40, 64], 64), ([2, 5, 24], 3)]
        {
            copies(gpu, size, extra);
        }
    }
}

fn rotations(gpu: &Cuda, pairing: Pairing, [batch, length, heads, dim]: [usize; 4], first: i64) {
    let row = 3 * heads * dim;
    let x = numbers(gpu, 15, batch * length * row);
    let rope = Rope::builder(dim).pairing(pairing).build().unwrap();
    let table = rope.table::<f32>(first..first + length as i64, None).unwrap();
    compare!("a rotation", gpu, 1.0, |device| {
        let mut x = upload(device, &x);
        device
            .rotate(&table, first, &mut x, 0, [batch, length, 2 * heads, dim], [length * row, row, dim])
            .unwrap();
        download(device, &x, batch * length * row)
    });
}

#[test]
fn rotations_of_fused_rows() {
    for gpu in &gpus() {
        // More lengths than tables are kept, and some of them again.
        for length in [5, 1, 17, 64, 33, 2, 3, 4, 6, 7, 5, 64] {
            for first in [0, 9, 1000] {
                rotations(gpu, Pairing::Interleaved, [2, length, 3, 64], first);
                rotations(gpu, Pairing::Half, [1, length, 2, 10], first);
            }
        }
    }
}

#[test]
fn small() {
    for gpu in &gpus() {
        for outputs in [16, 5] {
            product(gpu, 3, outputs, 24, true, Activation::Gelu);
            product(gpu, 3, outputs, 24, false, Activation::GeluTanh);
        }
        for width in [8, 7, 264, 520, 1032, 2100] {
            norms(gpu, 3, width);
        }
        heads(gpu, 5, HeadRows { step: 30, offset: 8, heads: 2 }, 6);
        heads(gpu, 5, HeadRows { step: 48, offset: 16, heads: 2 }, 16);
        for width in [7, 16] {
            gates(gpu, 3, width);
            embeddings(gpu, 3, width, true);
            means(gpu, [2, 3, width]);
            copies(gpu, [2, 3, width], 8);
        }
        copies(gpu, [2, 3, 5], 1);
        rotations(gpu, Pairing::Interleaved, [2, 5, 3, 16], 3);
    }
}
