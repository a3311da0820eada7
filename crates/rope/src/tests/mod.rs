//! Properties of the loops that only this crate can see: every instruction set, every stray access.

mod bits;
#[cfg(unix)]
mod guard;
#[path = "../../tests/common/random.rs"]
mod random;

use crate::element::Element;
use crate::{bf16, f16};
use random::{Drawn, Random};

/// Bit patterns of an element type.
pub(crate) trait Bits: Element + std::fmt::Debug {
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn is_nan(self) -> bool;
}

macro_rules! bits {
    ($($type:ty: $bits:ty),*) => {$(
        impl Bits for $type {
            fn of_bits(bits: u64) -> Self { <$type>::from_bits(bits as $bits) }
            fn bits(self) -> u64 { self.to_bits() as u64 }
            fn is_nan(self) -> bool { <$type>::is_nan(self) }
        }
    )*};
}
bits!(f32: u32, f64: u64, f16: u16, bf16: u16);

/// Any bit pattern, [strange](Random::strange) ones more often than by chance.
pub(crate) fn element<T: Bits>(random: &mut Random) -> T {
    match random.strange() {
        Drawn::Number(number) => T::narrow(<T::Table as crate::Precision>::from_f64(number)),
        Drawn::Bits(bits) => T::of_bits(bits),
    }
}
