//! A GPU, if there is one, and numbers to rotate.

use crate::random::Drawn;
pub use crate::random::Random;
use rope::cuda::{Device, Number, Stream};
use rope::{Element, Pairing, Rope, Schedule, Turn, Yarn, bf16, f16};
use std::sync::OnceLock;

pub const PAIRINGS: [Pairing; 3] = [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf];
pub const TURNS: [Turn; 3] = [Turn::Forward, Turn::Inverse, Turn::Backward];

/// The GPU and a stream of it; says so where there is none, or fails where one is required.
pub fn gpu() -> Option<(Device, Stream)> {
    static FOUND: OnceLock<Result<Device, gpu::Error>> = OnceLock::new();
    let device = gpu::testing::or_skip(FOUND.get_or_init(|| Device::new(0)).as_ref())?;
    Some((device.clone(), device.stream().unwrap()))
}

/// Bit patterns of an element type.
pub trait Bits: Number + Element<Table = f32> + std::fmt::Debug {
    /// Half the distance from 1 to the next number.
    const ROUNDING: f64;
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! bits {
    ($($type:ty: $bits:ty, $of:expr, $rounding:expr;)*) => {$(
        impl Bits for $type {
            const ROUNDING: f64 = 1.0 / (1u64 << $rounding) as f64;
            fn of_bits(bits: u64) -> Self { <$type>::from_bits(bits as $bits) }
            fn bits(self) -> u64 { self.to_bits() as u64 }
            fn of(value: f64) -> Self { $of(value) }
            fn value(self) -> f64 { f64::from(self) }
        }
    )*};
}
bits! {
    f32: u32, |x| x as f32, 24;
    f16: u16, f16::from_f64, 11;
    bf16: u16, bf16::from_f64, 8;
}

/// Any bit pattern, [strange](Random::strange) ones more often than by chance.
pub fn element<T: Bits>(random: &mut Random) -> T {
    match random.strange() {
        Drawn::Number(number) => T::of(number),
        Drawn::Bits(bits) => T::of_bits(bits),
    }
}

/// Numbers between −2 and 2.
pub fn moderate<T: Bits>(count: usize, seed: u64) -> Vec<T> {
    let mut random = Random(seed);
    (0..count).map(|_| T::of((random.next() % 4_000_001) as f64 / 1e6 - 2.0)).collect()
}

/// Demands the same bits, but for which NaN it is.
#[track_caller]
pub fn same<T: Bits>(got: &[T], expected: &[T], case: impl std::fmt::Debug) {
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let nan = got.value().is_nan() && expected.value().is_nan();
        assert!(
            nan || got.bits() == expected.bits(),
            "{got:?} where {expected:?} is right, at {at}: {case:?}"
        );
    }
}

/// A rope over `2 · pairs` features after `before` others and before `after`, with or without an attention factor.
pub fn rope_of(before: usize, pairs: usize, after: usize, pairing: Pairing, scaled: bool) -> Rope {
    let yarn = Schedule::Yarn(Yarn::new(4.0, 2048));
    Rope::builder(before + 2 * pairs + after)
        .rotary_dim(2 * pairs)
        .rotary_offset(before)
        .pairing(pairing)
        .schedule(if scaled { yarn } else { Schedule::Default })
        .build()
        .unwrap()
}
