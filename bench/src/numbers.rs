//! The numbers that every peer rotates: q and k of Llama-3-8B's shape.

use candle_core::WithDType;
use rope::{Element, Pairing, Rope, Table, bf16, f16};

pub const QUERY_HEADS: usize = 32;
pub const KEY_HEADS: usize = 8;
pub const LENGTH: usize = 8192;
pub const HEAD_DIM: usize = 128;
pub const PAIRS: usize = HEAD_DIM / 2;

/// A type that both we and candle rotate.
pub trait Number: Element<Table = f32> + WithDType {
    /// u: half the distance from 1 to the next number, the largest relative error of one rounding.
    const ROUNDING: f64;
}

impl Number for f32 {
    const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
}
impl Number for f16 {
    const ROUNDING: f64 = 1.0 / (1u64 << 11) as f64;
}
impl Number for bf16 {
    const ROUNDING: f64 = 1.0 / (1u64 << 8) as f64;
}

/// q and k before the rotation, `[heads, length, head_dim]` of one sequence.
pub struct Llama<T> {
    pub q: Vec<T>,
    pub k: Vec<T>,
}

impl<T: Number> Llama<T> {
    pub fn new() -> Self {
        let head = LENGTH * HEAD_DIM;
        Llama { q: wave(QUERY_HEADS * head, 1), k: wave(KEY_HEADS * head, 7) }
    }

    /// What a rotation has to read and write at least: everything once.
    pub fn bytes(&self) -> f64 {
        2.0 * (size_of_val(&self.q[..]) + size_of_val(&self.k[..])) as f64
    }
}

/// Numbers between −2 and 2 that differ everywhere.
pub fn wave<T: Number>(count: usize, seed: u32) -> Vec<T> {
    let value = |index: u32| {
        let mixed = (index + seed).wrapping_mul(0x9E37_79B9) ^ (index >> 7);
        T::from_f64(f64::from(mixed >> 8) / f64::from(1 << 22) - 2.0)
    };
    (0..count as u32).map(value).collect()
}

/// `[outer, inner, head_dim]` to `[inner, outer, head_dim]`: between the two orders of axes, either way.
pub fn swap<T: Number>(data: &[T], outer: usize) -> Vec<T> {
    let inner = data.len() / HEAD_DIM / outer;
    let mut swapped = Vec::with_capacity(data.len());
    for i in 0..inner {
        for o in 0..outer {
            swapped.extend_from_slice(&data[(o * inner + i) * HEAD_DIM..][..HEAD_DIM]);
        }
    }
    swapped
}

/// Base 10000: the one that every peer defaults to.
pub fn rope(pairing: Pairing) -> rope::Result<Rope> {
    Rope::builder(HEAD_DIM).base(10_000.0).pairing(pairing).build()
}

pub fn table(pairing: Pairing) -> rope::Result<Table<f32>> {
    rope(pairing)?.table(0..LENGTH as i64, None)
}
