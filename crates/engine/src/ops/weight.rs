//! A weight as the CPU keeps it: as it is, or in fewer bits.

use super::narrow::{Bf16, Narrow, NarrowMatrix};
use super::{Activation, Matrix, Precision, Real};

/// A weight packed for products, with its bias.
pub struct Weight<T>(Kept<T>);

enum Kept<T> {
    Exact(Matrix<T>),
    /// For `f32` alone, like the next.
    Bf16(NarrowMatrix<Bf16>),
    Int8(NarrowMatrix<i8>),
}

impl<T: Real> Weight<T> {
    /// Room for a weight `[outputs, inputs]` and its bias, all zero; `None` if there is not enough memory. Numbers of type `f64` are kept
    /// as they are, whatever the precision.
    pub fn zeros(precision: Precision, outputs: usize, inputs: usize) -> Option<Self> {
        let precision = if T::singles(&[]).is_some() { precision } else { Precision::F32 };
        Some(Weight(match precision {
            Precision::F32 => Kept::Exact(Matrix::zeros(outputs, inputs)?),
            Precision::Int8 if inputs <= i8::MOST_INPUTS => Kept::Int8(NarrowMatrix::zeros(outputs, inputs)?),
            Precision::Bf16 | Precision::Int8 => Kept::Bf16(NarrowMatrix::zeros(outputs, inputs)?),
        }))
    }

    /// Packs rows `first`, `first` + 1, … of the weight from `rows`, `[count, inputs]`.
    pub fn set_rows(&mut self, first: usize, rows: &[T]) {
        match &mut self.0 {
            Kept::Exact(matrix) => matrix.set_rows(first, rows),
            Kept::Bf16(matrix) => matrix.set_rows(first, single(rows)),
            Kept::Int8(matrix) => matrix.set_rows(first, single(rows)),
        }
    }

    /// Sets the bias of the outputs from `first` on.
    pub fn set_bias(&mut self, first: usize, bias: &[T]) {
        match &mut self.0 {
            Kept::Exact(matrix) => matrix.set_bias(first, bias),
            Kept::Bf16(matrix) => matrix.set_bias(first, single(bias)),
            Kept::Int8(matrix) => matrix.set_bias(first, single(bias)),
        }
    }

    /// The memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Kept::Exact(matrix) => matrix.bytes(),
            Kept::Bf16(matrix) => matrix.bytes(),
            Kept::Int8(matrix) => matrix.bytes(),
        }
    }

    /// out = activation(x·Wᵀ + bias), for x `[rows, inputs]` and out `[rows, outputs]`, over the threads of the pool. `false` if there
    /// was not enough memory.
    #[must_use]
    pub fn apply(&self, x: &[T], out: &mut [T], activation: Activation) -> bool {
        match &self.0 {
            Kept::Exact(matrix) => T::product(matrix, x, out, activation),
            Kept::Bf16(matrix) => return matrix.apply(single(x), single_mut(out), activation),
            Kept::Int8(matrix) => return matrix.apply(single(x), single_mut(out), activation),
        }
        true
    }
}

const NARROW: &str = "weights of f64 are kept as they are";

fn single<T: Real>(list: &[T]) -> &[f32] {
    T::singles(list).unwrap_or_else(|| unreachable!("{NARROW}"))
}

fn single_mut<T: Real>(list: &mut [T]) -> &mut [f32] {
    T::singles_mut(list).unwrap_or_else(|| unreachable!("{NARROW}"))
}
