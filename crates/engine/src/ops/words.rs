//! Rows that are looked up by their number, as the CPU keeps them: as they are, or in 16 bits.

use super::narrow::{Bf16, round};
use super::{Memory, Precision, Real};

/// Rows, one after the other.
pub struct Words<T>(Kept<T>);

enum Kept<T> {
    Exact(Memory<T>),
    /// For `f32` alone. In 8 bits too: a row that is looked up is not part of a product whose sums even errors out.
    Bf16(Memory<Bf16>),
}

impl<T: Real> Words<T> {
    /// Zeros, `[rows, width]`; `None` if there is not enough memory.
    pub fn zeros(precision: Precision, rows: usize, width: usize) -> Option<Self> {
        let len = rows.checked_mul(width)?;
        Some(Words(match precision != Precision::F32 && T::singles(&[]).is_some() {
            true => Kept::Bf16(Memory::kept(len)?),
            false => Kept::Exact(Memory::kept(len)?),
        }))
    }

    /// Sets numbers, from number `first` on.
    pub fn set(&mut self, first: usize, numbers: &[T]) {
        match &mut self.0 {
            Kept::Exact(words) => words[first..][..numbers.len()].copy_from_slice(numbers),
            Kept::Bf16(words) => {
                round(T::singles(numbers).unwrap_or(&[]), &mut words[first..][..numbers.len()]);
            }
        }
    }

    /// Reads numbers, from number `first` on.
    pub fn read(&self, first: usize, to: &mut [T]) {
        match &self.0 {
            Kept::Exact(words) => to.copy_from_slice(&words[first..][..to.len()]),
            Kept::Bf16(words) => {
                let words = &words[first..][..to.len()];
                to.iter_mut().zip(words).for_each(|(to, word)| *to = T::of(f64::from(word.wide())));
            }
        }
    }
}
