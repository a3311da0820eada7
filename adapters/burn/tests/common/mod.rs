//! What the tests share: numbers, and the oracle in `f64`.
#![allow(dead_code, reason = "each test takes what it needs")]

use burn::tensor::{DType, Device, Tensor, TensorData};
use rope::{Pairing, Rope, reference};

pub const PAIRINGS: [Pairing; 3] = [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf];

/// The backends on the CPU, with the types that they have.
pub fn devices() -> Vec<(Device, &'static [DType])> {
    vec![
        (Device::flex(), &[DType::F32, DType::F64, DType::F16, DType::BF16]),
        #[cfg(feature = "ndarray")]
        #[allow(deprecated, reason = "burn has deprecated it")]
        (Device::ndarray(), &[DType::F32, DType::F64]),
    ]
}

/// Numbers that follow from a seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// A tensor of numbers between −1 and 1.
    pub fn tensor<const D: usize>(
        &mut self,
        shape: [usize; D],
        (device, dtype): (&Device, DType),
    ) -> Tensor<D> {
        let count = shape.iter().product();
        let list: Vec<f64> = (0..count).map(|_| (self.next() >> 11) as f64 / 2f64.powi(52) - 1.0).collect();
        Tensor::from_data(TensorData::new(list, shape), (device, dtype))
    }
}

/// u: the largest relative error of one rounding.
pub fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::F32 => 2f64.powi(-24),
        DType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

pub fn numbers<const D: usize>(x: &Tensor<D>) -> Vec<f64> {
    x.try_to_vec_as().expect("numbers")
}

/// `x`, `[batch, heads, length, head_dim]`, rotated in `f64` by the reference: token t of sequence b at `position(b, t)`.
pub fn oracle(x: &Tensor<4>, rope: &Rope, position: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let frequencies = rope.frequencies(None);
    let [batch, heads, length, head_dim] = x.dims();
    let rotary = rope.rotary_offset()..rope.rotary_offset() + rope.rotary_dim();
    let mut all = numbers(x);
    let mut vectors = all.chunks_mut(head_dim);
    for b in 0..batch {
        for _ in 0..heads {
            for t in 0..length {
                let vector = &mut vectors.next().expect("as many as the shape says")[rotary.clone()];
                let (theta, factor) = (frequencies.inv_freq(), frequencies.attention_factor());
                let turned = reference::rotate(vector, position(b, t), theta, factor, rope.pairing());
                vector.copy_from_slice(&turned);
            }
        }
    }
    all
}

/// The largest difference of `got` from `exact`.
pub fn largest(got: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(got.len(), exact.len());
    // NaN stays NaN, which is within no bound.
    let larger = |worst: f64, x: f64| if worst.is_nan() || x <= worst { worst } else { x };
    got.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0.0, larger)
}

/// How far a rotation in a type may be from the exact one: numbers to 1, so pairs to √2. Table, products, sum and, for 16 bits, the
/// result are rounded: the first three in the type that is computed in.
pub fn bound(dtype: DType, factor: f64) -> f64 {
    let inner = if dtype == DType::F64 { rounding(DType::F64) } else { rounding(DType::F32) };
    // f64: the oracle's own angle, position·θ in f64, is off by up to an ulp of an angle below 100.
    let oracle = if dtype == DType::F64 { 100.0 * rounding(DType::F64) } else { 0.0 };
    let outer = if inner == rounding(dtype) { 0.0 } else { rounding(dtype) };
    2f64.sqrt() * factor * (4.0 * inner + 2.0 * oracle + 1.01 * outer)
}

pub fn rope(head_dim: usize, pairing: Pairing) -> Rope {
    Rope::builder(head_dim).pairing(pairing).build().expect("a rope")
}
