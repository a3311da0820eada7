//! The number types that answers come in, and rounding to them.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number type that queries and keys are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 53 bits.
    F64,
    /// 24 bits.
    F32,
    /// 11 bits, to 65504.
    F16,
    /// 8 bits, with the range of an `f32`.
    Bf16,
}

impl Dtype {
    /// All of them, the finest first.
    pub const ALL: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::Bf16];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F64 => "f64",
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
        }
    }

    /// The most that one rounding to nearest takes from a number, relative to it.
    pub fn unit(self) -> f64 {
        match self {
            Dtype::F64 => 2f64.powi(-53),
            Dtype::F32 => 2f64.powi(-24),
            Dtype::F16 => 2f64.powi(-11),
            Dtype::Bf16 => 2f64.powi(-8),
        }
    }

    /// The nearest number of this type.
    pub fn round(self, value: f64) -> f64 {
        match self {
            Dtype::F64 => value,
            Dtype::F32 => f64::from(value as f32),
            Dtype::F16 => f16::from_f64(value).to_f64(),
            Dtype::Bf16 => bf16::from_f64(value).to_f64(),
        }
    }

    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F64 => 8,
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }

    /// Numbers as little-endian bytes, each rounded to nearest.
    pub fn encode(self, values: &[f64]) -> Vec<u8> {
        match self {
            Dtype::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Dtype::F32 => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
            Dtype::F16 => values.iter().flat_map(|value| f16::from_f64(*value).to_le_bytes()).collect(),
            Dtype::Bf16 => values.iter().flat_map(|value| bf16::from_f64(*value).to_le_bytes()).collect(),
        }
    }

    /// The numbers of little-endian bytes. What is left over of an incomplete number is dropped.
    pub fn decode(self, bytes: &[u8]) -> Vec<f64> {
        let (words, pairs) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<2>().0);
        match self {
            Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect(),
            Dtype::F32 => words.iter().map(|&bytes| f64::from(f32::from_le_bytes(bytes))).collect(),
            Dtype::F16 => pairs.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f64()).collect(),
            Dtype::Bf16 => pairs.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f64()).collect(),
        }
    }

    pub(crate) fn stored(self) -> safetensors::Dtype {
        match self {
            Dtype::F64 => safetensors::Dtype::F64,
            Dtype::F32 => safetensors::Dtype::F32,
            Dtype::F16 => safetensors::Dtype::F16,
            Dtype::Bf16 => safetensors::Dtype::BF16,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
