//! Properties of the loops that only this crate can see: every instruction set, every stray access.

mod bits;
#[cfg(unix)]
mod guard;

use crate::element::Element;
use crate::{bf16, f16};

/// Numbers from a seed (splitmix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

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

/// Any bit pattern, with NaN, infinities, zeros and subnormal numbers far more often than by chance.
pub(crate) fn element<T: Bits>(random: &mut Random) -> T {
    let special = match random.next() % 16 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => 0.0,
        // Subnormal in every type once the table has been multiplied in, or after narrowing.
        5 => return T::of_bits(random.next() % 128),
        6..12 => (random.next() % 2001) as f64 / 500.0 - 2.0,
        _ => return T::of_bits(random.next()),
    };
    T::narrow(<T::Table as crate::Precision>::from_f64(special))
}
